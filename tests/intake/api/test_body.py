"""The body guard: whole, bounded, unpacked, or a problem that names the fault. No database."""

import asyncio
import gzip
import tracemalloc
import zlib
from typing import Any

import pytest
from django.conf import LazySettings

from benchapp.framework.api.problems import Problem
from benchapp.intake.api.body import (
    Body,
    BodyBudget,
    Wire,
    announces_more,
    read_wire,
    replace_length,
    unpack_gzip,
    unpack_wire,
)

LIMIT = 1000


def read_whole(scope: dict[str, Any], receive: Any, budget: BodyBudget | None = None) -> Wire:
    with (budget or BodyBudget()).hold() as held:
        return asyncio.run(read_wire(scope, receive, limit=LIMIT, held=held))


def read(parts: list[bytes], *, headers: dict[str, str] | None = None, leaves: bool = False) -> Body:
    """Read a body that arrives in these parts."""
    messages: list[dict[str, Any]] = [
        {"type": "http.request", "body": part, "more_body": leaves or number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]
    if leaves:
        messages.append({"type": "http.disconnect"})
    queue = iter(messages)

    async def receive() -> Any:
        return next(queue)

    scope = {"headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()]}
    return unpack_wire(read_whole(scope, receive), limit=4 * LIMIT)


def refusal(parts: list[bytes], **arguments: Any) -> tuple[int, str]:
    with pytest.raises(Problem) as caught:
        read(parts, **arguments)
    return caught.value.status, caught.value.code


PACKED = gzip.compress(b"x" * 500)


def test_chunked_body_is_read_whole() -> None:
    assert read([b"ab", b"", b"cd"]) == Body(b"abcd", None)


def test_gzip_is_unpacked_and_kept_as_it_came() -> None:
    assert read([PACKED], headers={"content-encoding": "gzip"}) == Body(b"x" * 500, PACKED)


@pytest.mark.parametrize(
    ("parts", "headers", "answer"),
    [
        ([b"x" * 1001], {}, (413, "body-too-big")),
        ([b"x" * 600, b"x" * 600], {}, (413, "body-too-big")),
        ([b""], {"content-length": "1001"}, (413, "body-too-big")),
        ([b"abc"], {"content-length": "4"}, (400, "body-length")),
        ([b"abc"], {"content-length": "2"}, (400, "body-length")),
        ([b"abc"], {"content-length": "-3"}, (400, "body-length")),
        ([b"abc"], {"content-length": "3,3"}, (400, "body-length")),
        ([b"abc"], {"content-encoding": "br"}, (415, "encoding-unsupported")),
        ([b"abc"], {"content-encoding": "gzip, gzip"}, (415, "encoding-unsupported")),
        ([b"abc"], {"content-encoding": "gzip"}, (400, "gzip-invalid")),
        ([PACKED[:-9]], {"content-encoding": "gzip"}, (400, "gzip-truncated")),
        ([PACKED[:-1]], {"content-encoding": "gzip"}, (400, "gzip-truncated")),
        ([PACKED + b"more"], {"content-encoding": "gzip"}, (400, "gzip-trailing")),
        ([b""], {"content-encoding": "gzip"}, (400, "gzip-truncated")),
        ([gzip.compress(b"0" * 4001)], {"content-encoding": "gzip"}, (413, "body-too-big")),
    ],
)
def test_wrong_body_is_refused_by_name(
    parts: list[bytes], headers: dict[str, str], answer: tuple[int, str]
) -> None:
    assert refusal(parts, headers=headers) == answer


def test_body_too_big_by_its_length_is_refused_before_a_byte_is_read() -> None:
    async def receive() -> Any:
        raise AssertionError("a byte was read")

    with pytest.raises(Problem) as caught:
        read_whole({"headers": [(b"content-length", b"1001")]}, receive)

    assert caught.value.status == 413


def test_body_that_breaks_off_is_refused_by_name() -> None:
    assert refusal([b"half"], leaves=True) == (400, "body-broken")


@pytest.mark.parametrize("coding", ["gzip, chunked", "identity"])
def test_other_transfer_encoding_than_chunks_is_refused(coding: str) -> None:
    assert refusal([b"abc"], headers={"transfer-encoding": coding}) == (400, "encoding-unsupported")


def test_body_beyond_the_budget_is_busy_and_what_it_held_is_given_back(settings: LazySettings) -> None:
    settings.BODIES_IN_FLIGHT_BYTES = 10
    budget = BodyBudget()
    parts = iter([b"12345", b"67890", b"x"])

    async def receive() -> Any:
        return {"type": "http.request", "body": next(parts), "more_body": True}

    with pytest.raises(Problem) as caught:
        read_whole({"headers": []}, receive, budget)

    assert (caught.value.status, caught.value.code) == (503, "busy")
    assert caught.value.headers["Retry-After"] == "15"
    assert budget.held_bytes == 0


def test_budget_is_held_until_the_end_of_the_block() -> None:
    budget = BodyBudget()

    with budget.hold() as first, budget.hold() as second:
        first.add(3)
        second.add(4)
        assert budget.held_bytes == 7

    assert budget.held_bytes == 0


@pytest.mark.parametrize(
    ("headers", "more"),
    [
        ([], False),
        ([(b"content-length", b"1000")], False),
        ([(b"content-length", b"1001")], True),
        ([(b"transfer-encoding", b"chunked")], True),
    ],
)
def test_chunks_may_be_more_than_any_size(headers: list[tuple[bytes, bytes]], more: bool) -> None:
    assert announces_more({"headers": headers}, 1000) is more


def test_slow_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.intake.api.body.BODY_TIMEOUT_S", 0.01)

    async def receive() -> Any:
        await asyncio.Event().wait()

    with pytest.raises(Problem) as caught:
        read_whole({"headers": []}, receive)

    assert (caught.value.status, caught.value.code) == (408, "body-too-slow")


def test_bomb_stops_at_the_limit_and_not_after_it() -> None:
    squeezer = zlib.compressobj(9, wbits=31)
    bomb = b"".join([squeezer.compress(bytes(2**20)) for _ in range(200)]) + squeezer.flush()
    tracemalloc.start()

    with pytest.raises(Problem) as caught:
        unpack_gzip(bomb, 2**20)

    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.status == 413
    assert peak_bytes < 8 * 2**20


def test_unpacked_body_is_announced_with_its_length() -> None:
    scope = {"headers": [(b"content-encoding", b"gzip"), (b"content-length", b"30"), (b"accept", b"*/*")]}

    inner = replace_length(scope, 500)

    assert inner["headers"] == [(b"accept", b"*/*"), (b"content-length", b"500")]
