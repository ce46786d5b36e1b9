"""Changes per week and submissions per day."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import connection
from django.db.models import Min
from django.utils import timezone

from benchapp.detection.rules.recovery import find_recoveries
from benchapp.framework.read.days import DayRange
from benchapp.models import Change, ChangeState, State, Submission

WEEKS: Final = 13
# In as many weeks, the last of which may have just begun.
CHANGE_DAYS: Final = (WEEKS - 1) * 7 + 1
INGEST_DAYS: Final = 30
_WEEK: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)
_KINDS: Final = ("regressions", "improvements", "recoveries")


@dataclass(frozen=True, slots=True)
class ChangeWeek:
    """A week from Monday on (UTC): the number of series with a change of each kind that began in it.

    A recovery ends a regression: it is no improvement.
    """

    monday: date
    regressions: int
    improvements: int
    recoveries: int


@dataclass(frozen=True, slots=True)
class IngestDay:
    """What was received on one day (UTC), by the state that it has now."""

    day: date
    stored: int
    rejected: int
    received: int


@dataclass(frozen=True, slots=True)
class IngestHealth:
    """Submissions of some days, no day left out. oldest_at: receipt of the first that waits now, or None."""

    days: tuple[IngestDay, ...]
    oldest_at: datetime | None


def read_change_weeks(days: DayRange | None = None) -> list[ChangeWeek]:
    """Return the whole weeks of some days, oldest first; a query over change_by_time, and one of series that recovered.

    days: by default the last 13 weeks. Provisional and confirmed changes count, in any metric; a series counts once for
    each kind and week.
    """
    days = days or DayRange(timezone.now(), CHANGE_DAYS)
    first, last = (day - timedelta(days=day.weekday()) for day in (days.first, days.last))
    live = Change.objects.filter(state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED))
    begun = list(
        live.filter(
            started_at__gte=datetime.combine(first, time.min, UTC),
            started_at__lt=datetime.combine(last + _WEEK, time.min, UTC),
        ).values_list("id", "series_id", "started_at", "is_regression", "incident_id")
    )
    lines: dict[tuple[int, str], list[Change]] = defaultdict(list)
    candidates = {row[1] for row in begun if not row[3] and row[4] is None}
    for change in live.filter(series_id__in=candidates).order_by("started_at", "id") if candidates else ():
        lines[change.series_id, change.metric].append(change)
    recovered = {change_id for line in lines.values() for change_id in find_recoveries(line)}
    found: dict[tuple[date, str], set[int]] = defaultdict(set)
    for change_id, series_id, started_at, is_regression, _ in begun:
        day = started_at.astimezone(UTC).date()
        kind = "regressions" if is_regression else "recoveries" if change_id in recovered else "improvements"
        found[day - timedelta(days=day.weekday()), kind].add(series_id)
    mondays = (first + place * _WEEK for place in range((last - first) // _WEEK + 1))
    return [ChangeWeek(monday, **{kind: len(found[monday, kind]) for kind in _KINDS}) for monday in mondays]


def read_ingest_health(days: DayRange | None = None) -> IngestHealth:
    """Return some days, oldest first; by default the last 30. Two queries over the indexes of submissions by state."""
    days = days or DayRange(timezone.now(), INGEST_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (received_at AT TIME ZONE 'UTC')::date, state, count(*) FROM benchapp_submission"
            " WHERE state = ANY(%s) AND received_at >= %s AND received_at < %s GROUP BY 1, 2",
            [
                State.values,
                datetime.combine(days.first, time.min, UTC),
                datetime.combine(days.last + _DAY, time.min, UTC),
            ],
        )
        counts = {(day, state): count for day, state, count in cursor.fetchall()}
    return IngestHealth(
        tuple(IngestDay(day, *(counts.get((day, state.value), 0) for state in _SHOWN)) for day in days.dates),
        Submission.objects.waiting().aggregate(oldest=Min("received_at"))["oldest"],
    )


_SHOWN: Final = (State.STORED, State.REJECTED, State.RECEIVED)
