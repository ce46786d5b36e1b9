"""Each server is killed, frozen, full or emptied: nothing is lost or stored twice, and no person is needed.

The stack runs throughout: what one fault leaves behind, the next one meets.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from redis import Redis

from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

pytestmark = pytest.mark.chaos
# With sweeps every second; on a busy machine processes start slowly.
RECOVERY_S = 60


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_web()
        servers.start_worker()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def token(stack: Servers) -> str:
    return stack.issue_token()


def post_results(stack: Servers, token: str, count: int = 5) -> list[str]:
    """Post results and return the ids of those that were accepted."""
    ids = [str(uuid4()) for _ in range(count)]
    return [
        each
        for each in ids
        if stack.post("/api/v1/submissions", pack_envelope(id=each), token)[0] in (200, 202)
    ]


def wait_stored(stack: Servers, ids: list[str]) -> None:
    """Wait until each of these is stored, once."""
    runs = "SELECT count(*), count(DISTINCT submission_id) FROM benchapp_run WHERE submission_id = ANY(%s::uuid[])"
    count = len(ids)
    wait_for(lambda: stack.query(runs, ids)[0][1] == count, within_s=RECOVERY_S, what="all are stored")
    assert stack.query(runs, ids) == [(count, count)]


def wait_well(stack: Servers) -> None:
    """Wait until the tasks of beat reach the worker through the broker."""
    wait_for(
        lambda: stack.get("/readyz")[1].get("status") == "ok", within_s=RECOVERY_S, what="readiness is ok"
    )


def freeze(stack: Servers, name: str) -> Callable[[], None]:
    """Stop a server as a debugger does; the returned function lets it go on."""
    pid = stack.processes[name].pid
    os.kill(pid, signal.SIGSTOP)
    return lambda: os.kill(pid, signal.SIGCONT)


def kill_broker(stack: Servers) -> Callable[[], None]:
    stack.kill("valkey")
    return stack.start_valkey


def freeze_broker(stack: Servers) -> Callable[[], None]:
    return freeze(stack, "valkey")


def fill_broker(stack: Servers) -> Callable[[], None]:
    broker = Redis(unix_socket_path=str(stack.valkey.socket))
    broker.config_set("maxmemory", 1)
    return lambda: bool(broker.config_set("maxmemory", 2**26)) and broker.close()


def wipe_broker(stack: Servers) -> Callable[[], None]:
    with Redis(unix_socket_path=str(stack.valkey.socket)) as broker:
        broker.flushall()
    return lambda: None


@pytest.mark.parametrize(
    ("strike", "broker"),
    [(kill_broker, "away"), (freeze_broker, "away"), (fill_broker, "full"), (wipe_broker, "ok")],
)
def test_results_are_stored_without_the_broker_and_through_it_once_it_is_back(
    stack: Servers, token: str, strike: Callable[[Servers], Callable[[], None]], broker: str
) -> None:
    wait_well(stack)

    heal = strike(stack)
    try:
        ids = post_results(stack, token)
        assert len(ids) == 5
        wait_stored(stack, ids)
        assert stack.get("/readyz")[1]["broker"] == broker
    finally:
        heal()

    wait_well(stack)
    wait_stored(stack, post_results(stack, token))
