"""What a move to a pool mixes: series that join, and how far apart they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.incidents.read.series_marks import list_open_incidents, read_series_marks
from benchapp.models import Series
from benchapp.series.read.level_range import read_main_levels
from benchapp.series.read.titles import describe_target, describe_workload, join_titles


@dataclass(frozen=True, slots=True)
class SeriesJoin:
    """A series and the one that it joins, with the medians of their current levels in the base unit of the metric.

    metric: of both, "" if they have no level of the same one. relative: median / that of the other − 1.
    is_apart: they differ by the smallest change of the metric. incidents, other_incidents: open ones, newest first.
    """

    series: int
    other_series: int
    title: str
    metric: str
    median: float | None
    other_median: float | None
    relative: float | None
    incidents: tuple[int, ...]
    other_incidents: tuple[int, ...]

    @property
    def is_apart(self) -> bool:
        """Return whether one series of both would have a change at each switch between the hosts."""
        return self.relative is not None and abs(self.relative) >= SMALLEST_CHANGES.get(self.metric, 0.0)


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
        return SeriesJoin(
            own,
            other,
            join_titles(describe_workload(row, direction=row.direction), describe_target(row)),
            mine.metric.name if mine is not None and is_same else "",
            median,
            other_median,
            median / other_median - 1 if median is not None and other_median else None,
            list_open_incidents([own], marks),
            list_open_incidents([other], marks),
        )

    return tuple(
        sorted(
            (make(own, other) for own, other in pairs),
            key=lambda each: (-abs(each.relative or 0.0), each.series),
        )
    )
