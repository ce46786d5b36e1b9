"""Levels: the runs of a series between two changes, with their statistics. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LevelStatistics:
    """Statistics of the values [first, end) of a series, in their unit; n: end - first, at least 1. last: the newest.

    Percentiles are interpolated linearly, as by PostgreSQL's percentile_cont.
    """

    first: int
    end: int
    median: float
    p10: float
    p90: float
    minimum: float
    maximum: float
    last: float

    @property
    def n(self) -> int:
        """Return the number of values."""
        return self.end - self.first


def divide_levels(values: NDArray[np.float64], starts: Sequence[int]) -> tuple[LevelStatistics, ...]:
    """Return the levels of finite values, oldest first; none without values.

    starts: indices of the first value of each later level, ascending, between 1 and len(values) - 1.
    """
    if not len(values):
        return ()
    return tuple(describe_values(values, first, end) for first, end in pairwise((0, *starts, len(values))))


def describe_values(values: NDArray[np.float64], first: int, end: int) -> LevelStatistics:
    """Return the statistics of the finite values [first, end), at least one."""
    ascending = np.sort(values[first:end])
    return LevelStatistics(
        first=first,
        end=end,
        median=_interpolate(ascending, 0.5),
        p10=_interpolate(ascending, 0.1),
        p90=_interpolate(ascending, 0.9),
        minimum=float(ascending[0]),
        maximum=float(ascending[-1]),
        last=float(values[end - 1]),
    )


def _interpolate(ascending: NDArray[np.float64], share: float) -> float:
    """Return a quantile; numpy's percentile takes ten times as long for short arrays."""
    rank = share * (len(ascending) - 1)
    below = int(rank)
    low = float(ascending[below])
    if rank == below:
        return low
    return low + (rank - below) * (float(ascending[below + 1]) - low)
