"""Changes per week and submissions per day."""

from datetime import UTC, date, datetime, timedelta

import pytest

from benchapp.framework.read.days import DayRange
from benchapp.models import Change, ChangeState, State, Submission
from benchapp.overview.read.fleet import (
    CHANGE_DAYS,
    INGEST_DAYS,
    read_change_weeks,
    read_ingest_health,
)
from tests.factories import make_change, make_series, make_submission

pytestmark = pytest.mark.django_db
# A Wednesday.
NOW = datetime(2026, 5, 13, 12, tzinfo=UTC)


def test_series_with_a_change_are_counted_by_week() -> None:
    series = [make_series() for _ in range(3)]
    monday = datetime(2026, 5, 11, tzinfo=UTC)
    make_change(series[0], at=monday, before=100.0, after=80.0)
    make_change(
        series[0], at=monday + timedelta(hours=1), metric="latency_p99_ns", after=150.0, is_regression=True
    )
    make_change(series[1], at=monday, before=100.0, after=80.0)
    make_change(series[2], at=monday - timedelta(seconds=1), before=100.0, after=130.0)
    withdrawn = make_change(series[2], at=monday, before=100.0, after=80.0)
    Change.objects.filter(pk=withdrawn.pk).update(state=ChangeState.WITHDRAWN)
    make_change(series[0], at=monday - timedelta(weeks=13), before=100.0, after=80.0)

    weeks = read_change_weeks(DayRange(NOW, CHANGE_DAYS))

    assert len(weeks) == 13
    assert weeks[0].monday == date(2026, 2, 16)
    assert (weeks[-1].monday, weeks[-1].regressions, weeks[-1].improvements) == (date(2026, 5, 11), 2, 0)
    assert (weeks[-2].regressions, weeks[-2].improvements) == (0, 1)
    assert sum(week.regressions + week.improvements for week in weeks) == 3


def test_way_back_from_a_regression_is_a_recovery_and_no_improvement() -> None:
    monday = datetime(2026, 5, 11, tzinfo=UTC)
    recovered, improved = make_series(), make_series()
    make_change(recovered, at=monday - timedelta(weeks=14), before=100.0, after=80.0)
    make_change(recovered, at=monday, before=80.0, after=100.0)
    make_change(improved, at=monday, before=100.0, after=130.0)

    week = read_change_weeks(DayRange(NOW, CHANGE_DAYS))[-1]

    assert (week.regressions, week.improvements, week.recoveries) == (0, 1, 1)


def test_submissions_are_counted_by_day_and_state() -> None:
    for days, state in (
        (0, State.STORED),
        (0, State.STORED),
        (0, State.REJECTED),
        (1, State.RECEIVED),
        (30, State.STORED),
    ):
        make_submission(state=state, received_at=NOW - timedelta(days=days), settled_at=NOW)

    days, oldest_at = read_ingest_health(DayRange(NOW, INGEST_DAYS))

    assert len(days) == 30
    assert (days[-1].stored, days[-1].rejected, days[-1].received) == (2, 1, 0)
    assert days[-2].received == 1
    assert oldest_at == NOW - timedelta(days=1)
    assert sum(day.stored for day in days) == 2


def test_empty_queue_has_no_oldest_submission() -> None:
    assert Submission.objects.count() == 0
    assert read_ingest_health(DayRange(NOW, INGEST_DAYS))[1] is None


def test_weeks_and_days_of_an_earlier_period() -> None:
    series = make_series()
    for day in (3, 4, 10, 11):
        make_change(series, at=datetime(2026, 5, day, tzinfo=UTC), before=100.0, after=80.0)
        make_submission(received_at=datetime(2026, 5, day, tzinfo=UTC), settled_at=NOW)
    period = DayRange(datetime(2026, 5, 9, tzinfo=UTC), 4, is_open=False)

    weeks, (days, _) = read_change_weeks(period), read_ingest_health(period)

    assert [(week.monday, week.regressions) for week in weeks] == [(date(2026, 5, 4), 1)]
    assert [day.day.day for day in days] == [5, 6, 7, 8]
    assert sum(day.stored for day in days) == 0
    assert sum(day.stored for day in read_ingest_health(DayRange(NOW, 10))[0]) == 3
