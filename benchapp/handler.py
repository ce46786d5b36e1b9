"""Django behind ASGI: the whole of a request is answered in one thread of a pool."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from io import BytesIO
from typing import Final

from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from benchapp.api.ingest.body import Scope, Send

# More than the pool has connections (16), so that requests without a query do not wait behind slow queries.
_THREADS_MAXIMUM: Final = 64
# Answered by a separate thread: supervisors restart a process that does not answer, and one whose threads are all
# occupied is working.
_LIVENESS_PATH: Final = "/healthz"


class ThreadHandler(ASGIHandler):
    """Answers requests by synchronous middleware and views.

    Django's own handler starts two threads for each request, and passes it between them and the event loop five times:
    a third of the CPU time of a page without a query. A client that leaves is not noticed before its answer is sent.
    """

    def __init__(self) -> None:
        # Not that of ASGIHandler: it loads the middleware as coroutines.
        self.load_middleware()
        self._threads = ThreadPoolExecutor(_THREADS_MAXIMUM, thread_name_prefix="django")
        self._liveness_thread = ThreadPoolExecutor(1, thread_name_prefix="liveness")

    async def answer(self, scope: Scope, body: bytes, send: Send) -> None:
        """Answer a request whose body is received."""
        loop = asyncio.get_running_loop()
        # With the context of the request: its id is in the log lines of the thread.
        respond = partial(copy_context().run, self._respond, scope, body)
        threads = self._liveness_thread if scope["path"] == _LIVENESS_PATH else self._threads
        response = await loop.run_in_executor(threads, respond)
        try:
            await self.send_response(response, send)  # type: ignore[arg-type]
        finally:
            if response.streaming:
                await loop.run_in_executor(threads, response.close)

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
