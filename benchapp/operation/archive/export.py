"""Write archives: one snapshot of the database, copied row by row."""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

import benchapp
from benchapp.intake.posts.stored_secrets import CLEANERS, clean_values
from benchapp.operation.archive.container import PART_BYTES, ArchiveFormat, ArchiveWriter, describe_format
from benchapp.operation.archive.selection import ExportSelection, compose_query, count_rows, select_rows
from benchapp.operation.archive.tables import TABLES, ArchiveTable

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


def _clean_row(table: ArchiveTable, row: bytes) -> bytes:
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
            part += _clean_row(table, bytes(row))
            rows += 1
            if len(part) >= PART_BYTES:
                yield bytes(part), rows
                part, rows = bytearray(header), 0
    if rows:
        yield bytes(part), rows
