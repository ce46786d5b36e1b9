"""What keeps results from being stored, or delays it: for `/readyz`, Overview, Uploads and Status."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from math import isinf
from pathlib import Path
from typing import Final

import structlog
from django.apps import apps
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Min
from django.utils import timezone
from psycopg_pool import PoolTimeout

from benchapp.catalog.metrics import format_value
from benchapp.framework.queue import BrokerState, check_broker
from benchapp.framework.times import format_age
from benchapp.models import Heartbeat, Pulse, Submission

log = structlog.get_logger(__name__)

# Raised when PostgreSQL is not available, not when a query is wrong.
DATABASE_AWAY: Final = (OperationalError, InterfaceError, PoolTimeout)
# Beat sends a task every interval of the sweep. A busy worker executes it some intervals later.
_SILENT_AFTER_SWEEPS: Final = 6
# A backlog of 60 000 results takes one worker this long.
LATE_AFTER: Final = timedelta(minutes=5)


class FindingLevel(StrEnum):
    """How bad a finding is. failure: results are not stored, or secrets or pages are open; warning: see to it soon."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. code: "ok", or a word for what is wrong. remedy: what to do, "" if nothing is wrong."""

    check: str
    code: str
    level: FindingLevel
    text: str
    remedy: str = ""


def report_ok(check: str, text: str) -> Finding:
    """Return the finding of a check that found nothing wrong."""
    return Finding(check, "ok", FindingLevel.OK, text)


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The monitored disk. path: the data directory."""

    path: Path
    free_bytes: int

    @property
    def is_low(self) -> bool:
        """Return whether less than BENCHAPP_DISK_RESERVE_MIB is free; then no result is stored."""
        return self.free_bytes < settings.DISK_RESERVE_BYTES


def measure_disk() -> DiskSpace | None:
    """Return the disk of the data directory, None without one (external PostgreSQL)."""
    try:
        return DiskSpace(settings.DATA_DIR, shutil.disk_usage(settings.DATA_DIR).free)
    except (FileNotFoundError, NotADirectoryError):
        return None


@dataclass(frozen=True, slots=True)
class Readiness:
    """How results are stored, while PostgreSQL answers.

    worker_silence_s, beat_silence_s: time since the last heartbeat, infinite before the first. oldest_waiting_s: age of
    the oldest submission that can be processed now, 0 without one. disk: None without a data directory.
    """

    broker: BrokerState
    worker_silence_s: float
    beat_silence_s: float
    oldest_waiting_s: float
    disk: DiskSpace | None

    @property
    def worker(self) -> str:
        """Return "ok" if a worker executes tasks or looks for submissions itself, else "silent"."""
        return "silent" if self.worker_silence_s > _silent_after_s() else "ok"

    @property
    def beat(self) -> str:
        """Return "ok" if tasks of beat reach a worker, else "silent"; "none" without a broker."""
        if self.broker == BrokerState.NONE:
            return "none"
        return "silent" if self.beat_silence_s > _silent_after_s() else "ok"

    @property
    def is_late(self) -> bool:
        """Return whether a submission has waited for more than five minutes."""
        return self.oldest_waiting_s > LATE_AFTER.total_seconds()

    @property
    def can_store(self) -> bool:
        """Return whether a result that is posted now is accepted and stored."""
        return self.worker == "ok" and not (self.disk and self.disk.is_low)

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what is wrong and what to do, the cause of others first."""
        return tuple(f"{each.text} {each.remedy}" for each in self.list_findings() if each.remedy)

    def list_findings(self) -> Iterator[Finding]:
        """Yield what each check found; none for what cannot be known while its cause is wrong."""
        if self.disk:
            yield self._check_disk(self.disk)
        if self.worker == "silent":
            yield Finding(
                "worker",
                "silent",
                FindingLevel.FAILURE,
                f"No worker answers ({_describe_silence(self.worker_silence_s)}). Results are accepted and wait.",
                "Start a worker, or read its log for the reason.",
            )
        else:
            yield report_ok("worker", "A worker executes tasks.")
        yield self._check_broker()
        if self.broker == BrokerState.OK and self.worker == "ok":
            yield self._check_beat()
        if self.worker == "ok":
            yield self._check_oldest()

    def _check_disk(self, disk: DiskSpace) -> Finding:
        free = f"{format_value(disk.free_bytes, 'bytes')} are free"
        if not disk.is_low:
            return report_ok("disk", f"On the disk of {disk.path} {free}.")
        text = f"The disk of {disk.path} is nearly full: {free}. Results are rejected."
        return Finding("disk", "disk-low", FindingLevel.FAILURE, text, "Free space on it.")

    def _check_broker(self) -> Finding:
        if self.broker == BrokerState.NONE:
            return report_ok("broker", "No broker is configured: workers ask PostgreSQL.")
        if self.broker == BrokerState.OK:
            return report_ok("broker", "The broker takes messages.")
        text, remedy = (
            ("The broker does not answer.", "Check that it runs, and BROKER_URL with its password.")
            if self.broker == BrokerState.AWAY
            else ("The broker is full and refuses messages.", "Restart it empty, or raise its maxmemory.")
        )
        until = " Until then workers look for results by themselves, up to a minute later."
        return Finding("broker", self.broker, FindingLevel.WARNING, text, remedy + until)

    def _check_beat(self) -> Finding:
        if self.beat != "silent":
            return report_ok("beat", "Tasks of beat reach a worker.")
        return Finding(
            "beat",
            "silent",
            FindingLevel.WARNING,
            f"No task of beat reaches a worker ({_describe_silence(self.beat_silence_s)}).",
            "Check that beat runs, and that beat and workers can sign in to the broker: read their logs.",
        )

    def _check_oldest(self) -> Finding:
        if not self.oldest_waiting_s:
            return report_ok("oldest-waiting", "No upload waits.")
        age = format_age(timezone.now() - timedelta(seconds=self.oldest_waiting_s))
        if not self.is_late:
            return report_ok("oldest-waiting", f"The oldest waiting upload was received {age} ago.")
        return Finding(
            "oldest-waiting",
            "late",
            FindingLevel.WARNING,
            f"The oldest waiting upload was received {age} ago.",
            "Workers are slower than results arrive: add one.",
        )


def read_readiness() -> Readiness:
    """Ask the broker, and PostgreSQL in two queries; takes about 2 s if the broker hangs."""
    silences = Heartbeat.objects.read_silences()
    oldest_at = Submission.objects.due().aggregate(oldest=Min("received_at"))["oldest"]
    return Readiness(
        broker=check_broker(),
        worker_silence_s=silences[Pulse.WORKER],
        beat_silence_s=silences[Pulse.BEAT],
        oldest_waiting_s=max(0.0, (timezone.now() - oldest_at).total_seconds()) if oldest_at else 0.0,
        disk=measure_disk(),
    )


def _silent_after_s() -> float:
    return float(_SILENT_AFTER_SWEEPS * settings.SWEEP_INTERVAL_S)


def _describe_silence(silence_s: float) -> str:
    if isinf(silence_s):
        return "it never did"
    return f"last: {format_age(timezone.now() - timedelta(seconds=silence_s))} ago"


class ColumnsMissing(Exception):
    """Columns of models that the database does not have, as `table.column`."""


@cache
def check_columns() -> None:
    """Raise ColumnsMissing unless every column of every model exists; not checked again after success.

    A migration that was edited after a database had applied it leaves that database without what was added.
    """
    expected = {
        (model._meta.db_table, field.column)
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy
        for field in model._meta.local_concrete_fields
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE a.attnum > 0 AND NOT a.attisdropped AND pg_table_is_visible(c.oid)"
            " AND c.relname = ANY(%s)",
            [sorted({table for table, _ in expected})],
        )
        missing = expected - set(cursor.fetchall())
    if missing:
        raise ColumnsMissing(", ".join(sorted(f"{table}.{column}" for table, column in missing)))


def check_database() -> Finding:
    """Return whether PostgreSQL answers and has the tables of this version; code: ok, away, not-migrated …"""
    try:
        missing = _list_migrations() - set(MigrationRecorder(connection).applied_migrations())
        if not missing:
            check_columns()
    except ColumnsMissing as error:
        log.error("readyz.columns_missing", columns=str(error)[:500])
        text = f"The database lacks columns of this version: {str(error)[:500]}."
        remedy = "Restore a backup, or add them: a migration was changed after it had been applied."
        return Finding("database", "columns-missing", FindingLevel.FAILURE, text, remedy)
    except DATABASE_AWAY as error:
        log.warning("readyz.database_away", error=str(error)[:200])
        remedy = "Check that it runs, and DATABASE_URL."
        return Finding("database", "away", FindingLevel.FAILURE, "PostgreSQL does not answer.", remedy)
    if missing:
        names = ", ".join(sorted(name for _, name in missing)[:5])
        text = f"Migrations that are not applied: {len(missing)} ({names})."
        return Finding("database", "not-migrated", FindingLevel.FAILURE, text, "Run manage.py migrate.")
    return report_ok("database", "PostgreSQL answers, and all migrations are applied.")


@cache
def _list_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None, load=True).disk_migrations)
