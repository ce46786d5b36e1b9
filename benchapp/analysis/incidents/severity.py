"""How much an incident matters: from size, breadth and confidence. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p
from statistics import median
from typing import Final, Literal

Rank = Literal["high", "medium", "low"]

_RANKS: Final[tuple[Rank, ...]] = ("low", "medium", "high")
# Times the smallest change worth saying of the metric: 15 % and 25 % for IOPS, 60 % and 100 % for p99.
_LARGE: Final = 3.0
_HUGE: Final = 5.0
# Of the cells that are measured there: half is a host, not a cell.
_BROAD_SHARE: Final = 0.5
# So many cells are broad whatever there is besides.
_BROAD_CELLS: Final = 20


@dataclass(frozen=True, slots=True)
class Weight:
    """One change: relative, the metric's smallest change worth saying, and whether it is confirmed."""

    relative: float
    smallest: float
    is_confirmed: bool

    @property
    def size(self) -> float:
        """Return the change in terms of the smallest worth saying; halved is as far as doubled."""
        limit = log1p(self.smallest)
        return abs(log1p(max(self.relative, expm1(-20)))) / limit


def judge_severity(weights: Sequence[Weight], *, cells: int, all_cells: int) -> Rank:
    """Return how much changes matter together; cells: series that changed, of all that are measured there.

    The size is that of the middle one, so that one wild cell does not make all of them high. What nothing confirms
    yet is one less.
    """
    size = median(weight.size for weight in weights)
    rank = 2 if size >= _HUGE else 1 if size >= _LARGE else 0
    if cells >= _BROAD_CELLS or (cells > 1 and cells >= _BROAD_SHARE * all_cells):
        rank += 1
    if rank and not any(weight.is_confirmed for weight in weights):
        rank -= 1
    return _RANKS[min(rank, 2)]
