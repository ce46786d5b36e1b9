"""A hostile server and kill -9 at random instants: every result arrives once, none is lost."""

import random
import time

from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

ROUNDS = 20
# On a busy machine an agent may take seconds to start: then fewer rounds, but at least these.
ROUNDS_MINIMUM = 6
TIME_LIMIT_S = 4.0


def test_every_result_arrives_once(host: Machine, server: HostileServer) -> None:
    chance = random.Random(20261121)
    spooled: set[str] = set()

    def violate_api(handler: replies.Handler, body: bytes) -> None:
        # Received results were in the spool; some are removed before they can be listed.
        spooled.add(handler.headers["Idempotency-Key"])
        chance.choice(replies.HOSTILITIES)(handler, body)

    server.usual = violate_api
    for _ in range(5):
        host.measure("--no-send")
    run_s = time_a_run(host)
    deadline = time.monotonic() + TIME_LIMIT_S
    for number in range(ROUNDS):
        if number >= ROUNDS_MINIMUM and time.monotonic() > deadline:
            break
        command = (
            ("flush",) if number % 2 else ("run", "--profile", "quick", "--directory", str(host.directory))
        )
        process = host.start(*command, "--budget", "1", "--quiet")
        time.sleep(chance.uniform(0.2, 2.0) * run_s)
        process.kill()
        process.communicate()
        spooled.update(path.name.partition("-")[2][:36] for path in host.pending())
    server.usual = replies.accept
    ended = host.run("flush", "--budget", "60")

    assert ended.returncode == 0, ended.stderr
    assert len(spooled) >= 6
    assert set(server.stored) == spooled
    assert all(count == 1 for count in server.first_answers.values())
    assert (host.pending(), host.rejected()) == ([], [])
    host.measure("--no-send")
    assert host.leftovers() == []


def time_a_run(host: Machine) -> float:
    """Return how long an agent takes from its start to its end; the machine may be busy with other tests."""
    started_at = time.monotonic()
    process = host.start("run", "--profile", "quick", "--directory", str(host.directory), "--no-send")
    process.communicate()
    assert process.returncode == 0
    return time.monotonic() - started_at
