"""What a move to a pool mixes: series that join, and how far apart they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.incidents.read.series_status import list_open_incidents, read_series_marks
from benchapp.models import Series
from benchapp.series.read.selected_levels import read_main_levels
from benchapp.series.read.titles import describe_target, describe_workload, join_titles


@dataclass(frozen=True, slots=True)
class SeriesJoin:
    """A series and the one that it joins, with the medians of their current levels in the base unit of the metric.

    is_apart: one series of both would have a change at each switch between the hosts.
    """

    series: int
    other_series: Annotated[int, Meta(description="of the new scope, which it joins")]
    title: str
    metric: Annotated[str, Meta(description="empty: no level of the same metric")]
    median: Annotated[float | None, Meta(description="of the current level, in the base unit")]
    other_median: float | None
    relative: Annotated[float | None, Meta(description="median / other_median − 1")]
    is_apart: Annotated[bool, Meta(description="by the smallest change of the metric or more")]
    incidents: Annotated[tuple[int, ...], Meta(description="open ones of the series, newest first")]
    other_incidents: tuple[int, ...]


def list_joins(pairs: Sequence[tuple[int, int]]) -> tuple[SeriesJoin, ...]:
    """Return what joins, the largest difference first; a few queries.

    pairs: ids of a series, and of the one that it joins.
    """
    if not pairs:
        return ()
    ids = sorted({each for pair in pairs for each in pair})
    levels, marks = read_main_levels(ids), read_series_marks(ids, metric="iops")
    series = Series.objects.in_bulk([own for own, _ in pairs])

    def make(own: int, other: int) -> SeriesJoin:
        mine, theirs = levels.get(own), levels.get(other)
        row, is_same = series[own], mine is not None and theirs is not None and mine.metric == theirs.metric
        median = mine.level.median if mine is not None and is_same else None
        other_median = theirs.level.median if theirs is not None and is_same else None
        metric = mine.metric.name if mine is not None and is_same else ""
        relative = median / other_median - 1 if median is not None and other_median else None
        return SeriesJoin(
            own,
            other,
            join_titles(describe_workload(row, direction=row.direction), describe_target(row)),
            metric,
            median,
            other_median,
            relative,
            relative is not None and abs(relative) >= SMALLEST_CHANGES.get(metric, 0.0),
            list_open_incidents([own], marks),
            list_open_incidents([other], marks),
        )

    return tuple(
        sorted(
            (make(own, other) for own, other in pairs),
            key=lambda each: (-abs(each.relative or 0.0), each.series),
        )
    )
