"""Read the complete request body with size and time limits: the ASGI guard in front of everything."""

import asyncio
import ctypes
import zlib
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings

from benchapp.framework.api.problems import RETRY_AFTER_S, Problem

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_MIB: Final = 2**20
# Enough for 8 MiB on a slow line; a body that trickles must not hold its memory forever.
BODY_TIMEOUT_S: Final = 60.0
# Bodies of forms and of the JSON API.
SMALL_BODY_BYTES: Final = 64 * 2**10
# How long the rest of a rejected body is read and discarded, so that the sender can read the answer.
_DISCARD_TIMEOUT_S: Final = 5.0
_DISCARDS_MAXIMUM: Final = 128
# After bodies of this size together the allocator is asked for what it kept of them.
_TRIM_BYTES: Final = 16 * _MIB


@dataclass(frozen=True, slots=True)
class Body:
    """A complete body. unpacked: the content; packed: its gzip as received, None if it was plain."""

    unpacked: bytes
    packed: bytes | None


@dataclass(frozen=True, slots=True)
class Wire:
    """A complete body as received. is_packed: it is gzip."""

    body: bytes
    is_packed: bool


class HeldBody:
    """Share of one request in the budget. is_whole: the body was received completely."""

    def __init__(self, budget: "BodyBudget") -> None:
        self._budget = budget
        self.size_bytes = 0
        self.is_whole = False

    def add(self, size_bytes: int) -> None:
        """Count received bytes; raises Problem 503 if all bodies together exceed the budget."""
        self._budget.take(size_bytes)
        self.size_bytes += size_bytes


class BodyBudget:
    """Bytes of bodies that this process holds, as received; event loop only."""

    def __init__(self) -> None:
        self.held_bytes = 0
        self._peak_bytes = 0

    @contextmanager
    def hold(self) -> Iterator[HeldBody]:
        """Reserve the share of one body for the block."""
        held = HeldBody(self)
        try:
            yield held
        finally:
            self.held_bytes -= held.size_bytes
            self._trim()

    def take(self, size_bytes: int) -> None:
        """Count bytes; raises Problem 503 if they exceed the budget."""
        if self.held_bytes + size_bytes > settings.BODIES_IN_FLIGHT_BYTES:
            raise Problem(
                503,
                "busy",
                "Try again later",
                f"{settings.BODIES_IN_FLIGHT_BYTES // _MIB} MiB of bodies are being received: try again",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        self.held_bytes += size_bytes
        self._peak_bytes = max(self._peak_bytes, self.held_bytes)

    def _trim(self) -> None:
        """Return freed memory to the system once no body is held: glibc keeps what lies below anything in use."""
        if self.held_bytes or self._peak_bytes < _TRIM_BYTES:
            return
        self._peak_bytes = 0
        asyncio.get_running_loop().run_in_executor(None, _trim_heap)


BODIES: Final = BodyBudget()
_discards = 0  # event loop only


def _trim_heap() -> None:
    # glibc only; musl returns freed memory automatically.
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


async def read_wire(scope: Scope, receive: Receive, *, limit: int, held: HeldBody) -> Wire:
    """Return the complete body as received; limit in bytes, inclusive; held: counts it.

    Raises Problem 400 (cut short, malformed, wrong length), 408, 413, 415 or 503 (busy).
    """
    headers = read_headers(scope)
    _check_transfer(headers)
    encoding = headers.get(b"content-encoding", b"identity").strip().lower()
    if encoding not in (b"identity", b"", b"gzip", b"x-gzip"):
        raise Problem(
            415,
            "encoding-unsupported",
            "Content encoding not supported",
            f"Content-Encoding {encoding.decode('latin-1')[:50]!r} is not supported: use gzip or none",
            headers={"Accept-Encoding": "gzip"},
        )
    announced = _read_length(headers.get(b"content-length"))
    if announced is not None and announced > limit:
        raise _too_big(f"the body has {announced} bytes; the limit is {_format_size(limit)}")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            wire = await _receive_all(receive, limit, held)
    except TimeoutError:
        raise Problem(
            408,
            "body-too-slow",
            "Body too slow",
            f"the body was not complete after {BODY_TIMEOUT_S:.0f} s: try again",
        ) from None
    held.is_whole = True
    if announced is not None and len(wire) != announced:
        raise Problem(
            400,
            "body-length",
            "Body cut short",
            f"Content-Length is {announced}, but {len(wire)} bytes were received: send it again",
        )
    return Wire(wire, encoding in (b"gzip", b"x-gzip"))


def announces_more(scope: Scope, size_bytes: int) -> bool:
    """Return whether a request may exceed the limit; the size of a chunked body is unknown."""
    headers = read_headers(scope)
    announced = _read_length(headers.get(b"content-length"))
    return b"transfer-encoding" in headers or (announced or 0) > size_bytes


def unpack_wire(wire: Wire, *, limit: int) -> Body:
    """Return the body unpacked; limit in bytes, inclusive. Raises Problem 400 (bad gzip) or 413.

    Up to 0.2 s of work for the largest: for a thread, and for a sender who has shown a token.
    """
    if wire.is_packed:
        return Body(unpack_gzip(wire.body, limit), wire.body)
    if len(wire.body) > limit:
        raise _too_big(f"the body exceeds {_format_size(limit)}")
    return Body(wire.body, None)


def unpack_gzip(wire: bytes, limit: int) -> bytes:
    """Return the content of one gzip member, at most limit bytes; a zip bomb stops at the limit."""
    inflater = zlib.decompressobj(wbits=31)
    try:
        unpacked = inflater.decompress(wire, limit + 1)
    except zlib.error as error:
        raise Problem(400, "gzip-invalid", "Broken gzip", f"the body is not a valid gzip: {error}") from error
    if len(unpacked) > limit:
        raise _too_big(f"the body unpacks to more than {_format_size(limit)}")
    if not inflater.eof:
        raise Problem(400, "gzip-truncated", "Broken gzip", "the gzip is truncated: send it again")
    if inflater.unused_data:
        raise Problem(
            400,
            "gzip-trailing",
            "Broken gzip",
            f"{len(inflater.unused_data)} bytes after the end of the gzip: send one gzip member",
        )
    return unpacked


def replace_length(scope: Scope, size_bytes: int, *, is_packed: bool = False) -> Scope:
    """Return a scope whose headers announce a body of this size, as gzip if it is packed."""
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (b"content-encoding", b"content-length", b"transfer-encoding")
    ]
    headers.append((b"content-length", str(size_bytes).encode()))
    if is_packed:
        headers.append((b"content-encoding", b"gzip"))
    return {**scope, "headers": headers}


async def discard_rest(receive: Receive, *, limit: int) -> None:
    """Receive and discard the rest of a rejected body, at most limit bytes.

    A connection that is closed upon unread bytes is reset, and the answer may be lost with it. Each that is read on
    takes a buffer of the server, so beyond _DISCARDS_MAXIMUM they are closed.
    """
    global _discards
    if _discards >= _DISCARDS_MAXIMUM:
        return
    _discards += 1
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_TIMEOUT_S):
                while limit > 0:
                    message = await receive()
                    if not message.get("more_body", False):
                        return
                    limit -= len(message.get("body", b""))
    finally:
        _discards -= 1


async def _receive_all(receive: Receive, limit: int, held: HeldBody) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            # The server reports a disconnected sender and malformed chunks by the same message.
            raise Problem(
                400,
                "body-broken",
                "Body incomplete",
                f"the body ends or is malformed after {size} bytes: send it again",
            )
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_big(f"the body exceeds {_format_size(limit)}")
        held.add(len(part))
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def read_headers(scope: Scope) -> dict[bytes, bytes]:
    """Return the headers by their lower-case names, the last of each."""
    return {bytes(name).lower(): bytes(value) for name, value in scope["headers"]}


def _check_transfer(headers: dict[bytes, bytes]) -> None:
    # The server decodes chunks only; any other coding would be stored as content.
    coding = headers.get(b"transfer-encoding", b"chunked")
    if coding.strip().lower() != b"chunked":
        raise Problem(
            400,
            "encoding-unsupported",
            "Transfer encoding not supported",
            f"Transfer-Encoding {coding.decode('latin-1')[:50]!r} is not supported: use chunked or none",
        )


def _read_length(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not value.isdigit() or len(value) > 18:
        raise Problem(
            400,
            "body-length",
            "Bad Content-Length",
            f"Content-Length {value[:50].decode('latin-1')!r} is not a valid length",
        )
    return int(value)


def _format_size(size_bytes: int) -> str:
    return f"{size_bytes // _MIB} MiB" if size_bytes >= _MIB else f"{size_bytes // 2**10} KiB"


def _too_big(detail: str) -> Problem:
    return Problem(413, "body-too-big", "Body too big", detail)
