"""How each number of a run was computed, as a document."""

import json

import pytest

from benchapp.fio import PARSER_VERSION
from benchapp.intake.normalize import parsing_process
from benchapp.intake.provenance import report as explain_module
from benchapp.models import Kind
from tests.envelopes import make_envelope, read_fio
from tests.factories import make_host, make_measurement, make_run, make_submission
from tests.framework.api.test_openapi import find_differences, refer
from tests.intake.normalize.test_parsing_process import spin

pytestmark = pytest.mark.django_db

BODY = read_fio("07_json.out").encode()
BADGE = {"code": "too-short", "sentence": "It ran 2 s.", "numbers": {"runtime_s": 2.0}}


def make_read_run(body: bytes | None = BODY, kind: Kind = Kind.FIO, **fields):
    host = make_host()
    return make_run(host, submission=make_submission(host, body=body, kind=kind), **fields)


def test_report_tells_what_was_read_and_by_whom(reader):
    run = make_read_run()

    body = reader.get(f"/api/v1/runs/{run.id}/report").json()

    assert (body["run"], body["format"], body["fio_version"]) == (run.id, "json", "fio-3.33")
    assert (body["stored_parser_version"], body["parser_version"]) == (1, PARSER_VERSION)
    assert (body["documents"], body["document"]) == (1, 0)
    assert body["submission"]["url"] == f"/api/v1/submissions/{run.submission_id}"


def test_value_has_its_unit_and_its_way(reader):
    run = make_read_run()

    (measurement,) = reader.get(f"/api/v1/runs/{run.id}/report").json()["measurements"]

    (iops,) = (value for value in measurement["values"] if value["name"] == "iops")
    printed = json.loads(BODY)["jobs"][0]
    assert (iops["value"], iops["unit"], iops["how"]) == (
        printed["read"]["iops"],
        "operations/s",
        "as printed by fio",
    )
    assert (iops["code"], iops["reason"]) == (None, None)
    assert measurement["percentiles"]["how"] == "as printed by fio for one job"
    assert {"percent": 99.0, "ns": printed["read"]["clat_ns"]["percentile"]["99.000000"]} in measurement[
        "percentiles"
    ]["values"]


def test_absent_value_has_code_and_sentence(reader):
    run = make_read_run(read_fio("11_numjobs4_json.out").encode())

    (measurement,) = reader.get(f"/api/v1/runs/{run.id}/report").json()["measurements"]

    (p99,) = (value for value in measurement["values"] if value["name"] == "latency_p99_ns")
    assert (p99["value"], p99["code"]) == (None, "clones-without-bins")
    assert p99["reason"].startswith("several concurrent jobs")


def test_badges_are_those_that_are_stored(reader):
    run = make_read_run()
    printed_name = json.loads(BODY)["jobs"][0]["jobname"]
    stored = make_measurement(run, job_name=printed_name, badges=[BADGE])

    (measurement,) = reader.get(f"/api/v1/runs/{run.id}/report").json()["measurements"]

    assert (measurement["measurement_id"], measurement["badges"]) == (stored.id, [BADGE])


def test_measurement_that_an_older_parser_stored_otherwise_lends_no_badges(reader):
    run = make_read_run()
    make_measurement(run, job_name="another", badges=[BADGE])

    (measurement,) = reader.get(f"/api/v1/runs/{run.id}/report").json()["measurements"]

    assert (measurement["measurement_id"], measurement["badges"]) == (None, [])


def test_output_inside_an_envelope_is_read(reader):
    envelope = make_envelope(fio_output="note: two jobs\n" + read_fio("16_randrw7030_json.out"))
    run = make_read_run(json.dumps(envelope).encode(), Kind.ENVELOPE)

    body = reader.get(f"/api/v1/runs/{run.id}/report").json()

    assert [each["direction"] for each in body["measurements"]] == ["read", "write", "mixed"]
    assert body["messages"] == ["note: two jobs"]


def test_output_past_its_retention_is_gone(reader):
    run = make_read_run(None)

    response = reader.get(f"/api/v1/runs/{run.id}/report")

    assert (response.status_code, response.headers["Content-Type"]) == (410, "application/problem+json")
    assert response.json()["code"] == "output-expired"
    assert response.json()["detail"] == f"run {run.id}: raw output removed after the retention period"


def test_output_that_cannot_be_read_any_more_is_told(reader):
    run = make_read_run(b"nothing of fio")

    response = reader.get(f"/api/v1/runs/{run.id}/report")

    assert (response.status_code, response.json()["code"]) == (409, "report-unreadable")


def make_jobs(count: int) -> bytes:
    """Return a report of so many jobs, each with its own name."""
    report = json.loads(BODY)
    (job,) = report["jobs"]
    report["jobs"] = [{**job, "jobname": f"job-{number}"} for number in range(count)]
    return json.dumps(report).encode()


def test_report_is_told_piece_by_piece(reader):
    run = make_read_run(make_jobs(5))
    address = f"/api/v1/runs/{run.id}/report?limit=2"
    names = []

    while address:
        response = reader.get(address)
        body = response.json()
        names.append([each["job_name"] for each in body["measurements"]])
        assert [job["name"] for job in body["jobs"]] == names[-1]
        assert (body["measurement_count"], "Link" in response.headers) == (5, body["next"] is not None)
        address = body["next"]

    assert names == [["job-0", "job-1"], ["job-2", "job-3"], ["job-4"]]


def test_only_what_is_asked_for_is_explained(monkeypatch):
    explained = []
    explain = explain_module.derive_values
    monkeypatch.setattr(
        explain_module,
        "derive_values",
        lambda *given, **more: explained.append(1) or explain(*given, **more),
    )

    report = explain_module.derive_body(make_jobs(300), 0, has_envelope=False, position=290)

    assert [each.position for each in report.measurements] == list(range(290, 300))
    assert (len(explained), report.next_position) == (10, None)


@pytest.mark.parametrize("query", ["limit=201", "limit=0", "position=-1", "position=x", "cursor=1"])
def test_piece_that_is_none_is_refused(query, reader):
    run = make_read_run()

    assert reader.get(f"/api/v1/runs/{run.id}/report?{query}").status_code == 400


def test_third_report_at_once_is_asked_to_come_back(reader):
    run = make_read_run()

    with explain_module._SLOTS, explain_module._SLOTS:
        response = reader.get(f"/api/v1/runs/{run.id}/report")

    assert (response.status_code, response.json()["code"]) == (503, "busy")
    assert response.headers["Retry-After"] == "15"
    assert reader.get(f"/api/v1/runs/{run.id}/report").status_code == 200


def test_output_that_takes_too_long_to_parse_is_a_conflict_and_its_values_remain(reader, monkeypatch):
    run = make_read_run()
    monkeypatch.setattr(parsing_process, "DOCUMENT_LIMIT_S", 0.2)
    monkeypatch.setattr(explain_module, "_unpack_and_derive", spin)

    response = reader.get(f"/api/v1/runs/{run.id}/report")

    assert (response.status_code, response.json()["code"]) == (409, "report-unreadable")
    assert response.json()["detail"] == "parsing took more than 0 s; the values of the run are still stored"
    assert reader.get(f"/api/v1/runs/{run.id}").status_code == 200


def test_large_output_is_not_read_again_for_strangers(client, reader, settings, monkeypatch):
    settings.PUBLIC_READ = True
    run = make_read_run()
    address = f"/api/v1/runs/{run.id}/report"
    assert client.get(address).status_code == 200
    monkeypatch.setattr("benchapp.intake.api.run_output.OPEN_BYTES_MAXIMUM", 100)

    response = client.get(address)

    assert (response.status_code, response.json()["code"]) == (401, "token-missing")
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert reader.get(address).status_code == 200


def test_report_that_is_known_is_not_read_again(reader, monkeypatch):
    run = make_read_run()
    etag = reader.get(f"/api/v1/runs/{run.id}/report").headers["ETag"]
    monkeypatch.setattr("benchapp.intake.api.run_output.derive_packed", None)

    response = reader.get(f"/api/v1/runs/{run.id}/report", headers={"If-None-Match": etag})

    assert (response.status_code, response.content) == (304, b"")


def test_report_is_another_for_another_parser_and_for_other_badges(reader, monkeypatch):
    run = make_read_run()
    address = f"/api/v1/runs/{run.id}/report"
    etags = [reader.get(address).headers["ETag"]]

    make_measurement(run, badges=[BADGE])
    etags.append(reader.get(address).headers["ETag"])
    monkeypatch.setattr("benchapp.intake.api.run_output.PARSER_VERSION", PARSER_VERSION + 1)
    etags.append(reader.get(address).headers["ETag"])

    assert len(set(etags)) == 3


@pytest.mark.parametrize(
    "name", ["01_normal.out", "02_terse_v3.out", "62_client_two_json.out", "70_steadystate_attained_json.out"]
)
def test_report_has_exactly_the_members_of_its_description(name, reader):
    run = make_read_run(read_fio(name).encode())

    body = reader.get(f"/api/v1/runs/{run.id}/report").json()

    assert len(body["measurements"]) > 0
    assert find_differences(body, refer("RunReportAnswer")) == []
