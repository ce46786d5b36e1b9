"""Copy an archive into temporary tables and check what constraints of the database do not."""

import re
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

import psycopg
from django.db import DataError, IntegrityError, connection

from benchapp.catalog.metrics import CATALOG
from benchapp.intake.posts.stored_secrets import STORED, clean_rows
from benchapp.operation.archive.container import (
    FORMAT_MEMBER,
    MANIFEST_MEMBER,
    ArchiveReader,
    BadArchive,
    Manifest,
    MemberReader,
)
from benchapp.operation.archive.tables import TABLES, ArchiveTable, list_foreign_keys
from benchapp.storage.write.identity import SERIES_KEY_VERSION

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
