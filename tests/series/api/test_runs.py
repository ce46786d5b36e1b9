import gzip
import json
from datetime import timedelta

import pytest

from benchapp.models import Kind
from tests.ebs import make_level
from tests.factories import (
    NOON,
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_submission,
    make_target,
)

pytestmark = pytest.mark.django_db

ENVELOPE = json.dumps({"schema": "benchapp-envelope/1", "fio_output": "note: x\n{}"}).encode()


def test_runs_are_flat_rows_with_their_measurements(reader):
    host = make_host("db-7", pool="db")
    run = make_run(host, target=make_target(filesystem="xfs", volume_count=4))
    make_measurement(run, make_series(host=host, target=run.target), iops=33415.1)

    (row,) = reader.get("/api/v1/runs").json()["runs"]

    assert (row["id"], row["host"], row["pool"], row["filesystem"], row["volume_count"]) == (
        run.id,
        "db-7",
        "db",
        "xfs",
        4,
    )
    assert row["started_at"] == "2026-11-21T12:00:00Z"
    assert row["measurements"][0]["iops"] == 33415.1
    assert (row["url"], row["page"]) == (f"/api/v1/runs/{run.id}", f"/runs/{run.id}/")


def test_list_of_runs_takes_six_queries_however_many_there_are(reader, django_assert_num_queries):
    for _ in range(5):
        make_measurement(make_run())

    # The token, its last use, ids, runs, the first measurements of each, their numbers.
    with django_assert_num_queries(6):
        reader.get("/api/v1/runs")


def test_pages_of_runs_follow_each_other_also_over_equal_times(reader):
    host = make_host()
    ids = [make_run(host).id for _ in range(5)]

    seen, url = [], "/api/v1/runs?limit=2"
    while url:
        body = reader.get(url).json()
        seen += [run["id"] for run in body["runs"]]
        url = body["next"]

    assert seen == sorted(ids, reverse=True)


def test_runs_are_filtered_and_sorted(reader):
    host = make_host("a")
    first, second = make_run(host), make_run(host, started_at=NOON + timedelta(hours=1))
    make_run(make_host("b"))

    body = reader.get("/api/v1/runs?host=a&sort=started_at&fields=id").json()

    assert body["runs"] == [{"id": first.id}, {"id": second.id}]


def test_one_run_with_everything(reader):
    run = make_run(labels={"rack": "<b>r1</b>"}, error=5)
    make_measurement(
        run, percentiles={"99": 8.5, "50": 2.0}, missing={"latency": "not-measured"}, runtime_s=19.9
    )

    body = reader.get(f"/api/v1/runs/{run.id}").json()

    assert (body["id"], body["error"], body["has_failed"]) == (run.id, 5, True)
    assert body["labels"] == {"rack": "<b>r1</b>"}
    assert body["environment"]["kernel"] == "6.1.0"
    assert body["submission"]["url"] == f"/api/v1/submissions/{run.submission_id}"
    (measurement,) = body["measurements"]
    assert measurement["percentiles"] == [{"percent": 50.0, "ns": 2.0}, {"percent": 99.0, "ns": 8.5}]
    assert (measurement["measured_s"], measurement["runtime_s"]) == (19.9, None)
    assert measurement["missing"] == {"latency": "not-measured"}


def test_values_are_compared_with_the_levels_that_began_before_the_run(reader, django_assert_max_num_queries):
    run = make_run()
    measurement = make_measurement(run, iops=980.0, latency_p99_ns=9e6, bandwidth_bytes_per_s=4e6)
    series = measurement.series
    before = {"from_at": NOON - timedelta(days=9), "n": 23}
    make_level(series, "iops", 500.0, from_at=NOON - timedelta(days=20), is_current=False)
    make_level(series, "iops", 1000.0, p10=970.0, p90=1030.0, is_current=False, **before)
    make_level(series, "iops", 700.0, from_at=run.started_at)
    make_level(series, "latency_p99_ns", 6e6, p10=5e6, p90=8e6, **before)
    make_level(series, "bandwidth_bytes_per_s", 0.0, **before | {"n": 4})
    failed = make_measurement(run, make_series(host=run.host, direction="write"), iops=1.0, error=5)
    make_level(failed.series, "iops", 1000.0, **before)

    with django_assert_max_num_queries(7):  # the token, its last use, four of the run, the levels
        first, second = reader.get(f"/api/v1/runs/{run.id}").json()["measurements"]

    rows = {level.pop("metric"): level for level in first["levels"]}
    assert rows["iops"] == {
        "n": 23,
        "median": 1000.0,
        "p10": 970.0,
        "p90": 1030.0,
        "change": pytest.approx(-0.02),
        "is_usual": True,
    }
    assert (rows["latency_p99_ns"]["change"], rows["latency_p99_ns"]["is_usual"]) == (0.5, False)
    assert (rows["bandwidth_bytes_per_s"]["change"], rows["bandwidth_bytes_per_s"]["is_usual"]) == (
        None,
        None,
    )
    assert second["levels"] == []


def test_excluded_run_is_compared_with_no_level(reader):
    run = make_run(excluded_at=NOON)
    measurement = make_measurement(run, iops=980.0)
    make_level(measurement.series, "iops", 1000.0, from_at=NOON - timedelta(days=9))

    assert reader.get(f"/api/v1/runs/{run.id}").json()["measurements"][0]["levels"] == []


@pytest.mark.parametrize(
    ("kind", "body", "content_type", "suffix"),
    [(Kind.FIO, b"<html>", "text/plain", "txt"), (Kind.ENVELOPE, ENVELOPE, "application/json", "json")],
)
def test_output_is_the_exact_body_as_a_file(reader, kind, body, content_type, suffix):
    host = make_host("db-7")
    run = make_run(host, submission=make_submission(host, kind=kind, body=body))

    response = reader.get(f"/api/v1/runs/{run.id}/output")

    assert response.content == body
    assert response.headers["Content-Type"] == content_type
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    name = f"db-7-{run.submission_id}.{suffix}"
    assert response.headers["Content-Disposition"] == f'attachment; filename="{name}"'


def test_newest_output_is_that_of_the_newest_run_of_the_filter(reader):
    one, other = make_host("db-1"), make_host("db-2")
    for host, day, body in ((one, 1, b"old"), (one, 2, b"new"), (other, 3, b"other")):
        submission = make_submission(host, kind=Kind.FIO, body=body)
        make_run(host, submission=submission, started_at=NOON + timedelta(days=day))

    answers = [
        reader.get("/api/v1/runs/newest/output", query) for query in ({}, {"host": "db-1"}, {"host": "db-3"})
    ]

    assert [(answer.status_code, answer.content[:5]) for answer in answers[:2]] == [
        (200, b"other"),
        (200, b"new"),
    ]
    assert (answers[2].status_code, answers[2].json()["code"]) == (404, "not-found")


def test_output_is_handed_out_as_the_gzip_that_is_kept(reader):
    run = make_run()

    response = reader.get(f"/api/v1/runs/{run.id}/output", headers={"Accept-Encoding": "gzip"})

    assert response.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(response.content).startswith(b'{"fio version"')


@pytest.mark.parametrize(("kind", "body"), [(Kind.ENVELOPE, ENVELOPE), (Kind.FIO, b"note: x\n{}")])
def test_part_that_fio_printed_can_be_had_alone(reader, kind, body):
    host = make_host()
    run = make_run(host, submission=make_submission(host, kind=kind, body=body))

    response = reader.get(f"/api/v1/runs/{run.id}/output?part=fio")

    assert response.content == b"note: x\n{}"
    assert response.headers["Content-Type"] == "text/plain"


def test_output_that_is_known_is_not_sent_again(reader):
    run = make_run()
    etag = reader.get(f"/api/v1/runs/{run.id}/output").headers["ETag"]

    response = reader.get(f"/api/v1/runs/{run.id}/output", headers={"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")


def test_output_that_retention_removed_is_not_found(reader):
    run = make_run(submission=make_submission(body=None))

    response = reader.get(f"/api/v1/runs/{run.id}/output")

    assert response.status_code == 404
    assert "has expired" in response.json()["detail"]
