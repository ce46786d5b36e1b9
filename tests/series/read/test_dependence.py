"""A metric by a condition of the runs."""

from datetime import timedelta

import pytest

from benchapp.catalog.grammar import Filter, parse_filter
from benchapp.models import Run
from benchapp.series.read import dependence as module
from benchapp.series.read.dependence import BadDependence, read_dependence
from tests.factories import NOON, add_measurements, make_host, make_runs, make_series

pytestmark = pytest.mark.django_db


def make_dependent_series(points, *, condition="extents", metric="bandwidth_bytes_per_s", host="db-1"):
    """Make a series with a run for each (condition, value)."""
    owner = make_host(host)
    series = make_series(host=owner)
    runs = make_runs(
        owner, [NOON + timedelta(hours=place) for place in range(len(points))], target=series.target
    )
    for run, (value, _) in zip(runs, points, strict=True):
        run.command = {"conditions": {condition: value}}
    Run.objects.bulk_update(runs, ["command"])
    add_measurements(series, runs, [{metric: value} for _, value in points])
    return series


def test_slope_is_fitted_of_runs_that_have_the_condition():
    points = [(extents, 1e8 - 1e5 * extents) for extents in (1, 5, 9, 20, 40, 41, 80, 100, 120)]
    series = make_dependent_series([*points, ("many", 1.0), (True, 1.0), (10**25, 1.0)])

    (row,) = read_dependence(Filter(), metric="bandwidth_bytes_per_s", condition="extents")

    assert (row.series_id, row.x.tolist()) == (series.pk, [float(extents) for extents, _ in points])
    assert (row.fit.slope, row.fit.tau) == (pytest.approx(-1e5), -1)
    assert row.title.endswith("db-1")
    assert (row.below_round_trip, row.is_cut) == (None, False)


def test_latencies_below_the_round_trip_time_are_counted_and_the_oldest_runs_left_out(monkeypatch):
    make_dependent_series(
        [(0.001, 5e5), *((0.001 * place, 3e6 * place) for place in range(1, 10)), (0.002, 1e6)],
        condition="storage_round_trip_s",
        metric="latency_mean_ns",
    )
    monkeypatch.setattr(module, "DEPENDENCE_POINTS_MAXIMUM", 10)

    (row,) = read_dependence(Filter(), metric="latency_mean_ns", condition="storage_round_trip_s")

    assert (len(row.x), row.below_round_trip, row.is_cut) == (10, 1, True)


def test_too_many_series_are_refused(monkeypatch):
    for host in ("db-1", "db-2"):
        make_dependent_series([(1, 1.0)], host=host)
    monkeypatch.setattr(module, "DEPENDENCE_SERIES_MAXIMUM", 1)

    with pytest.raises(BadDependence, match="Narrow the filter"):
        read_dependence(Filter(), metric="iops", condition="extents")
    assert read_dependence(parse_filter("host:db-1"), metric="iops", condition="extents") == ()
