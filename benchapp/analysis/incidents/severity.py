"""Severity of an incident, from size, reach and confidence. Pure."""

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
# Share of the host, pool or volume type.
_WIDE_REACH: Final = 0.5
# Number of series that is wide in any case.
_WIDE_SERIES: Final = 20


@dataclass(frozen=True, slots=True)
class Weight:
    """One change: its series, relative size, the metric's threshold, and whether it is confirmed."""

    series_id: int
    relative: float
    smallest: float
    is_confirmed: bool

    @property
    def size(self) -> float:
        """Return the size in multiples of the threshold; half counts as much as double."""
        limit = log1p(self.smallest)
        return abs(log1p(max(self.relative, expm1(-20)))) / limit


def judge_severity(weights: Sequence[Weight], *, reach: float) -> Rank:
    """Return the severity of at least one change. reach: affected share of the host, pool or volume type, 0 to 1.

    The size is the largest of each series, and of these the median: neither a metric that hardly changed nor a single
    outlier decides. An incident with a wide reach is one step higher; without a confirmed change, one step lower.
    """
    sizes: dict[int, float] = {}
    for weight in weights:
        sizes[weight.series_id] = max(weight.size, sizes.get(weight.series_id, 0.0))
    size = median(sizes.values())
    rank = 2 if size >= _HUGE else 1 if size >= _LARGE else 0
    if len(sizes) >= _WIDE_SERIES or (len(sizes) > 1 and reach >= _WIDE_REACH):
        rank += 1
    if rank and not any(weight.is_confirmed for weight in weights):
        rank -= 1
    return _RANKS[min(rank, 2)]
