"""Rolling median and percentiles of a series."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

# With fewer points, percentiles of a window are meaningless.
MINIMUM_POINTS: Final = 3


class RollingLevel(NamedTuple):
    """Median, 10th and 90th percentile of the window that ends at a point; None below 3 points.

    A named tuple, at a third of the cost of a dataclass: a chart has a thousand of them.
    """

    median: float | None
    p10: float | None
    p90: float | None


_UNKNOWN: Final = RollingLevel(None, None, None)


def roll_levels(values: Iterable[float | None], *, window: int) -> Iterator[RollingLevel]:
    """Yield the level over the last `window` known values up to and including each value, one for one.

    None is a point without a value: it gets the previous level and is not part of the window. Percentiles
    interpolate between ranks as PostgreSQL's percentile_cont does. O(log window) comparisons a value.
    """
    recent: deque[float] = deque()
    ordered: list[float] = []
    level = _UNKNOWN
    for value in values:
        if value is not None:
            recent.append(value)
            insort(ordered, value)
            if len(recent) > window:
                del ordered[bisect_left(ordered, recent.popleft())]
            if len(ordered) >= MINIMUM_POINTS:
                level = RollingLevel(
                    interpolate(ordered, 0.5), interpolate(ordered, 0.1), interpolate(ordered, 0.9)
                )
        yield level


def interpolate(ordered: list[float], share: float) -> float:
    """Return the quantile at a share (0 to 1, both inclusive) of ascending values, interpolated linearly."""
    rank = share * (len(ordered) - 1)
    below = int(rank)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (rank - below) * (ordered[below + 1] - ordered[below])
