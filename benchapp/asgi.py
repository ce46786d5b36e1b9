"""The web process: request ids, the body guard, and Django behind them."""

import gc
import os
import re
from collections.abc import Callable
from functools import partial
from uuid import uuid4

import structlog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("BENCHAPP_ROLE", "web")

import django

django.setup(set_prefix=False)

from django.conf import settings
from django.db import connection
from django.http import HttpResponse
from django.urls import Resolver404, resolve, reverse

from benchapp.framework.api.permissions import (
    require_bearer,
    require_editor,
)
from benchapp.framework.api.problems import (
    Problem,
    answer_problem,
    call_with_retry,
    find_problem,
)
from benchapp.framework.pages.static_files import answer_static_file
from benchapp.intake.api.body import (
    BODIES,
    SMALL_BODY_BYTES,
    HeldBody,
    Message,
    Receive,
    Scope,
    Send,
    Wire,
    announces_more,
    discard_rest,
    read_headers,
    read_wire,
    replace_length,
)
from benchapp.intake.api.documents import PATHS
from benchapp.intake.api.posts import authenticate_sender
from benchapp.operation.checks import log_warnings
from benchapp.operation.handler import ThreadHandler
from benchapp.storage.agent_archive import read_agent_version

_django = ThreadHandler()
# Here, as granian's asginl knows no lifespan.
log_warnings()
resolve("/")  # imports all views
# What is loaded by now is not searched for garbage.
gc.collect()
gc.freeze()

_METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
# Files that a person uploads, and studies, whose text alone may be 220 000 characters. Only editors send these.
_LARGE_VIEWS = frozenset({"upload_files", "add_study", "edit_study", "api_studies", "api_study"})


_AGENT_VERSION = read_agent_version().encode("ascii")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{8,64}")


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Give a request its id, in the answer and in every log line about it, and answer it."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["type"] == "http":
        request_id = _choose_request_id(scope)
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        await _answer(scope, receive, _add_headers(send, scope["path"], request_id))


def _choose_request_id(scope: Scope) -> str:
    """Return the id that the sender chose, or a new one if there is none or it has other characters."""
    given: bytes = read_headers(scope).get(b"x-request-id", b"")
    return given.decode("ascii") if _REQUEST_ID.fullmatch(given) else uuid4().hex


def _add_headers(send: Send, path: str, request_id: str) -> Send:
    """Add the id of the request and, in the API, the version of the agent that this server ships."""
    added = [(b"x-request-id", request_id.encode("ascii"))]
    if path.startswith("/api/"):
        added.append((b"bench-agent-version", _AGENT_VERSION))

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return send_with_headers


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Guard the body of the request, then hand it to Django."""
    if scope["path"].startswith("/static/") and await answer_static_file(scope, send):
        return
    if scope["method"] in _METHODS_WITHOUT_BODY:
        # Whatever comes behind the head of a GET is not read: it has no bound.
        await _django.answer(replace_length(scope, 0), b"", send)
    else:
        await _answer_guarded(scope, receive, send)


async def _answer_guarded(scope: Scope, receive: Receive, send: Send) -> None:
    with BODIES.hold() as held:
        try:
            wire = await _read_body(scope, receive, held)
        except Problem as problem:
            refusal = _answer_refusal(scope, problem)
        else:
            await _django.answer(
                replace_length(scope, len(wire.body), is_packed=wire.is_packed), wire.body, send
            )
            return
    await _django.send_response(refusal, send)  # type: ignore[arg-type]
    if not held.is_whole:
        await discard_rest(receive, limit=settings.BODY_LIMIT_BYTES)


def _answer_refusal(scope: Scope, problem: Problem) -> HttpResponse:
    if problem.status == 401 and not scope["path"].startswith("/api/"):
        response = HttpResponse(status=303, headers={"Location": reverse("sign_in")})
    else:
        response = answer_problem(problem)
    response["Content-Length"] = str(len(response.content))
    # Not answered by Django, whose middleware adds these headers.
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    return response


async def _read_body(scope: Scope, receive: Receive, held: HeldBody) -> Wire:
    """Return the body; raises Problem for a sender who may not send one of its size."""
    headers = read_headers(scope)
    authorization, date, cookies = (
        headers.get(name, b"").decode("latin-1") for name in (b"authorization", b"date", b"cookie")
    )
    is_result = scope["path"] in PATHS and scope["method"] == "POST"
    if is_result:
        # Without a thread and a connection to PostgreSQL, as anybody can post.
        require_bearer(authorization)
    limit = SMALL_BODY_BYTES
    if announces_more(scope, SMALL_BODY_BYTES) and (is_result or _find_view(scope["path"]) in _LARGE_VIEWS):
        check = (
            partial(authenticate_sender, authorization, date)
            if is_result
            else partial(require_editor, authorization, cookies)
        )
        await _django.run(scope, partial(_check_sender, check))
        limit = settings.BODY_LIMIT_BYTES
    wire = await read_wire(scope, receive, limit=limit, held=held)
    if wire.is_packed and not is_result:
        # Unpacking for strangers is work that they could ask for at will.
        raise Problem(415, "encoding-unsupported", "Content encoding not supported", "send this body plain")
    return wire


def _check_sender(check: Callable[[], object]) -> None:
    """Call a check of the sender; its exceptions are raised as Problem."""
    try:
        call_with_retry(check)
    except Exception as error:
        problem = find_problem(error)
        if problem is None:
            raise
        # Without the traceback, which would keep the frames of the request.
        raise problem from None
    finally:
        connection.close()  # back to the pool


def _find_view(path: str) -> str | None:
    try:
        return resolve(path).url_name
    except Resolver404:
        return None


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
