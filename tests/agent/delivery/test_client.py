"""HTTP requests, and the classification of responses."""

import email.utils
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.delivery.client import (
    Client,
    DeliveryOutcome,
    Response,
    choose_delay,
    classify_response,
    read_retry_after,
)
from agent.exit_codes import ConfigurationError
from tests.agent import server as replies
from tests.agent.conftest import Machine, serve
from tests.agent.server import TOKEN, HostileServer

ID = "6f1c2a9e-0000-4000-8000-000000000001"
PACKED = replies.gzip.compress(replies.json.dumps({"id": ID}).encode())
OURS = {"id": ID, "state": "received", "url": "/x"}
PROBLEM = {"code": "x", "detail": "it is x"}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "http_proxy",
        "https_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)


def make_client(url: str, *, timeout_s: float = 20.0, ca_file: str | None = None) -> Client:
    return Client(url, TOKEN, timeout_s=timeout_s, ca_file=ca_file)


@pytest.mark.parametrize(
    ("status", "headers", "body", "outcome"),
    [
        (202, {}, OURS, DeliveryOutcome.DELIVERED),
        (200, {"idempotency-replayed": "true"}, OURS, DeliveryOutcome.DELIVERED),
        (200, {}, OURS, DeliveryOutcome.LATER),
        (202, {}, None, DeliveryOutcome.LATER),
        (202, {}, {"id": "another"}, DeliveryOutcome.LATER),
        (201, {}, OURS, DeliveryOutcome.LATER),
        (204, {}, None, DeliveryOutcome.LATER),
        (301, {}, None, DeliveryOutcome.REFUSED),
        (302, {}, None, DeliveryOutcome.LATER),
        (307, {}, None, DeliveryOutcome.LATER),
        (308, {}, None, DeliveryOutcome.REFUSED),
        (400, {}, PROBLEM, DeliveryOutcome.REJECTED),
        (409, {}, PROBLEM, DeliveryOutcome.REJECTED),
        (413, {}, PROBLEM, DeliveryOutcome.REJECTED),
        (413, {}, None, DeliveryOutcome.REJECTED),
        (415, {}, PROBLEM, DeliveryOutcome.REJECTED),
        (422, {}, PROBLEM, DeliveryOutcome.REJECTED),
        (400, {}, None, DeliveryOutcome.LATER),
        (422, {}, {"error": "not ours"}, DeliveryOutcome.LATER),
        (401, {}, PROBLEM, DeliveryOutcome.REFUSED),
        (403, {}, None, DeliveryOutcome.REFUSED),
        (404, {}, None, DeliveryOutcome.REFUSED),
        (405, {}, None, DeliveryOutcome.REFUSED),
        (407, {}, None, DeliveryOutcome.REFUSED),
        (408, {}, PROBLEM, DeliveryOutcome.LATER),
        (429, {}, PROBLEM, DeliveryOutcome.LATER),
        (500, {}, None, DeliveryOutcome.LATER),
        (502, {}, None, DeliveryOutcome.LATER),
        (503, {}, PROBLEM, DeliveryOutcome.LATER),
    ],
)
def test_response_is_classified(
    status: int, headers: dict[str, str], body: dict[str, str] | None, outcome: DeliveryOutcome
) -> None:
    assert classify_response(Response(status, headers, body), submission_id=ID) == outcome


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("99999", 3600.0),
        ("9" * 400, 3600.0),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600.0),
        ("Fri, 99 Foo 2026", None),
    ],
)
def test_retry_after_is_read_and_capped(value: str | None, seconds: float | None) -> None:
    response = Response(503, {"retry-after": value} if value else {}, None)

    assert read_retry_after(response) == seconds


def test_retry_after_may_be_a_date() -> None:
    soon = email.utils.formatdate(time.time() + 60, usegmt=True)

    assert 55 < (read_retry_after(Response(503, {"retry-after": soon}, None)) or 0) <= 60


def test_delay_jitters_grows_and_is_bounded() -> None:
    delays = [0.0]
    for _ in range(200):
        delays.append(choose_delay(delays[-1], None))

    assert all(0.5 <= delay <= 60.0 for delay in delays[1:])
    assert max(delays) > 30
    assert len(set(delays)) > 100


def test_delay_is_retry_after_and_at_most_a_tenth_more() -> None:
    delays = [choose_delay(0.0, 100.0) for _ in range(50)]

    assert all(100.0 <= delay <= 110.0 for delay in delays)
    assert len(set(delays)) > 10


def test_result_is_posted_with_the_documented_headers(server: HostileServer) -> None:
    response = make_client(server.url).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.DELIVERED
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/api/v1/submissions", PACKED)
    assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Content-Encoding"] == "gzip"
    assert seen.headers["Idempotency-Key"] == ID


def test_url_may_have_a_path(server: HostileServer) -> None:
    make_client(server.url + "/bench").request("GET", "/api/v1/hosts/me")

    assert server.seen[0].path == "/bench/api/v1/hosts/me"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_token_is_not_sent_to_a_redirect(server: HostileServer, status: int) -> None:
    server.usual = replies.redirect(status, server.url + "/elsewhere")

    response = make_client(server.url).post_submission(ID, PACKED)

    assert response.status == status
    assert "/elsewhere)" in response.describe()
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "reply", [replies.reset, replies.truncate, replies.send_garbage, replies.captive_portal, replies.wrong_id]
)
def test_invalid_response_is_not_an_acknowledgment(server: HostileServer, reply: replies.Reply) -> None:
    server.usual = reply

    response = make_client(server.url).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert response.describe()


def test_silent_server_times_out(server: HostileServer) -> None:
    server.usual = replies.delay(20.0)
    started_at = time.monotonic()

    response = make_client(server.url, timeout_s=0.2).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 10.0


def test_slow_response_is_limited_as_a_whole(server: HostileServer) -> None:
    """Each read succeeds, so that only a limit on the whole exchange ends it."""
    server.usual = replies.send_slowly
    started_at = time.monotonic()

    response = make_client(server.url).post_submission(ID, PACKED, limit_s=0.4)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 8.0


def test_name_whose_lookup_does_not_end_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """No limit of a socket holds for it."""
    ended = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *given, **options: ended.wait(120) and [])

    response = make_client("http://bench.example").request("GET", "/", limit_s=0.2)

    assert not ended.is_set()
    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert response.describe() == "cannot reach the server: no answer within 0.2 s"
    ended.set()


def test_refused_connection_is_temporary() -> None:
    response = make_client("http://127.0.0.1:9").post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert "refused" in response.describe()


def test_proxy_of_the_environment_is_used(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)

    make_client("http://bench.example").request("GET", "/api/v1/hosts/me")

    assert server.seen[0].path == "http://bench.example/api/v1/hosts/me"


def test_configured_proxy_is_used_without_one_in_the_environment(
    host: Machine, server: HostileServer
) -> None:
    host.configure("server", proxy=server.url)

    host.run("check", BENCH_AGENT_URL="http://bench.example")

    assert server.seen[0].path == "http://bench.example/api/v1/hosts/me"


@pytest.mark.parametrize("url", ["http://bench.example", "https://bench.example"])
def test_proxy_that_does_not_answer_is_named_without_its_password(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://me:secret@127.0.0.1:9")

    problem = make_client(url).request("GET", "/").describe()

    assert "Connection refused (through the proxy 127.0.0.1:9)" in problem
    assert "secret" not in problem


def test_missing_ca_file_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot use ca_file /none\.pem"):
        make_client("https://127.0.0.1:9", ca_file="/none.pem").request("GET", "/")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    path = tmp_path / "server.pem"
    kind = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    name = "-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *kind.split(), *name.split(), "-keyout", path, "-out", tmp_path / "certificate.pem"],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + (tmp_path / "certificate.pem").read_text())
    return path


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[HostileServer]:
    hostile = HostileServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    hostile.socket = context.wrap_socket(hostile.socket, server_side=True)
    hostile.url = hostile.url.replace("http:", "https:")
    with serve(hostile):
        yield hostile


def test_https_to_an_http_port_is_a_configuration_error(server: HostileServer) -> None:
    response = make_client(server.url.replace("http:", "https:")).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.REFUSED
    assert "the server does not speak TLS at this port" in response.describe()
    assert "or an http:// URL if the server has no certificate" in response.describe()


def test_untrusted_certificate_is_refused_before_the_token_is_sent(tls_server: HostileServer) -> None:
    response = make_client(tls_server.url).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.REFUSED
    assert "certificate is not trusted" in response.describe()
    assert tls_server.seen == []


def test_certificate_named_by_ca_file_is_trusted(tls_server: HostileServer, certificate: Path) -> None:
    response = make_client(tls_server.url, ca_file=str(certificate)).post_submission(ID, PACKED)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.DELIVERED


def test_slow_response_over_tls_is_limited_as_a_whole(tls_server: HostileServer, certificate: Path) -> None:
    tls_server.usual = replies.send_slowly
    started_at = time.monotonic()

    response = make_client(tls_server.url, ca_file=str(certificate)).post_submission(ID, PACKED, limit_s=0.4)

    assert classify_response(response, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 8.0
