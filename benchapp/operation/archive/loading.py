"""Import an archive: one transaction, new rows only.

Rows are recognized by what identifies them in every instance: hosts by name, submissions by id, runs by submission and
document, targets, workloads, environments and series by key, incidents, studies, planned events and detection policies
by `uid`. What exists stays as it is, with what belongs to it.

A series is complete if the archive has all of its measurements and this instance had none: its changes, levels and
detection status are copied. Others are evaluated again from their measurements, without notices.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final

import psycopg
from django.db import DataError, IntegrityError, connection, models, transaction
from django.utils import timezone
from psycopg.errors import UniqueViolation

from benchapp.catalog.metrics import CATALOG
from benchapp.incidents.write.incidents import Events, refresh_incidents
from benchapp.incidents.write.planned_events import OPEN_MAXIMUM
from benchapp.intake.normalize.batch import IMPORT_LOCK
from benchapp.intake.normalize.store import recalculate_series
from benchapp.intake.posts.stored_secrets import STORED, clean_rows
from benchapp.judge import redetect
from benchapp.models import DetectionPolicy, PlannedEvent, PlannedEventKind, Series
from benchapp.models.coverage import list_matching_series, read_stored_filter
from benchapp.models.filtering import match_series
from benchapp.operation.archive.container import (
    FORMAT_MEMBER,
    MANIFEST_MEMBER,
    ArchiveReader,
    BadArchive,
    CheckedArchive,
    Manifest,
    MemberReader,
    check_archive,
)
from benchapp.operation.archive.references import (
    map_measured,
    map_rows,
    map_triage,
    read,
    rewrite_events,
    rewrite_panels,
    run,
)
from benchapp.operation.archive.tables import TABLES, ArchiveTable, list_foreign_keys
from benchapp.policies.write import POLICIES_MAXIMUM
from benchapp.storage.write.hosts import SERIES_KEY_VERSION

# Tables with the name of a metric; "" is none.
_METRIC_TABLES: Final = (
    "changes",
    "levels",
    "newest_values",
    "detection_results",
    "detection_policies",
    "incidents",
    "planned_events",
)
_HEADER_MAXIMUM_BYTES: Final = 8192
_HOST_NAME: Final = r"^[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?$"

_LINKS: Final = (
    "SELECT link FROM staged_incidents WHERE link <> '' AND link !~ %s",
    # Undo restores it.
    "SELECT before->>'link' FROM staged_incident_events WHERE before->>'link' <> '' AND before->>'link' !~ %s",
)
_RENAMED: Final = (
    "SELECT scope || ' is a former name of ' || present FROM benchapp_formername WHERE scope IN"
    " (SELECT 'host:' || name FROM staged_hosts UNION SELECT 'pool:' || pool FROM staged_hosts)"
)
_CONFLICTS: Final = (
    "SELECT staged.id FROM staged_submissions AS staged"
    " JOIN staged_hosts ON staged_hosts.id = staged.host_id"
    " JOIN benchapp_submission AS stored ON stored.id = staged.id"
    " JOIN benchapp_host AS host ON host.id = stored.host_id"
    " WHERE stored.digest <> staged.digest OR host.name <> staged_hosts.name"
)


def stage_archive(file: IO[bytes], manifest: Manifest, *, show: Callable[[int, int], None]) -> None:
    """Copy all tables to temporary ones, which the end of the transaction drops, and check them.

    show: gets rows copied, and all rows. Raises BadArchive.
    """
    for table in TABLES.values():
        _create_staged(table)
    listed = {member.name: member for member in manifest.members}
    total, done = sum(manifest.rows.values()), 0
    with ArchiveReader(file) as reader:
        for member in reader.read_members():
            if member.name in (FORMAT_MEMBER, MANIFEST_MEMBER):
                continue
            rows = _copy_member(member)
            if member.digest != listed[member.name].sha256:
                raise BadArchive(f"{member.name} changed while it was imported")
            if rows != listed[member.name].rows:
                raise BadArchive(f"{member.name}: {rows} rows; the manifest lists {listed[member.name].rows}")
            done += rows
            show(done, total)
    for table in TABLES.values():
        _index_staged(table)
    clean_rows({name: TABLES[name].staged for name in STORED})
    _check_staged()


def _create_staged(table: ArchiveTable) -> None:
    columns = ", ".join([*table.columns, *(f"NULL::text AS {column}" for column in table.dropped)])
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TEMPORARY TABLE {table.staged} ON COMMIT DROP AS"  # noqa: S608
            f" SELECT {columns} FROM {table.source} WITH NO DATA"
        )


def _copy_member(member: MemberReader) -> int:
    table = TABLES[member.name.partition("/")[0]]
    parts = member.read_parts()
    first = next(parts, b"")
    columns = _read_columns(member.name, table, first.partition(b"\n")[0])
    statement = f"COPY {table.staged} ({', '.join(columns)}) FROM STDIN (FORMAT csv, HEADER MATCH)"
    try:
        with connection.cursor() as cursor:
            with connection.wrap_database_errors, cursor.copy(statement) as copy:
                copy.write(first)
                for part in parts:
                    copy.write(part)
            return int(cursor.rowcount)
    except (DataError, IntegrityError) as error:
        raise BadArchive(f"{member.name}: {_describe(error.__cause__)}") from error


def _read_columns(name: str, table: ArchiveTable, header: bytes) -> list[str]:
    """Return the columns of a member, of which an older version of benchapp had fewer.

    Those that are missing get their default. Raises BadArchive for unknown columns, and missing ones without a default.
    """
    columns = header[:_HEADER_MAXIMUM_BYTES].decode("utf-8", "replace").split(",")
    if unknown := [column for column in columns if column not in (*table.columns, *table.dropped)]:
        raise BadArchive(
            f"{name}: unknown column {unknown[0][:80]!r}; a newer version of benchapp wrote it, or it is damaged"
        )
    if repeated := [column for column in table.columns if columns.count(column) > 1]:
        raise BadArchive(f"{name}: column {repeated[0]} occurs twice")
    for column in table.columns:
        if column not in columns:
            _set_default(name, table, column)
    return columns


def _set_default(name: str, table: ArchiveTable, column: str) -> None:
    fields = [field for field in table.model._meta.local_fields if field.column == column]
    if not (fields[0].null or fields[0].has_default()):
        raise BadArchive(f"{name}: column {column} is missing")
    default = fields[0].get_db_prep_save(fields[0].get_default(), connection)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table.staged} ALTER {column} SET DEFAULT %s", [default])


def _index_staged(table: ArchiveTable) -> None:
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"ALTER TABLE {table.staged} ADD PRIMARY KEY (id)")
        except IntegrityError as error:
            raise BadArchive(f"{table.name}: {_describe(error.__cause__)}") from error
        cursor.execute(f"ANALYZE {table.staged}")


def _describe(error: BaseException | None) -> str:
    """Return the message of PostgreSQL with its context in one line."""
    if not isinstance(error, psycopg.Error) or error.diag.message_primary is None:
        return str(error)
    context = re.sub(r"^COPY staged_\w+, ", "", (error.diag.context or "").split("\n")[0])
    return " / ".join(
        part for part in (error.diag.message_primary, error.diag.message_detail, context) if part
    )[:500]


def _check_staged() -> None:
    """Raise BadArchive for values that the pages cannot show, or that another version of benchapp wrote."""
    for table in _METRIC_TABLES:
        if unknown := _find(
            f"SELECT metric FROM staged_{table} WHERE metric <> '' AND metric <> ALL(%s)",  # noqa: S608
            [*CATALOG],
        ):
            raise BadArchive(f"{table}: {unknown!r} is not a metric of this version of benchapp")
    if unknown := _find("SELECT name FROM staged_hosts WHERE name !~ %s", _HOST_NAME):
        raise BadArchive(f"hosts: {unknown!r} is not a valid host name")
    if renamed := _find(_RENAMED):
        raise BadArchive(f"hosts: {renamed}: rename it back for the import")
    if unknown := _find("SELECT key_version FROM staged_series WHERE key_version <> %s", SERIES_KEY_VERSION):
        raise BadArchive(
            f"series: keys of version {unknown}; this version of benchapp has {SERIES_KEY_VERSION}"
        )
    for query in _LINKS:
        if unknown := _find(query, "^https?://"):
            raise BadArchive(f"incidents: {unknown[:200]!r} is not an http or https link")
    for source, column, target in _list_required():
        if unknown := _find(
            f"SELECT staged.id FROM {source.staged} AS staged"  # noqa: S608
            f" WHERE NOT EXISTS (SELECT FROM {target.staged} AS other WHERE other.id = staged.{column})"
        ):
            raise BadArchive(f"{source.name}: row {unknown} refers to a missing row of {target.name}")
    if unknown := _find(_CONFLICTS):
        raise BadArchive(f"submissions: {unknown} is stored here with another body or host")


def _list_required() -> Iterator[tuple[ArchiveTable, str, ArchiveTable]]:
    """Yield the columns that must refer to another row, and the tables of these."""
    tables = {table.model: table for table in TABLES.values()}
    for table in TABLES.values():
        for column, related in list_foreign_keys(table.model):
            if column in table.columns and not table.model._meta.get_field(column.removesuffix("_id")).null:
                yield table, column, tables[related]


def _find(query: str, *parameters: Any) -> str:
    """Return the first value of a query as text, "" without rows."""
    with connection.cursor() as cursor:
        cursor.execute(f"{query} LIMIT 1", parameters or None)
        row = cursor.fetchone()
    return "" if row is None else str(row[0])


_BATCH: Final = 500
# Ids of a table for one statement.
_PART_ROWS: Final = 100_000
# Tables whose rows decide how series are evaluated.
_PLANS: Final = ("planned_events", "detection_policies")

# New incidents some of whose changes exist here already, and existing ones that get changes.
_PARTIAL_INCIDENTS: Final = """
SELECT DISTINCT own.new FROM staged_changes AS staged
JOIN map_incidents AS own ON own.old = staged.incident_id
LEFT JOIN map_changes ON map_changes.old = staged.id
WHERE own.is_new <> COALESCE(map_changes.is_new, FALSE) ORDER BY 1
"""
_NEW_RUNS: Final = "JOIN map_runs AS owner ON owner.old = staged.run_id AND owner.is_new"
_COMPLETE_SERIES: Final = (
    "JOIN incoming_series AS owner ON owner.old = staged.series_id AND owner.is_complete"
)


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """Result of an import. new: inserted rows by table; present: rows that existed or belong to what existed.

    evaluated: series that detection evaluated again. unknown_authors: names without an account here; what they did
    has no author.
    """

    new: dict[str, int]
    present: dict[str, int]
    evaluated: int
    unknown_authors: tuple[str, ...]


class StoredMeanwhile(Exception):
    """A row of the archive was stored here, too, after the import had decided that it is new."""


@dataclass(slots=True)
class _Loading:
    counts: dict[str, int] = field(default_factory=dict)

    def insert(
        self, name: str, join: str = "", *, more: dict[str, str] | None = None, conflict: str = ""
    ) -> None:
        """Insert the staged rows of a table; without a join those that its map has as new."""
        self.counts[name] = run(_compose_insert(TABLES[name], join, more=more or {}, conflict=conflict))

    def insert_in_parts(self, name: str, join: str) -> None:
        """Insert the rows of a large table, _PART_ROWS at a time, each with its foreign keys checked.

        PostgreSQL remembers each row of a statement, or of a transaction with deferred constraints, for that.
        """
        table = TABLES[name]
        ((first, last),) = read(f"SELECT COALESCE(min(id), 1), COALESCE(max(id), 0) FROM {table.staged}")  # noqa: S608
        run("SET CONSTRAINTS ALL IMMEDIATE")
        self.counts[name] = sum(
            run(
                _compose_insert(
                    table,
                    f"{join} AND staged.id >= {start} AND staged.id < {start + _PART_ROWS}",
                    more={},
                    conflict="",
                )
            )
            for start in range(first, last + 1, _PART_ROWS)
        )
        run("SET CONSTRAINTS ALL DEFERRED")


def load_archive(file: IO[bytes], *, show: Callable[[int, int], None]) -> LoadedArchive:
    """Check an archive and import what is new; all or nothing. show: gets rows copied, and all rows.

    Raises BadArchive, and StoredMeanwhile if a repetition can succeed; nothing is stored then.
    """
    checked = check_archive(file)
    try:
        with transaction.atomic(durable=True):
            return _load(file, checked, show)
    except IntegrityError as error:
        cause = error.__cause__
        if isinstance(cause, UniqueViolation) and (cause.diag.table_name or "").startswith("benchapp_"):
            raise StoredMeanwhile(" ".join(str(error).split())) from error
        raise BadArchive(f"the rows contradict each other: {str(error).splitlines()[0]}") from error


def _load(file: IO[bytes], checked: CheckedArchive, show: Callable[[int, int], None]) -> LoadedArchive:
    stage_archive(file, checked.manifest, show=show)
    # Until the end, other imports wait, and workers store nothing.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
    loading = _Loading()
    _load_measurements(loading)
    _load_triage(loading)
    _load_detection(loading)
    due = [*_recalculate(), *_mark_affected(), *_list_due()]
    partial = [incident_id for (incident_id,) in read(_PARTIAL_INCIDENTS)]
    evaluated = sum(len(judged.series_ids) for judged in redetect(sorted(set(due)), is_dry_run=False))
    if partial:
        refresh_incidents(partial, Events(timezone.now()))
    _update_hosts()
    rows = checked.manifest.rows
    return LoadedArchive(
        new=loading.counts,
        present={name: rows[name] - count for name, count in loading.counts.items()},
        evaluated=evaluated,
        unknown_authors=tuple(
            name
            for (name,) in read(
                "SELECT username FROM staged_authors WHERE id NOT IN (SELECT old FROM map_authors) ORDER BY 1"
            )
        ),
    )


def _load_measurements(loading: _Loading) -> None:
    """Insert submissions, runs, series and measurements."""
    map_measured()
    loading.insert("hosts", more={"run_count": "0"})
    for name in ("targets", "workloads", "environments"):
        loading.insert(name)
    loading.insert("submissions", "JOIN new_submissions AS own ON own.id = staged.id")
    loading.insert("runs")
    loading.insert("series")
    loading.insert_in_parts("measurements", _NEW_RUNS)
    loading.insert_in_parts("traces", _NEW_RUNS)


def _load_triage(loading: _Loading) -> None:
    """Insert incidents with their events, planned events, detection policies and studies."""
    map_triage()
    rewrite_events()
    rewrite_panels()
    map_rows("studies")
    loading.insert("incidents")
    loading.insert("incident_events", _join_new("incidents", "incident_id"))
    loading.insert("planned_events")
    loading.insert("planned_event_log", _join_new("planned_events", "planned_event_id"))
    loading.insert("detection_policies")
    loading.insert("detection_policy_log", _join_new("detection_policies", "policy_id"))
    loading.insert("studies")
    _refuse_too_many()


def _load_detection(loading: _Loading) -> None:
    """Insert changes, and what is derived from the measurements of complete series."""
    loading.insert("changes")
    # Levels of older archives have them.
    run(
        "INSERT INTO staged_newest_values (id, series_id, metric, to_at, recent)"
        " SELECT id, series_id, metric, to_at, recent::float8[] FROM staged_levels WHERE is_current AND recent <> '{}'"
    )
    for name in ("series_environments", "levels", "newest_values"):
        loading.insert(name, _COMPLETE_SERIES)
    # Accepted baselines are of people.
    loading.insert(
        "detection_results",
        "JOIN incoming_series AS owner ON owner.old = staged.series_id",
        conflict="(series_id, metric) DO UPDATE SET baseline_from_at = excluded.baseline_from_at"
        " WHERE benchapp_detectionresult.baseline_from_at IS NULL AND excluded.baseline_from_at IS NOT NULL",
    )
    loading.insert("pooled_evaluations", " ", conflict="(scope) DO NOTHING")
    run(
        "UPDATE benchapp_series AS stored SET measurement_count = staged.measurement_count, first_at = staged.first_at,"
        " last_at = staged.last_at, badges = staged.badges FROM staged_series AS staged"
        " JOIN incoming_series ON incoming_series.old = staged.id AND incoming_series.is_complete"
        " AND NOT incoming_series.is_new WHERE stored.id = incoming_series.id"
    )


def _update_hosts() -> None:
    """Add the new runs to the counts of hosts. At the end, as workers update hosts with each result."""
    run(
        "UPDATE benchapp_host AS stored SET run_count = stored.run_count + fresh.count FROM ("
        " SELECT map_hosts.new AS id, count(*) AS count FROM staged_runs AS staged"
        " JOIN map_runs ON map_runs.old = staged.id AND map_runs.is_new"
        " JOIN map_hosts ON map_hosts.old = staged.host_id GROUP BY map_hosts.new"
        ") AS fresh WHERE stored.id = fresh.id"
    )
    run(
        "UPDATE benchapp_host AS stored SET last_seen_at = GREATEST(stored.last_seen_at, staged.last_seen_at)"
        " FROM staged_hosts AS staged JOIN map_hosts ON map_hosts.old = staged.id WHERE stored.id = map_hosts.new"
    )


def _join_new(name: str, column: str) -> str:
    return f"JOIN map_{name} AS owner ON owner.old = staged.{column} AND owner.is_new"


def _compose_insert(table: ArchiveTable, join: str, *, more: dict[str, str], conflict: str) -> str:
    """Return the statement that inserts staged rows with the ids of this instance, in the order of ids.

    join: what selects the rows; "" the new ones of the table's own map, whose ids they get. Otherwise the sequence of
    the table numbers them, and a UUID stays. more: expressions by column, which replace those of the archive.
    """
    values = {column: f"staged.{column}" for column in table.columns}
    joins = [join or f"JOIN map_{table.name} AS own ON own.old = staged.id AND own.is_new"]
    for column, target in _list_references(table):
        joins.append(f"LEFT JOIN map_{target} AS to_{column} ON to_{column}.old = staged.{column}")
        values[column] = f"to_{column}.new"
    if not join:
        values["id"] = "own.new"
    elif isinstance(table.model._meta.pk, models.AutoField):
        del values["id"]
    values |= more
    return (
        f"INSERT INTO {table.source} ({', '.join(values)}) SELECT {', '.join(values.values())}"  # noqa: S608
        f" FROM {table.staged} AS staged {' '.join(joins)} ORDER BY staged.id"
        f"{f' ON CONFLICT {conflict}' if conflict else ''}"
    )


def _list_references(table: ArchiveTable) -> Iterator[tuple[str, str]]:
    """Yield the columns with ids of other tables, and the names of these."""
    names = {other.model: name for name, other in TABLES.items() if name != "submissions"}
    for column, related in list_foreign_keys(table.model):
        if related in names:
            yield column, names[related]
    if table.name == "levels":
        yield "first_run_id", "runs"


def _recalculate() -> list[int]:
    """Recalculate series that have other measurements, too, and mark them; return their ids."""
    rows = read("SELECT id FROM incoming_series WHERE NOT is_complete ORDER BY id")
    ids = [series_id for (series_id,) in rows]
    for first in range(0, len(ids), _BATCH):
        recalculate_series(ids[first : first + _BATCH])
    return ids


def _mark_affected() -> list[int]:
    """Return the series that were here before and match an imported maintenance window or policy."""
    matched: set[int] = set()
    new_ids = {name: [pk for (pk,) in read(f"SELECT new FROM map_{name} WHERE is_new")] for name in _PLANS}  # noqa: S608
    events = PlannedEvent.objects.filter(pk__in=new_ids["planned_events"], canceled_at=None)
    for event in events.filter(kind=PlannedEventKind.MAINTENANCE):
        if filter := read_stored_filter(event.filter):
            in_period = Series.objects.filter(last_at__gte=event.from_at, first_at__lt=event.to_at)
            matched.update(in_period.filter(match_series(filter)).values_list("pk", flat=True))
    for policy in DetectionPolicy.objects.filter(pk__in=new_ids["detection_policies"], canceled_at=None):
        matched.update(list_matching_series(policy.filter, policy.label))
    if matched:
        matched -= {pk for (pk,) in read("SELECT id FROM incoming_series WHERE is_complete")}
    return sorted(matched)


def _list_due() -> list[int]:
    """Return the complete series that the other instance had not evaluated."""
    rows = read(
        "SELECT stored.id FROM benchapp_series AS stored JOIN incoming_series USING (id)"
        " WHERE is_complete AND stored.judging_is_due ORDER BY stored.id"
    )
    return [series_id for (series_id,) in rows]


def _refuse_too_many() -> None:
    """Raise BadArchive above the limits that the pages have."""
    now = timezone.now()
    open_events = PlannedEvent.objects.filter(canceled_at=None, to_at__gt=now).exclude(ended_at__lte=now)
    if (count := open_events.count()) > OPEN_MAXIMUM:
        raise BadArchive(f"{count} active and upcoming planned events; at most {OPEN_MAXIMUM} are possible")
    if (count := DetectionPolicy.objects.filter(canceled_at=None).count()) > POLICIES_MAXIMUM:
        raise BadArchive(f"{count} detection policies; at most {POLICIES_MAXIMUM} are possible")
