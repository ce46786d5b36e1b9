"""Accepted submissions are durable: servers and workers are killed, and each acknowledged result is stored once."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.chaos import POISON
from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

pytestmark = pytest.mark.chaos


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    """Start PostgreSQL and the web process; each test brings its broker and workers."""
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


@pytest.fixture(scope="module")
def token(stack: Servers) -> str:
    return stack.issue_token()


@pytest.fixture(autouse=True)
def alone(stack: Servers) -> Iterator[None]:
    """End the workers and the broker that a test started."""
    yield
    for name in ("worker", "valkey"):
        if name in stack.processes:
            stack.kill(name)


def post_many(
    stack: Servers, token: str, count: int, *, after: Callable[[int], None] | None = None
) -> list[int]:
    """Post this many envelopes from four clients; call `after` with the number of each answer."""
    lock = threading.Lock()
    answered = 0

    def post_one(_: int) -> int:
        nonlocal answered
        status, _body = stack.post("/api/v1/submissions", pack_envelope(), token)
        with lock:
            answered += 1
            number = answered
        if after is not None:
            after(number)
        return status

    with ThreadPoolExecutor(4) as clients:
        return list(clients.map(post_one, range(count)))


def test_broker_killed_and_emptied_during_posts_loses_nothing(stack: Servers, token: str) -> None:
    stack.start_valkey()
    stack.start_worker()
    before = stack.count("stored")

    def kill_broker(number: int) -> None:
        if number == 30:
            stack.kill("valkey")

    statuses = post_many(stack, token, 100, after=kill_broker)
    stack.start_valkey()

    assert statuses == [202] * 100
    wait_for(lambda: stack.count("stored") == before + 100, within_s=120, what="100 submissions stored")
    assert stack.count("received") == 0


def test_killed_workers_lose_nothing(stack: Servers, token: str) -> None:
    stack.start_valkey()
    before = stack.count("stored")
    assert post_many(stack, token, 150) == [202] * 150
    stack.start_worker(concurrency=2)
    wait_for(lambda: stack.count("stored") > before, within_s=120, what="the worker began")

    stack.kill("worker")
    stack.start_worker()

    wait_for(lambda: stack.count("stored") == before + 150, within_s=120, what="150 submissions stored")
    duplicates = stack.query("SELECT submission_id FROM benchapp_run GROUP BY 1 HAVING count(*) > 1")
    assert duplicates == []


def test_payload_that_kills_its_worker_is_rejected_and_the_others_are_stored(
    stack: Servers, token: str
) -> None:
    stack.start_valkey()
    poison_id, *neighbors = [str(uuid4()) for _ in range(21)]
    bodies = [pack_envelope(id=neighbor) for neighbor in neighbors]
    bodies.insert(10, pack_envelope(id=poison_id, fio_output=POISON))
    for body in bodies:
        assert stack.post("/api/v1/submissions", body, token)[0] == 202

    # A task whose process was killed occupies its slot for ten seconds: with a slot per attempt none waits.
    stack.start_worker(app="tests.chaos.poisoned", concurrency=6)

    def is_rejected() -> bool:
        return stack.get(f"/api/v1/submissions/{poison_id}", token)[1]["state"] == "rejected"

    wait_for(is_rejected, within_s=180, what="the poison rejected")
    stored = "SELECT count(*) FROM benchapp_submission WHERE state = 'stored' AND id = ANY(%s::uuid[])"
    wait_for(lambda: stack.query(stored, neighbors) == [(20,)], within_s=120, what="its neighbors stored")
    answer = stack.get(f"/api/v1/submissions/{poison_id}", token)[1]
    assert answer["reason"]["code"] == "attempts-exhausted"


def test_postgresql_killed_under_load_loses_nothing_acknowledged(stack: Servers, token: str) -> None:
    ids: list[str] = []
    statuses: dict[str, int] = {}

    def post_one(_: int) -> None:
        submission_id = str(uuid4())
        ids.append(submission_id)
        statuses[submission_id] = stack.post("/api/v1/submissions", pack_envelope(id=submission_id), token)[0]
        if len(statuses) == 60:
            # One killed backend makes the postmaster crash-restart all of them.
            ((pid,),) = stack.query(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' LIMIT 1"
            )
            os.kill(pid, signal.SIGKILL)

    with ThreadPoolExecutor(4) as clients:
        list(clients.map(post_one, range(200)))

    wait_for(stack.postgres.is_ready, within_s=120, what="PostgreSQL recovered")
    # 200: the row was committed, its answer was lost with the connection, and the web process asked again.
    acknowledged = {submission_id for submission_id, status in statuses.items() if status in (200, 202)}
    stored = {
        str(row[0])
        for row in stack.query("SELECT id FROM benchapp_submission WHERE id = ANY(%s::uuid[])", ids)
    }
    assert len(acknowledged) >= 100
    assert acknowledged <= stored
    assert set(statuses.values()) <= {200, 202, 503}


def test_web_process_survives_an_outage_of_postgresql(stack: Servers, token: str) -> None:
    body = pack_envelope()
    assert stack.post("/api/v1/submissions", body, token)[0] == 202

    stack.kill("postgres")
    status, problem = stack.post("/api/v1/submissions", pack_envelope(), token)
    assert (status, problem["code"]) == (503, "database-away")
    wait_for(
        lambda: "reconnection attempt" in (stack.directory / "web.log").read_text(),
        within_s=120,
        what="the pool ended its attempts, so that the next request connects at once",
    )
    stack.start_postgres()

    wait_for(
        lambda: stack.post("/api/v1/submissions", body, token)[0] == 200,
        within_s=120,
        what="the replay answered",
    )
