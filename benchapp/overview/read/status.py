"""What an operator needs to know: findings, throughput and storage, for the page Status, `doctor` and the API."""

import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.core.checks import ERROR, Tags, run_checks
from django.db import DatabaseError, connection, connections, transaction
from django.db.models import Max, Min
from django.utils import timezone

from benchapp import __version__
from benchapp.catalog.metrics import format_count, format_integer, format_value
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.replica import REPLICA
from benchapp.framework.readiness import (
    Finding,
    FindingLevel,
    check_database,
    measure_disk,
    read_readiness,
    report_ok,
)
from benchapp.framework.times import describe_age, format_day
from benchapp.intake.read import count_hours
from benchapp.models import (
    AuditKind,
    AuditRecord,
    Correction,
    CorrectionKind,
    Host,
    RetentionTier,
    Submission,
)
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import find_failing_hosts, find_silent_hosts, is_outdated

# Docs: "PostgreSQL 15 or later".
_POSTGRESQL_MINIMUM: Final = 15
# Between this process and PostgreSQL: each alone sets some of the times.
_CLOCK_TOLERANCE_S: Final = 5.0
_BACKLOG_SHARE: Final = 0.5
# A few hundred results.
_REPLICA_BEHIND_BYTES: Final = 32 * 2**20
_BACKUP_AFTER: Final = timedelta(days=7)
_NAMES_SHOWN: Final = 5
_SLOW_MEAN_MS: Final = 1000.0
_SLOW_CALLS: Final = 10
_SLOW_SHOWN: Final = 3
_GROWTH_DAYS: Final = 30
_FULL_WITHIN_DAYS: Final = 30
# Fewer rows are counted, more are estimated from the statistics of PostgreSQL.
_COUNTED_MAXIMUM: Final = 20_000


@dataclass(frozen=True, slots=True)
class Tier:
    """What takes space. table_bytes, index_bytes: None while PostgreSQL has no statistics to divide a table by.

    kept: for how long, by retentions; "" for ever. in_a_year_bytes: at the growth of the last 30 days; None if unknown.
    """

    name: str
    table_bytes: int | None
    index_bytes: int
    kept: str = ""
    in_a_year_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Storage:
    """Sizes in the database.

    bytes_per_day: growth by what was received in the last 30 days; None within the first day. full_at: when no result
    can be stored at this rate; None if the disk is not known, or nothing grows.
    """

    tiers: tuple[Tier, ...]
    total_bytes: int
    bytes_per_day: int | None
    free_bytes: int | None
    full_at: datetime | None


@dataclass(frozen=True, slots=True)
class Status:
    """Findings, the worst first. per_hour: as in `count_hours`. Without a database only findings: storage is None."""

    findings: tuple[Finding, ...]
    per_hour: tuple[dict[str, Any], ...] = ()
    storage: Storage | None = None

    @property
    def level(self) -> FindingLevel:
        """Return the level of the worst finding."""
        return self.findings[0].level

    @property
    def summary(self) -> str:
        """Return "1 failure, 2 warnings" or "all checks passed"."""
        counts = Counter(each.level for each in self.findings)
        bad = [
            (counts[level], level) for level in (FindingLevel.FAILURE, FindingLevel.WARNING) if counts[level]
        ]
        return ", ".join(format_count(count, level) for count, level in bad) or "all checks passed"


def read_status() -> Status:
    """Check everything. About 25 queries; no query reads the rows of measurements."""
    database = check_database()
    if database.level != FindingLevel.OK:
        return Status(_sort([database, *_check_settings()]))
    storage = read_storage()
    findings = [
        database,
        *read_readiness().list_findings(),
        *_check_settings(),
        _check_versions(),
        _check_backlog(),
        _check_clock(),
        *_check_replica(),
        *_check_hosts(),
        _check_backup(),
        _check_growth(storage),
        _check_queries(),
    ]
    return Status(_sort(findings), count_hours(timezone.now()), storage)


def _sort(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    order = (FindingLevel.FAILURE, FindingLevel.WARNING, FindingLevel.OK)
    return tuple(sorted(findings, key=lambda each: order.index(each.level)))


def _check_settings() -> list[Finding]:
    """Return what benchapp/operation/checks.py reports about the settings of this process."""
    found = run_checks(tags=[Tags.security], include_deployment_checks=True)
    return [
        Finding(
            "settings",
            str(message.id),
            FindingLevel.FAILURE if message.level >= ERROR else FindingLevel.WARNING,
            message.msg,
            message.hint or "",
        )
        for message in found
        if str(message.id).startswith("benchapp.")
    ] or [report_ok("settings", "No setting is dangerous.")]


def _check_versions() -> Finding:
    postgresql = connection.cursor().connection.info.server_version // 10_000
    text = f"benchapp {__version__}, Python {platform.python_version()}, PostgreSQL {postgresql}"
    if postgresql < _POSTGRESQL_MINIMUM:
        remedy = f"Update PostgreSQL to {_POSTGRESQL_MINIMUM} or later."
        return Finding("versions", "postgresql-old", FindingLevel.FAILURE, f"{text}.", remedy)
    shipped = read_agent_version()
    agents = Host.objects.active().values_list("agent_version", flat=True)
    older = sum(is_outdated(version, shipped) for version in agents)
    return report_ok("versions", f"{text}; agent {shipped}, {format_count(older, 'host')} with an older one.")


def _check_backlog() -> Finding:
    waiting, limit = Submission.objects.waiting().count(), settings.BACKLOG_LIMIT
    verb = "waits" if waiting == 1 else "wait"
    text = f"{format_count(waiting, 'upload')} {verb} (limit {format_integer(limit)})"
    if waiting < limit * _BACKLOG_SHARE:
        return report_ok("backlog", f"{text}.")
    level = FindingLevel.FAILURE if waiting >= limit else FindingLevel.WARNING
    text = f"{text}: {'results are' if waiting >= limit else 'at the limit results will be'} refused."
    return Finding("backlog", "long", level, text, "Add a worker, or find out why workers are slow.")


def _check_clock() -> Finding:
    ((now,),) = fetch_rows("SELECT clock_timestamp()")
    ahead_s = (timezone.now() - now).total_seconds()
    if abs(ahead_s) <= _CLOCK_TOLERANCE_S:
        return report_ok("clock", "This server and PostgreSQL have the same time.")
    text = f"The clock of this server differs from the clock of PostgreSQL by {abs(ahead_s):.0f} s."
    return Finding("clock", "differs", FindingLevel.WARNING, text, "Synchronize both by NTP.")


def _check_replica() -> Iterator[Finding]:
    if REPLICA not in settings.DATABASES:
        return
    try:
        with connections[REPLICA].cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()")
            is_replica, replayed = cursor.fetchone()
    except DatabaseError as error:
        remedy = "Start it, or correct DATABASE_REPLICA_URL. Meanwhile the primary serves all reads."
        text = f"The replica cannot be reached: {str(error).splitlines()[0]}"
        yield Finding("replica", "away", FindingLevel.WARNING, text, remedy)
        return
    if not is_replica:
        text = "DATABASE_REPLICA_URL names a server that is no replica: charts lack what is stored."
        yield Finding("replica", "none", FindingLevel.FAILURE, text, "Name a standby, or remove the setting.")
        return
    ((behind_bytes,),) = fetch_rows(
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(%s::pg_lsn, '0/0'))::bigint", [replayed]
    )
    text = f"The replica is {format_value(max(behind_bytes, 0), 'bytes')} behind"
    if behind_bytes <= _REPLICA_BEHIND_BYTES:
        yield report_ok("replica", f"{text}.")
        return
    remedy = "Find out why it does not follow (its log), or remove DATABASE_REPLICA_URL."
    text = f"{text}: charts lack the newest results."
    yield Finding("replica", "behind", FindingLevel.WARNING, text, remedy)


def _check_hosts() -> Iterator[Finding]:
    hosts = Host.objects.active()
    for check, noun, found, remedy in (
        (
            "silent-hosts",
            "silent host",
            hosts.filter(pk__in=find_silent_hosts()),
            "Check the timer of the agent and its network: bench-agent check.",
        ),
        (
            "failing-hosts",
            "failing host",
            hosts.filter(pk__in=find_failing_hosts()),
            "Read the newest result on the page of the host.",
        ),
        (
            "host-clocks",
            "wrong host clock",
            hosts.filter(clock_offset_s__isnull=False),
            "Synchronize the host by NTP.",
        ),
    ):
        names = list(found.order_by("name").values_list("name", flat=True))
        if not names:
            yield report_ok(check, f"No {noun}.")
            continue
        more = f" and {format_integer(len(names) - _NAMES_SHOWN)} more" if len(names) > _NAMES_SHOWN else ""
        text = f"{format_count(len(names), noun)}: {', '.join(names[:_NAMES_SHOWN])}{more}."
        yield Finding(check, "hosts", FindingLevel.WARNING, text, remedy)


def _check_backup() -> Finding:
    """Report the newest `manage.py backup`; without a data directory others may make backups."""
    made_at = AuditRecord.objects.filter(kind=AuditKind.BACKUP).aggregate(newest=Max("at"))["newest"]
    since = made_at or Submission.objects.aggregate(first=Min("received_at"))["first"]
    is_due = since is not None and timezone.now() - since > _BACKUP_AFTER
    text = f"The newest backup by manage.py backup was made {describe_age(made_at)}." if made_at else ""
    text = text or "manage.py backup has made no backup. Other backups are not known here."
    if is_due and (made_at or (settings.DATA_DIR / "postgresql").exists()):
        return Finding("backup", "old", FindingLevel.WARNING, text, "Run manage.py backup, daily by a timer.")
    return report_ok("backup", text)


def _check_growth(storage: Storage) -> Finding:
    if storage.bytes_per_day is None:
        return report_ok("growth", "Not known yet: the first result is younger than a day.")
    text = f"The database has {format_value(storage.total_bytes, 'bytes')} and grows by "
    text += f"{format_value(storage.bytes_per_day, 'bytes')} a day"
    if storage.free_bytes is None:
        return report_ok("growth", f"{text}; its disk is not known to this server.")
    if storage.full_at is None:
        return report_ok("growth", f"{text}: at this rate the disk lasts more than 100 years.")
    text += f": at this rate the disk will be full on {format_day(storage.full_at)}."
    if storage.full_at - timezone.now() > timedelta(days=_FULL_WITHIN_DAYS):
        return report_ok("growth", text)
    return Finding(
        "growth", "disk-full-soon", FindingLevel.WARNING, text, "Enlarge the disk, or set a retention."
    )


def _check_queries() -> Finding:
    """Report slow queries of the extension pg_stat_statements; benchapp does not need it."""
    try:
        with transaction.atomic():
            rows = fetch_rows(
                "SELECT query, calls, mean_exec_time FROM pg_stat_statements WHERE calls >= %s"
                " AND mean_exec_time >= %s AND dbid = (SELECT oid FROM pg_database"
                " WHERE datname = current_database()) ORDER BY mean_exec_time * calls DESC",
                [_SLOW_CALLS, _SLOW_MEAN_MS],
            )
    except DatabaseError:
        text = "The extension pg_stat_statements is not there."
        return Finding("queries", "not-measured", FindingLevel.OK, text)
    if not rows:
        return report_ok("queries", "No query takes more than a second on average.")
    texts = [f"{mean:.0f} ms × {calls}: {' '.join(query.split())[:200]}" for query, calls, mean in rows]
    more = f"; {len(rows) - _SLOW_SHOWN} more" if len(rows) > _SLOW_SHOWN else ""
    text = f"Queries that take more than a second on average: {len(rows)} ({'; '.join(texts[:_SLOW_SHOWN])}{more})."
    return Finding(
        "queries", "slow", FindingLevel.WARNING, text, "Run VACUUM ANALYZE; report them if it does not help."
    )


# Sizes as PostgreSQL knows them; a table includes its partitions. No row is read.
_SIZES: Final = (
    "SELECT coalesce(pg_partition_root(oid), oid)::regclass::text, sum(pg_table_size(oid))::bigint,"
    " sum(pg_indexes_size(oid))::bigint FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = current_schema()::regnamespace GROUP BY 1"
)
# What part of a row the columns have, by the statistics of ANALYZE.
_COLUMNS_SHARE: Final = (
    "SELECT (sum(avg_width * (1 - null_frac)) FILTER (WHERE attname = ANY(%s))"
    " / (28 + sum(avg_width * (1 - null_frac))))::float8 FROM pg_stats"
    " WHERE schemaname = current_schema() AND tablename = 'benchapp_measurement'"
)
_DISTRIBUTION: Final = ["percentiles", "latency_bins"]
_RETAINED: Final = {
    "Raw output": RetentionTier.OUTPUT,
    "Traces": RetentionTier.TRACES,
    "Latency percentiles and histograms": RetentionTier.HISTOGRAMS,
    "Measurements": RetentionTier.POINTS,
    "Incidents": RetentionTier.INCIDENTS,
}


def read_storage() -> Storage:
    """Return sizes by tier and the growth; seven queries at most."""
    sizes = {name: (table, index) for name, table, index in fetch_rows(_SIZES)}
    total = sum(table + index for table, index in sizes.values())
    ((share,),) = fetch_rows(_COLUMNS_SHARE, [_DISTRIBUTION])
    measured, measured_index = sizes.pop("benchapp_measurement")
    distribution = None if share is None else round(measured * share)
    disk, per_day = measure_disk(), _measure_growth(total)
    incidents = [sizes.pop(f"benchapp_{name}") for name in ("incident", "incidentevent")]
    tiers = (
        Tier("Raw output", *sizes.pop("benchapp_submission")),
        Tier("Traces", *sizes.pop("benchapp_trace")),
        Tier("Latency percentiles and histograms", distribution, 0),
        Tier("Measurements", measured - (distribution or 0), measured_index),
        Tier("Incidents", sum(table for table, _ in incidents), sum(index for _, index in incidents)),
        Tier(
            "Everything else",
            sum(table for table, _ in sizes.values()),
            sum(index for _, index in sizes.values()),
        ),
    )
    left = disk.free_bytes - settings.DISK_RESERVE_BYTES if disk else 0
    # Later than in a century is no date.
    days = max(0.0, left / per_day) if disk and per_day else float("inf")
    full_at = timezone.now() + timedelta(days=days) if days < 36_500 else None
    forecast = tuple(_forecast(tiers, per_day and per_day / total))
    return Storage(forecast, total, per_day, disk.free_bytes if disk else None, full_at)


def _forecast(tiers: Iterable[Tier], daily_share: float | None) -> Iterator[Tier]:
    """Yield these tiers with their retentions and sizes in a year. daily_share: of the size, growth of a day."""
    rows = Correction.objects.filter(kind=CorrectionKind.RETENTION, canceled_at=None).order_by("pk")
    retentions = [(row.tier, row.filter, row.keep_days or 0) for row in rows]
    for tier in tiers:
        own = [row for row in retentions if _RETAINED.get(tier.name) == row[0]]
        texts = [f"{format_count(days, 'day')}{f' of {filter}' if filter else ''}" for _, filter, days in own]
        size, in_a_year = (tier.table_bytes or 0) + tier.index_bytes, None
        if daily_share is not None:
            # What is kept for days has the growth of so many.
            days = min([1 / daily_share + 365, *(days for _, filter, days in own if not filter)])
            in_a_year = round(size * daily_share * days)
        yield replace(tier, kept="; ".join(texts), in_a_year_bytes=in_a_year)


def _measure_growth(total_bytes: int) -> int | None:
    """Return bytes a day: of all, the share of what was received in the last 30 days, or since the first result."""
    now = timezone.now()
    first_at = Submission.objects.aggregate(first=Min("received_at"))["first"]
    days = min(float(_GROWTH_DAYS), (now - first_at) / timedelta(days=1)) if first_at else 0.0
    if days < 1:
        return None
    rows, newer = _count_submissions(now - timedelta(days=_GROWTH_DAYS))
    return round(total_bytes * min(1.0, newer / max(rows, 1)) / days)


def _count_submissions(since: datetime) -> Sequence[int]:
    """Return how many submissions there are, and how many were received since then; of many, estimates."""
    queries = ("SELECT FROM benchapp_submission", "SELECT FROM benchapp_submission WHERE received_at >= %s")
    estimates = []
    with connection.cursor() as cursor:
        for query in queries:
            cursor.execute(f"EXPLAIN (FORMAT JSON) {query}", [since] if "%s" in query else [])
            ((plan,),) = cursor.fetchall()
            estimates.append(int(plan[0]["Plan"]["Plan Rows"]))
    if estimates[0] > _COUNTED_MAXIMUM:
        return estimates
    return Submission.objects.count(), Submission.objects.filter(received_at__gte=since).count()
