"""`manage.py export` and `manage.py import_archive`: another instance shows the same, and nothing is there twice."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pyarrow.parquet
import pytest
import zstandard
from django.core.management import CommandError
from django.db import connection
from django.utils import timezone

from benchapp.accounts.write.accounts import delete_account
from benchapp.incidents.actions.triage import comment, merge
from benchapp.incidents.actions.undo import undo
from benchapp.intake.normalize.batch import IMPORT_LOCK
from benchapp.judge import Judged, redetect, select_series
from benchapp.models import (
    Change,
    DetectionPolicy,
    Host,
    Incident,
    IncidentEvent,
    Level,
    Measurement,
    NewestValues,
    Notice,
    PlannedEvent,
    Role,
    Run,
    Series,
    Study,
    Submission,
    User,
)
from benchapp.operation.archive import loading
from benchapp.operation.archive.container import ArchiveReader, ArchiveWriter, check_archive
from benchapp.operation.archive.tables import TABLES, count_rows
from benchapp.series.write import exclude_run
from tests.browser.world import HOSTILE, make_world
from tests.factories import (
    NOON,
    add_series,
    calculate_levels,
    make_detection_policy,
    make_host,
    make_incident,
    make_measurement,
    make_planned_event,
    make_run,
    make_series,
    make_user,
)
from tests.operation.archive.instances import (
    export,
    import_archive,
    read_answers,
    read_bodies,
    read_ids,
    restart_ids,
    start_other_instance,
)

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def database_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql:///the-tests-own")


@pytest.fixture(autouse=True)
def ids_of_other_tests(transactional_db: None) -> Iterator[None]:
    yield
    restart_ids()


def make_source() -> IncidentEvent:
    """Make a world with triage; return the event of a merge."""
    make_world()
    Host.objects.filter(name=HOSTILE).update(name="db-00")
    Series.objects.filter(scope=f"host:{HOSTILE}").update(scope="host:db-00")
    ada = User.objects.get(username="ada")
    exclude_run(Run.objects.order_by("pk")[3].pk, ada, reason="power test")
    incident = Incident.objects.get(title__startswith="db-09")
    other = Incident.objects.get(title__startswith="db-10")
    comment(incident.pk, by=ada, text="see incident 12, a ticket of ours")
    event = merge(other.pk, into=incident.pk, by=ada)
    calculate_levels()
    first, second = Series.objects.filter(measurement_count__gt=5).order_by("pk")[:2]
    run = Run.objects.order_by("pk")[0]
    Study.objects.create(
        title="Two series",
        panels=[
            {
                "kind": "history",
                "query": f"series={first.pk},{second.pk}&metric=iops",
                "title": "",
                "text": "",
            },
            {
                "kind": "compare",
                "query": f"a_run={run.pk}&b_series={first.pk}&q=host%3Adb-01",
                "title": "",
                "text": "",
            },
        ],
    )
    return event


def test_other_instance_answers_the_same_and_imports_nothing_twice(tmp_path: Path) -> None:
    event = make_source()
    archive = tmp_path / "history.tar.zst"
    export(archive)
    # Shared links are secrets of their instance.
    Study.objects.update(share_token=None)
    expected, bodies, before = read_answers(), read_bodies(), read_ids()

    start_other_instance()
    printed = import_archive(archive)

    after = read_ids()
    assert {name: len(ids) for name, ids in after.items()} == {name: len(ids) for name, ids in before.items()}
    back = {new: old for name in before for new, old in zip(after[name], before[name], strict=True)}
    found = read_answers(back)
    assert found.keys() == expected.keys()
    assert {path: answer for path, answer in found.items() if answer != expected[path]} == {}
    assert read_bodies() == bodies
    content = unpack(archive)
    assert b"see incident 12, a ticket of ours" in content
    for secret in ("s" * 43, User.objects.get(username="ada").password, "lists.example.org"):
        assert secret.encode() not in content
    assert f"measurements: {len(before['measurements'])} new\n" in printed
    # Shared links, subscriptions and notices are not part of archives.
    assert not Study.objects.exclude(share_token=None).exists()
    assert not Notice.objects.exists()

    assert "measurements: 0 new" in import_archive(archive)
    assert read_ids() == after
    # References inside events are to this instance.
    merged = next(new for new, old in back.items() if old == event.pk and new in after["incident_events"])
    undo(merged, by=None)
    assert Incident.objects.get(title__startswith="db-10").merged_into is None


def test_overlapping_archives_give_the_history_of_both(tmp_path: Path) -> None:
    make_source()
    # As the import does, for what the factories have not detected.
    list(redetect(select_series(), is_dry_run=False))
    early, late, everything = (tmp_path / f"{name}.tar.zst" for name in ("early", "late", "everything"))
    middle = timezone.now() - timedelta(days=15)
    series = Series.objects.get(scope="host:db-01", rw="randread", measurement_count=30)
    key, expected = bytes(series.key), read_levels()
    export(everything)
    export(early, to=(middle + timedelta(days=5)).isoformat())
    export(late, filter="host:db-01,db-09", **{"from": middle.isoformat()})
    start_other_instance()

    import_archive(early)
    assert Series.objects.get(key=key).measurement_count == 21
    # Of a part: no submissions without runs, all studies, events and policies of exported series.
    assert not Submission.objects.exclude(state="stored").exists()
    assert Study.objects.count() == 2
    assert set(PlannedEvent.objects.values_list("kind", flat=True)) == {"note"}
    assert not DetectionPolicy.objects.exists()
    checked = import_archive(late, check=True)
    assert "selection: host:db-01,db-09, " in checked
    assert "incidents: 2\n" in checked
    printed = import_archive(late)
    assert "series evaluated again: " in printed
    series = Series.objects.get(key=key)
    assert series.measurement_count == 30 == Measurement.objects.filter(series=series).count()
    assert not Series.objects.filter(judging_is_due=True).exists()
    import_archive(everything)

    assert PlannedEvent.objects.count() == 4
    assert set(Submission.objects.values_list("state", flat=True)) == {"received", "rejected", "stored"}
    assert read_levels() == expected
    assert Host.objects.get(name="db-01").run_count == Run.objects.filter(host__name="db-01").count()
    assert Submission.objects.count() == Submission.objects.values("id").distinct().count()
    live = Change.objects.exclude(state="withdrawn").values_list("series_id", "metric", "started_at")
    assert len(live) == len(set(live))
    assert Incident.objects.values("title").distinct().count() == Incident.objects.count()
    assert Study.objects.count() == 2
    for incident in Incident.objects.filter(merged_into=None).exclude(change_count=0):
        assert incident.change_count == incident.changes.exclude(state="withdrawn").count()


def test_exports_for_analysis_have_the_rows_of_the_database(tmp_path: Path) -> None:
    run = make_run(make_host("db-01", pool="cache"), labels={"rack": "r1"})
    make_measurement(run, iops=1234.5, latency_bins=[40, 3, 5], badges=[{"code": "short"}])
    make_measurement(make_run(make_host("db-02")), iops=99.0)
    Series.objects.filter(host__name="db-01").update(badges=["short"])
    Run.objects.filter(pk=run.pk).update(badges=["short"])
    database, directory = tmp_path / "history.sqlite", tmp_path / "history.parquet"

    printed = export(database)
    export(directory)
    export(tmp_path / "part.sqlite", filter="host:db-02")

    assert "2 measurements" in printed
    with closing(sqlite3.connect(database)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        query = (
            "SELECT iops, latency_bins, is_excluded, m.started_at, labels, r.badges, hex(body), value, s.id"
            " FROM measurements m JOIN runs r ON r.id = m.run_id JOIN submissions s ON s.id = r.submission_id"
            " JOIN export_format f ON f.name = 'format' WHERE iops > 1000"
        )
        body = bytes(run.submission.body).hex().upper()
        assert opened.execute(query).fetchall() == [
            (
                1234.5,
                "[40,3,5]",
                0,
                "2026-11-21 12:00:00+00:00",
                '{"rack": "r1"}',
                '["short"]',
                body,
                "1",
                str(run.submission_id),
            )
        ]
        assert dict(opened.execute("SELECT * FROM export_rows"))["measurements"] == 2
    with closing(sqlite3.connect(tmp_path / "part.sqlite")) as opened:
        assert opened.execute("SELECT name FROM hosts").fetchall() == [("db-02",)]
        assert opened.execute("SELECT iops FROM measurements").fetchall() == [(99.0,)]

    tables = {file.stem: pyarrow.parquet.read_table(file) for file in directory.glob("*.parquet")}
    assert tables.keys() == TABLES.keys()
    measured = tables["measurements"].to_pylist()
    assert [(row["iops"], row["latency_bins"], row["started_at"]) for row in measured] == [
        (1234.5, [40, 3, 5], run.started_at),
        (99.0, None, run.started_at),
    ]
    assert tables["runs"].to_pylist()[0]["badges"] == ["short"]
    assert {row["body"] for row in tables["submissions"].to_pylist()} == {bytes(run.submission.body)}
    manifest = json.loads((directory / "manifest.json").read_bytes())
    assert {one["name"]: one["rows"] for one in manifest["members"]}["measurements.parquet"] == 2
    with pytest.raises(CommandError, match="nonsense"):
        export(tmp_path / "wrong.sqlite", filter="nonsense:1")
    with pytest.raises(CommandError, match="exists; remove it first"):
        export(directory)
    with pytest.raises(CommandError, match="not compressed with zstd"):
        import_archive(database)
    with pytest.raises(CommandError, match=r"must end in \.tar\.zst, \.sqlite, \.parquet"):
        export(tmp_path / "history.zip")


def test_archive_is_one_snapshot_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_measurement(make_run(make_host("db-01")), iops=1000.0)

    def change_meanwhile(conditions: dict[str, str]) -> int:
        with ThreadPoolExecutor() as pool:
            pool.submit(add_run_elsewhere).result()
        return count_rows(conditions)

    monkeypatch.setattr("benchapp.operation.archive.export.count_rows", change_meanwhile)
    export(tmp_path / "history.tar.zst")
    assert Host.objects.count() == 2
    start_other_instance()
    import_archive(tmp_path / "history.tar.zst")

    assert list(Host.objects.values_list("name", "run_count")) == [("db-01", 1)]
    assert Run.objects.count() == Measurement.objects.count() == 1


def add_run_elsewhere() -> None:
    """Store a run in a connection of its own."""
    try:
        make_measurement(make_run(make_host("db-02")), iops=1.0)
    finally:
        connection.close()


def unpack(archive: Path) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(archive.read_bytes()).read()


def read_levels() -> dict[tuple[str, str, str], tuple[float, int]]:
    """Return median and count of each level by the key of its series, metric and start."""
    rows = Level.objects.values_list("series__key", "metric", "from_at", "median", "n")
    return {
        (bytes(key).hex(), metric, from_at.isoformat()): (median, n)
        for key, metric, from_at, median, n in rows
    }


def test_contradicting_rows_are_named_and_nothing_is_stored(tmp_path: Path) -> None:
    run = make_run(make_host("db-01"))
    make_measurement(run, iops=1200.0)
    event = {"kind": "commented", "before": {"changes": [123]}}
    IncidentEvent.objects.create(incident=make_incident(), at=NOON, **event)
    archive = tmp_path / "history.tar.zst"
    export(archive)
    start_other_instance()

    for table, old, new, reason in (
        ("runs", f"{run.pk},".encode(), b"x,", r"runs/000001\.csv: invalid input syntax .*line 2"),
        ("runs", b"\n", b",more\n", r"runs/000001\.csv: "),
        ("hosts", b"id,name", b"id,color", "unknown column 'color'"),
        ("hosts", b"id,name", b"id,id", "column id occurs twice"),
        ("incident_events", b"[123]", b'[123, ""x""]', "earlier values of row .*: 'x' is not an id"),
        ("incident_events", b"[123]", b"1e400", "earlier values of row "),
        ("hosts", b"db-01", b"../etc", "'../etc' is not a valid host name"),
        (
            "submissions",
            str(run.submission_id).encode(),
            b"7" * 8 + b"-0000-4000-8000-000000000000",
            "contradict",
        ),
    ):
        bad = rewrite_member(archive, table, (old, new))
        with pytest.raises(CommandError, match=reason):
            import_archive(bad)
        assert not Submission.objects.exists()
        assert not Host.objects.exists()
    # Columns that were added later have their defaults.
    older = rewrite_member(
        archive, "measurements", (b",is_excluded,latency_bins\n", b"\n"), (b",f,\n", b"\n")
    )
    import_archive(older)
    assert Measurement.objects.get().is_excluded is False
    Submission.objects.update(digest=b"other")
    with pytest.raises(CommandError, match=f"{run.submission_id} is stored here with another body"):
        import_archive(archive)


def test_newest_values_of_an_older_archive_are_those_of_its_levels(tmp_path: Path) -> None:
    make_series([1000.0])
    calculate_levels()
    NewestValues.objects.all().delete()
    export(tmp_path / "history.tar.zst")
    start_other_instance()

    import_archive(
        rewrite_member(
            tmp_path / "history.tar.zst",
            "levels",
            (b",latency_kind\n", b",latency_kind,recent\n"),
            (b',t,""\n', b',t,"","{7,8}"\n'),
        )
    )

    assert list(NewestValues.objects.values_list("metric", "to_at", "recent")) == [("iops", NOON, [7.0, 8.0])]


def test_row_stored_during_the_import_is_named_and_the_import_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_measurement(make_run(make_host("db-02")), iops=1200.0)
    archive = tmp_path / "history.tar.zst"
    export(archive)
    start_other_instance()
    map_measured = loading.map_measured

    def store_meanwhile() -> None:
        map_measured()
        with ThreadPoolExecutor() as pool:
            pool.submit(add_run_elsewhere).result()

    with monkeypatch.context() as patched:
        patched.setattr(loading, "map_measured", store_meanwhile)
        with pytest.raises(
            CommandError, match=r"stored here meanwhile .*host.*run the command again"
        ) as raised:
            import_archive(archive)
    assert "contradict" not in str(raised.value)
    assert Run.objects.count() == 1

    import_archive(archive)
    assert Host.objects.get().name == "db-02"
    assert Run.objects.count() == 2


def test_names_of_deleted_accounts_are_not_those_of_others(tmp_path: Path) -> None:
    make_user(Role.ADMIN)
    ada, bob = make_user(username="ada"), make_user(username="bob")
    for by, reason in ((bob, "power test"), (ada, "fan test")):
        run = make_run(make_host())
        make_measurement(run, iops=1000.0)
        exclude_run(run.pk, by, reason=reason)
    name = delete_account(bob)
    export(tmp_path / "history.tar.zst")
    start_other_instance()
    # An archive of an earlier version, that has the name; here it is that of another person.
    earlier = rewrite_member(tmp_path / "history.tar.zst", "authors", (b"ada", name.encode()))

    assert "authors: ada\n" in import_archive(tmp_path / "history.tar.zst", check=True)
    assert f"have no author: {name}" in import_archive(earlier)
    assert set(Run.objects.exclude(excluded_at=None).values_list("excluded_reason", "excluded_by")) == {
        ("power test", None),
        ("fan test", None),
    }
    with pytest.raises(CommandError, match="column username is missing"):
        import_archive(
            rewrite_member(tmp_path / "history.tar.zst", "authors", (b"username", b"name")), check=True
        )


def rewrite_member(archive: Path, table: str, *changes: tuple[bytes, bytes]) -> Path:
    """Return an archive with other content in one table, and a manifest that fits; changes: old and new bytes."""
    path = archive.with_name("rewritten.tar.zst")
    with archive.open("rb") as source, path.open("wb") as target:
        checked = check_archive(source)
        rows = {member.name: member.rows for member in checked.manifest.members}
        writer = ArchiveWriter(target, checked.format)
        with ArchiveReader(source) as reader:
            for member in reader.read_members():
                if member.name.endswith(".csv"):
                    content = member.read()
                    for old, new in changes if member.name == f"{table}/000001.csv" else ():
                        assert old in content
                        content = content.replace(old, new)
                    writer.write_part(member.name.partition("/")[0], content, rows=rows[member.name])
        writer.close()
    return path


def test_import_adds_to_hosts_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "history.tar.zst"
    run = make_run(make_host("db-01", pool="cache"), started_at=NOON)
    make_measurement(run, iops=1000.0)
    exclude_run(run.pk, make_user(username="eve"), reason="power test")
    window = {"from_at": NOON, "to_at": NOON + timedelta(hours=10)}
    event = make_planned_event(filter="host:db-01 bs:4k", **window)
    make_detection_policy(filter="host:db-01", smallest_change=0.2)
    export(archive)
    start_other_instance()
    User.objects.filter(username="eve").delete()
    own = add_series([1000.0 + place for place in range(20)], host=make_host("db-01"), start_at=NOON)
    assert Level.objects.get().n == 20

    assert "authors: eve\n" in import_archive(archive, check=True)
    monkeypatch.setattr("benchapp.operation.archive.loading.redetect", redetect_while_workers_wait)
    printed = import_archive(archive)

    assert "hosts: 0 new, 1 present\n" in printed
    assert "no account here, so their actions have no author: eve" in printed
    host = Host.objects.get()
    # The pool of the host here stays; the series of the other pool is imported.
    assert (host.pool, host.run_count, Run.objects.filter(host=host).count()) == ("", 21, 21)
    assert set(Series.objects.values_list("scope", flat=True)) == {"host:db-01", "pool:cache"}
    excluded = Run.objects.exclude(excluded_at=None).get()
    assert (excluded.excluded_reason, excluded.excluded_by) == ("power test", None)
    # The imported maintenance covers the first ten runs that were here.
    assert PlannedEvent.objects.get().uid == event.uid
    assert Level.objects.get(series=own).n == 10
    assert DetectionPolicy.objects.get().smallest_change == 0.2
    assert not Notice.objects.exists()


def redetect_while_workers_wait(ids: list[int], *, is_dry_run: bool) -> Iterator[Judged]:
    """Evaluate series as the import does; a worker would claim nothing meanwhile."""
    parameters = connection.get_connection_params() | {"cursor_factory": psycopg.Cursor}
    with psycopg.connect(**parameters) as worker:
        row = worker.execute("SELECT pg_try_advisory_xact_lock_shared(%s)", [IMPORT_LOCK]).fetchone()
    assert row == (False,)
    return redetect(ids, is_dry_run=is_dry_run)


def test_killed_commands_leave_neither_a_file_nor_rows(tmp_path: Path) -> None:
    make_measurement(make_run(make_host("db-01")), iops=1000.0)
    archive, killed = tmp_path / "history.tar.zst", tmp_path / "killed.tar.zst"
    export(archive)

    assert (
        run_until_killed("benchapp.operation.archive.export.ArchiveWriter.close", "export", killed)
        == -signal.SIGKILL
    )
    assert not killed.exists()
    start_other_instance()
    assert (
        run_until_killed("benchapp.operation.archive.loading.redetect", "import_archive", archive)
        == -signal.SIGKILL
    )
    assert not Submission.objects.exists()
    import_archive(archive)
    assert Measurement.objects.count() == 1


def run_until_killed(place: str, command: str, file: Path) -> int:
    """Run a command in a process that kills itself where it would call a function; return its status."""
    settings = connection.settings_dict
    url = (
        f"postgresql:///{settings['NAME']}?{urlencode({'host': settings['HOST'], 'user': settings['USER']})}"
    )
    program = (
        "import os, signal, django; django.setup()\n"
        "from unittest.mock import patch\n"
        "from django.core.management import call_command\n"
        f"with patch({place!r}, lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)):\n"
        f"    call_command({command!r}, {str(file)!r})\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"DATABASE_URL": url}, check=False
    ).returncode
