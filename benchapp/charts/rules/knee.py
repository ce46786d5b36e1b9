"""The knee of a load curve: the point from which more load adds much latency and little throughput. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Two ends and at least two points between them.
POINTS_MINIMUM: Final = 4
# Distance from the diagonal of the unit square, at most 0.71: below it for a gentle arc, 0.4 and more for a corner.
BEND_MINIMUM: Final = 0.15


@dataclass(frozen=True, slots=True)
class Knee:
    """place: index of the point. bend: its distance from the chord, where both axes are scaled to 1."""

    place: int
    bend: float


def find_knee(throughputs: Sequence[float], latencies: Sequence[float]) -> Knee | None:
    """Return the point farthest below the chord from first to last, both axes scaled to 0..1.

    Points in the order of load. None for fewer than four points, if throughput or latency does not grow, or if no point
    is 0.15 below the chord. After Satopaa et al., "Finding a 'Kneedle' in a Haystack" (2011), without smoothing,
    because a sweep of queue depths has few points.
    """
    if len(throughputs) < POINTS_MINIMUM or len(throughputs) != len(latencies):
        return None
    xs, ys = _scale(throughputs), _scale(latencies)
    if xs is None or ys is None:
        return None
    dx, dy = xs[-1] - xs[0], ys[-1] - ys[0]
    length = (dx * dx + dy * dy) ** 0.5
    # If latency falls while throughput grows, load is not the cause.
    if length == 0 or dx <= 0 or dy <= 0:
        return None
    bends = [((x - xs[0]) * dy - (y - ys[0]) * dx) / length for x, y in zip(xs, ys, strict=True)]
    place = max(range(len(bends)), key=lambda each: bends[each])
    return Knee(place, bends[place]) if bends[place] >= BEND_MINIMUM else None


def _scale(values: Sequence[float]) -> list[float] | None:
    least, most = min(values), max(values)
    return None if most == least else [(value - least) / (most - least) for value in values]
