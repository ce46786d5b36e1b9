"""No secret is in a log: the words that are masked, and the logs of a real server that met them."""

import http.client
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from benchapp.operation.log_masking import MaskingFormatter, mask_secrets
from tests.clusters import make_place
from tests.servers import Servers, wait_for

SECRET = "Zm9vYmFyYmF6-_quxquuxcorgegraultgarplywaldo"
TOKEN = f"bench_abcdefgh2345_{SECRET}0a1b2c3d"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"GET /shared/{SECRET}/ HTTP/1.1", "GET /shared/***/ HTTP/1.1"),
        (f"GET /shared/{SECRET}/charts/3 200", "GET /shared/***/charts/3 200"),
        ("GET /shared/half-of-it", "GET /shared/***"),
        (f"/setup/{SECRET}/?x=1", "/setup/***/?x=1"),
        (f"/sign-in/?next=%2Fsetup%2F{SECRET}", "/sign-in/?next=%2Fsetup%2F***"),
        (f"token {TOKEN} is unknown", "token bench_abcdefgh2345_*** is unknown"),
        ("/api/v1/runs?token=abc&limit=3", "/api/v1/runs?token=***&limit=3"),
        ("/x?a=1&access_token=abc", "/x?a=1&access_token=***"),
        ("{'Authorization': 'Bearer abc.def'}", "{'Authorization': 'Bearer ***'}"),
        ("Authorization: Basic dXNlcg==", "Authorization: Basic ***"),
        ("https://hooks.slack.com/services/T0/B0/xyz refused", "https://hooks.slack.com/*** refused"),
        ("postgresql://ada:s3cret@db:5432/x", "postgresql://ada:***@db:5432/x"),
        (f"WHERE share_token = '{SECRET}'", "WHERE share_token = '***'"),
        ("/runs/17/?q=host:db-1&after=abc", "/runs/17/?q=host:db-1&after=abc"),
        ("sha256 " + "a" * 64, "sha256 " + "a" * 64),
        ("/studies/3/share", "/studies/3/share"),
    ],
)
def test_secret_is_masked_and_the_rest_of_the_line_stays(text: str, masked: str) -> None:
    assert mask_secrets(text) == masked


def test_traceback_is_masked_too() -> None:
    try:
        raise RuntimeError(f"no answer from /shared/{SECRET}/")
    except RuntimeError:
        record = logging.LogRecord(
            "x", logging.ERROR, "x.py", 1, "at %s", (f"/setup/{SECRET}/",), sys.exc_info()
        )
    formatter = MaskingFormatter(processors=[lambda logger, name, event: event["event"]], keep_exc_info=True)

    line = formatter.format(record)

    assert line.startswith("at /setup/***/\nTraceback")
    assert "RuntimeError: no answer from /shared/***/" in line
    assert SECRET not in line


@pytest.fixture(scope="module")
def servers(migrated_cluster: Path) -> Iterator[Servers]:
    access = {"GRANIAN_LOG_ACCESS_ENABLED": "1", "GRANIAN_LOG_ACCESS_FMT": "asked %(path)s?%(query_string)s"}
    servers = Servers(
        directory=make_place("bs-"),
        cluster=migrated_cluster,
        environment={**access, "BENCHAPP_LOG_LEVEL": "INFO"},
    )
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


def ask_with_id(servers: Servers, path: str, request_id: str) -> tuple[int, str | None]:
    """Return status and request id of the answer to a GET with a request id."""
    connection = http.client.HTTPConnection("127.0.0.1", servers.port, timeout=60)
    try:
        connection.request("GET", path, headers={"X-Request-ID": request_id})
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("X-Request-ID")
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/healthz", "/static/none.css", "/static/none", "/sign-in/", "/api/v1/runs", "/api/v1/none"]
)
def test_every_answer_has_a_request_id(servers: Servers, path: str) -> None:
    _, kept = ask_with_id(servers, path, "0123-abcd_EF.gh")
    made = {ask_with_id(servers, path, bad)[1] for bad in ("", "short", "with space 1", "x" * 65)}

    assert kept == "0123-abcd_EF.gh"
    assert len(made) == 4
    assert all(re.fullmatch("[0-9a-f]{32}", str(each)) for each in made)


def test_logs_of_the_server_hold_no_secret(servers: Servers) -> None:
    for path in (
        f"/shared/{SECRET}/",
        f"/setup/{SECRET}/",
        f"/api/v1/runs?token={TOKEN}",
        f"/?next=/setup/{SECRET}",
    ):
        servers.get(path, token=TOKEN)
    socket_directory = str(servers.postgres.socket_directory)
    with psycopg.connect(host=socket_directory, user="benchapp", dbname="benchapp") as connection:
        connection.execute("ALTER TABLE benchapp_study RENAME TO benchapp_study_away")

    fault, request_id = ask_with_id(servers, f"/shared/{SECRET}/charts/1", "build-4711.shared")

    log = servers.directory / "web.log"
    wait_for(lambda: "asked /shared/***/charts/1?" in log.read_text(), within_s=10, what="the access log")
    lines = log.read_text()
    assert (fault, request_id) == (500, "build-4711.shared")
    assert "Internal Server Error: /shared/***/charts/1" in lines
    assert "request_id='build-4711.shared'" in lines
    assert "ProgrammingError" in lines and "reports/pages/shared.py" in lines
    assert "asked /setup/***/?" in lines
    assert "asked /api/v1/runs?token=***" in lines
    assert SECRET not in lines
    assert TOKEN not in lines
