"""Write archives: one snapshot of the database, copied row by row; or its tables as SQLite or Parquet."""

import hashlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from psycopg import ServerCursor

import benchapp
from benchapp.intake.posts.stored_secrets import CLEANERS, clean_values
from benchapp.operation.archive.container import (
    PART_BYTES,
    ArchiveFormat,
    ArchiveMember,
    ArchiveWriter,
    describe_format,
)
from benchapp.operation.archive.tables import (
    TABLES,
    ArchiveTable,
    ExportSelection,
    compose_query,
    count_rows,
    select_rows,
)

_COPY: Final = "COPY ({query}) TO STDOUT (FORMAT csv)"
# As written: an empty one is null, a quoted empty one is text.
_CSV_FIELD: Final = re.compile(r'(?:^|,)("(?:[^"]+|"")*"|[^,]*)')


@contextmanager
def open_snapshot(selection: ExportSelection) -> Iterator[dict[str, str]]:
    """Yield the conditions of a selection in a transaction with one snapshot. Raises BadFilter."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            # Not READ ONLY, which also refuses to create temporary tables.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield select_rows(selection)


def describe_snapshot(selection: ExportSelection) -> ArchiveFormat:
    """Return the description of an archive of a selection."""
    migrations = MigrationRecorder(connection).migration_qs.filter(app="benchapp")
    return describe_format(
        product=benchapp.__version__,
        migration=migrations.order_by("-name").values_list("name", flat=True)[0],
        created_at=timezone.now(),
        filter=selection.filter.strip(),
        since_at=selection.from_at,
        until_at=selection.to_at,
    )


def export_archive(
    path: Path, selection: ExportSelection, *, show: Callable[[int, int], None]
) -> dict[str, int]:
    """Write an archive, which replaces the file once it is complete; return its rows by table.

    show: gets rows written, and all rows. Raises BadFilter, OSError.
    """
    with (
        open_snapshot(selection) as conditions,
        replace_path(path) as partial,
        partial.open("wb") as file,
    ):
        writer = ArchiveWriter(file, describe_snapshot(selection))
        total, done = count_rows(conditions), 0
        for table in TABLES.values():
            for part, rows in _copy_parts(table, compose_query(table, conditions)):
                writer.write_part(table.name, part, rows=rows)
                done += rows
                show(done, total)
        return writer.close().rows


@contextmanager
def replace_path(path: Path, *, is_directory: bool = False) -> Iterator[Path]:
    """Yield a new file or directory, readable by its owner; it takes the place of `path` if the block succeeds.

    A file replaces an earlier one. A process that is killed leaves `.NAME.PID` beside it.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    if is_directory:
        partial.mkdir(mode=0o700)
    else:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        yield partial
        for each in partial.iterdir() if is_directory else [partial]:
            with each.open("rb") as file:
                os.fsync(file.fileno())
        partial.rename(path)
    finally:
        if is_directory:
            shutil.rmtree(partial, ignore_errors=True)
        else:
            partial.unlink(missing_ok=True)


def _read_csv(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text


def _clean_csv_row(table: ArchiveTable, row: bytes) -> bytes:
    """Return a row of CSV without secrets, which an earlier version may have stored; the same bytes if it has none."""
    if table.name not in CLEANERS:
        return row
    fields = dict(zip(table.columns, _CSV_FIELD.findall(row.decode().removesuffix("\n")), strict=True))
    values: dict[str, Any] = {column: _read_csv(text) for column, text in fields.items()}
    if values.get("body"):
        values["body"] = bytes.fromhex(values["body"].removeprefix("\\x"))
    changed = clean_values(table.name, values)
    for column, value in changed.items():
        text = f"\\x{value.hex()}" if isinstance(value, bytes) else str(value)
        fields[column] = '"' + text.replace('"', '""') + '"'
    return (",".join(fields.values()) + "\n").encode() if changed else row


def _copy_parts(table: ArchiveTable, query: str) -> Iterator[tuple[bytes, int]]:
    """Yield CSV with a header line, and its rows, PART_BYTES at a time."""
    header = ",".join(table.columns).encode() + b"\n"
    part, rows = bytearray(header), 0
    with (
        connection.wrap_database_errors,
        connection.cursor() as cursor,
        cursor.copy(_COPY.format(query=query)) as copy,
    ):
        # PostgreSQL sends each row as one message.
        for row in copy:
            part += _clean_csv_row(table, bytes(row))
            rows += 1
            if len(part) >= PART_BYTES:
                yield bytes(part), rows
                part, rows = bytearray(header), 0
    if rows:
        yield bytes(part), rows


# Rows per fetch, and those with raw bodies, of which each may have several MiB.
_BATCH_ROWS: Final = 1000
_BATCH_BODIES: Final = 10
# A row group ends after so many rows, or bytes in texts and bodies.
_GROUP_ROWS: Final = 20_000
_GROUP_BYTES: Final = 32 * 2**20
# By type in PostgreSQL, without the length.
_SQLITE_TYPES: Final = {
    "bigint": "INTEGER",
    "integer": "INTEGER",
    "smallint": "INTEGER",
    "boolean": "INTEGER",
    "double precision": "REAL",
    "bytea": "BLOB",
}
# Of columns that are read as text.
_TEXT_TYPES: Final = frozenset({"jsonb", "uuid", "inet"})
# What is joined and filtered by.
_INDEXES: Final = (
    ("measurements", "series_id, started_at"),
    ("measurements", "run_id"),
    ("runs", "host_id, started_at"),
    ("levels", "series_id"),
    ("changes", "series_id"),
)

Show = Callable[[int, int], None]


class ParquetUnavailable(Exception):
    """pyarrow is not installed."""


class ParquetManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory of Parquet files contains; `manifest.json`."""

    format: ArchiveFormat
    members: tuple[ArchiveMember, ...]


def export_sqlite(path: Path, selection: ExportSelection, *, show: Show) -> dict[str, int]:
    """Write a database of SQLite, which replaces the file once it is complete; return its rows by table.

    Times are ISO 8601 in UTC, flags 0 and 1, lists and objects JSON. Arguments and errors as of `export_archive`.
    """
    with open_snapshot(selection) as conditions, replace_path(path) as partial:
        counter = _Counter(count_rows(conditions), show)
        with closing(sqlite3.connect(partial, isolation_level=None)) as database:
            # Nobody else sees the file, and a half one is deleted.
            database.execute("PRAGMA journal_mode = OFF")
            database.execute("PRAGMA synchronous = OFF")
            database.execute("BEGIN")
            for table in TABLES.values():
                _write_sqlite_table(database, table, _read_batches(table, conditions), counter)
            for name, columns in _INDEXES:
                database.execute(f"CREATE INDEX {name}_by_{columns.partition(',')[0]} ON {name} ({columns})")
            _describe_sqlite(database, describe_snapshot(selection), counter.rows)
            database.execute("COMMIT")
    return counter.rows


def export_parquet(path: Path, selection: ExportSelection, *, show: Show) -> dict[str, int]:
    """Write a directory with a Parquet file for each table, and `manifest.json`; return the rows by table.

    Times are timestamps in UTC, lists are lists, objects JSON. Raises FileExistsError, ParquetUnavailable; else as
    `export_archive`.
    """
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise ParquetUnavailable("Parquet needs pyarrow: install benchapp with the extra parquet") from None
    if path.exists():
        raise FileExistsError(f"{path} exists; remove it first, or choose another name")
    with open_snapshot(selection) as conditions, replace_path(path, is_directory=True) as partial:
        counter = _Counter(count_rows(conditions), show)
        members = []
        for table in TABLES.values():
            file = partial / f"{table.name}.parquet"
            _write_parquet_table(file, table, _read_batches(table, conditions), counter)
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            members.append(
                ArchiveMember(
                    name=file.name, rows=counter.rows[table.name], bytes=file.stat().st_size, sha256=digest
                )
            )
        manifest = ParquetManifest(format=describe_snapshot(selection), members=tuple(members))
        (partial / "manifest.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"
        )
    return counter.rows


class _Counter:
    """Counts written rows by table and shows the progress."""

    def __init__(self, total: int, show: Show) -> None:
        self.rows = dict.fromkeys(TABLES, 0)
        self._total, self._show, self._done = total, show, 0

    def add(self, table: str, count: int) -> None:
        self.rows[table] += count
        self._done += count
        self._show(self._done, self._total)


def _read_batches(table: ArchiveTable, conditions: dict[str, str]) -> Iterator[list[tuple[Any, ...]]]:
    types = _read_types(table)
    rows = _BATCH_BODIES if "body" in types else _BATCH_ROWS
    shown = ", ".join(f"{column}::text" if kind in _TEXT_TYPES else column for column, kind in types.items())
    query = f"SELECT {shown} FROM ({compose_query(table, conditions)}) AS rows"  # noqa: S608
    with connection.wrap_database_errors, ServerCursor(connection.connection, "exported") as cursor:
        cursor.execute(query, binary=True)
        while batch := cursor.fetchmany(rows):
            yield [_clean_row(table, row) for row in batch] if table.name in CLEANERS else batch


def _clean_row(table: ArchiveTable, row: tuple[Any, ...]) -> tuple[Any, ...]:
    values = dict(zip(table.columns, row, strict=True))
    return tuple((values | clean_values(table.name, values)).values())


def _read_types(table: ArchiveTable) -> dict[str, str]:
    """Return the columns with their types in PostgreSQL, without lengths."""
    fields = {field.column: field for field in table.model._meta.local_fields}
    types = {}
    for column in table.columns:
        kind = str(fields[column].db_type(connection))
        types[column] = kind.partition("(")[0] + ("[]" if kind.endswith("[]") else "")
    return {column: kind.replace("[][]", "[]") for column, kind in types.items()}


def _write_sqlite_table(
    database: sqlite3.Connection,
    table: ArchiveTable,
    batches: Iterator[list[tuple[Any, ...]]],
    counter: _Counter,
) -> None:
    types = _read_types(table)
    columns = ", ".join(
        f"{column} {_SQLITE_TYPES.get(kind, 'TEXT')}{' PRIMARY KEY' if column == 'id' else ''}"
        for column, kind in types.items()
    )
    database.execute(f"CREATE TABLE {table.name} ({columns})")
    places = ", ".join("?" * len(types))
    for batch in batches:
        database.executemany(
            f"INSERT INTO {table.name} VALUES ({places})",  # noqa: S608
            (tuple(map(_convert_for_sqlite, row)) for row in batch),
        )
        counter.add(table.name, len(batch))


def _convert_for_sqlite(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return msgspec.json.encode(value).decode() if isinstance(value, list) else value


def _describe_sqlite(database: sqlite3.Connection, description: ArchiveFormat, rows: dict[str, int]) -> None:
    database.execute("CREATE TABLE export_format (name TEXT PRIMARY KEY, value TEXT)")
    fields = msgspec.to_builtins(description)
    database.executemany(
        "INSERT INTO export_format VALUES (?, ?)",
        [(name, None if value is None else str(value)) for name, value in fields.items()],
    )
    database.execute("CREATE TABLE export_rows (table_name TEXT PRIMARY KEY, rows INTEGER)")
    database.executemany("INSERT INTO export_rows VALUES (?, ?)", list(rows.items()))


def _write_parquet_table(
    file: Path, table: ArchiveTable, batches: Iterator[list[tuple[Any, ...]]], counter: _Counter
) -> None:
    import pyarrow
    import pyarrow.parquet

    kinds = {
        "bigint": pyarrow.int64(),
        "integer": pyarrow.int32(),
        "smallint": pyarrow.int16(),
        "boolean": pyarrow.bool_(),
        "double precision": pyarrow.float64(),
        "bytea": pyarrow.binary(),
        "timestamp with time zone": pyarrow.timestamp("us", tz="UTC"),
        "bigint[]": pyarrow.list_(pyarrow.int64()),
        "varchar[]": pyarrow.list_(pyarrow.string()),
        "double precision[]": pyarrow.list_(pyarrow.float64()),
    }
    types = _read_types(table)
    schema = pyarrow.schema([(column, kinds.get(kind, pyarrow.string())) for column, kind in types.items()])
    with pyarrow.parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        for group in _collect_groups(batches):
            arrays = [
                pyarrow.array(values, kind)
                for values, kind in zip(zip(*group, strict=True), schema.types, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            counter.add(table.name, len(group))


def _collect_groups(batches: Iterator[list[tuple[Any, ...]]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    """Yield rows in groups, bounded by rows and bytes."""
    group: list[tuple[Any, ...]] = []
    size = 0
    for batch in batches:
        group += batch
        size += sum(len(value) for row in batch for value in row if isinstance(value, str | bytes))
        if len(group) >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
