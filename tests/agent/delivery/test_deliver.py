"""What is in the spool reaches the server, each result once, within a budget."""

import errno
import gzip
import json
import time
from pathlib import Path

import pytest

from agent.console import Console
from agent.delivery import deliver as module
from agent.delivery.client import Client
from agent.delivery.deliver import Delivery, deliver
from agent.delivery.spool import Entry, Spool
from agent.exit_codes import ExitCode
from tests.agent import server as acts
from tests.agent.server import TOKEN, HostileServer

IDS = [f"6f1c2a9e-0000-4000-8000-00000000000{digit}" for digit in range(4)]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(str(tmp_path / "spool"), max_bytes=10**6, max_age_s=86400)
    spool.prepare()
    for envelope_id in IDS:
        spool.add(envelope_id, gzip.compress(json.dumps({"id": envelope_id}).encode(), mtime=0))
    return spool


@pytest.fixture(autouse=True)
def short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "choose_delay", lambda previous_s, retry_after_s: retry_after_s or 0.01)


def make_client(server: HostileServer, token: str = TOKEN) -> Client:
    return Client(server.url, token, timeout_s=20.0, ca_file=None)


def send(
    spool: Spool, server: HostileServer, *, budget_s: float = 60.0, first_id: str | None = None
) -> Delivery:
    return deliver(
        spool, make_client(server), console=Console(is_quiet=True), budget_s=budget_s, first_id=first_id
    )


def posted_ids(server: HostileServer) -> list[str]:
    return [seen.headers["Idempotency-Key"] for seen in server.posts()]


def test_everything_is_delivered_oldest_first(spool: Spool, server: HostileServer) -> None:
    delivery = send(spool, server)

    assert posted_ids(server) == IDS
    assert list(delivery.urls) == IDS
    assert (delivery.remaining, delivery.exit_code) == (0, ExitCode.OK)
    assert spool.pending() == []


def test_own_result_goes_before_the_others(spool: Spool, server: HostileServer) -> None:
    send(spool, server, first_id=IDS[3])

    assert posted_ids(server) == [IDS[3], *IDS[:3]]


def test_same_bytes_are_sent_at_every_try(spool: Spool, server: HostileServer) -> None:
    server.script.extend([acts.store_and_hang_up, acts.say(503), acts.hang_up, acts.portal])

    send(spool, server)

    tries = {seen.headers["Idempotency-Key"]: set() for seen in server.posts()}
    for seen in server.posts():
        tries[seen.headers["Idempotency-Key"]].add(seen.body)
    assert all(len(bodies) == 1 for bodies in tries.values())
    assert set(server.stored) == set(IDS)


def test_lost_acknowledgement_is_answered_as_a_replay(spool: Spool, server: HostileServer) -> None:
    server.script.append(acts.store_and_hang_up)

    delivery = send(spool, server)

    assert set(delivery.urls) == set(IDS)
    assert server.first_answers[IDS[0]] == 0
    assert spool.pending() == []


def test_result_on_which_the_server_stumbles_holds_up_no_other(spool: Spool, server: HostileServer) -> None:
    def stumble(handler: acts.Handler, body: bytes) -> None:
        (acts.say(500) if handler.headers["Idempotency-Key"] == IDS[0] else acts.keep)(handler, body)

    server.usual = stumble

    delivery = send(spool, server, budget_s=1.0)

    assert set(delivery.urls) == set(IDS[1:])
    assert (delivery.remaining, delivery.exit_code) == (1, ExitCode.TRY_LATER)
    assert [entry.id for entry in spool.pending()] == [IDS[0]]


def test_rejected_result_is_put_aside_with_its_reason(spool: Spool, server: HostileServer) -> None:
    server.script.append(acts.say(422, "no-report"))

    delivery = send(spool, server)

    assert (set(delivery.urls), delivery.exit_code) == (set(IDS[1:]), ExitCode.REJECTED)
    (refused,) = spool.rejected()
    assert (refused.entry.id, refused.reason["code"]) == (IDS[0], "no-report")
    assert refused.reason["detail"] == "it is no-report"


@pytest.mark.parametrize(
    ("act", "method", "exit_code"),
    [
        (acts.keep, "remove", ExitCode.TRY_LATER),
        (acts.say(422, "no-report"), "reject", ExitCode.REJECTED),
    ],
)
def test_result_that_a_full_disk_holds_in_its_place_holds_up_no_other(
    spool: Spool,
    server: HostileServer,
    monkeypatch: pytest.MonkeyPatch,
    act: acts.Act,
    method: str,
    exit_code: ExitCode,
) -> None:
    def refuse(entry: Entry, reason: object = None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    server.usual = act
    monkeypatch.setattr(spool, method, refuse)

    delivery = send(spool, server)

    assert len(server.posts()) == 4
    assert (delivery.remaining, delivery.exit_code) == (4, exit_code)
    assert "from the queue: [Errno 28]" in str(delivery.problem)


@pytest.mark.parametrize("status", [401, 403, 404, 308])
def test_credential_problem_stops_and_keeps_everything(
    spool: Spool, server: HostileServer, status: int
) -> None:
    server.usual = acts.say(status)

    delivery = send(spool, server)

    assert len(server.posts()) == 1
    assert (delivery.remaining, delivery.exit_code) == (4, ExitCode.CONFIGURATION)
    assert len(spool.pending()) == 4


def test_wait_beyond_the_budget_is_not_begun(spool: Spool, server: HostileServer) -> None:
    server.usual = acts.say(429, Retry_After="3600")
    started_at = time.monotonic()

    delivery = send(spool, server, budget_s=60.0)

    assert time.monotonic() - started_at < 30.0
    assert (len(server.posts()), delivery.exit_code) == (1, ExitCode.TRY_LATER)


def test_no_budget_is_one_try_each(spool: Spool, server: HostileServer) -> None:
    assert send(spool, server, budget_s=0.0).exit_code == ExitCode.OK


def test_file_that_cannot_be_read_holds_up_no_other(spool: Spool, server: HostileServer) -> None:
    first = Path(spool.pending()[0].path)
    first.unlink()
    first.mkdir()

    delivery = send(spool, server, budget_s=1.0)

    assert (set(delivery.urls), delivery.remaining) == (set(IDS[1:]), 1)
