"""Files are prepared and stored in one step: with the same rows, and each once."""

from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, connection, transaction

from benchapp.models import Kind, Measurement, Run, Series, State, Submission
from benchapp.pipeline.importing import files
from benchapp.pipeline.importing.checking import ImportOptions
from benchapp.pipeline.importing.discovery import find_folders
from benchapp.pipeline.importing.files import ImportSummary, import_files
from benchapp.pipeline.intake.query_parameters import read_parameters
from benchapp.pipeline.intake.submissions import IncomingSubmission
from benchapp.pipeline.normalize import plan, prepared
from benchapp.pipeline.normalize.prepared import PreparedSubmission, ScopeChanged, store_prepared
from tests.envelopes import FIO, read_fio
from tests.factories import NOON, make_host

pytestmark = pytest.mark.django_db

LOG = "500, 8000, 0, 0\n1000, 8100, 0, 0\n"
PARAMETERS = [("volume_type", "gp3"), ("volume_count", "4"), ("label.rack", "r1")]
# A start that fio did not print is the time of receipt.
_KNOWN_START = "CASE WHEN run.started_at_is_known THEN {table}.started_at END"
_RUN_OF = "'submission', run.submission_id, 'document', run.document"
# All columns of all rows, without ids of rows and times of the server.
ROWS = {
    "submission": "SELECT to_jsonb(row) - array['received_at', 'settled_at', 'retry_at']"
    " FROM benchapp_submission AS row ORDER BY id",
    "run": "SELECT to_jsonb(run) - array['id', 'target_id', 'environment_id', 'started_at']"
    f" || jsonb_build_object('start', {_KNOWN_START.format(table='run')}, 'target', target.key, 'environment',"
    " environment.key) FROM benchapp_run AS run JOIN benchapp_target AS target ON target.id = target_id"
    " JOIN benchapp_environment AS environment ON environment.id = environment_id ORDER BY submission_id, document",
    "measurement": "SELECT to_jsonb(row) - array['id', 'run_id', 'series_id', 'started_at']"
    f" || jsonb_build_object({_RUN_OF}, 'start', {_KNOWN_START.format(table='row')}, 'series', series.key)"
    " FROM benchapp_measurement AS row JOIN benchapp_run AS run ON run.id = run_id"
    " JOIN benchapp_series AS series ON series.id = series_id ORDER BY submission_id, document, position",
    "trace": f"SELECT to_jsonb(row) - array['id', 'run_id'] || jsonb_build_object({_RUN_OF})"
    " FROM benchapp_trace AS row JOIN benchapp_run AS run ON run.id = run_id"
    " ORDER BY submission_id, document, kind, direction",
    "series": "SELECT to_jsonb(row) - array['id', 'target_id', 'workload_id', 'first_at', 'last_at', 'badges']"
    " FROM benchapp_series AS row ORDER BY key",
    **{
        name: f"SELECT to_jsonb(row) - 'id' FROM benchapp_{name} AS row ORDER BY key"
        for name in ("target", "environment", "workload")
    },
    "environments of series": "SELECT series.key, environment.key FROM benchapp_seriesenvironment AS row"
    " JOIN benchapp_series AS series ON series.id = series_id"
    " JOIN benchapp_environment AS environment ON environment.id = environment_id ORDER BY 1, 2",
    # Imports do not count as new series of a host.
    "host": "SELECT to_jsonb(row) - array['last_seen_at', 'new_series_on', 'new_series_count']"
    " FROM benchapp_host AS row",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "results"
    path.mkdir()
    return path


def put(folder: Path, *names: str, output: str = "07_json.out") -> None:
    """Write outputs that differ in the name of their job."""
    for name in names:
        (folder / name).write_text(read_fio(output).replace('"jobname" : "', f'"jobname" : "{name}-'))


def run_import(*places: Path, host_id: int | None = None) -> ImportSummary:
    options = ImportOptions(host_id or make_host().pk, read_parameters(PARAMETERS))
    *_, summary = import_files(find_folders(places), options)
    return summary


def read_rows() -> dict[str, list[Any]]:
    with connection.cursor() as cursor:
        found = {}
        for name, statement in ROWS.items():
            cursor.execute(statement)
            found[name] = cursor.fetchall()
        return found


def import_and_undo(*places: Path, host_id: int) -> tuple[ImportSummary, dict[str, list[Any]]]:
    with transaction.atomic():
        summary, rows = run_import(*places, host_id=host_id), read_rows()
        transaction.set_rollback(True)
    return summary, rows


def test_outputs_are_stored_as_workers_store_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = make_host()
    put(folder, "one.json", "two.json")
    (folder / "two_bw.1.log").write_text(LOG)
    places = [folder, FIO, *sorted((FIO.parent / "versions").iterdir())[::4]]
    summary, rows = import_and_undo(*places, host_id=host.pk)
    monkeypatch.setattr(files, "store_prepared", lambda submissions: set())

    by_workers, rows_by_workers = import_and_undo(*places, host_id=host.pk)

    assert summary == by_workers
    assert (summary.stored, summary.runs, len(rows["measurement"]), len(rows["trace"])) == (222, 222, 356, 1)
    for name, found in rows.items():
        assert found == rows_by_workers[name], name


def test_results_are_processed_one_by_one_where_the_database_refuses_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.json", "b.json")

    def refuse(submissions: object) -> set[Any]:
        raise DataError("value out of range")

    monkeypatch.setattr(files, "store_prepared", refuse)

    summary = run_import(folder)

    assert (summary.stored, summary.runs) == (2, 2)


def test_failure_leaves_neither_submissions_nor_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **more: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(prepared, "settle_requests", fail)

    with pytest.raises(RuntimeError):
        store_prepared([prepare(make_host("db-1").pk)])

    assert not Submission.objects.exists()
    assert not Run.objects.exists()
    assert not Measurement.objects.exists()


def prepare(host_id: int, *, scope: str = "host:db-1") -> PreparedSubmission:
    submission = IncomingSubmission(host_id, Kind.FIO, read_fio("07_json.out").encode())
    return prepared.prepare_submission(submission, scope=scope, received_at=NOON)


def test_host_that_got_a_pool_meanwhile_has_its_results_in_the_pool(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = make_host("db-1", pool="db")
    put(folder, "a.json")
    check = files.check_file
    monkeypatch.setattr(
        files, "check_file", lambda task, options, scope: check(task, options, scope="host:db-1")
    )

    with pytest.raises(ScopeChanged):
        store_prepared([prepare(host.pk)])
    summary = run_import(folder, host_id=host.pk)

    assert summary.stored == 1
    assert Submission.objects.get().scope == Series.objects.first().scope == "pool:db"  # type: ignore[union-attr]


def test_second_of_two_equal_files_is_there_already(folder: Path) -> None:
    put(folder, "a.json")
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())

    summary = run_import(folder)

    assert (summary.stored, summary.already_there) == (1, 1)


def test_equal_files_that_are_rejected_are_counted_each(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "a.json")
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())

    def crash(output: bytes, **_: object) -> None:
        raise RuntimeError("a bug\x00")

    monkeypatch.setattr(plan, "read_output", crash)

    summary = run_import(folder)

    row = Submission.objects.get()
    assert (row.state, row.reason_code, row.attempts) == (State.REJECTED, "reader-fault", 1)
    assert row.reason == "RuntimeError: a bug\ufffd"
    assert summary.rejected["reader-fault"].count == 2


def test_submission_that_waits_is_processed(folder: Path) -> None:
    host = make_host()
    put(folder, "a.json")
    options = ImportOptions(host.pk, read_parameters(PARAMETERS), is_queued=True)
    list(import_files(find_folders([folder]), options))

    summary = run_import(folder, host_id=host.pk)

    assert Submission.objects.get().state == State.STORED
    assert (summary.stored, summary.already_there) == (0, 1)
