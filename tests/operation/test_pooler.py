"""Behind a real PgBouncer in transaction mode, with the settings of docs/operations.md."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchapp.operation.embedded.child import create_private_directory, spawn
from tests.clusters import make_place
from tests.envelopes import pack_envelope
from tests.servers import Servers, wait_for

PGBOUNCER = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
pytestmark = [pytest.mark.chaos, pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed")]
# Fewer connections than threads of the web process.
CONFIGURATION = """
[databases]
benchapp = host={server} dbname=benchapp user=benchapp
[pgbouncer]
unix_socket_dir = {directory}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 3
"""
READ = (
    *("/", "/hosts/", "/series/", "/runs/", "/scaling/", "/matrix/", "/incidents/", "/readyz"),
    *(
        "/api/v1/points?format=csv",
        "/api/v1/points?format=ndjson",
        "/api/v1/runs",
        "/api/v1/matrix",
    ),
)


@pytest.fixture
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"), cluster=migrated_cluster, environment={"BENCHAPP_PUBLIC_READ": "1"}
    )
    try:
        servers.start_postgres()
        token = servers.issue_token()
        directory = servers.directory / "b"
        create_private_directory(directory, servers.account)
        file, log = servers.directory / "pgbouncer.ini", servers.directory / "pgbouncer.log"
        file.write_text(CONFIGURATION.format(server=servers.postgres.socket_directory, directory=directory))
        argv = [str(PGBOUNCER), str(file)]
        servers.processes["pgbouncer"] = spawn(
            argv, log=log, account=servers.account, env=servers.env("web"), cwd=directory
        )
        wait_for((directory / ".s.PGSQL.6432").exists, within_s=30, what="PgBouncer listens")
        servers.environment |= {
            "DATABASE_URL": f"postgresql:///benchapp?host={directory}&port=6432&user=benchapp",
            "BENCHAPP_STATEMENT_TIMEOUT_S": "0",
            "BENCHAPP_PREPARED_STATEMENTS": "0",
            "TOKEN": token,
        }
        servers.start_valkey()
        servers.start_web()
        servers.start_worker(concurrency=2)
        yield servers
    finally:
        servers.stop()


def test_results_are_stored_and_pages_read_behind_pgbouncer(stack: Servers) -> None:
    def post(_: int) -> int:
        return stack.post("/api/v1/submissions", pack_envelope(), stack.environment["TOKEN"])[0]

    with ThreadPoolExecutor(8) as clients:
        assert set(clients.map(post, range(40))) == {202}
        wait_for(lambda: stack.count("stored") == 40, within_s=120, what="all results are stored")
        # Each several times, as queries are prepared at their fifth execution.
        answers = list(clients.map(lambda path: (path, stack.get(path)[0]), READ * 8))

    assert {answer for answer in answers if answer[1] != 200} == set()
