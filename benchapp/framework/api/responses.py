"""Responses: JSON, CSV or NDJSON, compressed, with ETag and the link to the next page."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal
from urllib.parse import quote

import brotli
from django.http import HttpResponse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags
from rest_framework.request import Request

from benchapp import __version__
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, ChosenColumns, list_columns
from benchapp.framework.api.json import dump_json
from benchapp.framework.api.row_formats import write_json_cell
from benchapp.framework.csv_export import CONTENT_TYPE, Cell, CsvContext, format_cell, read_context, write_csv
from benchapp.framework.read.days import is_relative_moment
from benchapp.models import is_shown_to_stranger

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
    rows: Sequence[ApiAnswer],
    *,
    name: str,
    columns: Sequence[str] = (),
    next_cursor: str | None = None,
    format: str = "json",
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
    if format != "json":
        return answer_lines(
            request,
            rows,
            columns=columns,
            format=format,
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
    rows: Sequence[ApiAnswer],
    *,
    columns: Sequence[str],
    format: str,
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
    headers = {**(headers or {}), **name_file(file_name, format), **stated}
    if format == "csv":
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


def _state_completeness(context: CsvContext, rows: Sequence[ApiAnswer]) -> dict[str, str]:
    """Return a header for each column that states what is left out: of one that differs by row, for any of them."""
    stated = {name: context[name] for name in COMPLETENESS if name in context}
    values = {
        name: any(value(row) for row in rows) if callable(value) else value for name, value in stated.items()
    }
    return {name_header(name): format_cell(value) for name, value in values.items()}


def name_file(name: str, suffix: str) -> dict[str, str]:
    """Return the header that names a file to save."""
    return {"Content-Disposition": f'attachment; filename="{name}.{suffix}"'}


def _choose_columns(rows: Sequence[ApiAnswer], columns: Sequence[str]) -> Sequence[ApiAnswer] | list[Row]:
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
