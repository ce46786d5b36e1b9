"""The typical change of an incident: sizes by metric, from the medians over its series. Pure.

One noisy series, or a chance change of another metric, does not describe an incident; the median of the metric with the
most changed series does.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log1p
from statistics import median
from typing import Final

# Of metrics that changed in nearly as many series, the first one by preference is the typical one.
_NEARLY_AS_MANY: Final = 0.9


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The size of one change. smallest: the metric's threshold; both relative."""

    series_id: int
    metric: str
    relative: float
    smallest: float

    @property
    def multiple(self) -> float:
        """Return the size in multiples of the threshold."""
        return measure_multiple(self.relative, self.smallest)


@dataclass(frozen=True, slots=True)
class MetricSize:
    """The changes of one metric. series: number of changed series; relative: the median of their changes.

    low, high: the lowest and the highest of them.
    """

    metric: str
    series: int
    relative: float
    low: float
    high: float
    smallest: float

    @property
    def multiple(self) -> float:
        """Return the median in multiples of the threshold."""
        return measure_multiple(self.relative, self.smallest)


def measure_multiple(relative: float, smallest: float) -> float:
    """Return a relative change in multiples of the threshold; half counts as much as double."""
    return abs(log1p(max(relative, expm1(-20)))) / log1p(smallest)


def summarize_metrics(changes: Sequence[ChangeSize], *, preference: Sequence[str]) -> tuple[MetricSize, ...]:
    """Return the sizes by metric, the typical one first, then by number of series.

    The typical metric is the first one by preference that changed in at least 90 % of the series of the most frequent
    one. Of a series with several changes of a metric the largest counts. () without changes.
    """
    largest: dict[str, dict[int, ChangeSize]] = defaultdict(dict)
    for change in changes:
        known = largest[change.metric].get(change.series_id)
        if known is None or change.multiple > known.multiple:
            largest[change.metric][change.series_id] = change
    places = {metric: place for place, metric in enumerate(preference)}
    sizes = sorted(
        (_summarize(list(of.values())) for of in largest.values()),
        key=lambda size: (-size.series, places.get(size.metric, len(places)), size.metric),
    )
    if not sizes:
        return ()
    frequent = [size for size in sizes if size.series >= _NEARLY_AS_MANY * sizes[0].series]
    typical = min(frequent, key=lambda size: (places.get(size.metric, len(places)), size.metric))
    return (typical, *(size for size in sizes if size is not typical))


def _summarize(changes: Sequence[ChangeSize]) -> MetricSize:
    sizes = [change.relative for change in changes]
    return MetricSize(
        changes[0].metric, len(sizes), median(sizes), min(sizes), max(sizes), changes[0].smallest
    )
