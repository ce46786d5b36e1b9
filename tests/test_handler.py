"""Django behind ASGI: which thread does what, and what is closed where."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import structlog
from django.core.signals import request_finished, request_started
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path

from benchapp.operation.handler import _THREADS_MAXIMUM, ThreadHandler
from benchapp.overview.api.health import healthz

seen: dict[str, int] = {}
released = threading.Event()


def answer_text(request: HttpRequest) -> HttpResponse:
    seen["view"] = threading.get_ident()
    request_id = structlog.contextvars.get_contextvars()["request_id"]
    return HttpResponse(f"{request.method} {request.POST.get('name')} {request_id}")


def answer_parts(request: HttpRequest) -> StreamingHttpResponse:
    seen["view"] = threading.get_ident()

    async def make_parts() -> AsyncIterator[bytes]:
        yield b"a" * 70_000
        yield b"b"

    return StreamingHttpResponse(make_parts())


def fail(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError


def wait(request: HttpRequest) -> HttpResponse:
    released.wait(120)
    return HttpResponse("late")


urlpatterns = [
    path("text", answer_text),
    path("parts", answer_parts),
    path("fail", fail),
    path("wait", wait),
    path("healthz", healthz),
]


@pytest.fixture(autouse=True)
def signals(settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    seen.clear()

    def start(**_: object) -> None:
        seen["started"] = threading.get_ident()

    def finish(**_: object) -> None:
        seen["finished"] = threading.get_ident()

    request_started.connect(start)
    request_finished.connect(finish)
    yield
    request_started.disconnect(start)
    request_finished.disconnect(finish)


def ask(path: str, *, method: str = "GET", query: bytes = b"", body: bytes = b"") -> list[dict[str, Any]]:
    """Return the messages of the answer."""
    return asyncio.run(ask_handler(ThreadHandler(), path, method=method, query=query, body=body))


async def ask_handler(
    handler: ThreadHandler, path: str, *, method: str = "GET", query: bytes = b"", body: bytes = b""
) -> list[dict[str, Any]]:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(dict(message))

    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-length", str(len(body)).encode()),
    ]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query,
        "headers": headers,
        "server": ("127.0.0.1", 80),
    }
    structlog.contextvars.bind_contextvars(request_id="of-this-test")
    await handler.answer(scope, body, send)
    structlog.contextvars.clear_contextvars()
    return sent


def test_whole_request_is_answered_in_one_thread_beside_the_event_loop() -> None:
    start, body = ask("/text")

    assert (start["status"], body["body"]) == (200, b"GET None of-this-test")
    assert len(set(seen.values())) == 1
    assert seen.keys() == {"started", "view", "finished"}
    assert threading.get_ident() not in seen.values()


def test_view_reads_the_form_of_the_body(settings: Any) -> None:
    settings.MIDDLEWARE = []

    _, body = ask("/text", method="POST", body=b"name=iops")

    assert body["body"] == b"POST iops of-this-test"


def test_streamed_response_is_closed_after_its_last_part() -> None:
    start, *parts = ask("/parts")

    assert start["status"] == 200
    assert b"".join(part.get("body", b"") for part in parts) == b"a" * 70_000 + b"b"
    assert [part.get("more_body", False) for part in parts] == [True, True, True, False]
    assert "finished" in seen


def test_exception_of_a_view_is_answered_by_500(settings: Any) -> None:
    settings.MIDDLEWARE = []

    start, _ = ask("/fail")

    assert start["status"] == 500
    assert "finished" in seen


def test_query_that_is_not_utf_8_is_answered_by_400() -> None:
    start, _ = ask("/text", query=b"q=\xff")

    assert start["status"] == 400


def test_liveness_is_answered_while_all_threads_are_occupied(settings: Any) -> None:
    settings.MIDDLEWARE = []
    released.clear()

    async def ask_while_occupied() -> tuple[list[dict[str, Any]], int]:
        handler = ThreadHandler()
        waiting = [asyncio.create_task(ask_handler(handler, "/wait")) for _ in range(_THREADS_MAXIMUM)]
        try:
            answered = await asyncio.wait_for(ask_handler(handler, "/healthz"), 60)
            return answered, sum(task.done() for task in waiting)
        finally:
            released.set()
            await asyncio.gather(*waiting)

    (start, _), done = asyncio.run(ask_while_occupied())

    assert (start["status"], done) == (200, 0)
