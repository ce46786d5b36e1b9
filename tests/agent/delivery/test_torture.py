"""A hostile server and kill -9 at random instants: every result arrives once, none is lost."""

import random
import time

import pytest

from tests.agent import server as acts
from tests.agent.conftest import Machine
from tests.agent.server import HostileServer

# The agent has one thread when it starts fio; a test has the server's beside it, of which Python 3.12 warns.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

HOSTILITIES = (
    acts.hang_up,
    acts.store_and_hang_up,
    acts.portal,
    acts.wrong_id,
    acts.cut_short,
    acts.babble,
    acts.dawdle(0.3),
    acts.say(429, Retry_After="1"),
    acts.say(503, Retry_After="3600"),
    acts.say(500),
    acts.say(502),
    acts.redirect(307, "http://127.0.0.1:9/"),
    acts.keep,
    acts.keep,
)
ROUNDS = 20
# On a machine that is busy with other tests an agent may take seconds to start: then fewer rounds, but these at least.
ROUNDS_MINIMUM = 6
TIME_LIMIT_S = 4.0


def test_every_result_arrives_once(host: Machine, server: HostileServer) -> None:
    chance = random.Random(20261121)
    spooled: set[str] = set()

    def misbehave(handler: acts.Handler, body: bytes) -> None:
        # What arrives here lay in the spool; some of it is gone from there before it can be listed.
        spooled.add(handler.headers["Idempotency-Key"])
        chance.choice(HOSTILITIES)(handler, body)

    server.usual = misbehave
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
    server.usual = acts.keep
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
