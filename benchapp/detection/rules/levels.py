"""Levels: the runs of a series between two changes, with their statistics; runs divided by kind of latency. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Median, 10th and 90th percentile of n values."""

    median: float
    p10: float
    p90: float
    n: int


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


@dataclass(frozen=True, slots=True)
class KindSection:
    """The values of one kind, "" if all are of unknown kind. is_member: of each value."""

    kind: str
    is_member: NDArray[np.bool_]


def divide_kinds(
    kinds: NDArray[np.str_], times: NDArray[np.int64], is_known: NDArray[np.bool_]
) -> list[KindSection]:
    """Return the sections of the known values of a metric, the newest last; empty without known values.

    kinds: "clat", "lat", or "" for a value that belongs to either. times: ascending. The newest section has all values
    of the newest kind. What came before its first value is divided likewise. Values of another kind in between are in
    no section: a single run with other options ends no level.
    """
    sections: list[KindSection] = []
    is_left = is_known
    while (named := np.flatnonzero(is_left & (kinds != ""))).size:
        kind = str(kinds[named[-1]])
        first = times[np.flatnonzero(is_left & (kinds == kind))[0]]
        is_member = is_left & (times >= first) & ((kinds == kind) | (kinds == ""))
        sections.append(KindSection(kind, is_member))
        is_left = is_left & (times < first)
    if is_left.any():
        oldest = sections.pop() if sections else KindSection("", is_left)
        sections.append(KindSection(oldest.kind, oldest.is_member | is_left))
    return sections[::-1]


def find_newest_kind(kinds: Sequence[str]) -> str:
    """Return the newest known kind of values, oldest first; "" if all are unknown."""
    return next((kind for kind in reversed(kinds) if kind), "")
