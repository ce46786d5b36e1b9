"""How a run went within itself, as rows."""

import csv
import io

import pytest

from benchapp.models import Run, Trace
from tests.factories import make_run
from tests.framework.api.test_openapi import find_differences, refer

pytestmark = pytest.mark.django_db


def make_trace(run: Run, kind: str = "iops", direction: str = "read") -> Trace:
    buckets = {
        "at_s": [1.0, 2.0],
        "mean": [33415.5, 0.0],
        "minimum": [None, None],
        "maximum": [None, None],
        "count": [4, 0],
    }
    return Trace.objects.create(
        run=run, kind=kind, direction=direction, jobs=4, entries=4, bucket_s=1.0, buckets=buckets
    )


def test_traces_are_described_and_their_points_are_flat(reader):
    run = make_run()
    make_trace(run)

    body = reader.get(f"/api/v1/runs/{run.id}/traces").json()

    assert body["run"] == run.id
    assert body["traces"] == [
        {
            "kind": "iops",
            "direction": "read",
            "unit": "operations/s",
            "jobs": 4,
            "entries": 4,
            "bucket_s": 1.0,
        }
    ]
    assert body["points"][0] == {
        "kind": "iops",
        "direction": "read",
        "unit": "operations/s",
        "at_s": 1.0,
        "mean": 33415.5,
        "minimum": None,
        "maximum": None,
        "count": 4,
    }
    assert (len(body["points"]), body["next"]) == (2, None)


def test_traces_have_exactly_the_members_of_their_description(reader):
    run = make_run()
    make_trace(run)

    body = reader.get(f"/api/v1/runs/{run.id}/traces").json()

    assert find_differences(body, refer("TracePage")) == []


def test_csv_has_a_row_for_each_moment(reader):
    run = make_run()
    make_trace(run)

    response = reader.get(f"/api/v1/runs/{run.id}/traces?format=csv")

    first, second = csv.DictReader(io.StringIO(response.content.decode()))
    assert (first["at_s"], first["mean"], first["minimum"], first["count"]) == ("1", "33415.5", "", "4")
    assert (second["mean"], second["count"]) == ("0", "0")
    assert f'filename="run-{run.id}-traces.csv"' in response.headers["Content-Disposition"]


def test_rates_come_before_latencies_and_reads_before_writes(reader):
    run = make_run()
    for kind, direction in (("lat", "read"), ("bw", "read"), ("iops", "write"), ("iops", "read")):
        make_trace(run, kind, direction)

    traces = reader.get(f"/api/v1/runs/{run.id}/traces").json()["traces"]

    assert [(trace["kind"], trace["direction"], trace["unit"]) for trace in traces] == [
        ("iops", "read", "operations/s"),
        ("iops", "write", "operations/s"),
        ("bw", "read", "bytes/s"),
        ("lat", "read", "ns"),
    ]


def test_kind_and_direction_can_be_chosen(reader):
    run = make_run()
    for kind, direction in (("lat", "read"), ("iops", "write"), ("iops", "read")):
        make_trace(run, kind, direction)

    body = reader.get(f"/api/v1/runs/{run.id}/traces?kind=iops&direction=write").json()

    assert {(point["kind"], point["direction"]) for point in body["points"]} == {("iops", "write")}


def test_run_without_logs_has_no_traces(reader):
    run = make_run()

    assert reader.get(f"/api/v1/runs/{run.id}/traces").json()["traces"] == []


def test_kind_that_is_none_is_refused_with_the_valid_ones(reader):
    response = reader.get(f"/api/v1/runs/{make_run().id}/traces?kind=hist")

    assert (response.status_code, response.json()["pointer"]) == (400, "kind")
