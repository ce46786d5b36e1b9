"""Throughput of the fleet by pattern and day, relative to the level of each series."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.framework.read.days import DayRange
from benchapp.judge import judge_due
from benchapp.models import Level, Measurement, PlannedEvent, PlannedEventKind, Run, Series
from benchapp.overview.read import fleet
from benchapp.overview.read.fleet import DAYS, PatternDays, read_fleet_days
from tests.detection.write.judging import make_level
from tests.factories import calculate_levels, make_host, make_series, make_workload

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
NOON = timezone.now().replace(hour=0, minute=5, second=0, microsecond=0)


def plant(
    values: Sequence[float], *, rw: str = "randread", host: str | None = None, end: datetime = NOON
) -> Series:
    """Make a series with one run a day up to today."""
    return make_series(
        values,
        host=make_host(host),
        workload=make_workload(rw=rw),
        direction="read" if rw.endswith("read") else "write",
        start_at=end - (len(values) - 1) * DAY,
        step=DAY,
    )


def read_line(pattern: str = "randread") -> PatternDays:
    (line,) = (line for line in read_fleet_days(DayRange(NOON, DAYS)).patterns if line.pattern == pattern)
    return line


def medians(line: PatternDays) -> list[float | None]:
    return [day and round(day.median, 6) for day in line.days]


def test_each_series_is_relative_to_its_own_level_at_the_start() -> None:
    for level in (100.0, 50_000.0, 3.0):
        plant([level] * 100 + [level * 0.8] * 10)
    calculate_levels()
    for level in Level.objects.all():
        Level.objects.filter(pk=level.pk).update(median=level.maximum)

    line = read_line()

    assert line.series == 3
    assert medians(line) == [1.0] * 80 + [0.8] * 10
    assert {day.n for day in line.days if day} == {3}


def test_regression_of_the_whole_fleet_is_a_drop_below_its_stored_level() -> None:
    for number in range(3):
        plant(make_level(100.0, 60, shift=number) + make_level(80.0, 40, shift=number))
    judge_due()
    first = Level.objects.filter(metric="iops").earliest("from_at")
    assert first.median == pytest.approx(100, rel=0.02)

    known = [value for value in medians(read_line()) if value]

    assert known[0] == pytest.approx(1.0, abs=0.02)
    assert known[-1] == pytest.approx(0.8, abs=0.02)


def test_newer_series_is_relative_to_its_first_level() -> None:
    plant([200.0] * 10)
    calculate_levels()

    line = read_line()

    assert medians(line) == [None] * 80 + [1.0] * 10


def test_quantiles_are_those_over_the_series() -> None:
    for last in (50.0, 75.0, 100.0, 125.0, 150.0):
        plant([100.0] * 5 + [last])
    calculate_levels()
    Level.objects.update(median=100.0)

    newest = read_line().days[-1]

    assert newest is not None
    assert (newest.n, newest.median) == (5, 1.0)
    assert (newest.p10, newest.p90) == (pytest.approx(0.6), pytest.approx(1.4))


def test_last_valid_run_of_a_day_counts() -> None:
    series = plant([100.0, 100.0, 100.0])
    calculate_levels()
    failed, excluded, last = Measurement.objects.order_by("started_at")
    Measurement.objects.filter(pk=failed.pk).update(error=5)
    Measurement.objects.filter(pk=excluded.pk).update(is_excluded=True)
    Measurement.objects.create(
        run=Run.objects.get(pk=last.run_id),
        series=series,
        ordinal=1,
        position=1,
        started_at=last.started_at + timedelta(minutes=1),
        iops=90.0,
    )

    assert medians(read_line())[-3:] == [None, None, 0.9]


def test_runs_during_maintenance_do_not_count() -> None:
    plant([100.0] * 3, host="db-1")
    calculate_levels()
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter="host:db-1",
        from_at=NOON - DAY - timedelta(hours=1),
        to_at=NOON - DAY + timedelta(hours=1),
        reason="firmware",
    )

    assert medians(read_line())[-3:] == [1.0, 1.0, 1.0]


def test_last_value_counts_until_the_next_run() -> None:
    host = make_host("weekly")
    make_series(
        [100.0, 100.0, 80.0],
        host=host,
        workload=make_workload(rw="randread"),
        start_at=NOON - 20 * DAY,
        step=7 * DAY,
    )
    plant([100.0] * 30)
    calculate_levels()

    line = read_line()

    assert [day.n for day in line.days[-25:] if day] == [1] * 4 + [2] * 21
    assert [day.p10 for day in line.days[-7:] if day] == [pytest.approx(0.82)] * 7


def test_value_of_a_stale_series_ends() -> None:
    plant([100.0] * 3, end=NOON - 20 * DAY)
    plant([100.0] * 30)
    calculate_levels()

    assert [day.n for day in read_line().days[-23:] if day] == [2] * 17 + [1] * 6


def test_patterns_are_apart_and_others_are_left_out() -> None:
    for rw in ("write", "read", "randrw"):
        plant([100.0] * 3, rw=rw)
    calculate_levels()

    assert [line.pattern for line in read_fleet_days(DayRange(NOON, DAYS)).patterns] == ["read", "write"]


def test_no_more_series_are_read_than_the_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "SERIES_MAXIMUM", 2)
    for _ in range(4):
        plant([100.0])
    calculate_levels()

    line = read_line()

    assert (line.series, line.is_sample) == (2, True)


def test_series_outside_of_the_candidates_make_it_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(4):
        plant([100.0])
    calculate_levels()
    assert not read_line().is_sample

    monkeypatch.setattr(fleet, "_CANDIDATES", 3)

    assert read_line().is_sample


@pytest.mark.usefixtures("web_cache")
def test_days_are_not_read_again_for_a_minute() -> None:
    for _ in range(3):
        plant([100.0] * 5)
    calculate_levels()
    with CaptureQueriesContext(connection) as first:
        read_fleet_days(DayRange(NOON, DAYS))

    with CaptureQueriesContext(connection) as second:
        read_fleet_days(DayRange(NOON, DAYS))

    # The newest audit records.
    assert (len(first), len(second)) == (5, 1)


def test_new_run_changes_the_chart() -> None:
    series = plant([100.0] * 5)
    calculate_levels()
    read_fleet_days(DayRange(NOON, DAYS))
    Measurement.objects.filter(series=series, started_at=NOON).update(iops=50.0)
    Series.objects.filter(pk=series.pk).update(judging_is_due=True)

    assert medians(read_line())[-1] == 0.5


def test_stale_series_and_an_empty_fleet_have_no_days() -> None:
    assert read_fleet_days(DayRange(NOON, DAYS)).patterns == ()

    plant([100.0] * 5, end=NOON - DAYS * DAY)
    calculate_levels()

    assert read_fleet_days(DayRange(NOON, DAYS)).patterns == ()


def test_days_of_a_series_are_read_by_its_index() -> None:
    """However often a series is measured: the plan has an index scan per day, and no scan of the table."""
    series = plant([100.0] * 3)
    statement = fleet._LAST_OF_DAYS.as_string(None)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {statement}", [[series.pk], DAYS, NOON, NOON])
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "measurement_by_series" in plan
    assert "Seq Scan" not in plan


def test_days_of_an_earlier_period_are_relative_to_its_first_day() -> None:
    plant([200.0] * 50 + [100.0] * 30 + [50.0] * 30)
    plant([7.0] * 5, host="late")
    calculate_levels()

    fleet = read_fleet_days(DayRange(NOON - 30 * DAY, 20, is_open=False))

    (line,) = fleet.patterns
    assert (fleet.range.first, fleet.range.last) == ((NOON - 49 * DAY).date(), (NOON - 30 * DAY).date())
    assert [day and day.n for day in line.days] == [1] * 20
    assert read_fleet_days(DayRange(NOON - 300 * DAY, 20, is_open=False)).patterns == ()
