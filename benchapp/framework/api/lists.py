"""Lists: page by page with a cursor, or all rows as a stream."""

import asyncio
import gc
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Any, Final, TypeVar

import structlog
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers
from msgspec import Struct
from rest_framework.request import Request

from benchapp.catalog.metrics import count_fitting
from benchapp.framework.api.answers import AnswerPage, dump_json, list_columns
from benchapp.framework.api.parameters import LIMIT_DEFAULT, LIMIT_MAXIMUM
from benchapp.framework.api.problems import Problem
from benchapp.framework.api.responses import (
    GZIP_LEVEL,
    RowColumn,
    accepts,
    answer_rows,
    list_kinds,
    name_file,
    row_format,
)
from benchapp.framework.api.view import ClientKey, find_client
from benchapp.framework.csv_export import CsvContext, read_context
from benchapp.framework.read.pagination import Page
from benchapp.models.limits import limited, read_limit

log = structlog.get_logger(__name__)

# Each holds a connection of the pool (16) and a snapshot of the database while its client reads.
STREAMS_MAXIMUM: Final = 4
# Of one client, with its requests that wait: one client alone cannot take all places.
STREAMS_OF_CLIENT_MAXIMUM: Final = 2
# How long a request waits for its turn: most are sent within a fraction of a second.
WAIT_S: Final = 10
# A request that waits occupies one of the threads that answer all requests (64).
WAITING_MAXIMUM: Final = 8
_FREE: Final = BoundedSemaphore(STREAMS_MAXIMUM)
_WAITING: Final = BoundedSemaphore(WAITING_MAXIMUM)
_CLIENTS: Final[Counter[ClientKey]] = Counter()
_CLIENTS_LOCK: Final = Lock()
# The threads that make parts. An executor that is garbage together with its response ends its thread before the
# response can be closed.
_THREADS: Final[set[ThreadPoolExecutor]] = set()


def answer_stream(
    request: Request, parts: Iterator[bytes], *, content_type: str, headers: Mapping[str, str]
) -> StreamingHttpResponse:
    """Return a response whose body are these parts; the first is made before the status is sent.

    An error in a later part ends the connection before the end of the body, so that no client takes it for complete.
    Raises Problem 429 if this process sends STREAMS_OF_CLIENT_MAXIMUM others to the client, 503 if it sends
    STREAMS_MAXIMUM others, and none ends within WAIT_S, or WAITING_MAXIMUM requests wait already.
    """
    place = _take_place(find_client(request))
    is_packed = accepts(request, "gzip")
    is_async = isinstance(request._request, ASGIRequest)
    # In the thread of the request, the limit of the reader ends with the request.
    parts = _limit(parts) if is_async or read_limit() is None else iter(list(parts))
    body = (_AsyncBody if is_async else _Body)(_compress(parts) if is_packed else parts, place)
    body.make_first()
    response = StreamingHttpResponse(
        body,
        content_type=content_type,
        headers={"Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff", **headers},
    )
    if is_packed:
        response.headers["Content-Encoding"] = "gzip"
    patch_vary_headers(response, ("Accept-Encoding", "Authorization", "Cookie"))
    return response


def _limit(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Make the parts within the limit of the reader, also by another connection."""
    with limited(read_limit()):
        yield from parts


def _take_place(client: ClientKey) -> ExitStack:
    """Return a place, at once or after at most WAIT_S; its close() frees it. Problem 429 or 503 without one."""
    with ExitStack() as place:
        if not _count_stream(client):
            raise _refuse(
                429,
                "quota-exceeded",
                f"you are being sent {STREAMS_OF_CLIENT_MAXIMUM} complete lists, the most at a time: try again when"
                " one has ended, or read this one in pages (limit, cursor)",
            )
        place.callback(_uncount_stream, client)
        if not (_FREE.acquire(blocking=False) or _wait_for_place()):
            raise _refuse(503, "busy", f"{STREAMS_MAXIMUM} complete long lists are being sent; try again")
        place.callback(_FREE.release)
        return place.pop_all()


def _refuse(status: int, code: str, detail: str) -> Problem:
    return Problem(status, code, "Try again later", detail, headers={"Retry-After": "2"})


def _wait_for_place() -> bool:
    if not _WAITING.acquire(blocking=False):
        return False
    try:
        # Responses that were dropped in a reference cycle free their places: this process collects garbage rarely.
        gc.collect()
        return _FREE.acquire(timeout=WAIT_S)
    finally:
        _WAITING.release()


def _count_stream(client: ClientKey) -> bool:
    """Count a stream of a client; False if it has its maximum."""
    if _CLIENTS[client] >= STREAMS_OF_CLIENT_MAXIMUM:
        gc.collect()  # as in _wait_for_place
    with _CLIENTS_LOCK:
        if _CLIENTS[client] >= STREAMS_OF_CLIENT_MAXIMUM:
            return False
        _CLIENTS[client] += 1
        return True


def _uncount_stream(client: ClientKey) -> None:
    with _CLIENTS_LOCK:
        _CLIENTS[client] -= 1
        if not _CLIENTS[client]:
            del _CLIENTS[client]


def _compress(parts: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(GZIP_LEVEL, wbits=31)
    for part in parts:
        if packed := packer.compress(part):
            yield packed
    yield packer.flush()


class _PartsBody:
    """The parts of one response. Frees its place among STREAMS_MAXIMUM once, however it ends."""

    def __init__(self, parts: Iterator[bytes], place: ExitStack) -> None:
        self._parts = parts
        self._place = place
        self._is_open = True
        self._first: bytes | None = None

    def make_first(self) -> None:
        """Make the first part; what prevents it is raised here, before anything is sent."""
        try:
            self._first = self._start()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop; called by Django at the end of the response, also if its client left."""
        if self._is_open:
            self._is_open = False
            self._stop()

    def __del__(self) -> None:
        # Django drops a response unclosed if its client left before it was sent.
        self.close()

    def _start(self) -> bytes | None:
        raise NotImplementedError

    def _stop(self) -> None:
        raise NotImplementedError


class _Body(_PartsBody):
    """Parts made in the thread of the caller: a server without ASGI."""

    def __iter__(self) -> Iterator[bytes]:
        try:
            part = self._first
            while part is not None:
                yield part
                part = next(self._parts, None)
        finally:
            self.close()

    def _start(self) -> bytes | None:
        return next(self._parts, None)

    def _stop(self) -> None:
        self._place.close()
        _close(self._parts)


class _AsyncBody(_PartsBody):
    """Parts made in one separate thread: a database connection of Django belongs to a thread."""

    def __init__(self, parts: Iterator[bytes], place: ExitStack) -> None:
        super().__init__(parts, place)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stream")
        # The context of the request names the reader.
        self._next = partial(copy_context().run, next, parts, None)
        _THREADS.add(self._thread)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        loop, part = asyncio.get_running_loop(), self._first
        try:
            while part is not None:
                yield part
                part = await loop.run_in_executor(self._thread, self._next)
        finally:
            self.close()

    def _start(self) -> bytes | None:
        return self._thread.submit(self._next).result()

    def _stop(self) -> None:
        # Behind the part that is being made, if the client left meanwhile.
        self._thread.submit(_end, self._parts, self._place)
        self._thread.shutdown(wait=False)
        _THREADS.discard(self._thread)


def _end(parts: Iterator[bytes], place: ExitStack) -> None:
    try:
        _close(parts)
    except Exception:
        # The edge of the thread: nobody waits for its result.
        log.exception("stream.not_closed")
    finally:
        connections.close_all()
        place.close()


def _close(parts: Iterator[bytes]) -> None:
    if isinstance(parts, Generator):
        parts.close()


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
    row: type[Struct],
    *,
    page: PageRequest,
    read: Callable[[str | None, int], Page[Item]],
    describe: Callable[[Sequence[Item]], Sequence[Struct]],
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
            answer_format=page.format,
            file_name=file_name,
            about=about,
            context=more,
            headers=headers,
        )
    kinds = list_kinds(row)
    content_type, write = row_format("csv" if page.format == "csv" else "ndjson", name=name)
    columns_written = [
        *(RowColumn(column, kinds[column]) for column in chosen),
        *(RowColumn(column, "text") for column in more),
    ]
    batches = _read_all(first, read, describe, columns=chosen, context=more)
    return answer_stream(
        request,
        write(columns_written, batches),
        content_type=content_type,
        headers={**(headers or {}), **name_file(file_name, page.format)},
    )


def _read_all(
    page: Page[Item],
    read: Callable[[str | None, int], Page[Item]],
    describe: Callable[[Sequence[Item]], Sequence[Struct]],
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
