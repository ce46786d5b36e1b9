"""Read a request's body whole and bounded before anyone sees it: the ASGI guard in front of everything."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from benchapp.api.problems import Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_MIB: Final = 2**20
# Nothing honest needs longer for 8 MiB; a body that trickles for ever must not hold its memory for ever.
BODY_TIMEOUT_S: Final = 60.0


class SenderLeft(Exception):
    """The sender hung up before its body was whole: there is nobody to answer."""


@dataclass(frozen=True, slots=True)
class Body:
    """A whole body. unpacked: what was meant; packed: the gzip of it as received, None where it was plain."""

    unpacked: bytes
    packed: bytes | None


@dataclass(frozen=True, slots=True)
class Wire:
    """A whole body as it came; is_packed: it is gzip."""

    body: bytes
    is_packed: bool


async def read_wire(scope: Scope, receive: Receive, *, limit: int) -> Wire:
    """Return the whole body as it came; limit in bytes, inclusive.

    Raises Problem 400 (cut short, wrong length), 408, 413 or 415, and SenderLeft.
    """
    headers = _read_headers(scope)
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"", b"gzip", b"x-gzip"):
        raise Problem(
            415,
            "encoding-unsupported",
            "Content encoding not supported",
            f"Content-Encoding {encoding.decode('latin-1')[:50]!r} is not supported: send gzip, or none",
            headers={"Accept-Encoding": "gzip"},
        )
    announced = _read_length(headers.get(b"content-length"))
    if announced is not None and announced > limit:
        raise _too_big(f"the body is {announced} bytes; at most {limit // _MIB} MiB are taken")
    try:
        wire = await asyncio.wait_for(_receive_all(receive, limit), BODY_TIMEOUT_S)
    except TimeoutError:
        raise Problem(
            408,
            "body-too-slow",
            "Body too slow",
            f"the body was not whole after {BODY_TIMEOUT_S:.0f} s: try again",
        ) from None
    if announced is not None and len(wire) != announced:
        raise Problem(
            400,
            "body-length",
            "Body cut short",
            f"Content-Length says {announced} bytes and {len(wire)} came: send it again",
        )
    return Wire(wire, encoding in (b"gzip", b"x-gzip"))


def unpack_wire(wire: Wire, *, limit: int) -> Body:
    """Return the body unpacked; limit in bytes, inclusive. Raises Problem 400 (bad gzip) or 413.

    Up to 0.2 s of work for the largest: for a thread, and for a sender who has shown a token.
    """
    if wire.is_packed:
        return Body(unpack_gzip(wire.body, limit), wire.body)
    if len(wire.body) > limit:
        raise _too_big(f"the body is more than {limit // _MIB} MiB")
    return Body(wire.body, None)


def unpack_gzip(wire: bytes, limit: int) -> bytes:
    """Return what one gzip member holds, at most limit bytes; a bomb stops at the limit, not after it."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        unpacked = inflater.decompress(wire, limit + 1)
    except zlib.error as error:
        raise Problem(400, "gzip-invalid", "Broken gzip", f"the body is no whole gzip: {error}") from error
    if len(unpacked) > limit:
        raise _too_big(f"the body unpacks to more than {limit // _MIB} MiB")
    if not inflater.eof:
        raise Problem(400, "gzip-truncated", "Broken gzip", "the gzip ends before its end: send it again")
    if inflater.unused_data:
        raise Problem(
            400,
            "gzip-trailing",
            "Broken gzip",
            f"{len(inflater.unused_data)} bytes follow the end of the gzip: send one gzip member",
        )
    return unpacked


def replay_body(scope: Scope, body: Body) -> tuple[Scope, Receive]:
    """Return a scope and a receive that give an inner application the unpacked body in one message."""
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (b"content-encoding", b"content-length", b"transfer-encoding")
    ]
    headers.append((b"content-length", str(len(body.unpacked)).encode()))
    is_given = False

    async def receive() -> Message:
        nonlocal is_given
        if is_given:
            # Django listens for a disconnect while it answers; the answer itself ends this wait.
            await asyncio.Event().wait()
        is_given = True
        return {"type": "http.request", "body": body.unpacked, "more_body": False}

    return {**scope, "headers": headers}, receive


async def _receive_all(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise SenderLeft
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_big(f"the body is more than {limit // _MIB} MiB")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _read_headers(scope: Scope) -> dict[bytes, bytes]:
    return {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}


def _read_length(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit() or len(value) > 18:
        raise Problem(
            400,
            "body-length",
            "Bad Content-Length",
            f"Content-Length {value[:50].decode('latin-1')!r} is no length",
        )
    return int(value)


def _too_big(detail: str) -> Problem:
    return Problem(413, "body-too-big", "Body too big", detail)
