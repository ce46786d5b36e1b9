"""The overview page: recent changes, silent hosts, rejected uploads."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F
from django.utils import timezone

from benchapp.metrics import CATALOGUE, Metric
from benchapp.models import Host, State, Submission
from benchapp.queries.hosts import list_known, read_schedules
from benchapp.queries.incidents.series_marks import SeriesMark, read_series_marks
from benchapp.queries.series.levels import CurrentLevel, read_current_levels
from benchapp.queries.series.series import SeriesRow, list_rows, with_points

# Changes are searched in these only, not in a million series.
_RECENT_SERIES: Final = 100
# Least recently seen first: these include the hosts whose runs are overdue.
_HOSTS_MAXIMUM: Final = 500
_COUNT_MAXIMUM: Final = 1000
_RECENT: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series with the current level of its main metric."""

    row: SeriesRow
    metric: Metric
    level: CurrentLevel
    mark: SeriesMark | None


@dataclass(frozen=True, slots=True)
class SilentHost:
    """A host whose runs are overdue; since_at: when the first of them was due."""

    name: str
    since_at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """What the overview page shows.

    series: of the 100 most recent ones, first those with an open regression, then with an open improvement, then the
    others by time. silent: of the
    500 hosts least recently seen, those silent for longest first. rejected: uploads of the last seven days.
    waiting: uploads not yet processed. Both counts stop at 1 000.
    """

    series: tuple[SeriesLevel, ...]
    silent: tuple[SilentHost, ...]
    rejected: int
    waiting: int


def read_overview(*, limit: int = 10) -> Overview:
    """Return the overview in at most eleven bounded queries. limit: maximum number of series."""
    found = _read_recent_series()
    found.sort(key=_rank)
    return Overview(
        series=tuple(found[:limit]),
        silent=_list_silent(),
        rejected=Submission.objects.filter(state=State.REJECTED, received_at__gte=timezone.now() - _RECENT)[
            :_COUNT_MAXIMUM
        ].count(),
        waiting=Submission.objects.waiting()[:_COUNT_MAXIMUM].count(),
    )


def _read_recent_series() -> list[SeriesLevel]:
    rows = list_rows(with_points(), limit=_RECENT_SERIES)
    iops, elapsed = CATALOGUE["iops"], CATALOGUE["elapsed_s"]
    iops_levels = read_current_levels([row.id for row in rows], iops)
    others = [row.id for row in rows if row.id not in iops_levels]
    elapsed_levels = read_current_levels(others, elapsed) if others else {}
    marks = {
        **read_series_marks(list(elapsed_levels), metric=elapsed.name),
        **read_series_marks(list(iops_levels), metric=iops.name),
    }
    return [
        SeriesLevel(row, iops if row.id in iops_levels else elapsed, level, marks.get(row.id))
        for row in rows
        if (level := iops_levels.get(row.id) or elapsed_levels.get(row.id))
    ]


def _rank(one: SeriesLevel) -> tuple[int, float]:
    if one.mark is None or one.mark.state != "open":
        # The sort is stable: these stay in order of time.
        return (2, 0.0)
    return (0 if one.mark.is_regression else 1, -abs(one.mark.relative))


def _list_silent() -> tuple[SilentHost, ...]:
    rows = list(
        Host.objects.active()
        .filter(schedule__isnull=False)
        .order_by(F("last_seen_at").asc(nulls_last=True))
        .values("id", "name", "retired_at", "schedule", "schedule_since_at", "schedule_reported_by")[
            :_HOSTS_MAXIMUM
        ]
    )
    schedules = read_schedules(list_known(rows))
    silent = [
        SilentHost(row["name"], since_at)
        for row in rows
        if (schedule := schedules.get(row["id"])) and (since_at := schedule.silent_since)
    ]
    return tuple(sorted(silent, key=lambda host: host.since_at))
