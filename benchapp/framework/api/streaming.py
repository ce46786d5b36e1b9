"""Responses of any length in constant memory: written part by part in a separate thread, compressed."""

import asyncio
import gc
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import Final

import structlog
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import StreamingHttpResponse
from django.utils.cache import patch_vary_headers
from rest_framework.request import Request

from benchapp.framework.api.problems import Problem
from benchapp.framework.api.request_limits import ClientKey, find_client
from benchapp.framework.api.responses import GZIP_LEVEL, accepts

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
