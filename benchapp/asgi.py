"""The web process: the body guard, the hot path of intake, and Django behind them."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("BENCHAPP_ROLE", "web")

from django.core.asgi import get_asgi_application

_django = get_asgi_application()

from django.conf import settings  # noqa: E402

from benchapp.api.guard import Body, Receive, Scope, Send, SenderLeft, read_wire, replay_body  # noqa: E402
from benchapp.api.intake import PATHS, answer_intake, send_problem  # noqa: E402
from benchapp.api.problems import Problem  # noqa: E402
from benchapp.checks import log_warnings  # noqa: E402
from benchapp.web.security import is_trusted_proxy  # noqa: E402
from benchapp.web.static_files import answer_static_file  # noqa: E402

# Here, as granian's asginl knows no lifespan.
log_warnings()

_METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Guard the body of every request, then hand it to intake or to Django."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
        return
    if scope["type"] != "http":
        return
    if scope["path"].startswith("/static/") and await answer_static_file(scope, send):
        return
    scope = _drop_forwarded(scope)
    if scope["path"] in PATHS and scope["method"] == "POST":
        await answer_intake(scope, receive, send)
    elif scope["method"] in _METHODS_WITHOUT_BODY:
        # Django would spool whatever comes behind the head of a GET to disk, without a bound.
        inner_scope, inner_receive = replay_body(scope, Body(b"", None))
        await _django(inner_scope, inner_receive, send)  # type: ignore[arg-type]
    else:
        await _answer_guarded(scope, receive, send)


def _drop_forwarded(scope: Scope) -> Scope:
    """Take away what only a listed proxy may say of the sender: anybody can write it."""
    client = scope.get("client")
    if client and is_trusted_proxy(client[0]):
        return scope
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if not bytes(name).lower().startswith(b"x-forwarded-")
    ]
    return {**scope, "headers": kept}


async def _answer_guarded(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        wire = await read_wire(scope, receive, limit=settings.BODY_LIMIT_BYTES)
        if wire.is_packed:
            # Only results come packed: unpacking for strangers is work that they could ask for at will.
            raise Problem(
                415, "encoding-unsupported", "Content encoding not supported", "send this body plain"
            )
    except SenderLeft:
        return
    except Problem as problem:
        await send_problem(send, problem)
        return
    inner_scope, inner_receive = replay_body(scope, Body(wire.body, None))
    await _django(inner_scope, inner_receive, send)  # type: ignore[arg-type]


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
