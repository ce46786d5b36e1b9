"""Severity of an incident, from size, reach and confidence. Pure."""

from collections.abc import Sequence
from typing import Final, Literal

from benchapp.incidents.rules.typical_change import MetricSize

Rank = Literal["high", "medium", "low"]

_RANKS: Final[tuple[Rank, ...]] = ("low", "medium", "high")
# Multiples of the metric's threshold: 15 % and 25 % for IOPS, 60 % and 100 % for p99.
_LARGE: Final = 3.0
_HUGE: Final = 5.0
# Below the threshold, as pooled levels find it, a wide reach does not count.
_SMALL: Final = 1.0
# Share of the series of the typical metric in which another metric must have changed to count.
_FREQUENT: Final = 0.5
# Share of the host, pool or volume type.
_WIDE_REACH: Final = 0.5
# Number of series that is wide in any case.
_WIDE_SERIES: Final = 20


def judge_severity(sizes: Sequence[MetricSize], *, series: int, reach: float, is_confirmed: bool) -> Rank:
    """Return the severity of an incident with changes of at least one metric.

    sizes: by metric, the typical one first. series: number of affected ones. reach: affected share of the host, pool or
    volume type, 0 to 1. is_confirmed: whether any change is. The size is the largest median of the metrics that changed
    in at least half as many series as the typical one: neither a metric that hardly changed nor a single outlier
    decides. An incident with a wide reach is one step higher, unless its changes are below the threshold; one without a
    confirmed change is one step lower.
    """
    size = max(one.multiple for one in sizes if one.series >= _FREQUENT * sizes[0].series)
    rank = 2 if size >= _HUGE else 1 if size >= _LARGE else 0
    is_wide = series >= _WIDE_SERIES or (series > 1 and reach >= _WIDE_REACH)
    if is_wide and size >= _SMALL:
        rank += 1
    if rank and not is_confirmed:
        rank -= 1
    return _RANKS[min(rank, 2)]
