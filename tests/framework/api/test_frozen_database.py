"""A database that hangs: frozen as a whole, so that its sockets are open and nothing answers."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

# More than there are connections.
REQUESTS = 21


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"),
        cluster=migrated_cluster,
        environment={"BROKER_URL": "", "BENCHAPP_PUBLIC_READ": "1"},
    )
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


@contextmanager
def frozen(stack: Servers) -> Iterator[None]:
    """Stop every process of PostgreSQL, the postmaster first, so that it starts no other."""
    postmaster = stack.processes["postgres"].pid
    os.kill(postmaster, signal.SIGSTOP)
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    processes = [postmaster, *map(int, children)]
    try:
        for process in processes[1:]:
            os.kill(process, signal.SIGSTOP)
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def test_requests_are_answered_while_the_database_is_frozen_and_after_it(stack: Servers) -> None:
    token = stack.issue_token()
    paths = ["/api/v1/points", "/runs/", "/api/v1/runs", "/readyz"]
    assert {stack.get(path)[0] for path in paths} == {200}

    with frozen(stack), ThreadPoolExecutor(REQUESTS) as clients:
        answers = list(clients.map(stack.get, [*paths, *paths[1:] * (REQUESTS // 3)]))
        posted, problem = stack.post("/api/v1/submissions", pack_envelope(), token)
        alive = stack.get("/healthz")[0]

    assert {status for status, _ in answers} == {503}
    assert (posted, problem["code"]) == (503, "database-away")
    assert alive == 200
    wait_for(lambda: {stack.get(path)[0] for path in paths} == {200}, within_s=60, what="the pages are back")
    assert stack.post("/api/v1/submissions", pack_envelope(), token)[0] == 202


def test_a_statement_that_waits_for_a_lock_is_continued(stack: Servers) -> None:
    """The database answers others meanwhile."""
    socket_directory = str(stack.postgres.socket_directory)
    waits = "wait_event_type = 'Lock' AND query_start < now() - interval '3 s'"
    with (
        ThreadPoolExecutor(1) as clients,
        psycopg.connect(host=socket_directory, user="benchapp", dbname="benchapp") as other,
    ):
        other.execute("LOCK TABLE benchapp_run IN ACCESS EXCLUSIVE MODE")
        # Another answer than that of the other test, which is kept.
        asked = clients.submit(stack.get, "/api/v1/runs?limit=7")
        wait_for(
            lambda: stack.query(f"SELECT count(*) FROM pg_stat_activity WHERE {waits}") == [(1,)],
            within_s=30,
            what="the request waits for the table",
        )
        other.rollback()

        assert asked.result()[0] == 200
