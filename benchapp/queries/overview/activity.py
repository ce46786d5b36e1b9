"""Changes per week and submissions per day."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.db import connection
from django.db.models import Min
from django.utils import timezone

from benchapp.models import ChangeState, State, Submission
from benchapp.queries.days import DayRange

WEEKS: Final = 13
# In as many weeks, the last of which may have just begun.
CHANGE_DAYS: Final = (WEEKS - 1) * 7 + 1
INGEST_DAYS: Final = 30
_WEEK: Final = timedelta(days=7)
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ChangeWeek:
    """A week from Monday on (UTC): the number of series with a regression and with an improvement that began in it."""

    monday: date
    regressions: int
    improvements: int


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
    """Return the whole weeks of some days, oldest first; one query over the index change_by_time.

    days: by default the last 13 weeks. Provisional and confirmed changes count, in any metric; a series counts once for
    each direction and week.
    """
    days = days or DayRange(timezone.now(), CHANGE_DAYS)
    first, last = (day - timedelta(days=day.weekday()) for day in (days.first, days.last))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT date_trunc('week', started_at AT TIME ZONE 'UTC')::date,"
            " count(DISTINCT series_id) FILTER (WHERE is_regression),"
            " count(DISTINCT series_id) FILTER (WHERE NOT is_regression)"
            " FROM benchapp_change WHERE started_at >= %s AND started_at < %s AND state = ANY(%s) GROUP BY 1",
            [
                datetime.combine(first, time.min, UTC),
                datetime.combine(last + _WEEK, time.min, UTC),
                [ChangeState.PROVISIONAL.value, ChangeState.CONFIRMED.value],
            ],
        )
        counts = {
            monday: (regressions, improvements) for monday, regressions, improvements in cursor.fetchall()
        }
    mondays = (first + place * _WEEK for place in range((last - first) // _WEEK + 1))
    return [ChangeWeek(monday, *counts.get(monday, (0, 0))) for monday in mondays]


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
