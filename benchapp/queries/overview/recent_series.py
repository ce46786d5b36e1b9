"""The series with the newest open changes, and those measured last."""

from dataclasses import dataclass
from typing import Final

from benchapp.metrics import Metric
from benchapp.models import Change, ChangeState, Incident
from benchapp.queries.incidents.incidents import OPEN_STATES
from benchapp.queries.incidents.series_marks import SeriesMark, read_series_marks
from benchapp.queries.series.levels import CurrentLevel, read_main_levels
from benchapp.queries.series.series import SeriesRow, list_rows, with_points

# Open changes are searched in the newest incidents only: of a sweep one has thousands.
_INCIDENTS_MAXIMUM: Final = 20
_CHANGES_MAXIMUM: Final = 200
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series with the current level of its main metric."""

    row: SeriesRow
    metric: Metric
    level: CurrentLevel
    mark: SeriesMark | None


def read_recent_series(*, limit: int = 10) -> list[SeriesLevel]:
    """Return the series with the newest open changes and those measured last, in at most nine queries.

    First those with an open regression, largest first, then with an open improvement, then the others by time.
    """
    recent = with_points().order_by("-last_at", "-id").values_list("pk", flat=True)[:limit]
    rows = list_rows(with_points().filter(pk__in=[*_list_changed(limit), *recent]), limit=2 * limit)
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


def _list_changed(limit: int) -> list[int]:
    """Return the series with the newest changes of open incidents."""
    incidents = Incident.objects.filter(state__in=OPEN_STATES).order_by("-started_at", "-id")
    changes = Change.objects.filter(
        incident__in=incidents.values("pk")[:_INCIDENTS_MAXIMUM], state__in=_LIVE
    ).order_by("-started_at", "-id")
    return list(dict.fromkeys(changes.values_list("series_id", flat=True)[:_CHANGES_MAXIMUM]))[:limit]


def _rank(one: SeriesLevel) -> tuple[int, float]:
    if one.mark is None or one.mark.state != "open":
        # The sort is stable: these stay in order of time.
        return (2, 0.0)
    return (0 if one.mark.is_regression else 1, -abs(one.mark.relative))
