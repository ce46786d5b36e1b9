"""Growing levels: statistics of a level after a few more values, without the values that it had before. Pure.

A quantile of n + k values is among the k values on either side of the rank that it had among n.
"""

import math
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.detection.evaluation_points import EVALUATED_EVERY
from benchapp.analysis.detection.levels import LevelStatistics

# Values by which a level grows at most: up to the next evaluation.
GROWTH_MAXIMUM: Final = EVALUATED_EVERY - 1


@dataclass(frozen=True, slots=True)
class RankWindow:
    """Ascending values around the rank of one quantile. first: rank of the first of them, from 0."""

    first: int
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GrowingLevel:
    """What the statistics of a level of n values need for up to 15 more."""

    n: int
    minimum: float
    maximum: float
    p10: RankWindow
    median: RankWindow
    p90: RankWindow


def keep_level(values: NDArray[np.float64]) -> GrowingLevel:
    """Return what is kept of the finite values of a level, at least one."""
    ascending = np.sort(values)
    p10, median, p90 = (keep_quantile(ascending, share) for share in (0.1, 0.5, 0.9))
    return GrowingLevel(len(ascending), float(ascending[0]), float(ascending[-1]), p10, median, p90)


def grow_level(level: GrowingLevel, added: Sequence[float]) -> LevelStatistics:
    """Return the statistics after 1 to 15 more finite values, oldest first: the same as of all values."""
    return LevelStatistics(
        first=0,
        end=level.n + len(added),
        median=find_quantile(level.median, 0.5, n=level.n, added=added),
        p10=find_quantile(level.p10, 0.1, n=level.n, added=added),
        p90=find_quantile(level.p90, 0.9, n=level.n, added=added),
        minimum=min(level.minimum, *added),
        maximum=max(level.maximum, *added),
        last=added[-1],
    )


def keep_quantile(ascending: NDArray[np.float64], share: float) -> RankWindow:
    """Return what the quantile of one or more values needs for up to 15 more; share: 0 to 1."""
    rank = math.floor(share * (len(ascending) - 1))
    first = max(rank - GROWTH_MAXIMUM, 0)
    return RankWindow(first, tuple(ascending[first : rank + GROWTH_MAXIMUM + 2].tolist()))


def find_quantile(window: RankWindow, share: float, *, n: int, added: Sequence[float]) -> float:
    """Return the quantile of n values and up to 15 added ones, interpolated linearly."""
    known = list(window.values)
    below, count = window.first, n
    for value in added:
        if below and value < known[0]:
            below += 1
        elif value <= known[-1] or below + len(known) >= count:
            insort(known, value)
        count += 1
    rank = share * (count - 1)
    place = int(rank)
    low = known[place - below]
    return low if rank == place else low + (rank - place) * (known[place - below + 1] - low)
