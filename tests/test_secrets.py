"""No secret is stored, whichever way a result comes in; stored ones are removed by a command, and from archives."""

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.db import connection

from benchapp.accounts.write.tokens import issue_token
from benchapp.intake.api import posts
from benchapp.intake.api.posts import Limits
from benchapp.intake.normalize.batch import normalize_batch
from benchapp.intake.normalize.reparse import renormalize, select_submissions
from benchapp.intake.posts.stored_secrets import CLEANERS
from benchapp.intake.posts.submissions import (
    AcceptOutcome,
    IncomingSubmission,
    accept_submission,
    unpack,
)
from benchapp.models import Host, Kind, Role, Run, Scope, Series, State, Submission, Target, Workload
from benchapp.operation.archive import export as export_module
from tests.envelopes import make_envelope, read_fio
from tests.factories import make_host, make_submission
from tests.intake.api.test_posts import post
from tests.intake.pages.test_upload_files import post as upload
from tests.operation.archive.instances import export, import_archive, start_other_instance
from tests.visitors import sign_in

SECRET = "SE/CRET+1=2"


def make_output(**options: str) -> str:
    """Return fio's JSON of a job with these options, and an error message of fio before it."""
    output = read_fio("07_json.out")
    report = json.loads(output[output.index("{") :])
    report["jobs"][0]["job options"] |= options
    return f"fio: refused {SECRET}\n{json.dumps(report)}"


OUTPUT = make_output(http_s3_key=SECRET, uri=f"https://me:{SECRET}@host/b", smb_pass=SECRET)


def make_secret_envelope(**changes: Any) -> dict[str, Any]:
    return make_envelope(
        fio_output=OUTPUT,
        command={
            "argv": ["fio", f"--http_s3_key={SECRET}", "--http_pass", SECRET, "s3.fio"],
            "exit_status": 0,
            "signal": None,
            "stderr": f"fio: cannot sign with {SECRET}\n",
            "jobfile": f"; AWS_SECRET_ACCESS_KEY={SECRET}\n[a]\nhttp_s3_key={SECRET}\nbs=4k\n",
        },
        target={"mount_options": f"rw,password={SECRET},vers=3"},
        labels={"s3_token": SECRET},
        environment={"facts": {"mount": "//me:SE%2FCRET+1=2@host/share"}},
        **changes,
    )


def find_secrets() -> list[str]:
    """Return the tables of the database that have the secret, in any column or body."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename LIKE 'benchapp_%'"
        )
        tables = [name for (name,) in cursor.fetchall()]
        found = []
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM {table} AS own WHERE own::text LIKE '%%CRET+1%%'")
            found += [table] * bool(cursor.fetchone()[0])
    bodies = [unpack(bytes(body)) for body in Submission.objects.values_list("body", flat=True) if body]
    return [*found, *["body" for body in bodies if b"CRET+1" in body]]


@pytest.fixture(autouse=True)
def fresh_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posts, "_LIMITS", Limits())


@pytest.fixture
def token() -> str:
    return issue_token(scope=Scope.INGEST, host=Host.objects.create(name="db-1"))[1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("path", "body", "query"),
    [
        ("/api/v1/submissions", json.dumps(make_secret_envelope()), ""),
        ("/api/v1/submissions/batch", json.dumps(make_secret_envelope()), ""),
        ("/api/v1/fio", OUTPUT, {"label.api_token": SECRET, "mount_options": f"rw,password={SECRET}"}),
    ],
)
def test_posted_secrets_are_not_stored(token: str, path: str, body: str, query: Any) -> None:
    first = post(body.encode(), token, path, query=query)
    again = post(body.encode(), token, path, query=query, is_packed=True)
    normalize_batch()

    assert (first.status, again.status) in ((202, 200), (200, 200))
    assert (Submission.objects.count(), Submission.objects.get().state) == (1, State.STORED)
    assert find_secrets() == []
    assert b"(removed)" in unpack(bytes(Submission.objects.get().body))
    assert Run.objects.get().measurements.filter(iops__gt=0).exists()


@pytest.mark.django_db
def test_body_that_differs_only_in_its_secret_is_a_conflict() -> None:
    host = make_host()
    envelope = make_secret_envelope()
    bodies = [json.dumps(envelope).encode(), json.dumps(envelope).replace("SE/CRET", "OTHER1").encode()]
    first, other = (IncomingSubmission(host.pk, Kind.ENVELOPE, body, UUID(envelope["id"])) for body in bodies)

    outcomes = [accept_submission(each).outcome for each in (first, first, other)]

    assert outcomes == [AcceptOutcome.NEW, AcceptOutcome.REPLAYED, AcceptOutcome.CONFLICT]


@pytest.mark.django_db
def test_secret_is_no_part_of_the_series() -> None:
    host = make_host()
    for options in ({"smb_pass": "one-secret"}, {"smb_pass": "another1"}, {}):
        accept_submission(IncomingSubmission(host.pk, Kind.FIO, make_output(**options).encode()))
    normalize_batch()

    assert list(Series.objects.values_list("measurement_count", flat=True)) == [3] * Series.objects.count()


@pytest.mark.django_db(transaction=True)
def test_imported_files_have_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "db-1").mkdir()
    (tmp_path / "db-1" / "s3.json").write_text(OUTPUT)
    make_host("db-1")

    call_command("import", str(tmp_path / "db-1"), host="db-1", stdout=io.StringIO(), stderr=io.StringIO())

    assert Run.objects.count() == 1
    assert find_secrets() == []


@pytest.mark.django_db
def test_uploaded_files_have_no_secrets() -> None:
    make_host("db-1")
    upload(sign_in(Role.EDITOR), {"s3.json": OUTPUT.encode()}, host="db-1")
    normalize_batch()

    assert Submission.objects.count() == 1
    assert find_secrets() == []


def store_with_secrets(monkeypatch: pytest.MonkeyPatch, *, count: int = 2) -> Host:
    """Store results as a version without the removal did."""
    host = make_host("db-1")
    with monkeypatch.context() as patch:
        patch.setattr("benchapp.fio.workload.is_secret_name", lambda name: False)
        patch.setattr("benchapp.fio.workload.remove_secrets", lambda text: text)
        for _ in range(count):
            envelope = make_secret_envelope()
            body = json.dumps(envelope).encode()
            make_submission(host, id=envelope["id"], kind="envelope", body=body, state=State.RECEIVED)
        normalize_batch()
    assert len(find_secrets()) >= 6
    return host


@pytest.mark.django_db
def test_command_removes_stored_secrets_and_keeps_series_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    host = store_with_secrets(monkeypatch)
    series = sorted(Series.objects.values_list("pk", "measurement_count"))
    digests = sorted(bytes(digest) for digest in Submission.objects.values_list("digest", flat=True))
    before = find_secrets()

    out = io.StringIO()
    call_command("redact_secrets", dry_run=True, stdout=out)
    assert (find_secrets(), out.getvalue().splitlines()[:2]) == (before, ["submissions: 2", "runs: 2"])
    out = io.StringIO()
    call_command("redact_secrets", stdout=out)

    assert find_secrets() == []
    assert "removed from " in out.getvalue() and "apart" not in out.getvalue()
    assert sorted(Series.objects.values_list("pk", "measurement_count")) == series
    assert sorted(bytes(digest) for digest in Submission.objects.values_list("digest", flat=True)) == digests
    # What is parsed again, and the next run, is in the same series.
    assert sum(outcome.unchanged for outcome in renormalize(select_submissions(), is_dry_run=False)) == 2
    envelope = make_secret_envelope()
    accept_submission(
        IncomingSubmission(host.pk, Kind.ENVELOPE, json.dumps(envelope).encode(), UUID(envelope["id"]))
    )
    normalize_batch()
    assert sorted(Series.objects.values_list("pk", "measurement_count")) == [(pk, n + 1) for pk, n in series]
    assert (Workload.objects.count(), Target.objects.count()) == (1, 1)
    out = io.StringIO()
    call_command("redact_secrets", stdout=out)
    assert "removed from 0 rows" in out.getvalue()


@pytest.mark.django_db
def test_series_beside_an_equal_one_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    host = store_with_secrets(monkeypatch, count=1)
    envelope = make_secret_envelope()
    accept_submission(
        IncomingSubmission(host.pk, Kind.ENVELOPE, json.dumps(envelope).encode(), UUID(envelope["id"]))
    )
    normalize_batch()
    assert Series.objects.count() == 2

    out = io.StringIO()
    call_command("redact_secrets", stdout=out)

    assert "series beside an equal one without the secret: 1" in out.getvalue()
    assert (Series.objects.count(), find_secrets()) == (2, [])


@pytest.mark.django_db(transaction=True)
def test_export_has_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store_with_secrets(monkeypatch)

    export(tmp_path / "a.tar.zst")
    start_other_instance()
    monkeypatch.setattr("benchapp.operation.archive.loading.clean_rows", lambda tables: None)
    import_archive(tmp_path / "a.tar.zst")

    assert Run.objects.count() == 2
    assert find_secrets() == []


@pytest.mark.django_db(transaction=True)
def test_exported_analysis_files_have_no_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store_with_secrets(monkeypatch)

    export(tmp_path / "a.sqlite")

    with closing(sqlite3.connect(tmp_path / "a.sqlite")) as database:
        rows = [row for name in CLEANERS for row in database.execute(f"SELECT * FROM {name}")]
    bodies = [unpack(value) for row in rows for value in row if isinstance(value, bytes) and len(value) > 32]
    assert (len(bodies), "CRET+1" in str(rows), any(b"CRET+1" in body for body in bodies)) == (
        2,
        False,
        False,
    )


@pytest.mark.django_db(transaction=True)
def test_archive_of_before_is_imported_without_its_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host = store_with_secrets(monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(export_module, "clean_values", lambda name, values: {})
        export(tmp_path / "a.tar.zst")
    start_other_instance()

    import_archive(tmp_path / "a.tar.zst")

    assert Run.objects.count() == 2
    assert find_secrets() == []
    envelope = make_secret_envelope()
    host = Host.objects.get(name=host.name)
    accept_submission(
        IncomingSubmission(host.pk, Kind.ENVELOPE, json.dumps(envelope).encode(), UUID(envelope["id"]))
    )
    normalize_batch()
    assert list(Series.objects.values_list("measurement_count", flat=True)) == [3]
