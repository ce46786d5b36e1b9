"""Charts and series are read from a real replica of PostgreSQL; the rest, and what follows a write, is not."""

import http.client
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from benchapp.operation.embedded.servers import USER, Postgres
from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

pytestmark = pytest.mark.chaos
LIMITED_TOKEN = (
    "from benchapp.accounts.write.tokens import issue_token as issue; from benchapp.models import Scope;"
    "print(issue(scope=Scope.READ, pools=['other'])[1])"
)


def copy_as_replica(servers: Servers) -> Postgres:
    """Start a standby of the primary, and return it."""
    primary = servers.postgres
    rules = primary.directory / "pg_hba.conf"
    rules.write_text(rules.read_text() + rules.read_text().replace("all", "replication", 1))
    servers.query("SELECT pg_reload_conf()")
    standby = replace(
        primary,
        directory=servers.directory / "pg" / "standby",
        socket_directory=servers.directory / "r",
        log=servers.directory / "standby.log",
    )
    made = primary.run("pg_basebackup", f"--pgdata={standby.directory}", "--write-recovery-conf")
    assert made.returncode == 0, made.stderr
    servers.processes["standby"] = standby.start()
    return standby


def ask(standby: Postgres, query: str) -> object:
    place = {"host": str(standby.socket_directory), "user": USER, "dbname": "benchapp"}
    with psycopg.connect(**place) as connection:
        (found,) = connection.execute(query).fetchone() or (None,)
        return found


def read_with_cookie(servers: Servers, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", servers.port, timeout=60)
    connection.request("GET", path, headers={"Cookie": "benchapp_wrote=1"})
    return connection.getresponse().read()


def check_replica(servers: Servers) -> str:
    code = "from benchapp.overview.read.status import _check_replica as check; one, = check()"
    return servers.manage("shell", "--no-imports", "-c", f"{code}; print(f'{{one.code}}: {{one.text}}')")


@pytest.fixture
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"), cluster=migrated_cluster, environment={"BENCHAPP_PUBLIC_READ": "1"}
    )
    settings = {**servers.postgres.settings, "wal_level": "replica", "max_wal_senders": "4"}
    servers.postgres = replace(servers.postgres, settings=settings)
    try:
        servers.start_postgres()
        servers.start_valkey()
        servers.start_worker()
        yield servers
    finally:
        servers.stop()


def test_charts_are_of_the_replica_and_everything_else_of_the_primary(stack: Servers) -> None:
    token = stack.issue_token()
    standby = copy_as_replica(stack)
    stack.environment["DATABASE_REPLICA_URL"] = standby.url
    stack.start_web()

    def count(path: str = "/api/v1/series") -> int:
        status, answer = stack.get(path)
        assert status == 200, answer
        return len(answer["series" if "series" in path else "runs"])

    def store() -> None:
        before = stack.count("stored")
        assert stack.post("/api/v1/submissions", pack_envelope(), token)[0] == 202
        wait_for(lambda: stack.count("stored") == before + 1, within_s=120, what="the result is stored")

    store()
    wait_for(lambda: count() > 0, within_s=30, what="the replica has the series")
    known, runs = count(), count("/api/v1/runs")
    ask(standby, "SELECT pg_wal_replay_pause()")
    stack.query("UPDATE benchapp_series SET last_at = NULL RETURNING id")

    assert count() == known
    assert b"No series" in read_with_cookie(stack, "/series/")
    store()
    assert count("/api/v1/runs") == runs + 1
    # A token is checked, and its use noted, by the primary.
    stack.query("UPDATE benchapp_apitoken SET revoked_at = now() RETURNING id")
    assert stack.get("/api/v1/series", token)[0] == 401
    # A limit of a token ends with its request.
    limited = stack.manage("shell", "--no-imports", "-c", LIMITED_TOKEN).split()[-1]
    assert stack.get("/api/v1/series", limited) == (
        200,
        {**stack.get("/api/v1/series", limited)[1], "series": []},
    )
    assert ask(standby, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == 0
    assert count() == known
    assert "is 0 B behind" not in check_replica(stack)
    ask(standby, "SELECT pg_wal_replay_resume()")
    wait_for(lambda: "ok: The replica is 0 B behind." in check_replica(stack), within_s=30, what="it follows")
    stack.kill("standby")
    assert "away: The replica cannot be reached" in check_replica(stack)
    assert stack.get("/api/v1/series")[0] == 200
