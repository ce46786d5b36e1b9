from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from benchapp.catalog.metrics import CATALOG
from benchapp.models import Measurement
from benchapp.series.read.points import (
    UnknownMetric,
    read_points,
    read_rolling,
    summarize_series,
)
from tests.factories import NOON, make_host, make_measurement, make_points, make_run, make_series

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


def values(page):
    return [point.values for point in page.items]


def test_points_come_in_the_order_of_time_with_the_metrics_asked_for(django_assert_num_queries):
    series = make_series([10.0, 20.0, 30.0])

    with django_assert_num_queries(1):
        page = read_points(series.id, metrics=["latency_p99_ns", "iops"])

    assert values(page) == [(None, 10.0), (None, 20.0), (None, 30.0)]
    assert [point.started_at for point in page.items] == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    assert page.next_cursor is None


def test_time_of_a_point_is_exact_to_the_microsecond():
    moment = NOON.replace(microsecond=123457)
    series = make_series([1.0], start_at=moment)

    assert read_points(series.id, metrics=["iops"]).items[0].started_at == moment


def test_newest_points_come_first_when_asked():
    series = make_series([10.0, 20.0, 30.0])

    page = read_points(series.id, metrics=["iops"], limit=2, newest_first=True)
    rest = read_points(series.id, metrics=["iops"], limit=2, newest_first=True, after=page.next_cursor)

    assert values(page) == [(30.0,), (20.0,)]
    assert values(rest) == [(10.0,)]


def test_span_is_inclusive_at_its_start_and_exclusive_at_its_end():
    series = make_series([10.0, 20.0, 30.0])

    page = read_points(series.id, metrics=["iops"], from_at=NOON + HOUR, to_at=NOON + 2 * HOUR)

    assert values(page) == [(20.0,)]


def test_failed_point_is_listed_with_its_error():
    series = make_series([10.0])
    make_measurement(make_run(series.host, started_at=NOON + HOUR), series, error=5)

    page = read_points(series.id, metrics=tuple(CATALOG))

    assert [(point.error, point.values[0]) for point in page.items] == [(0, 10.0), (5, None)]


def test_excluded_point_is_listed_as_such_and_enters_no_level():
    series = make_series([10.0, 20.0, 30.0])
    make_measurement(make_run(series.host, started_at=NOON + 3 * HOUR), series, iops=9000.0, is_excluded=True)
    make_measurement(make_run(series.host, started_at=NOON + 4 * HOUR), series, iops=40.0)

    points = read_points(series.id, metrics=["iops"]).items
    newest = read_rolling(series.id, points[-1:], metrics=["iops"])

    assert [point.is_excluded for point in points] == [False, False, False, True, False]
    assert [level[0].median for level in read_rolling(series.id, points, metrics=["iops"])][2:] == [
        20.0,
        20.0,
        25.0,
    ]
    assert newest[0][0].median == 25.0
    assert summarize_series(series.id, metric="iops")["maximum"] == 40.0


@pytest.mark.parametrize("metric", ["nonsense", "run_id", "iops; DROP TABLE x", ""])
def test_unknown_metric_is_refused_with_the_list(metric):
    with pytest.raises(UnknownMetric, match="Available: iops"):
        read_points(1, metrics=[metric])
    with pytest.raises(UnknownMetric):
        summarize_series(1, metric=metric)


def test_summary_is_postgresql_s_and_leaves_out_what_failed(django_assert_num_queries):
    series = make_series([10.0, 20.0, 30.0, None])
    make_measurement(make_run(series.host, started_at=NOON - HOUR), series, iops=9999.0, error=5)

    with django_assert_num_queries(2):
        summary = summarize_series(series.id, metric="iops")

    assert summary == {
        "n": 3,
        "median": 20.0,
        "p10": 12.0,
        "p90": 28.0,
        "minimum": 10.0,
        "maximum": 30.0,
        "last": 30.0,
    }


def test_summary_of_a_span():
    series = make_series([10.0, 20.0, 30.0])

    summary = summarize_series(series.id, metric="iops", from_at=NOON, to_at=NOON + HOUR)

    assert summary == {
        "n": 1,
        **dict.fromkeys(("median", "p10", "p90", "minimum", "maximum", "last"), 10.0),
    }


def test_summary_of_nothing_is_empty():
    series = make_series([None])

    assert summarize_series(series.id, metric="iops") == dict.fromkeys(
        ("median", "p10", "p90", "minimum", "maximum", "last")
    ) | {"n": 0}


@pytest.mark.parametrize("newest_first", [False, True])
def test_level_of_a_page_reaches_back_over_the_points_before_it(newest_first):
    series = make_series([10.0, 20.0, 30.0, 40.0])
    points = read_points(
        series.id, metrics=["iops"], from_at=NOON + 2 * HOUR, newest_first=newest_first
    ).items

    levels = read_rolling(series.id, points, metrics=["iops"], window=3)

    medians = [level.median for (level,) in levels]
    assert medians == ([30.0, 20.0] if newest_first else [20.0, 30.0])


def test_level_leaves_out_what_failed():
    series = make_series([10.0, 20.0, 30.0])
    make_measurement(make_run(series.host, started_at=NOON + 3 * HOUR), series, iops=9999.0, error=5)
    points = read_points(series.id, metrics=["iops"]).items

    levels = read_rolling(series.id, points, metrics=["iops"], window=3)

    assert [level.median for (level,) in levels] == [None, None, 20.0, 20.0]


def test_level_of_no_points_is_none():
    assert read_rolling(1, [], metrics=["iops"]) == []


class TestPages(TestCase):
    """Pages over times that collide: drawn from four seconds only."""

    @settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(
        seconds=st.lists(st.integers(0, 3), max_size=12),
        limit=st.integers(1, 5),
        newest_first=st.booleans(),
    )
    def test_pages_over_equal_times_show_every_point_once(self, seconds, limit, newest_first):
        host = make_host()
        series, run = make_series(host=host), make_run(host)
        if seconds:
            make_points(series, run, [NOON + timedelta(seconds=second) for second in seconds], iops=1.0)

        seen, after = [], None
        while True:
            page = read_points(
                series.id, metrics=["iops"], limit=limit, after=after, newest_first=newest_first
            )
            seen += [point.id for point in page.items]
            after = page.next_cursor
            if after is None:
                break

        rows = Measurement.objects.filter(series=series).order_by("started_at", "id")
        expected = list(rows.values_list("id", flat=True))
        assert seen == (expected[::-1] if newest_first else expected)
