"""The levels of a history: the stretches between its changes, each with its median and spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class LevelSegment:
    """A stretch at one level. first, last: places of its first and last value, both inclusive; n: of its values."""

    first: int
    last: int
    n: int
    median: float
    p10: float
    p90: float


def cut_segments(
    values: Sequence[float] | NDArray[np.float64], starts: Sequence[int]
) -> tuple[LevelSegment, ...]:
    """Return the stretches of values between changes; () of no values.

    starts: places where a new level begins, ascending, each within 1 and len(values) - 1.
    """
    if not len(values):
        return ()
    edges = [0, *starts, len(values)]
    return tuple(_describe(values, first, end) for first, end in pairwise(edges))


def _describe(values: Sequence[float] | NDArray[np.float64], first: int, end: int) -> LevelSegment:
    p10, median, p90 = np.percentile(np.asarray(values[first:end]), (10, 50, 90))
    return LevelSegment(first, end - 1, end - first, float(median), float(p10), float(p90))
