"""The series measured last, those with open changes first."""

from dataclasses import dataclass
from typing import Final

from benchapp.metrics import Metric
from benchapp.queries.incidents.series_marks import SeriesMark, read_series_marks
from benchapp.queries.series.levels import CurrentLevel, read_main_levels
from benchapp.queries.series.series import SeriesRow, list_rows, with_points

# Changes are searched in these only, not in a million series.
_RECENT_SERIES: Final = 100


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series with the current level of its main metric."""

    row: SeriesRow
    metric: Metric
    level: CurrentLevel
    mark: SeriesMark | None


def read_recent_series(*, limit: int = 10) -> list[SeriesLevel]:
    """Return series of the 100 most recent ones in at most seven queries.

    First those with an open regression, then with an open improvement, then the others by time.
    """
    rows = list_rows(with_points(), limit=_RECENT_SERIES)
    levels = read_main_levels([row.id for row in rows])
    by_metric: dict[str, list[int]] = {}
    for series_id, found in levels.items():
        by_metric.setdefault(found.metric.name, []).append(series_id)
    marks = {
        series_id: mark
        for metric, ids in by_metric.items()
        for series_id, mark in read_series_marks(ids, metric=metric).items()
    }
    series = [
        SeriesLevel(row, main.metric, main.level, marks.get(row.id))
        for row in rows
        if (main := levels.get(row.id))
    ]
    return sorted(series, key=_rank)[:limit]


def _rank(one: SeriesLevel) -> tuple[int, float]:
    if one.mark is None or one.mark.state != "open":
        # The sort is stable: these stay in order of time.
        return (2, 0.0)
    return (0 if one.mark.is_regression else 1, -abs(one.mark.relative))
