"""One request, and what its answer means."""

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
from tests.agent import server as acts
from tests.agent.server import TOKEN, HostileServer

ID = "6f1c2a9e-0000-4000-8000-000000000001"
PACKED = acts.gzip.compress(acts.json.dumps({"id": ID}).encode())
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
    ("status", "headers", "body", "fate"),
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
def test_answer_decides_what_becomes_of_the_result(
    status: int, headers: dict[str, str], body: dict[str, str] | None, fate: DeliveryOutcome
) -> None:
    assert classify_response(Response(status, headers, body), submission_id=ID) == fate


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
    answer = Response(503, {"retry-after": value} if value else {}, None)

    assert read_retry_after(answer) == seconds


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


def test_delay_keeps_what_the_server_asks_and_adds_a_little() -> None:
    delays = [choose_delay(0.0, 100.0) for _ in range(50)]

    assert all(100.0 <= delay <= 110.0 for delay in delays)
    assert len(set(delays)) > 10


def test_result_is_posted_as_the_contract_says(server: HostileServer) -> None:
    answer = make_client(server.url).post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.DELIVERED
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/api/v1/submissions", PACKED)
    assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Content-Encoding"] == "gzip"
    assert seen.headers["Idempotency-Key"] == ID


def test_address_may_have_a_path(server: HostileServer) -> None:
    make_client(server.url + "/bench").request("GET", "/api/v1/hosts/me")

    assert server.seen[0].path == "/bench/api/v1/hosts/me"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_token_does_not_follow_a_redirect(server: HostileServer, status: int) -> None:
    server.usual = acts.redirect(status, server.url + "/elsewhere")

    answer = make_client(server.url).post_submission(ID, PACKED)

    assert answer.status == status
    assert "/elsewhere)" in answer.describe()
    assert len(server.seen) == 1


@pytest.mark.parametrize("act", [acts.hang_up, acts.cut_short, acts.babble, acts.portal, acts.wrong_id])
def test_wrong_reply_is_no_acknowledgement(server: HostileServer, act: acts.Act) -> None:
    server.usual = act

    answer = make_client(server.url).post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.LATER
    assert answer.describe()


def test_server_that_says_nothing_is_given_up(server: HostileServer) -> None:
    server.usual = acts.dawdle(20.0)
    started_at = time.monotonic()

    answer = make_client(server.url, timeout_s=0.2).post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 10.0


def test_server_that_trickles_is_given_up(server: HostileServer) -> None:
    """Each read succeeds, so that only a limit on the whole exchange ends it."""
    server.usual = acts.trickle
    started_at = time.monotonic()

    answer = make_client(server.url).post_submission(ID, PACKED, limit_s=0.4)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 8.0


def test_nobody_at_the_address_is_for_later() -> None:
    answer = make_client("http://127.0.0.1:9").post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.LATER
    assert "refused" in answer.describe()


def test_proxy_of_the_environment_is_used(server: HostileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", server.url)

    make_client("http://bench.example").request("GET", "/api/v1/hosts/me")

    assert server.seen[0].path == "http://bench.example/api/v1/hosts/me"


def test_missing_ca_file_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"cannot use ca_file /none\.pem"):
        make_client("https://127.0.0.1:9", ca_file="/none.pem").request("GET", "/")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of our own for 127.0.0.1, with its key in one file."""
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
    with HostileServer() as hostile:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        hostile.socket = context.wrap_socket(hostile.socket, server_side=True)
        hostile.url = hostile.url.replace("http:", "https:")
        threading.Thread(target=hostile.serve_forever, args=(0.01,), daemon=True).start()
        yield hostile
        hostile.shutdown()


def test_certificate_of_a_stranger_is_refused_before_the_token_is_sent(tls_server: HostileServer) -> None:
    answer = make_client(tls_server.url).post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.REFUSED
    assert "certificate is not trusted" in answer.describe()
    assert tls_server.seen == []


def test_certificate_named_by_ca_file_is_trusted(tls_server: HostileServer, certificate: Path) -> None:
    answer = make_client(tls_server.url, ca_file=str(certificate)).post_submission(ID, PACKED)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.DELIVERED


def test_trickle_over_tls_is_given_up(tls_server: HostileServer, certificate: Path) -> None:
    tls_server.usual = acts.trickle
    started_at = time.monotonic()

    answer = make_client(tls_server.url, ca_file=str(certificate)).post_submission(ID, PACKED, limit_s=0.4)

    assert classify_response(answer, submission_id=ID) == DeliveryOutcome.LATER
    assert time.monotonic() - started_at < 8.0
