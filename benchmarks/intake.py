"""How many results a second are accepted and stored, beside the limits of the machine.

A result is one envelope around a real fio document of about 20 KB. Client, web and PostgreSQL share the cores.
"""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import psycopg

from benchapp.operation.embedded.child import spawn, wait_until
from benchmarks.client import frame
from tests.envelopes import make_envelope, read_fio
from tests.servers import ROOT, Servers, wait_for

SECONDS = 5.0
BACKLOG = 2000
DOCUMENT = "80_multi_job_json.out"


def main() -> None:
    """Print the table."""
    servers = Servers()
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        servers.start_web()
        token = servers.issue_token("bench-1")
        print(f"{'':54}{'per s':>8}{'p50 ms':>9}{'p99 ms':>9}")
        _measure_accept(servers, token)
        _measure_bare(servers)
        _measure_normalize(servers, token)
    finally:
        servers.stop()


def _measure_accept(servers: Servers, token: str) -> None:
    for label, clients, is_packed in (
        ("accepted, 8 clients", 8, False),
        ("accepted, 8 clients, gzip", 8, True),
        ("accepted, 1 client", 1, False),
    ):
        requests = [_post(token, is_packed=is_packed) for _ in range(6000 if clients > 1 else 2000)]
        _print(label, _load(servers.port, clients, requests))


def _measure_bare(servers: Servers) -> None:
    with psycopg.connect(
        host=str(servers.postgres.socket_directory), user="benchapp", dbname="benchapp"
    ) as connection:
        connection.execute("CREATE TABLE bare_submission (id uuid PRIMARY KEY, body bytea)")
        connection.execute("ALTER TABLE bare_submission ALTER body SET STORAGE EXTERNAL")
    port = servers.port + 1
    log = servers.directory / "bare.log"
    argv = [
        sys.executable,
        "-m",
        "granian",
        "--interface",
        "asginl",
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    process = spawn(
        [*argv, "--workers", "1", "benchmarks.bare:application"],
        log=log,
        account=None,
        env=servers.env("web"),
        cwd=ROOT,
    )
    servers.processes["bare"] = process
    servers.port, own = port, servers.port
    wait_until(lambda: servers.get("/")[0] == 200, process, name="bare", log=log, timeout_s=30)
    servers.port = own
    body = _body()
    request = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    _print("limit: the same server, INSERT with no check, 8 clients", _load(port, 8, [request] * 6000))
    packed = gzip.compress(body, 1)
    with psycopg.connect(
        host=str(servers.postgres.socket_directory), user="benchapp", dbname="benchapp", autocommit=True
    ) as connection:
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < 2:
            connection.execute("INSERT INTO bare_submission VALUES (%s, %s)", (uuid4(), packed))
            count += 1
        _print(
            "limit: psycopg, one INSERT a transaction, 1 connection",
            {"per_s": count / (time.perf_counter() - started)},
        )


def _measure_normalize(servers: Servers, token: str) -> None:
    """Settle a backlog with one Celery worker process, from `received` rows to `stored`."""
    servers.manage("drain")
    _load(servers.port, 8, [_post(token, is_packed=True) for _ in range(BACKLOG)])
    before = servers.count("stored")
    servers.start_valkey()
    servers.start_worker(concurrency=1)
    wait_for(lambda: servers.count("stored") > before, within_s=60, what="the worker began")
    started, first = time.perf_counter(), servers.count("stored")
    wait_for(lambda: servers.count("received") == 0, within_s=120, what="the backlog settled")
    settled = servers.count("stored") - first
    _print(
        "stored from the backlog, one worker process", {"per_s": settled / (time.perf_counter() - started)}
    )
    output = read_fio(DOCUMENT).encode()
    from benchapp.fio import read_output

    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 1:
        read_output(output)
        count += 1
    _print("  of which the reader alone could do", {"per_s": count / (time.perf_counter() - started)})


def _body() -> bytes:
    # Copies of a run are excluded: each body has its own time.
    output = re.sub(r'("timestamp_ms" : )\d+', rf"\g<1>{time.time_ns() // 10**6}", read_fio(DOCUMENT))
    return json.dumps(make_envelope(fio_output=output, id=str(uuid4()))).encode()


def _post(token: str, *, is_packed: bool) -> bytes:
    body = gzip.compress(_body(), 6) if is_packed else _body()
    encoding = "Content-Encoding: gzip\r\n" if is_packed else ""
    head = (
        f"POST /api/v1/submissions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"{encoding}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _load(port: int, clients: int, requests: list[bytes]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", str(port), str(clients), str(SECONDS)],
        input=frame(requests),
        capture_output=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(Path(ROOT))},
    )
    result: dict[str, float] = json.loads(done.stdout)
    statuses = result.pop("statuses")
    assert set(statuses) <= {"200", "202"}, statuses  # type: ignore[arg-type]
    return result


def _print(label: str, result: dict[str, float]) -> None:
    tail = f"{result['p50_ms']:9.2f}{result['p99_ms']:9.2f}" if "p50_ms" in result else ""
    print(f"{label:54}{result['per_s']:8.0f}{tail}", flush=True)


if __name__ == "__main__":
    main()
