"""The physical neighbor of intake: an ASGI application that reads a body and INSERTs it, with no check at all."""

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")

import django

django.setup()

from django.db import connection  # noqa: E402

_pool = ThreadPoolExecutor(8)


def _insert(body: bytes) -> None:
    try:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO bare_submission (id, body) VALUES (%s, %s)", [uuid4(), body])
    finally:
        connection.close()


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Store what comes, whole or not."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["method"] == "POST":
        await asyncio.get_running_loop().run_in_executor(_pool, _insert, body)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"{}"})
