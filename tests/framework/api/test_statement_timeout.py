"""A statement that takes too long is stopped in a web process, said in words, and logged without its values."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.clusters import make_place
from tests.servers import ROOT, Servers

IDLE = "-c idle_in_transaction_session_timeout=120s"


@pytest.fixture(scope="module")
def stack(migrated_cluster: Path) -> Iterator[Servers]:
    servers = Servers(
        directory=make_place("bs-"),
        cluster=migrated_cluster,
        environment={"BROKER_URL": "", "BENCHAPP_PUBLIC_READ": "1", "BENCHAPP_STATEMENT_TIMEOUT_S": "1"},
    )
    try:
        servers.start_postgres()
        servers.start_web()
        yield servers
    finally:
        servers.stop()


@contextmanager
def hold_table(stack: Servers, table: str) -> Iterator[None]:
    """Keep everybody else waiting for a table."""
    socket_directory = str(stack.postgres.socket_directory)
    with psycopg.connect(host=socket_directory, user="benchapp", dbname="benchapp") as connection:
        connection.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def test_program_is_told_to_ask_for_less(stack: Servers) -> None:
    with hold_table(stack, "benchapp_run"):
        status, problem = stack.get("/api/v1/runs")

    assert (status, problem["code"]) == (503, "database-too-slow")
    assert stack.get("/api/v1/runs")[0] == 200


def test_person_is_told_to_ask_for_less(stack: Servers) -> None:
    with hold_table(stack, "benchapp_run"):
        status, page = stack.get("/runs/")

    assert (status, b"Query timeout" in page) == (503, True)
    assert stack.get("/runs/")[0] == 200


def test_a_page_is_the_same_once_its_queries_are_prepared(stack: Servers) -> None:
    # Prepared at the fifth time, planned for any values at the tenth.
    answers = [
        stack.get(path) for path in ("/runs/", "/hosts/", "/incidents/", "/series/") for _ in range(12)
    ]

    assert {status for status, _ in answers} == {200}
    assert len({page for _, page in answers}) == 4


def test_log_of_postgresql_holds_no_statement(stack: Servers) -> None:
    with hold_table(stack, "benchapp_study"):
        stack.get(f"/shared/{'k' * 43}/")

    log = stack.postgres.log.read_text()

    assert "canceling statement due to statement timeout" in log
    assert "k" * 43 not in log
    assert "SELECT" not in log


def test_commands_have_no_bound_also_in_the_environment_of_a_web_process(stack: Servers) -> None:
    shown = "from django.db import connection; print(connection.cursor().execute('SHOW statement_timeout').fetchone())"

    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", shown],
        cwd=ROOT,
        env=os.environ | stack.env("web"),
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "('0',)"


def read_options(environments: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Return the options of the database that settings read from each environment, in one process."""
    program = (
        "import importlib, json, os, sys\n"
        "from benchapp import settings\n"
        "for environment in json.load(sys.stdin):\n"
        "    os.environ.update(environment)\n"
        "    print(json.dumps(importlib.reload(settings).DATABASES['default']['OPTIONS'], default=str))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=os.environ | {"BENCHAPP_ROLE": "web", "BENCHAPP_SECRET_KEY": "tests-only-" + "k" * 50},
        input=json.dumps(environments),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_what_the_address_of_the_database_says_has_the_last_word() -> None:
    address = "postgresql://127.0.0.1/benchapp"
    options = read_options(
        [
            {"BENCHAPP_STATEMENT_TIMEOUT_S": seconds, "DATABASE_URL": f"{address}{query}"}
            for seconds, query in (("", ""), ("5", "?options=-c%20statement_timeout=90s"), ("0", ""))
        ]
    )

    assert [each.get("options") for each in options] == [
        f"-c statement_timeout=30s {IDLE}",
        f"-c statement_timeout=5s {IDLE} -c statement_timeout=90s",
        None,
    ]


def test_prepared_statements_are_disabled_for_a_pooler_without_them() -> None:
    options = read_options([{"BENCHAPP_PREPARED_STATEMENTS": wanted} for wanted in ("1", "0")])

    assert [each.get("prepare_threshold") for each in options] == [5, None]


def test_libpq_closes_prepared_statements_by_the_protocol_as_poolers_require() -> None:
    assert psycopg.capabilities.has_send_close_prepared()
