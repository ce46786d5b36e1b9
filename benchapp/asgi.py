"""The web process: the body guard, the hot path of intake, and Django behind them."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
os.environ.setdefault("BENCHAPP_ROLE", "web")

from django.core.asgi import get_asgi_application

_django = get_asgi_application()

from django.conf import settings  # noqa: E402

from benchapp.api.guard import Receive, Scope, Send, SenderLeft, read_body, replay_body  # noqa: E402
from benchapp.api.intake import PATHS, answer_intake, send_problem  # noqa: E402
from benchapp.api.problems import Problem  # noqa: E402

_METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Guard the body of every request, then hand it to intake or to Django."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["type"] != "http":
        return
    elif scope["path"] in PATHS and scope["method"] == "POST":
        await answer_intake(scope, receive, send)
    elif scope["method"] in _METHODS_WITHOUT_BODY:
        await _django(scope, receive, send)  # type: ignore[arg-type]
    else:
        await _answer_guarded(scope, receive, send)


async def _answer_guarded(scope: Scope, receive: Receive, send: Send) -> None:
    try:
        body = await read_body(
            scope, receive, limit=settings.BODY_LIMIT_BYTES, unpacked_limit=settings.UNPACKED_LIMIT_BYTES
        )
    except SenderLeft:
        return
    except Problem as problem:
        await send_problem(send, problem)
        return
    inner_scope, inner_receive = replay_body(scope, body)
    await _django(inner_scope, inner_receive, send)  # type: ignore[arg-type]


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
