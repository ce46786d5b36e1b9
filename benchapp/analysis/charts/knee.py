"""Where a curve bends: the point after which more load buys little throughput for much latency. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

# Four points are the fewest of which one can stand apart from a straight line and its ends.
POINTS_MINIMUM: Final = 4
# Of the diagonal of the unit square, 0.71: a gentle arc stays below it, a corner lies at 0.4 and more.
BEND_MINIMUM: Final = 0.15


@dataclass(frozen=True, slots=True)
class Knee:
    """place: index of the point. bend: its distance from the chord, where both axes are scaled to 1."""

    place: int
    bend: float


def find_knee(throughputs: Sequence[float], latencies: Sequence[float]) -> Knee | None:
    """Return the point farthest below the chord from first to last, both axes scaled to 0..1.

    Points in the order of growing load. None for fewer than four points, where either does not grow, or where no point
    lies 0.15 below the chord: then there is no knee to speak of. The idea of Satopaa et al., "Finding a 'Kneedle' in a
    Haystack" (2011), without its smoothing: a depth sweep has a handful of points.
    """
    if len(throughputs) < POINTS_MINIMUM or len(throughputs) != len(latencies):
        return None
    xs, ys = _scale(throughputs), _scale(latencies)
    if xs is None or ys is None:
        return None
    dx, dy = xs[-1] - xs[0], ys[-1] - ys[0]
    length = (dx * dx + dy * dy) ** 0.5
    # Where latency falls while throughput grows, the load is not what changes it.
    if length == 0 or dx <= 0 or dy <= 0:
        return None
    bends = [((x - xs[0]) * dy - (y - ys[0]) * dx) / length for x, y in zip(xs, ys, strict=True)]
    place = max(range(len(bends)), key=lambda each: bends[each])
    return Knee(place, bends[place]) if bends[place] >= BEND_MINIMUM else None


def _scale(values: Sequence[float]) -> list[float] | None:
    least, most = min(values), max(values)
    return None if most == least else [(value - least) / (most - least) for value in values]
