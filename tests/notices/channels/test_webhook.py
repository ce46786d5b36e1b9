"""Webhooks over real sockets: signed, pinned, bounded."""

import base64
import hashlib
import hmac
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import override_settings

from benchapp.notices.channels import posting
from benchapp.notices.channels.posting import (
    make_secret,
    post_json,
    sign,
)
from benchapp.notices.channels.transport import NotDelivered
from tests.hook_server import HookServer, serve_hook

LOOPBACK = (ip_network("127.0.0.0/8"),)
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def hook() -> Iterator[HookServer]:
    with serve_hook() as server:
        yield server


def post(hook: HookServer, *, url: str = "", secret: str = SECRET, allowed: Any = LOOPBACK) -> str:
    with override_settings(WEBHOOK_PORTS=(hook.port,), WEBHOOK_ALLOW_PRIVATE=allowed):
        return post_json(url or hook.url, {"type": "test"}, message_id="msg_1", secret=secret)


def test_signature_is_that_of_the_specification() -> None:
    # The example of the specification's libraries: secret, id, time, body and what comes out.
    signature = sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp_s=1614265330,
        body=b'{"test": 2432232314}',
    )

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_receiver_can_check_who_sent_it(hook: HookServer) -> None:
    assert post(hook) == "delivered: answered 204"

    (request,) = hook.requests
    signed = f"msg_1.{request.headers['webhook-timestamp']}.".encode() + request.body
    digest = hmac.new(b"k" * 32, signed, hashlib.sha256).digest()
    assert request.headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode()
    assert request.headers["webhook-id"] == "msg_1"
    assert json.loads(request.body) == {"type": "test"}


def test_message_without_a_secret_is_not_signed(hook: HookServer) -> None:
    post(hook, secret="")

    assert not [name for name in hook.requests[0].headers if name.startswith("webhook-")]


def test_secrets_are_of_32_bytes_and_differ() -> None:
    first, second = make_secret(), make_secret()

    assert first != second
    assert len(base64.b64decode(first.removeprefix("whsec_"))) == 32


def test_loopback_is_refused_and_nothing_is_sent(hook: HookServer) -> None:
    with pytest.raises(NotDelivered, match="not public"):
        post(hook, allowed=())

    assert hook.requests == []


def test_name_that_changes_its_mind_is_met_at_the_address_that_was_judged(
    hook: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the first answer is judged, and no second one is asked for."""
    asked: list[str] = []

    def look_up(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if asked.count(host) == 1 else "169.254.169.254"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    post(hook, url=f"http://rebinding.example:{hook.port}/x")

    assert asked.count("rebinding.example") == 1
    assert hook.requests[0].headers["host"] == f"rebinding.example:{hook.port}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirect_is_not_followed(hook: HookServer, status: int) -> None:
    hook.status, hook.headers = status, {"Location": hook.url + "/inside"}

    with pytest.raises(NotDelivered, match="redirects are not followed"):
        post(hook)

    assert [request.path for request in hook.requests] == ["/hook"]


def test_proxy_of_the_environment_is_not_asked(hook: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    assert post(hook) == "delivered: answered 204"


@pytest.mark.parametrize(("status", "is_final"), [(400, False), (404, False), (500, False), (410, True)])
def test_rejection_is_reported_and_gone_is_final(hook: HookServer, status: int, is_final: bool) -> None:
    hook.status = status

    with pytest.raises(NotDelivered, match=str(status)) as problem:
        post(hook)

    assert problem.value.is_final is is_final


@pytest.mark.parametrize(
    ("status", "header", "seconds"),
    [(429, "90", 90), (503, "90", 90), (429, "later", None), (500, "90", None), (302, "90", None)],
)
def test_retry_after_of_a_busy_receiver_is_used(
    hook: HookServer, status: int, header: str, seconds: int | None
) -> None:
    hook.status, hook.headers = status, {"Retry-After": header}

    with pytest.raises(NotDelivered) as problem:
        post(hook)

    asked = problem.value.retry_after
    assert (asked.total_seconds() if asked else None) == seconds
    assert ("Retry-After 90 s" in str(problem.value)) is (seconds == 90)


@pytest.mark.parametrize(
    ("begin", "outcome"),
    [(b"HTTP/1.1 2", "no answer within"), (b"HTTP/1.1 200 OK\r\nX-Slow: ", "delivered: answered 200")],
    ids=["before the status is known", "after it"],
)
def test_answer_that_drips_is_cut_off(
    hook: HookServer, monkeypatch: pytest.MonkeyPatch, begin: bytes, outcome: str
) -> None:
    """Each byte comes in time, and the whole never ends."""
    monkeypatch.setattr(posting, "LIMIT_S", 0.3)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(begin)
        handler.connection.settimeout(0.02)
        with suppress(OSError):
            while True:
                with suppress(TimeoutError):
                    if handler.connection.recv(1) == b"":
                        break
                handler.wfile.write(b"0")

    hook.respond = drip

    try:
        said = post(hook)
    except NotDelivered as error:
        said = str(error)

    assert outcome in said


def test_no_more_than_64_kib_of_an_answer_are_read(hook: HookServer) -> None:
    def flood(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n" + b"x" * 2**17)

    hook.respond = flood

    assert post(hook) == "delivered: answered 200"


def test_unavailable_receiver_is_reported(settings: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings.WEBHOOK_PORTS, settings.WEBHOOK_ALLOW_PRIVATE = (port,), LOOPBACK

    with pytest.raises(NotDelivered, match="cannot connect"):
        post_json(f"http://127.0.0.1:{port}/", {}, message_id="m", secret="")
