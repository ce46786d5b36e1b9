"""Which runs failed: of what the sender reports and fio printed, and of stored rows."""

import json
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from benchapp.fio import read_output
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.sender_context import find_failure
from benchapp.intake.posts.submissions import IncomingSubmission, accept_submission
from benchapp.judge import judge_due
from benchapp.models import Kind, Level, Measurement, Run, Series
from tests.envelopes import pack_envelope, read_fio
from tests.factories import make_host, make_measurement, make_run, make_series

migration = import_module("benchapp.migrations.0059_failed_runs_are_no_measurements")
OUTPUT = read_fio("07_json.out")
KILLED = {"exit_status": None, "signal": 9, "stderr": ""}


def find(output: str, command: dict[str, Any]) -> str:
    failure = find_failure(read_output(output.encode()), 0, command)
    return failure.reason if failure else ""


@pytest.mark.parametrize(
    ("output", "command", "reason"),
    [
        (OUTPUT, {}, ""),
        (OUTPUT, {"exit_status": 0, "signal": None, "stderr": "fio: a note\n", "failure": ""}, ""),
        (
            OUTPUT,
            {"exit_status": 0, "failure": "fio reported no result of job b"},
            "fio reported no result of job b",
        ),
        (OUTPUT, {"exit_status": 128}, "fio exited with status 128"),
        (OUTPUT, KILLED, "fio was killed by signal 9"),
        (
            OUTPUT,
            {"exit_status": 0, "stderr": "x\nbench-agent: stopped after the time limit of 5 s\n"},
            "fio was stopped after the time limit of 5 s",
        ),
        (
            OUTPUT,
            {"exit_status": 0, "stderr": "fio: pid=71, got signal=9\n"},
            "fio or one of its jobs was stopped by signal 9",
        ),
        (f"fio: terminating on signal 2\n{OUTPUT}", {}, "fio or one of its jobs was stopped by signal 2"),
        (OUTPUT.rstrip()[:-40], {}, "the report of fio is incomplete"),
    ],
)
def test_reason_of_a_failure_is_known(output: str, command: dict[str, Any], reason: str) -> None:
    assert find(output, command) == reason


def test_report_whose_values_contradict_each_other_is_no_failure_of_the_run() -> None:
    report = json.loads(OUTPUT[OUTPUT.index("{") :])
    report["jobs"][0]["read"]["runtime"] = 60_000

    (document,) = read_output(json.dumps(report).encode()).documents

    assert (document.is_partial, find(json.dumps(report), {})) == (True, "")


def test_signal_that_only_the_output_reports_is_of_its_last_report() -> None:
    first = json.loads(OUTPUT[OUTPUT.index("{") :])
    second = {**first, "timestamp": first["timestamp"] + 600, "timestamp_ms": first["timestamp_ms"] + 600_000}
    report = read_output(f"{json.dumps(first)}\nfio: terminating on signal 2\n{json.dumps(second)}".encode())

    assert [bool(find_failure(report, number, {})) for number in (0, 1)] == [False, True]
    assert [bool(find_failure(report, number, KILLED)) for number in (0, 1)] == [True, True]


def mark_stored() -> None:
    with connection.schema_editor(atomic=False) as editor:
        # The column that series had when this migration was made.
        editor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        editor.execute(
            "ALTER TABLE benchapp_series ADD COLUMN IF NOT EXISTS judging_resumes boolean NOT NULL DEFAULT FALSE"
        )
        migration.mark_failures(None, editor)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": {"exit_status": 2, "signal": None, "stderr": ""}}, "fio exited with status 2"),
        ({"command": KILLED}, "fio was killed by signal 9"),
        ({"is_partial": True}, "the report of fio is incomplete"),
        (
            {"command": {"exit_status": 0, "stderr": "a\nfio: pid=4, got signal=11\nb\n"}},
            "fio or one of its jobs was stopped by signal 11",
        ),
        (
            {"command": {"exit_status": 0, "stderr": "bench-agent: stopped after the time limit of 5 s\n"}},
            "fio was stopped after the time limit of 5 s",
        ),
    ],
)
def test_stored_runs_that_failed_are_marked(fields: dict[str, Any], reason: str) -> None:
    make_measurement(make_run(badges=["too-short"], **fields), badges=[{"code": "too-short"}])

    mark_stored()
    mark_stored()

    run, measurement = Run.objects.get(), Measurement.objects.get()
    assert (run.error, run.command["failure"], run.badges) == (-1, reason, ["failed-job", "too-short"])
    assert (measurement.error, [badge["code"] for badge in measurement.badges]) == (
        -1,
        ["failed-job", "too-short"],
    )
    assert reason in measurement.badges[0]["sentence"]
    assert Series.objects.get().badges == ["failed-job", "too-short"]


@pytest.mark.django_db
def test_jobs_beside_one_that_failed_are_marked_and_valid_runs_are_not() -> None:
    failed = make_run(error=28, command={})
    make_measurement(failed, error=28, badges=[{"code": "failed-job"}])
    beside = make_measurement(failed)
    valid = make_measurement(make_run(command={"exit_status": 0, "signal": None, "stderr": "a note"}))

    mark_stored()

    beside.refresh_from_db()
    valid.refresh_from_db()
    assert (beside.error, valid.error, valid.badges) == (28, 0, [])
    assert Measurement.objects.exclude(error=0).count() == 2


@pytest.mark.django_db
def test_failed_runs_are_in_no_level() -> None:
    series = make_series([1000.0 + number % 3 for number in range(20)])
    killed = Run.objects.filter(measurements__series=series).order_by("-started_at")[:4]
    for run in killed:
        run.command = KILLED
        run.save(update_fields=["command"])
    judge_due()
    assert Level.objects.get(series=series, metric="iops").n == 20

    mark_stored()
    assert Series.objects.get().judging_is_due
    judge_due()

    assert Level.objects.get(series=series, metric="iops").n == 16


@pytest.mark.django_db
def test_error_of_one_job_fails_all_measurements_of_the_run() -> None:
    report = json.loads(OUTPUT[OUTPUT.index("{") :])
    second = {**report["jobs"][0], "jobname": "second", "groupid": 1, "error": 5}
    body = pack_envelope(fio_output=json.dumps({**report, "jobs": [*report["jobs"], second]}))

    accept_submission(IncomingSubmission(make_host().pk, Kind.ENVELOPE, body, UUID(json.loads(body)["id"])))
    normalize_batch()

    assert Run.objects.get().command["failure"] == "fio reported error 5 (Input/output error) of job second"
    assert set(Measurement.objects.values_list("error", flat=True)) == {5}
    sentences = [
        badge["sentence"] for row in Measurement.objects.order_by("position") for badge in row.badges[:1]
    ]
    assert sentences[0].startswith("The run failed: fio reported error 5 (Input/output error) of job second.")
    assert sentences[-1].startswith("fio ended the job with error 5 (Input/output error).")
