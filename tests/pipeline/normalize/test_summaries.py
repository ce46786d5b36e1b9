"""Summaries of series stay what a computation from scratch gives, whatever came late, went away or was excluded."""

import io
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.models import METRIC_FIELDS, Measurement, Series, SeriesSummary
from benchapp.pipeline.normalize.summaries import (
    WINDOW,
    has_due,
    mark_series,
    summarize_due,
    summarize_series,
)
from tests.factories import NOON, make_host, make_measurement, make_points, make_run, make_series

pytestmark = pytest.mark.django_db
FIELDS = (
    "n",
    "median",
    "p10",
    "p90",
    "minimum",
    "maximum",
    "last",
    "recent_median",
    "baseline_median",
    "recent",
    "first_at",
    "last_at",
)


def read_summary(series: Series, metric: str = "iops") -> dict[str, Any] | None:
    return SeriesSummary.objects.filter(series=series, metric=metric).values(*FIELDS).first()


def interpolate(values: Sequence[float], share: float) -> float:
    """The share between ranks, as a textbook says it."""
    ordered = sorted(values)
    rank = share * (len(ordered) - 1)
    low, high = ordered[math.floor(rank)], ordered[math.ceil(rank)]
    return low + (rank - math.floor(rank)) * (high - low)


def compute_from_scratch(series: Series) -> dict[str, dict[str, Any]]:
    """What the summaries must say, in the plainest way."""
    rows = sorted(Measurement.objects.filter(series=series), key=lambda row: (row.started_at, row.pk))
    valid = [row for row in rows if row.error == 0 and not row.is_excluded][-WINDOW:]
    expected = {}
    for metric in METRIC_FIELDS:
        points = [(row.started_at, getattr(row, metric)) for row in valid if getattr(row, metric) is not None]
        if points:
            expected[metric] = describe(points)
    return expected


def describe(points: Sequence[tuple[datetime, float]]) -> dict[str, Any]:
    values = [value for _, value in points]
    is_compared = len(values) >= 10
    return {
        "n": len(values),
        "median": interpolate(values, 0.5),
        "p10": interpolate(values, 0.1),
        "p90": interpolate(values, 0.9),
        "minimum": min(values),
        "maximum": max(values),
        "last": values[-1],
        "recent_median": interpolate(values[-5:], 0.5) if is_compared else None,
        "baseline_median": interpolate(values[:-5], 0.5) if is_compared else None,
        "recent": values[-20:],
        "first_at": points[0][0],
        "last_at": points[-1][0],
    }


def read_all(series: Series) -> dict[str, dict[str, Any]]:
    rows = SeriesSummary.objects.filter(series=series).values("metric", *FIELDS)
    return {row.pop("metric"): row for row in rows}


def test_series_is_summarised_over_its_values() -> None:
    series = make_series([100.0, 300.0, 200.0, 500.0, 400.0])

    done = summarize_due()

    assert done == 1
    assert read_summary(series) == {
        "n": 5,
        "median": 300.0,
        "p10": 140.0,
        "p90": 460.0,
        "minimum": 100.0,
        "maximum": 500.0,
        "last": 400.0,
        "recent_median": None,
        "baseline_median": None,
        "recent": [100.0, 300.0, 200.0, 500.0, 400.0],
        "first_at": NOON,
        "last_at": NOON + timedelta(hours=4),
    }


def test_newest_five_of_ten_stand_against_those_before() -> None:
    series = make_series([10.0, 20.0, 30.0, 40.0, 50.0, 1.0, 2.0, 3.0, 4.0, 5.0])

    summarize_due()

    summary = read_summary(series)
    assert summary
    assert (summary["recent_median"], summary["baseline_median"]) == (3.0, 30.0)


def test_only_the_newest_hundred_count() -> None:
    series, run = make_series(), make_run()
    times = [NOON + timedelta(hours=hour) for hour in range(WINDOW + 3)]
    make_points(series, run, times, iops=lambda index: float(index))

    summarize_due()

    summary = read_summary(series)
    assert summary
    assert (summary["n"], summary["minimum"], summary["maximum"]) == (100, 3.0, 102.0)
    assert (summary["first_at"], summary["recent"]) == (times[3], [float(value) for value in range(83, 103)])


def test_failed_excluded_and_unknown_values_count_in_nothing() -> None:
    series = make_series([100.0, 200.0, None])
    host = make_host()
    make_measurement(make_run(host, started_at=NOON + timedelta(days=1)), series, iops=1.0, error=5)
    make_measurement(make_run(host, started_at=NOON + timedelta(days=2)), series, iops=2.0, is_excluded=True)

    summarize_due()

    summary = read_summary(series)
    assert summary
    assert (summary["n"], summary["last"], summary["last_at"]) == (2, 200.0, NOON + timedelta(hours=1))


def test_metric_that_lost_its_values_loses_its_summary() -> None:
    series = make_series([100.0])
    Measurement.objects.update(latency_p99_ns=7.0)
    summarize_due()
    Measurement.objects.update(iops=None)

    summarize_series([series.pk])

    assert list(read_all(series)) == ["latency_p99_ns"]


def test_series_without_any_valid_value_has_no_summary_and_is_not_due() -> None:
    series = make_series([None])

    assert (summarize_due(), summarize_due()) == (1, 0)
    assert read_all(series) == {}


def test_infinite_value_keeps_no_series_from_its_summary() -> None:
    series = make_series([math.inf, 5.0])

    summarize_due()

    assert read_all(series)["iops"]["n"] == 1


def test_few_are_taken_at_a_time_and_six_queries_do_them() -> None:
    for value in (1.0, 2.0, 3.0):
        make_series([value])

    with CaptureQueriesContext(
        connection,
    ) as queries:
        first = summarize_due(limit=2)

    # Savepoint, claim, delete, upsert, unmark, release; the windows are read beside Django's cursor.
    assert (first, len(queries)) == (2, 6)
    assert (summarize_due(limit=2), has_due()) == (1, False)


def test_all_are_done_anew_by_the_command() -> None:
    series = make_series([1.0])
    summarize_due()
    SeriesSummary.objects.update(median=9.0)

    call_command("summarize", "--all", stdout=io.StringIO(), stderr=io.StringIO())

    assert read_all(series)["iops"]["median"] == 1.0


def test_marking_keeps_its_limit_whatever_the_plan() -> None:
    ids = sorted(make_series([1.0]).pk for _ in range(3))
    Series.objects.update(summary_is_due=False)
    with connection.cursor() as cursor:
        # What the planner may choose by itself for a table that it thinks is small.
        for method in ("hashjoin", "mergejoin", "hashagg", "sort", "material"):
            cursor.execute(f"SET LOCAL enable_{method} = off")

    assert mark_series(after=ids[0], limit=1) == ids[1]


def test_marking_goes_on_behind_the_last_one() -> None:
    ids = sorted(make_series([1.0]).pk for _ in range(3))
    Series.objects.update(summary_is_due=False)

    assert mark_series(after=ids[0], limit=1) == ids[1]
    assert mark_series(after=ids[1], limit=5) == ids[2]
    assert mark_series(after=ids[2], limit=5) == 0
