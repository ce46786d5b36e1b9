"""Status and `manage.py doctor`: what they find when something is really wrong."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from benchapp.framework.readiness import FindingLevel, check_columns
from benchapp.management.commands import doctor
from benchapp.models import AuditKind, AuditRecord, Heartbeat, Pulse, Role, State
from benchapp.operation.embedded.child import stop
from benchapp.operation.embedded.servers import Valkey, find_bundled
from benchapp.overview.read.status import read_status, read_storage
from tests.factories import make_host, make_run, make_runs, make_series, make_submission
from tests.pages import Page
from tests.stack import ACCOUNT, RUNTIME, Server
from tests.visitors import sign_in

pytestmark = pytest.mark.django_db
Plant = Callable[[Any], None]
FAULTS: dict[tuple[str, str, FindingLevel], Plant] = {}


def plants(check: str, code: str, level: FindingLevel) -> Callable[[Plant], Plant]:
    """Register a function that makes a fault, with the finding that it causes. It gets the settings."""

    def register(plant: Plant) -> Plant:
        FAULTS[check, code, level] = plant
        return plant

    return register


@pytest.fixture(autouse=True)
def healthy(settings: Any, tmp_path: Path, valkey_server: Server) -> Iterator[None]:
    """Have an installation in which nothing is wrong."""
    settings.BROKER_URL = valkey_server.url
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]
    settings.DATA_DIR = tmp_path
    Heartbeat.objects.record(*Pulse)
    check_columns.cache_clear()
    yield
    check_columns.cache_clear()


def age(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def silence(pulse: Pulse) -> None:
    Heartbeat.objects.filter(name=pulse).update(seen_at=age(7200))


@plants("broker", "away", FindingLevel.WARNING)
def stop_broker(settings: Any) -> None:
    binary = find_bundled(ACCOUNT)
    assert binary is not None
    valkey = Valkey(binary=binary, socket_directory=RUNTIME / "d", log=RUNTIME / "d.log", account=ACCOUNT)
    settings.BROKER_URL = valkey.url
    process = valkey.start()
    assert read_status().level == FindingLevel.OK
    stop(process)


@plants("worker", "silent", FindingLevel.FAILURE)
def stop_worker(settings: Any) -> None:
    silence(Pulse.WORKER)


@plants("beat", "silent", FindingLevel.WARNING)
def stop_beat(settings: Any) -> None:
    silence(Pulse.BEAT)


@plants("database", "not-migrated", FindingLevel.FAILURE)
def take_back_a_migration(settings: Any) -> None:
    MigrationRecorder(connection).record_unapplied("benchapp", "0077_runs_are_deleted")


@plants("database", "columns-missing", FindingLevel.FAILURE)
def drop_a_column(settings: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE benchapp_submission DROP COLUMN scope CASCADE")
    # As a process that starts now.
    check_columns.cache_clear()


@plants("oldest-waiting", "late", FindingLevel.WARNING)
def leave_a_submission(settings: Any) -> None:
    make_submission(state=State.RECEIVED, received_at=age(720))


@plants("backlog", "long", FindingLevel.FAILURE)
def fill_the_backlog(settings: Any) -> None:
    settings.BACKLOG_LIMIT = 2
    for _ in range(2):
        make_submission(state=State.RECEIVED, received_at=age(1))


@plants("disk", "disk-low", FindingLevel.FAILURE)
def fill_the_disk(settings: Any) -> None:
    settings.DISK_RESERVE_BYTES = 2**60


@plants("growth", "disk-full-soon", FindingLevel.WARNING)
def grow_fast(settings: Any) -> None:
    make_submission(received_at=age(2 * 86_400))
    free = read_storage().free_bytes
    assert free is not None
    settings.DISK_RESERVE_BYTES = free - 10 * 2**20


@plants("silent-hosts", "hosts", FindingLevel.WARNING)
def silence_a_host(settings: Any) -> None:
    hourly = [{"profile": "quick", "every_s": 3600, "splay_s": 0, "directory": "/"}]
    make_host("db-1", schedule=hourly, schedule_since_at=age(30 * 86_400))


@plants("failing-hosts", "hosts", FindingLevel.WARNING)
def fail_on_a_host(settings: Any) -> None:
    host = make_host("db-1")
    for hours in range(1, 6):
        make_run(host, profile="quick", error=5, started_at=age(hours * 3600))


@plants("host-clocks", "hosts", FindingLevel.WARNING)
def set_a_clock_wrong(settings: Any) -> None:
    make_host("db-1", clock_offset_s=-7200)


@plants("backup", "old", FindingLevel.WARNING)
def forget_backups(settings: Any) -> None:
    AuditRecord.objects.create(at=age(8 * 86_400), kind=AuditKind.BACKUP, action="written")


@plants("queries", "slow", FindingLevel.WARNING)
def run_a_slow_query(settings: Any) -> None:
    # The bundled PostgreSQL has no extensions: a table with the columns of its view.
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE pg_stat_statements AS SELECT oid AS dbid, 'SELECT pg_sleep($1)' AS query,"
            " 40::bigint AS calls, 2000::float8 AS mean_exec_time FROM pg_database WHERE datname = current_database()"
        )


@plants("settings", "benchapp.E001", FindingLevel.FAILURE)
def use_the_default_secret(settings: Any) -> None:
    settings.SECRET_KEY = "insecure-key-for-commands-that-sign-nothing"


@plants("settings", "benchapp.E005", FindingLevel.FAILURE)
def debug(settings: Any) -> None:
    settings.DEBUG = True


@plants("settings", "benchapp.W005", FindingLevel.WARNING)
def allow_every_name(settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.PUBLIC_URL = ["*"], "https://bench.example.org"
    settings.TRUSTED_PROXIES = ["10.0.0.1"]


@plants("settings", "benchapp.W006", FindingLevel.WARNING)
def let_everybody_read(settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.PUBLIC_URL = ["bench.example.org"], "https://bench.example.org"
    settings.TRUSTED_PROXIES, settings.PUBLIC_READ = ["10.0.0.1"], True


@plants("settings", "benchapp.W007", FindingLevel.WARNING)
def serve_without_tls(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["bench.example.org"]


@pytest.mark.parametrize("fault", FAULTS, ids=" ".join)
def test_doctor_finds_each_fault_alone_with_its_remedy(
    fault: tuple[str, str, FindingLevel], settings: Any
) -> None:
    assert read_status().level == FindingLevel.OK

    FAULTS[fault](settings)

    status = read_status()
    found = [each for each in status.findings if each.level != FindingLevel.OK]
    assert [(each.check, each.code, each.level) for each in found] == [fault]
    assert found[0].remedy.endswith(".")
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=StringIO())
    assert ended.value.code == {FindingLevel.WARNING: 1, FindingLevel.FAILURE: 2}[fault[2]]


def test_doctor_that_fails_itself_reports_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "read_status", lambda: 1 / 0)

    with pytest.raises(SystemExit) as ended:
        call_command("doctor", stdout=StringIO())

    assert ended.value.code == 3


def test_doctor_lists_what_is_well() -> None:
    written = StringIO()

    call_command("doctor", stdout=written)

    lines = written.getvalue().splitlines()
    assert lines[0] == "ok: all checks passed"
    assert "ok       broker: The broker takes messages." in lines
    assert any(line.startswith("ok       versions: benchapp ") for line in lines)


def test_page_api_and_command_report_the_same(settings: Any) -> None:
    silence_a_host(settings)
    make_run(make_host("db-2"), started_at=age(2 * 86_400))
    written = StringIO()

    with pytest.raises(SystemExit):
        call_command("doctor", "--json", stdout=written)

    admin, host = sign_in(Role.ADMIN), {"host": "127.0.0.1"}
    printed, answer = json.loads(written.getvalue()), admin.get("/api/v1/status", headers=host).json()
    words = Page(admin.get("/status/", headers=host)).words
    assert printed["level"] == answer["level"] == "warning"
    # The session of the admin has made the database larger.
    for status in (printed, answer):
        status["findings"] = [each for each in status["findings"] if each["check"] != "growth"]
    assert printed["findings"] == answer["findings"]
    assert printed["per_hour"] == answer["per_hour"]
    assert "Status: 1 warning" in words
    assert "1 silent host: db-1." in words
    assert [tier["name"] for tier in answer["storage"]["tiers"]][:2] == ["Raw output", "Traces"]


def test_tiers_add_up_to_the_size_of_the_tables() -> None:
    make_series([1.0, 2.0, 3.0])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE benchapp_measurement")
        cursor.execute(
            "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = current_schema()::regnamespace"
        )
        (size,) = cursor.fetchone()

    storage = read_storage()

    tiers = storage.tiers
    assert sum((tier.table_bytes or 0) + tier.index_bytes for tier in tiers) == storage.total_bytes == size
    assert all(tier.table_bytes for tier in tiers)


@pytest.mark.parametrize("counted", [0, 1_000_000])
def test_growth_is_the_share_of_what_was_received_in_30_days(
    monkeypatch: pytest.MonkeyPatch, counted: int
) -> None:
    host = make_host()
    make_runs(host, [age(day * 86_400) for day in range(1, 101)])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE benchapp_submission")
    monkeypatch.setattr("benchapp.overview.read.status._COUNTED_MAXIMUM", counted)

    storage = read_storage()

    assert storage.bytes_per_day == pytest.approx(storage.total_bytes / 100, rel=0.1)


def test_stack_that_does_not_run_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DATABASE_URL")
    written = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--data-dir", tmp_path, stdout=written)

    assert ended.value.code == 2
    assert "No stack runs in" in written.getvalue()
    assert f"Start it: make up DATA={tmp_path}" in written.getvalue()
