"""The series with the newest open changes, and those measured last."""

from dataclasses import dataclass
from typing import Final

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import Metric
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.models import ChangeState, Series
from benchapp.models.filtering import match_series
from benchapp.series.read.levels import CurrentLevel
from benchapp.series.read.selected_levels import read_main_levels
from benchapp.series.read.series import SeriesRow, read_rows

# Open changes are searched in the newest incidents only: of a sweep one has thousands.
_INCIDENTS_MAXIMUM: Final = 20
_CHANGES_MAXIMUM: Final = 200
_LIVE: Final = [ChangeState.PROVISIONAL.value, ChangeState.CONFIRMED.value]
# The series with the newest changes of open incidents, and those measured last; one of each may be both.
# changed, measured: conditions of a filter.
_LIST: Final = (
    "(SELECT series_id FROM (SELECT series_id, started_at, id FROM benchapp_change WHERE state = ANY(%s)"
    "  AND incident_id IN (SELECT id FROM benchapp_incident WHERE is_open"
    "   ORDER BY started_at DESC, id DESC LIMIT %s){changed}"
    "  ORDER BY started_at DESC, id DESC LIMIT %s) AS newest"
    " GROUP BY series_id ORDER BY max(started_at) DESC, max(id) DESC LIMIT %s)"
    " UNION (SELECT id FROM benchapp_series WHERE last_at IS NOT NULL{measured}"
    "  ORDER BY last_at DESC, id DESC LIMIT %s)"
)


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series with the current level of its main metric."""

    row: SeriesRow
    metric: Metric
    level: CurrentLevel
    mark: SeriesMark | None


def read_recent_series(filter: Filter | None = None, *, limit: int = 10) -> list[SeriesLevel]:
    """Return the series with the newest open changes and those measured last, in at most eight queries.

    Of those that match the filter. First those with an open regression, largest first, then with an open improvement,
    then the others by time.
    """
    rows = read_rows(_list_series(limit, filter))
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


def _list_series(limit: int, filter: Filter | None) -> list[int]:
    matching, values = "", []
    if filter:
        text, parameters = Series.objects.filter(match_series(filter)).values("pk").query.sql_with_params()
        matching, values = f"IN ({text})", list(parameters)
    rows = fetch_rows(
        _LIST.format(
            changed=f" AND series_id {matching}" if matching else "",
            measured=f" AND id {matching}" if matching else "",
        ),
        [
            _LIVE,
            _INCIDENTS_MAXIMUM,
            *values,
            _CHANGES_MAXIMUM,
            limit,
            *values,
            limit,
        ],
    )
    return [series_id for (series_id,) in rows]


def _rank(one: SeriesLevel) -> tuple[int, float]:
    if one.mark is None or one.mark.state != "open":
        # The sort is stable: these stay in order of time.
        return (2, 0.0)
    return (0 if one.mark.is_regression else 1, -abs(one.mark.relative))
