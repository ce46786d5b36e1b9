"""Many concurrent readers of a slow shared chart do not block other requests."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from benchapp.reports.pages.shared import RENDERING_MAXIMUM
from tests.clusters import make_place
from tests.servers import Servers, wait_for

# The web process has sixteen connections, and gives up on one after two seconds.
CROWD = 40
_MAKE_STUDY = """
from benchapp.models import Study
from benchapp.reports.write import create_study, share_study
panels = [{"kind": "history", "query": "q=host:db-1"}]
print(share_study(create_study(Study(title="Disks", panels=panels)).pk))
"""


@pytest.fixture
def servers(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(directory=make_place("bs-"), cluster=migrated_cluster)
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


def test_crowd_at_a_slow_chart_leaves_connections_to_others(servers: Servers) -> None:
    token = servers.manage("shell", "--no-imports", "-c", _MAKE_STUDY).strip().splitlines()[-1]
    socket_directory = str(servers.postgres.socket_directory)

    def ask(path: str) -> int:
        return servers.get(path)[0]

    def count_waiting() -> int:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return int(servers.query(waiting)[0][0])

    with (
        ThreadPoolExecutor(CROWD) as crowd,
        psycopg.connect(host=socket_directory, user="benchapp", dbname="benchapp") as connection,
    ):
        connection.execute("LOCK TABLE benchapp_series IN ACCESS EXCLUSIVE MODE")
        asked = [crowd.submit(ask, f"/shared/{token}/charts/1") for _ in range(CROWD)]
        refused = CROWD - RENDERING_MAXIMUM
        wait_for(lambda: sum(one.done() for one in asked) == refused, within_s=20, what="refused readers")
        others = [ask(f"/shared/{token}/") for _ in range(20)]
        drawing = count_waiting()
        connection.rollback()
        answers = sorted(one.result() for one in asked)

    assert others == [200] * 20
    assert drawing == RENDERING_MAXIMUM
    assert answers == [200] * RENDERING_MAXIMUM + [503] * refused
