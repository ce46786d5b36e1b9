"""Rows of any number as JSON, NDJSON, CSV or Parquet, in parts: a batch of rows is written before the next is read."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

from msgspec import UnsetType
from msgspec.json import decode

from benchapp.framework.api.answers import ApiAnswer
from benchapp.framework.api.json import dump_json
from benchapp.framework.api.problems import Problem
from benchapp.framework.csv_export import CONTENT_TYPE, escape_formula, format_cell, format_number

Batches = Iterable[Sequence[Sequence[Any]]]
ColumnKind = Literal["text", "integer", "number", "flag", "time", "texts", "json"]

PARQUET_TYPE: Final = "application/vnd.apache.parquet"
# Rows of a Parquet row group: readers skip and read whole groups; smaller ones compress worse.
_GROUP_ROWS: Final = 20_000


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A column of a table. kind: of its values, each of which may be None."""

    name: str
    kind: ColumnKind


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How rows are written. write: batches of rows as parts of the body."""

    content_type: str
    write: Callable[[Sequence[RowColumn], Batches], Iterator[bytes]]


def list_kinds(rows: type[ApiAnswer]) -> dict[str, ColumnKind]:
    """Return the kinds of the columns of rows, by name."""
    return {name: _find_kind(hint) for name, hint in get_type_hints(rows, include_extras=True).items()}


def _find_kind(hint: Any) -> ColumnKind:
    """Return the kind of a column from the type of its values."""
    if get_origin(hint) is Annotated:
        return _find_kind(get_args(hint)[0])
    kinds = [kind for kind in get_args(hint) if kind not in (NoneType, UnsetType)]
    if isinstance(hint, UnionType) and len(kinds) == 1:
        return _find_kind(kinds[0])
    simple: dict[Any, ColumnKind] = {
        bool: "flag",
        int: "integer",
        float: "number",
        datetime: "time",
        Sequence[str]: "texts",
    }
    is_text = get_origin(hint) is Literal or (isinstance(hint, type) and issubclass(hint, str | UUID))
    return simple.get(hint, "text" if is_text else "json")


def write_json(columns: Sequence[RowColumn], batches: Batches, *, name: str) -> Iterator[bytes]:
    """Yield one JSON object: the rows as objects in `name`, and their `count`, which proves that all came."""
    # With the first rows: what prevents these is answered with its own status.
    head = b"{" + dump_json(name) + b":["
    names, count = [column.name for column in columns], 0
    for batch in batches:
        rows = dump_json([dict(zip(names, row, strict=True)) for row in batch])[1:-1]
        yield head + (b",\n" if count else b"\n") + rows
        head = b""
        count += len(batch)
    yield head + b'\n],"count":%d}\n' % count


def write_ndjson(columns: Sequence[RowColumn], batches: Batches) -> Iterator[bytes]:
    """Yield a line of JSON for each row."""
    names = [column.name for column in columns]
    for batch in batches:
        yield b"".join([dump_json(dict(zip(names, row, strict=True))) + b"\n" for row in batch])


def write_csv(columns: Sequence[RowColumn], batches: Batches) -> Iterator[bytes]:
    """Yield CSV as `csv_export.write_csv` returns it: a header line, every cell in quotes, lines end in CRLF."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow([escape_formula(column.name) for column in columns])
    write_cells = [_CELLS[column.kind] for column in columns]
    for batch in batches:
        writer.writerows(
            [write(value) for write, value in zip(write_cells, row, strict=True)] for row in batch
        )
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if rest := text.getvalue():
        yield rest.encode()


def write_parquet(columns: Sequence[RowColumn], batches: Batches) -> Iterator[bytes]:
    """Yield a Parquet file with zstd; times are timestamps in UTC, objects JSON text, lists of texts lists.

    Raises Problem 501 without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Problem(
            501,
            "format-unavailable",
            "Format not available",
            "Parquet requires pyarrow on the server: install benchapp with the extra parquet",
            pointer="format",
        ) from None
    kinds = {
        "text": pyarrow.string(),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "flag": pyarrow.bool_(),
        "time": pyarrow.timestamp("us", tz="UTC"),
        "texts": pyarrow.list_(pyarrow.string()),
        "json": pyarrow.string(),
    }
    schema = pyarrow.schema([(column.name, kinds[column.kind]) for column in columns])
    sink = _Sink()
    with pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for rows in _collect(batches, _GROUP_ROWS):
            values = zip(*rows, strict=True)
            arrays = [
                pyarrow.array(map(_PARQUET_VALUES.get(column.kind, _as_is), cells), kinds[column.kind])
                for column, cells in zip(columns, values, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            yield sink.take()
    yield sink.take()


def row_format(
    format: Literal["json", "ndjson", "csv", "parquet"],
    *,
    name: str,
) -> RowFormat:
    """Return how to write a format; name: of the rows in JSON."""
    if format == "json":
        return RowFormat("application/json", partial(write_json, name=name))
    if format == "ndjson":
        return RowFormat("application/x-ndjson", write_ndjson)
    if format == "csv":
        return RowFormat(CONTENT_TYPE, write_csv)
    return RowFormat(PARQUET_TYPE, write_parquet)


class _Sink(io.RawIOBase):
    """A file that keeps only what was written since the last `take`; its position is that of the whole."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, part: Any) -> int:
        kept = bytes(part)
        self._parts.append(kept)
        self._position += len(kept)
        return len(kept)

    def take(self) -> bytes:
        """Return what was written since the last call."""
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _collect(batches: Batches, count: int) -> Iterator[list[Sequence[Any]]]:
    """Yield the rows of batches in larger ones of at least `count`."""
    rows: list[Sequence[Any]] = []
    for batch in batches:
        rows.extend(batch)
        if len(rows) >= count:
            yield rows
            rows = []
    if rows:
        yield rows


def _as_is(value: Any) -> Any:
    return value


def _as_text(value: Any) -> str | None:
    return None if value is None else str(value)


def _as_json(value: Any) -> str | None:
    return None if value is None else dump_json(value).decode()


def _as_csv_time(value: datetime | None) -> str:
    return "" if value is None else dump_json(value).decode()[1:-1]


def write_json_cell(value: Any) -> str:
    """Return a list or an object as a cell of CSV, in JSON with rounded numbers; a time without quotes; "" for None."""
    if value is None:
        return ""
    written = dump_json(value)
    return (dump_json(_round(decode(written))) if b"." in written else written).decode().strip('"')


def _round(value: Any) -> Any:
    if isinstance(value, float):
        return float(format_number(value))
    if isinstance(value, Mapping):
        return {name: _round(each) for name, each in value.items()}
    return list(map(_round, value)) if isinstance(value, list) else value


_CELLS: Final[dict[ColumnKind, Callable[[Any], Any]]] = {
    "text": lambda value: "" if value is None else escape_formula(str(value)),
    "integer": _as_is,
    "number": format_number,
    "flag": format_cell,
    "time": _as_csv_time,
    "texts": write_json_cell,
    "json": write_json_cell,
}
_PARQUET_VALUES: Final[dict[ColumnKind, Callable[[Any], Any]]] = {
    "text": _as_text,
    "texts": lambda value: None if value is None else list(value),
    "json": _as_json,
}
