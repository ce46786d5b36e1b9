"""Complete lists of a real web process: whole, or visibly broken off."""

import csv
import http.client
import io
import json
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.charts import SEED
from tests.clusters import make_place
from tests.servers import Servers, wait_for

# More than sockets buffer: 14 MB as JSON.
SERIES, MEASUREMENTS = 400, 30
# Also while a part is being read, when the transaction is not idle.
STREAMING = "xact_start IS NOT NULL AND backend_type = 'client backend' AND pid <> pg_backend_pid()"


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"),
        cluster=migrated_cluster,
        environment={"BROKER_URL": "", "BENCHAPP_PUBLIC_READ": "1"},
    )
    try:
        servers.start_postgres()
        seed = SEED.format(series=SERIES, measurements=MEASUREMENTS, long=MEASUREMENTS)
        servers.manage("shell", "--no-imports", "-c", seed)
        servers.start_web()
        yield servers
    finally:
        servers.stop()


def count_open_snapshots(stack: Servers) -> int:
    return stack.query(f"SELECT count(*) FROM pg_stat_activity WHERE {STREAMING}")[0][0]


def open_list(
    stack: Servers, path: str, *, token: str = ""
) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=60)
    connection.sock = socket.socket()
    # Before it connects: a large buffer would take the whole list.
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection.sock.settimeout(60)
    connection.sock.connect(("127.0.0.1", stack.port))
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
    return connection, connection.getresponse()


def test_a_complete_list_has_all_rows(stack: Servers) -> None:
    connection, response = open_list(stack, "/api/v1/points?format=csv")
    with closing(connection):
        rows = list(csv.DictReader(io.StringIO(response.read().decode(), newline="")))

    assert response.status == 200
    assert [(len(rows),)] == stack.query("SELECT count(*) FROM benchapp_measurement")


def test_csv_of_pages_has_all_rows(stack: Servers) -> None:
    connection, response = open_list(stack, "/api/v1/runs?format=csv&fields=id")
    with closing(connection):
        rows = response.read().decode().splitlines()

    assert [(len(rows) - 1,)] == stack.query("SELECT count(*) FROM benchapp_run")


def test_a_list_that_breaks_off_is_no_complete_answer(stack: Servers) -> None:
    connection, response = open_list(stack, "/api/v1/points")
    with closing(connection):
        assert response.read(1000)
        wait_for(lambda: count_open_snapshots(stack) == 1, within_s=20, what="the list is being sent")

        ended = stack.query(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {STREAMING}")
        assert ended == [(True,)]

        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()


def test_a_client_that_leaves_holds_no_snapshot(stack: Servers) -> None:
    for _ in range(6):  # more than are sent at a time
        wait_for(
            lambda: count_open_snapshots(stack) < 2, within_s=20, what="a stream of this client may begin"
        )
        connection, response = open_list(stack, "/api/v1/points")
        assert response.read(1000)
        connection.close()
        response.close()

    wait_for(lambda: count_open_snapshots(stack) == 0, within_s=20, what="all snapshots are closed")
    connection, response = open_list(stack, "/api/v1/points?limit=1")
    with closing(connection):
        assert response.status == 200
        response.read()


def test_readers_that_stop_neither_take_all_places_nor_keep_theirs(stack: Servers) -> None:
    wait_for(lambda: count_open_snapshots(stack) == 0, within_s=20, what="streams of other tests have ended")
    slow = [open_list(stack, "/api/v1/points") for _ in range(2)]
    assert [response.status for _, response in slow] == [200, 200]

    refused, answer = open_list(stack, "/api/v1/points")
    with closing(refused):
        assert (answer.status, json.load(answer)["code"]) == (429, "quota-exceeded")
        assert answer.headers["Retry-After"] == "2"
    connection, other = open_list(stack, "/api/v1/points", token=stack.issue_token("another-client"))
    with closing(connection):
        assert (other.status, json.load(other)["count"]) == (200, MEASUREMENTS * (SERIES + 1))

    wait_for(lambda: count_open_snapshots(stack) == 0, within_s=60, what="slow readers are ended")
    for connection, response in slow:
        with closing(connection), pytest.raises((http.client.IncompleteRead, ConnectionError)):
            response.read()
