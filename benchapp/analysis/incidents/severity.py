"""Severity of an incident, from size, breadth and confidence. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p
from statistics import median
from typing import Final, Literal

Rank = Literal["high", "medium", "low"]

_RANKS: Final[tuple[Rank, ...]] = ("low", "medium", "high")
# Multiples of the metric's threshold: 15 % and 25 % for IOPS, 60 % and 100 % for p99.
_LARGE: Final = 3.0
_HUGE: Final = 5.0
# Share of the series measured there.
_BROAD_SHARE: Final = 0.5
# Number of series that is broad in any case.
_BROAD_CELLS: Final = 20


@dataclass(frozen=True, slots=True)
class Weight:
    """One change: relative size, the metric's threshold, and whether it is confirmed."""

    relative: float
    smallest: float
    is_confirmed: bool

    @property
    def size(self) -> float:
        """Return the size in multiples of the threshold; half counts as much as double."""
        limit = log1p(self.smallest)
        return abs(log1p(max(self.relative, expm1(-20)))) / limit


def judge_severity(weights: Sequence[Weight], *, cells: int, all_cells: int) -> Rank:
    """Return the severity; cells: changed series, of all that are measured there.

    The median size is used, so that one outlier does not raise it. Without a confirmed change it is one lower.
    """
    size = median(weight.size for weight in weights)
    rank = 2 if size >= _HUGE else 1 if size >= _LARGE else 0
    if cells >= _BROAD_CELLS or (cells > 1 and cells >= _BROAD_SHARE * all_cells):
        rank += 1
    if rank and not any(weight.is_confirmed for weight in weights):
        rank -= 1
    return _RANKS[min(rank, 2)]
