"""The web process: request ids, the body guard, the hot path of intake, and Django behind them."""

import gc
import os
import re
from functools import partial
from uuid import uuid4

import structlog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("BENCHAPP_ROLE", "web")

import django

django.setup(set_prefix=False)

from django.conf import settings  # noqa: E402
from django.urls import Resolver404, resolve, reverse  # noqa: E402

from benchapp.agent_archive import read_agent_version  # noqa: E402
from benchapp.api.framework.answers import ApiAnswer  # noqa: E402
from benchapp.api.framework.permissions import require_editor  # noqa: E402
from benchapp.api.framework.problems import Problem  # noqa: E402
from benchapp.api.ingest.app import PATHS, Answer, answer_intake, make_problem_answer, send_answer, work  # noqa: E402
from benchapp.api.ingest.body import (  # noqa: E402
    BODIES,
    SMALL_BODY_BYTES,
    HeldBody,
    Message,
    Receive,
    Scope,
    Send,
    announces_more,
    discard_rest,
    read_headers,
    read_wire,
    replace_length,
)
from benchapp.api.posting.validation import describe_validation  # noqa: E402
from benchapp.checks import log_warnings  # noqa: E402
from benchapp.handler import ThreadHandler  # noqa: E402
from benchapp.web.site.static_files import answer_static_file  # noqa: E402

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
    """Guard the body of the request, then hand it to intake or to Django."""
    if scope["path"].startswith("/static/") and await answer_static_file(scope, send):
        return
    if scope["path"] in PATHS and scope["method"] == "POST":
        await answer_intake(scope, receive, send, validate=describe_validation)
    elif scope["method"] in _METHODS_WITHOUT_BODY:
        # Whatever comes behind the head of a GET is not read: it has no bound.
        await _django.answer(replace_length(scope, 0), b"", send)
    else:
        await _answer_guarded(scope, receive, send)


async def _answer_guarded(scope: Scope, receive: Receive, send: Send) -> None:
    with BODIES.hold() as held:
        try:
            body = await _read_body(scope, receive, held)
        except Problem as problem:
            body = make_problem_answer(problem)
        if isinstance(body, bytes):
            await _django.answer(replace_length(scope, len(body)), body, send)
            return
    await send_answer(send, body)
    if not held.is_whole:
        await discard_rest(receive, limit=settings.BODY_LIMIT_BYTES)


async def _read_body(scope: Scope, receive: Receive, held: HeldBody) -> bytes | Answer:
    """Return the body, or the answer to who may not send one of its size; raises Problem."""
    limit = SMALL_BODY_BYTES
    if announces_more(scope, SMALL_BODY_BYTES) and _find_view(scope["path"]) in _LARGE_VIEWS:
        refusal = await _refuse_large(scope)
        if refusal is not None:
            return refusal
        limit = settings.BODY_LIMIT_BYTES
    wire = await read_wire(scope, receive, limit=limit, held=held)
    if wire.is_packed:
        # Only results come packed: unpacking for strangers is work that they could ask for at will.
        raise Problem(415, "encoding-unsupported", "Content encoding not supported", "send this body plain")
    return wire.body


async def _refuse_large(scope: Scope) -> Answer | None:
    headers = read_headers(scope)
    authorization, cookies = (
        headers.get(name, b"").decode("latin-1") for name in (b"authorization", b"cookie")
    )
    refusal = await work(partial(require_editor, authorization, cookies))
    if refusal is not None and refusal.status == 401 and not scope["path"].startswith("/api/"):
        return Answer(303, ApiAnswer(), {"Location": reverse("sign_in")})
    return refusal


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
