"""Delivery of the spool within a budget, each result once."""

import errno
import gzip
import json
import time
from pathlib import Path

import pytest

from agent.console import Console
from agent.delivery import deliver as module
from agent.delivery.client import Client, Response
from agent.delivery.deliver import Delivery, deliver
from agent.delivery.spool import Entry, Spool
from agent.exit_codes import ExitCode
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import TOKEN, HostileServer

IDS = [f"6f1c2a9e-0000-4000-8000-00000000000{digit}" for digit in range(4)]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    spool = Spool(str(tmp_path / "spool"), max_bytes=10**6)
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


def test_own_result_is_posted_first(spool: Spool, server: HostileServer) -> None:
    send(spool, server, first_id=IDS[3])

    assert posted_ids(server) == [IDS[3], *IDS[:3]]


def test_every_attempt_sends_the_same_bytes(spool: Spool, server: HostileServer) -> None:
    server.script.extend(
        [replies.store_and_reset, replies.reply_problem(503), replies.reset, replies.captive_portal]
    )

    send(spool, server)

    tries = {seen.headers["Idempotency-Key"]: set() for seen in server.posts()}
    for seen in server.posts():
        tries[seen.headers["Idempotency-Key"]].add(seen.body)
    assert all(len(bodies) == 1 for bodies in tries.values())
    assert set(server.stored) == set(IDS)


def test_lost_acknowledgment_is_answered_as_a_replay(spool: Spool, server: HostileServer) -> None:
    server.script.append(replies.store_and_reset)

    delivery = send(spool, server)

    assert set(delivery.urls) == set(IDS)
    assert server.first_answers[IDS[0]] == 0
    assert spool.pending() == []


def test_result_with_a_server_error_does_not_block_the_others(spool: Spool, server: HostileServer) -> None:
    def fail_first(handler: replies.Handler, body: bytes) -> None:
        (replies.reply_problem(500) if handler.headers["Idempotency-Key"] == IDS[0] else replies.accept)(
            handler, body
        )

    server.usual = fail_first

    delivery = send(spool, server, budget_s=1.0)

    assert set(delivery.urls) == set(IDS[1:])
    assert (delivery.remaining, delivery.exit_code) == (1, ExitCode.TRY_LATER)
    assert [entry.id for entry in spool.pending()] == [IDS[0]]


def test_rejected_result_is_moved_to_rejected_with_its_reason(spool: Spool, server: HostileServer) -> None:
    server.script.append(replies.reply_problem(422, "no-report"))

    delivery = send(spool, server)

    assert (set(delivery.urls), delivery.exit_code) == (set(IDS[1:]), ExitCode.REJECTED)
    (refused,) = spool.rejected()
    assert (refused.id, refused.reason["code"]) == (IDS[0], "no-report")
    assert refused.reason["detail"] == "it is no-report"


@pytest.mark.parametrize(
    ("reply", "method", "exit_code"),
    [
        (replies.accept, "remove", ExitCode.TRY_LATER),
        (replies.reply_problem(422, "no-report"), "reject", ExitCode.REJECTED),
    ],
)
def test_result_that_cannot_be_removed_does_not_block_the_others(
    spool: Spool,
    server: HostileServer,
    monkeypatch: pytest.MonkeyPatch,
    reply: replies.Reply,
    method: str,
    exit_code: ExitCode,
) -> None:
    def refuse(entry: Entry, reason: object = None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    server.usual = reply
    monkeypatch.setattr(spool, method, refuse)

    delivery = send(spool, server)

    assert len(server.posts()) == 4
    assert (delivery.remaining, delivery.exit_code) == (4, exit_code)
    assert "from the queue: [Errno 28]" in str(delivery.problem)


@pytest.mark.parametrize("status", [401, 403, 404, 308])
def test_credential_problem_stops_the_delivery_and_drops_nothing(
    spool: Spool, server: HostileServer, status: int
) -> None:
    server.usual = replies.reply_problem(status)

    delivery = send(spool, server)

    assert len(server.posts()) == 1
    assert (delivery.remaining, delivery.exit_code) == (4, ExitCode.CONFIGURATION)
    assert len(spool.pending()) == 4


def test_delay_beyond_the_budget_is_not_started(spool: Spool, server: HostileServer) -> None:
    server.usual = replies.reply_problem(429, Retry_After="3600")
    started_at = time.monotonic()

    delivery = send(spool, server, budget_s=60.0)

    assert time.monotonic() - started_at < 30.0
    assert (len(server.posts()), delivery.exit_code) == (1, ExitCode.TRY_LATER)


class SlowClient:
    """A client whose requests take ten seconds of a clock."""

    url = "http://bench.example"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.limits_s: list[float] = []
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now_s)

    def post_submission(self, submission_id: str, packed: bytes, *, limit_s: float) -> Response:
        self.limits_s.append(limit_s)
        self.now_s += min(10.0, limit_s)
        return Response(202, {}, {"id": submission_id})


@pytest.mark.parametrize(
    ("budget_s", "limits_s", "remaining"),
    [(0.0, [], 4), (25.0, [25.0, 15.0, 5.0], 1), (40.0, [40.0, 30.0, 20.0, 10.0], 0)],
)
def test_budget_bounds_the_whole_delivery(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, budget_s: float, limits_s: list[float], remaining: int
) -> None:
    client = SlowClient(monkeypatch)

    delivery = deliver(spool, client, console=Console(is_quiet=True), budget_s=budget_s)  # type: ignore[arg-type]

    assert client.limits_s == limits_s
    assert client.now_s <= budget_s
    assert (delivery.remaining, len(spool.pending())) == (remaining, remaining)
    code, problem = delivery.exit_code, delivery.problem
    assert (code == ExitCode.TRY_LATER, str(problem).endswith("is used up")) == (remaining > 0, remaining > 0)


def test_budget_bounds_the_report_of_the_schedule_too(
    host: Machine, server: HostileServer, table: Path
) -> None:
    server.script.append(replies.reply_problem(503))
    host.install()
    before = len(server.seen)

    ended = host.run("flush", "--budget", "0")

    assert (ended.returncode, ended.stderr) == (
        0,
        "the schedule is not reported: no time is left for a request; each delivery tries again\n",
    )
    assert len(server.seen) == before


def test_unreadable_file_does_not_block_the_others(spool: Spool, server: HostileServer) -> None:
    first = Path(spool.pending()[0].path)
    first.unlink()
    first.mkdir()

    delivery = send(spool, server, budget_s=1.0)

    assert (set(delivery.urls), delivery.remaining) == (set(IDS[1:]), 1)


def test_rejection_after_receipt_is_told_once_and_shown_until_it_is_over(
    host: Machine, server: HostileServer
) -> None:
    server.reject_later("no fio report found", received_at="2026-11-21T10:00:00Z")
    text = (
        "the server rejected 3 of the results received since 2026-11-20T10:00:00Z, the last of "
        f"2026-11-21T10:00:00Z: no fio report found; {server.url}/uploads/6f1c2a9e/"
    )

    first, again, status = host.measure(), host.measure(), host.run("status").stdout
    assert (first.returncode, text in first.stderr) == (6, True)
    assert (again.returncode, text in again.stderr, f"\n  {text}\n" in status) == (0, False, True)
    assert host.run_json("status")["rejected_after_receipt"]["count"] == 3

    server.reject_later("another", received_at="2026-11-22T10:00:00Z")
    assert host.measure("--skip-if-busy", "20").returncode == 6

    server.rejected = None
    assert (host.measure().returncode, "the server rejected" in host.run("status").stdout) == (0, False)


def test_rejection_after_receipt_reaches_flush_polls_sweeps_and_skipped_runs(
    host: Machine, server: HostileServer
) -> None:
    host.configure("requests", allow="quick", directories=str(host.directory))
    commands = [
        ("flush",),
        ("poll",),
        ("sweep", "--directories", str(host.directory), "--profile", "quick", "--set", "runtime=1,2"),
        (
            "run",
            "--profile",
            "quick",
            "--directory",
            str(host.directory),
            "--max-load",
            "0.0001",
            "--skip-if-busy",
        ),
    ]
    for day, command in enumerate(commands, 10):
        server.rejected = None
        host.measure("--no-send")
        server.reject_later("no fio report found", received_at=f"2026-11-{day}T10:00:00Z")

        ended = host.run(*command)

        assert (ended.returncode, "no fio report found" in ended.stderr) == (6, True), ended


@pytest.mark.parametrize(
    "rejected", ["x", {}, {"count": "x", "since": "", "last": {}}, {"count": 1, "last": 5}]
)
def test_rejections_of_another_form_are_ignored(
    host: Machine, server: HostileServer, rejected: object
) -> None:
    server.rejected = rejected  # type: ignore[assignment]

    assert host.measure().returncode == 0
