"""Scaling by a condition of the runs, for programs."""

import csv
import io
from datetime import timedelta

import pytest

from benchapp.charts.read import scaling_conditions as module
from benchapp.models import Run
from tests.factories import NOON, add_measurements, make_host, make_runs, make_series

pytestmark = pytest.mark.django_db

FALLING = [(extents, 1e8 - 1e5 * extents) for extents in (1, 11, 21, 31, 41, 51, 61, 71, 101)]


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


def test_api_has_the_fit_and_the_csv_a_row_for_each_run_with_the_condition(reader) -> None:
    series = make_dependent_series([*FALLING, ("many", 1.0), (True, 1.0), (10**25, 1.0)])

    answer = reader.get("/api/v1/scaling?x=extents").json()
    text = reader.get("/api/v1/scaling?x=extents&format=csv").content.decode()

    (found,) = answer["dependences"]
    assert (found["n"], found["is_significant"], found["below_round_trip"]) == (9, True, None)
    assert (found["slope"], found["tau"]) == (pytest.approx(-1e5), -1)
    assert (answer["counts"]["shown"], answer["cells"][0]["series"]) == (1, [series.pk])
    lines = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(float(line["over"]), float(line["value"])) for line in lines] == FALLING
    assert reader.get("/api/v1/charts/scaling.png?x=extents").content.startswith(b"\x89PNG")


def test_image_has_the_limits_that_the_page_draws(reader) -> None:
    make_dependent_series(FALLING)

    drawn, plain = (
        reader.get(f"/api/v1/charts/scaling.svg?x=extents{limit}").content.decode()
        for limit in ("&limit=uplink:90MB/s", "")
    )

    assert ("uplink" in drawn, "uplink" in plain) == (True, False)


def test_latencies_below_the_round_trip_time_are_counted_and_older_runs_left_out(reader, monkeypatch) -> None:
    make_dependent_series(
        [(0.001, 5e5), *((0.001 * place, 3e6 * place) for place in range(1, 10)), (0.002, 1e6)],
        condition="storage_round_trip_s",
        metric="latency_mean_ns",
    )
    monkeypatch.setattr(module, "DEPENDENCE_POINTS_MAXIMUM", 10)

    answer = reader.get("/api/v1/scaling?x=storage_round_trip_s").json()

    (found,) = answer["dependences"]
    assert answer["metric"]["name"] == "latency_mean_ns"
    assert (found["n"], found["below_round_trip"], found["is_cut"]) == (10, 1, True)


def test_many_values_are_rounded_on_x_and_their_runs_are_not(reader) -> None:
    make_dependent_series([(1 + 7 * place, 1e8) for place in range(30)])

    answer = reader.get("/api/v1/scaling?x=extents").json()

    places = [cell["x"] for cell in answer["cells"]]
    assert places == ["0", "20", "40", "60", "80", "100", "120", "140", "160", "180", "200"]
    assert sum(len(cell["runs"]) for cell in answer["cells"]) == 30


def test_what_does_not_fit_single_runs_and_too_many_series_are_refused(reader, monkeypatch) -> None:
    for host in ("db-1", "db-2"):
        make_dependent_series(FALLING, host=host)
    for more in ("metric=iops,bw", "compare_days=7", "color=kernel", "metric=latency&over=iops"):
        assert reader.get(f"/api/v1/scaling?x=extents&{more}").status_code == 400
    monkeypatch.setattr(module, "SERIES_MAXIMUM", 1)
    refused = reader.get("/api/v1/scaling?x=extents")
    assert (refused.status_code, "Narrow the filter" in refused.json()["detail"]) == (400, True)
    assert reader.get("/api/v1/scaling?x=extents&q=host:db-1").status_code == 200


def test_runs_are_those_of_the_time_range_and_of_the_terms_for_runs(reader) -> None:
    make_dependent_series(FALLING)
    until = f"{NOON + timedelta(hours=8):%Y-%m-%dT%H:%M:%SZ}"

    answer = reader.get("/api/v1/scaling", {"x": "extents", "to": until}).json()
    none = reader.get("/api/v1/scaling", {"x": "extents", "q": "profile:other"}).json()

    assert [found["n"] for found in answer["dependences"]] == [8]
    assert none["dependences"] == []
