"""Lists of a resource: pages of JSON; CSV and NDJSON with all rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.http.response import HttpResponseBase
from rest_framework.request import Request

from benchapp.catalog.metrics import count_fitting
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, list_columns
from benchapp.framework.api.json import dump_json
from benchapp.framework.api.parameters import LIMIT_DEFAULT, LIMIT_MAXIMUM
from benchapp.framework.api.responses import answer_rows, name_file
from benchapp.framework.api.row_formats import RowColumn, list_kinds, row_format
from benchapp.framework.api.streaming import answer_stream
from benchapp.framework.csv_export import CsvContext, read_context
from benchapp.framework.read.pagination import Page

Item = TypeVar("Item")

# Of the rows of a page, as JSON.
PAGE_BYTES_MAXIMUM: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which rows of a list, and how: `PageParameters` and `FormatParameters`.

    limit: None if not given; columns: those of `fields`, () for all.
    """

    cursor: str | None
    limit: int | None
    format: str
    columns: Sequence[str]


def take_page_request(wanted: dict[str, Any]) -> PageRequest:
    """Take the parameters of pages and formats out of the validated ones."""
    return PageRequest(
        wanted.pop("cursor", None),
        wanted.pop("limit", None),
        wanted.pop("format", "json"),
        wanted.pop("columns", ()),
    )


def answer_list(
    request: Request,
    kind: type[AnswerPage],
    row: type[ApiAnswer],
    *,
    page: PageRequest,
    read: Callable[[str | None, int], Page[Item]],
    describe: Callable[[Sequence[Item]], Sequence[ApiAnswer]],
    name: str,
    columns: Sequence[str] = (),
    file_name: str = "",
    default_limit: int = LIMIT_DEFAULT,
    about: Mapping[str, Any] | None = None,
    context: CsvContext | None = None,
    headers: Mapping[str, str] | None = None,
) -> HttpResponseBase:
    """Return a page of JSON, or all rows behind the cursor as CSV or NDJSON; `limit` bounds these too.

    A page ends before PAGE_BYTES_MAXIMUM, with the cursor of its last row; it has at least one row.

    kind: of the page; row: of its rows, in its field `name`. read: returns the rows behind a cursor, at most so many.
    columns: by default those of the request.
    context: further columns of the CSV, unless the request names its columns with `fields`.
    """
    more = {} if context is None or page.format != "csv" or "fields" in request.query_params else context
    chosen = columns or page.columns or list_columns(row)
    is_json = page.format == "json"
    first = read(page.cursor, page.limit or (default_limit if is_json else LIMIT_MAXIMUM))
    file_name = file_name or name
    if is_json or page.limit or first.next_cursor is None:
        rows = describe(first.items)
        is_page = is_json or page.limit
        fitting = count_fitting((len(dump_json(row)) for row in rows), PAGE_BYTES_MAXIMUM)
        if is_page and fitting < len(rows):
            first = read(page.cursor, fitting)
            rows = describe(first.items)
        return answer_rows(
            request,
            kind,
            rows,
            name=name,
            columns=chosen,
            next_cursor=first.next_cursor,
            format=page.format,
            file_name=file_name,
            about=about,
            context=more,
            headers=headers,
        )
    kinds, written = list_kinds(row), row_format("csv" if page.format == "csv" else "ndjson", name=name)
    columns_written = [
        *(RowColumn(column, kinds[column]) for column in chosen),
        *(RowColumn(column, "text") for column in more),
    ]
    batches = _read_all(first, read, describe, columns=chosen, context=more)
    return answer_stream(
        request,
        written.write(columns_written, batches),
        content_type=written.content_type,
        headers={**(headers or {}), **name_file(file_name, page.format)},
    )


def _read_all(
    page: Page[Item],
    read: Callable[[str | None, int], Page[Item]],
    describe: Callable[[Sequence[Item]], Sequence[ApiAnswer]],
    *,
    columns: Sequence[str],
    context: CsvContext,
) -> Iterator[list[tuple[Any, ...]]]:
    while True:
        yield [
            (*(getattr(row, column) for column in columns), *read_context(context, row))
            for row in describe(page.items)
        ]
        if page.next_cursor is None:
            return
        page = read(page.next_cursor, LIMIT_MAXIMUM)
