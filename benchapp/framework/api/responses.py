"""Answers in the format that the reader asks for: JSON, NDJSON, CSV, Parquet; their headers."""

import csv
import hashlib
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints
from urllib.parse import quote
from uuid import UUID

import brotli
from django.http import HttpResponse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from msgspec import Struct, UnsetType
from msgspec.json import decode
from rest_framework.request import Request

from benchapp import __version__
from benchapp.framework.api.answers import AnswerPage, ChosenColumns, dump_json, list_columns
from benchapp.framework.api.problems import Problem
from benchapp.framework.csv_export import (
    CONTENT_TYPE,
    Cell,
    CsvContext,
    escape_formula,
    format_cell,
    format_number,
    read_context,
    write_csv,
)
from benchapp.framework.read.days import is_relative_moment
from benchapp.models import is_shown_to_stranger

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


def list_kinds(rows: type[Struct]) -> dict[str, ColumnKind]:
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


def write_csv_parts(columns: Sequence[RowColumn], batches: Batches) -> Iterator[bytes]:
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
    answer_format: Literal["json", "ndjson", "csv", "parquet"],
    *,
    name: str,
) -> tuple[str, Callable[[Sequence[RowColumn], Batches], Iterator[bytes]]]:
    """Return content type and writer of a format: batches of rows as parts of the body. name: of the rows in JSON."""
    if answer_format == "json":
        return "application/json", partial(write_json, name=name)
    if answer_format == "ndjson":
        return "application/x-ndjson", write_ndjson
    if answer_format == "csv":
        return CONTENT_TYPE, write_csv_parts
    return PARQUET_TYPE, write_parquet


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


# 1 000 points, 335 KB: level 1 takes 1.2 ms for 39 KB, 3 takes 1.6 for 37, 4 takes 3.1 for 35 (measured).
GZIP_LEVEL: Final = 3
# The same 335 KB: quality 0 takes 0.4 ms for 43 KB, 1 takes 0.5 for 33, 2 takes 1.6 for 32 (measured).
_BROTLI_QUALITY: Final = 1
# Below this it saves nothing: the response is one packet either way.
_COMPRESSION_FROM_BYTES: Final = 1024
# All of ASCII that may be in a header, but "%".
_HEADER_CHARACTERS: Final = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"
# Columns of the CSV that state what is left out. Headers state it, too: NDJSON has the members of rows only.
COMPLETENESS: Final = ("is_cut", "is_thinned", "omitted_rows", "omitted_columns", "omitted_panels")
# What JSON states beside the rows: the dimensions that a chart fixed, and numbers of series that no line has.
LEFT_OUT: Final = (
    *("fixed", "hidden_by_fixed", "unknown_x", "omitted", "ungrouped"),
    *("outdated", "incomplete", "only_a", "only_b"),
)

Row = dict[str, Any]


def answer_json(request: Request, body: Any, *, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a JSON response."""
    return _answer(request, dump_json(body), "application/json", headers or {})


def answer_text(request: Request, text: str, content_type: str) -> HttpResponse:
    """Return a document that is neither JSON nor rows."""
    return _answer(request, text.encode(), content_type, {})


def answer_image(
    request: Request, image: bytes, content_type: str, *, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Return an image; the pixels of a PNG are compressed already."""
    return _answer(request, image, content_type, headers or {}, may_pack="svg" in content_type)


def answer_rows(
    request: Request,
    kind: type[AnswerPage],
    rows: Sequence[Struct],
    *,
    name: str,
    columns: Sequence[str] = (),
    next_cursor: str | None = None,
    answer_format: str = "json",
    file_name: str = "",
    about: Mapping[str, Any] | None = None,
    context: CsvContext | None = None,
    left_out: Mapping[str, str | int] | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponse:
    """Return one page of rows: a `kind` whose field `name` has them, or bare lines of CSV or NDJSON.

    columns: of the CSV, also without rows; of rows with the parameter `fields` those that it names. about: other
    fields of the page. context: further columns of the CSV: what a JSON page states once. `next` is a path
    with query, and also the header Link in all formats. left_out: as in answer_lines.
    """
    following = link_next(request, next_cursor) if next_cursor else None
    headers = {**(headers or {}), **({"Link": f'<{following}>; rel="next"'} if following else {})}
    if answer_format != "json":
        return answer_lines(
            request,
            rows,
            columns=columns,
            answer_format=answer_format,
            file_name=file_name or name,
            headers=headers,
            context=context,
            left_out=left_out,
        )
    shown = _choose_columns(rows, columns)
    page = kind(next=following, next_cursor=next_cursor, **{name: shown}, **(about or {}))
    return answer_json(request, page, headers={**headers, **state_left_out(left_out or {})})


def answer_lines(
    request: Request,
    rows: Sequence[Struct],
    *,
    columns: Sequence[str],
    answer_format: str,
    file_name: str,
    headers: Mapping[str, str] | None = None,
    context: CsvContext | None = None,
    left_out: Mapping[str, str | int] | None = None,
) -> HttpResponse:
    """Return rows as a file of CSV or NDJSON; file_name: without suffix; context: as in answer_rows.

    What is left out is also stated in headers, "X-Is-Cut: true" for `is_cut`. left_out: values of LEFT_OUT for headers.
    """
    more = context or {}
    stated = _state_completeness(more, rows) | state_left_out(left_out or {})
    headers = {**(headers or {}), **name_file(file_name, answer_format), **stated}
    if answer_format == "csv":
        cells = (
            [
                *(_make_cell(getattr(row, column)) for column in columns),
                *read_context(more, row),
            ]
            for row in rows
        )
        lines = write_csv([*columns, *more], cells)
        return _answer(request, lines, CONTENT_TYPE, headers)
    lines = b"".join(dump_json(row) + b"\n" for row in _choose_columns(rows, columns))
    return _answer(request, lines, "application/x-ndjson", headers)


def state_left_out(left_out: Mapping[str, str | int]) -> dict[str, str]:
    """Return a header for each value of LEFT_OUT."""
    return {name_header(name): quote(str(value), safe=_HEADER_CHARACTERS) for name, value in left_out.items()}


def name_header(column: str) -> str:
    """Return the name of the header that states a name of COMPLETENESS or LEFT_OUT."""
    return f"X-{column.replace('_', '-').title()}"


def _state_completeness(context: CsvContext, rows: Sequence[Struct]) -> dict[str, str]:
    """Return a header for each column that states what is left out: of one that differs by row, for any of them."""
    stated = {name: context[name] for name in COMPLETENESS if name in context}
    values = {
        name: any(value(row) for row in rows) if callable(value) else value for name, value in stated.items()
    }
    return {name_header(name): format_cell(value) for name, value in values.items()}


def name_file(name: str, suffix: str) -> dict[str, str]:
    """Return the header that names a file to save."""
    return {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}


def _choose_columns(rows: Sequence[Struct], columns: Sequence[str]) -> Sequence[Struct] | list[Row]:
    """Return the rows with the columns that `fields` named."""
    if not rows or not isinstance(rows[0], ChosenColumns) or tuple(columns) == list_columns(type(rows[0])):
        return rows
    return [{column: getattr(row, column) for column in columns} for row in rows]


def make_etag(request: Request, version: str) -> str:
    """Return a weak ETag from the URL, the version of the data and the version of benchapp.

    With a time relative to now it is another one at each request: the answer differs although the URL does not.
    """
    text = f"{__version__}\n{request.get_full_path()}\n{is_shown_to_stranger()}\n{version}"
    if any(is_relative_moment(str(value)) for value in request.query_params.values()):
        text += f"\n{timezone.now().isoformat()}"
    return _write_etag(text.encode())


def _write_etag(version: bytes) -> str:
    return f'W/"{hashlib.sha256(version).hexdigest()[:24]}"'


def is_known(request: Request, etag: str) -> bool:
    """Return whether the client has this version already."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    return "*" in known or etag.removeprefix("W/") in {each.removeprefix("W/") for each in known}


def answer_not_modified(etag: str) -> HttpResponse:
    """Return 304."""
    response = HttpResponse(status=304, headers={"ETag": etag, "Cache-Control": "private, no-cache"})
    patch_vary_headers(response, ("Accept-Encoding", "Authorization", "Cookie"))
    return response


def link_next(request: Request, place: str, *, parameter: str = "cursor") -> str:
    """Return path and query of the next page: this request with another cursor or other start parameters."""
    query = request.query_params.copy()
    query[parameter] = place
    return f"{request.path}?{query.urlencode()}"


def accepts(request: Request, coding: Literal["br", "gzip"]) -> bool:
    """Return whether the client accepts a content coding."""
    offers = request.META.get("HTTP_ACCEPT_ENCODING", "").lower().replace(" ", "").split(",")
    weighted = f"{coding};q="
    return any(
        offer == coding or (offer.startswith(weighted) and offer.removeprefix(weighted).strip("0.") != "")
        for offer in offers
    )


def _compress(request: Request, body: bytes) -> tuple[bytes, str]:
    """Return a body and its content coding; "" if the client accepts neither brotli nor gzip."""
    if accepts(request, "br"):
        return brotli.compress(body, quality=_BROTLI_QUALITY), "br"
    if accepts(request, "gzip"):
        return zlib.compress(body, GZIP_LEVEL, wbits=31), "gzip"
    return body, ""


def _make_cell(value: Any) -> Cell:
    """Return text and numbers unchanged, everything else as JSON."""
    is_plain = value is None or isinstance(value, str | int | float | Decimal)
    return value if is_plain else write_json_cell(value)


def _answer(
    request: Request,
    body: bytes,
    content_type: str,
    headers: Mapping[str, str],
    *,
    may_pack: bool = True,
) -> HttpResponse:
    """Compress and answer, with a weak ETag of the body if the headers have none; 304 if a GET knows it.

    BREACH needs a secret beside text of the attacker's in one compressed body: reads hold no secret, and the answers
    that do (a new token) do not come through here.
    """
    if request.method in ("GET", "HEAD") and "ETag" not in headers:
        # Of the type, too: a list without rows is the same text as CSV and as NDJSON. And of what headers state alone.
        stated = [headers.get(name_header(name)) for name in (*COMPLETENESS, *LEFT_OUT)]
        etag = _write_etag(f"{__version__}\n{content_type}\n{stated}\n".encode() + body)
        if is_known(request, etag):
            return answer_not_modified(etag)
        headers = {**headers, "ETag": etag}
    coding = ""
    if may_pack and len(body) >= _COMPRESSION_FROM_BYTES:
        body, coding = _compress(request, body)
    response = HttpResponse(
        body,
        content_type=content_type,
        headers={"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff", **headers},
    )
    if coding:
        response.headers["Content-Encoding"] = coding
    response.headers["Content-Length"] = str(len(body))
    patch_vary_headers(response, ("Accept-Encoding", "Authorization", "Cookie"))
    return response
