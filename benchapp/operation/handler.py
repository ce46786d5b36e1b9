"""Django behind ASGI: the whole of a request is answered in one thread of a pool."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from io import BytesIO
from typing import Final, TypeVar

from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from benchapp.intake.api.body import Message, Scope, Send
from benchapp.intake.api.documents import PATHS

_Result = TypeVar("_Result")

# More than the pool has connections (16), so that requests without a query do not wait behind slow queries.
_THREADS_MAXIMUM: Final = 64
# Posts of results: eight concurrent ones saturate two cores and PostgreSQL; more only queue.
_INTAKE_THREADS: Final = 8
# Answered by a separate thread: supervisors restart a process that does not answer, and one whose threads are all
# occupied is working.
_LIVENESS_PATH: Final = "/healthz"


# Of a stream, as sent (compressed): it holds a connection of the pool and a snapshot of the database.
MINIMUM_RATE_BYTES_PER_S: Final = 16 * 1024
# How far a reader may fall behind that rate: a program that works on a part before it reads the next.
LAG_MAXIMUM_S: Final = 20.0


class ReaderTooSlow(Exception):
    """A stream ends before its end, so that its client does not take it for complete."""


def _pace(send: Send) -> Send:
    """Return `send` of a stream that raises ReaderTooSlow once its client is LAG_MAXIMUM_S behind the minimum rate."""
    lag_s = 0.0

    async def send_in_time(message: Message) -> None:
        nonlocal lag_s
        loop = asyncio.get_running_loop()
        due_s = len(message.get("body", b"")) / MINIMUM_RATE_BYTES_PER_S
        started_at_s = loop.time()
        try:
            async with asyncio.timeout(LAG_MAXIMUM_S - lag_s + due_s):
                await send(message)
        except TimeoutError:
            raise ReaderTooSlow(
                f"the client reads less than {MINIMUM_RATE_BYTES_PER_S} bytes/s: the stream was ended"
            ) from None
        lag_s = max(0.0, lag_s + loop.time() - started_at_s - due_s)

    return send_in_time


class ThreadHandler(ASGIHandler):
    """Answers requests by synchronous middleware and views.

    Django's own handler starts two threads for each request, and passes it between them and the event loop five times:
    a third of the CPU time of a page without a query. A client that leaves is not noticed before its answer is sent.
    """

    def __init__(self) -> None:
        # Not that of ASGIHandler: it loads the middleware as coroutines.
        self.load_middleware()
        self._threads = ThreadPoolExecutor(_THREADS_MAXIMUM, thread_name_prefix="django")
        self._intake_threads = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        self._liveness_thread = ThreadPoolExecutor(1, thread_name_prefix="liveness")

    async def answer(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request whose body is received."""
        response = await self.run(scope, partial(self._respond, scope, body))
        try:
            await self.send_response(response, _pace(send) if response.streaming else send)  # type: ignore[arg-type]
        finally:
            if response.streaming:
                await self.run(scope, response.close)

    async def run(self, scope: Scope, function: Callable[[], _Result]) -> _Result:
        """Call a function in a thread for this request."""
        threads = self._threads
        if scope["path"] == _LIVENESS_PATH:
            threads = self._liveness_thread
        elif scope["path"] in PATHS and scope["method"] == "POST":
            threads = self._intake_threads
        # With the context of the request: its id is in the log lines of the thread.
        call = partial(copy_context().run, function)
        return await asyncio.get_running_loop().run_in_executor(threads, call)

    def _respond(self, scope: Scope, body: bytes) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, BytesIO(body))
        response: HttpResponseBase = refusal if request is None else self.get_response(request)  # type: ignore[assignment]
        response._handler_class = self.__class__  # type: ignore[attr-defined]
        # In this thread, to which its connection to PostgreSQL belongs.
        if response.streaming:
            close_old_connections()
        else:
            response.close()
        return response
