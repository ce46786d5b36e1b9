"""The start page: what moved among the freshest series, what is silent, what was rejected."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import F
from django.utils import timezone

from benchapp.metrics import CATALOGUE, Metric
from benchapp.models import Host, State, Submission
from benchapp.queries.hosts import list_known, read_schedules
from benchapp.queries.series.current_levels import CurrentLevel, read_standings
from benchapp.queries.series.series import SeriesRow, list_rows, with_points

# A page of them; what moved is looked for among these, and not among a million.
_FRESHEST: Final = 100
# Those not heard of for longest: a host that misses its runs is among them.
_HOSTS_MAXIMUM: Final = 500
_COUNT_MAXIMUM: Final = 1000
_RECENT: Final = timedelta(days=7)
_MEANINGS: Final = {"worse": 0, "better": 1}


@dataclass(frozen=True, slots=True)
class SeriesStanding:
    """One series and what its usual metric stands at."""

    row: SeriesRow
    metric: Metric
    standing: CurrentLevel


@dataclass(frozen=True, slots=True)
class SilentHost:
    """A host that misses its runs; since_at: the first that it missed."""

    name: str
    since_at: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """What to look at first.

    series: of the freshest 100, what got worse, then what got better, then the freshest. silent: the longest first,
    of the 500 hosts not heard of for longest. rejected: uploads of the last seven days; waiting: all of them; both at
    most 1 000.
    """

    series: tuple[SeriesStanding, ...]
    worse_count: int
    better_count: int
    silent: tuple[SilentHost, ...]
    rejected: int
    waiting: int


def read_overview(*, limit: int = 10) -> Overview:
    """Return the overview; six to eight queries, each bounded. limit: of series."""
    found = _read_freshest()
    meanings = [one.standing.shift.meaning for one in found if one.standing.shift]
    found.sort(key=_rank)
    return Overview(
        series=tuple(found[:limit]),
        worse_count=meanings.count("worse"),
        better_count=meanings.count("better"),
        silent=_list_silent(),
        rejected=Submission.objects.filter(state=State.REJECTED, received_at__gte=timezone.now() - _RECENT)[
            :_COUNT_MAXIMUM
        ].count(),
        waiting=Submission.objects.waiting()[:_COUNT_MAXIMUM].count(),
    )


def _read_freshest() -> list[SeriesStanding]:
    rows = list_rows(with_points(), limit=_FRESHEST)
    usual, timed = CATALOGUE["iops"], CATALOGUE["elapsed_s"]
    standings = read_standings([row.id for row in rows], usual)
    others = [row.id for row in rows if row.id not in standings]
    timings = read_standings(others, timed) if others else {}
    return [
        SeriesStanding(row, usual if row.id in standings else timed, standing)
        for row in rows
        if (standing := standings.get(row.id) or timings.get(row.id))
    ]


def _rank(one: SeriesStanding) -> tuple[int, float]:
    shift = one.standing.shift
    if shift is None or shift.meaning == "within":
        # A stable sort leaves these as they are: the freshest first.
        return (2, 0.0)
    return (_MEANINGS[shift.meaning], -abs(shift.percent))


def _list_silent() -> tuple[SilentHost, ...]:
    rows = list(
        Host.objects.active()
        .filter(schedule__isnull=False)
        .order_by(F("last_seen_at").asc(nulls_last=True))
        .values("id", "name", "retired_at", "schedule", "schedule_since_at", "schedule_told_by")[
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
