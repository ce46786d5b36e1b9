"""The load of one address on a fleet: requests per second, response times, and CPU time of each request.

Two versions are compared on one database: with --database the first run builds it, which takes minutes, and keeps it;
each run measures a copy.

8 connections keep one request each under way while a series is written once a second (--writes), as by a fleet with
3 600 results an hour: each write makes cached charts invalid. CPU: of the web process and of PostgreSQL, per request.
Web process, PostgreSQL and client share the cores.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from benchapp.operation.embedded.child import stop
from benchmarks.charts import SEED as FLEET
from benchmarks.charts import VACUUM
from benchmarks.client import frame
from tests.clusters import copy_cluster
from tests.servers import ROOT, Servers

SERIES: Final = 4000
CONNECTIONS: Final = 8
SECONDS: Final = 10
WRITES_PER_S: Final = 1
# Of requests that are made beforehand.
_PER_S_MAXIMUM: Final = 2000


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """Requests per second, response times, and CPU time per request."""

    per_s: float
    p50_ms: float
    p95_ms: float
    web_ms: float
    postgres_ms: float


def read_fleet_options(parser: argparse.ArgumentParser, *, measurements: int) -> argparse.Namespace:
    """Add the options of a fleet to a parser and return those of the command line; measurements: of each series."""
    parser.add_argument(
        "--database",
        type=Path,
        metavar="DIR",
        help="build the database there, or reuse the one that is there",
    )
    for name, default, text in (
        ("series", SERIES, "series, 400 for each host"),
        ("measurements", measurements, "measurements of each series"),
        ("seconds", SECONDS, "load for each address, in seconds"),
        ("writes", WRITES_PER_S, "series written each second"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} ({default})")
    options = parser.parse_args()
    if options.series < 400 or options.series % 400:
        parser.error("--series: 400 for each host, so a multiple of 400")
    if options.database and options.database.exists() and not (options.database / "18").is_dir():
        # The directory becomes private to the account of PostgreSQL.
        parser.error(f"--database: {options.database} exists and holds no database; name a new directory")
    return options


@contextmanager
def start_fleet(
    options: argparse.Namespace, *, long: int, application: str = "benchapp.asgi:application"
) -> Iterator[Servers]:
    """Start PostgreSQL with a fleet, and a web process; long: additional measurements of the first series."""
    kept = options.database and options.database / "18"
    is_built = kept is not None and kept.exists()
    servers = Servers(environment={"BENCHAPP_PUBLIC_READ": "1"}, cluster=kept if is_built else None)
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        if not is_built:
            seed = FLEET.format(series=options.series, measurements=options.measurements, long=long)
            servers.manage("shell", "--no-imports", "-c", seed)
            servers.manage("redetect")
            servers.manage("shell", "--no-imports", "-c", VACUUM)
            if kept is not None:
                stop(servers.processes.pop("postgres"), ask=signal.SIGINT, patience_s=60)
                copy_cluster(servers.postgres.directory, kept, account=servers.account)
                servers.start_postgres()
        servers.manage("collectstatic", "--noinput", "--verbosity", "0")
        servers.start_web(application)
        yield servers
    finally:
        servers.stop()


def describe_fleet(servers: Servers) -> str:
    """Return the number of measurements and connections."""
    ((count,),) = servers.query("SELECT count(*) FROM benchapp_measurement")
    return f"{count:_} measurements, {CONNECTIONS} clients".replace("_", " ")


def measure_load(
    servers: Servers, path: str, *, seconds: float, writes_per_s: int, connections: int = CONNECTIONS
) -> MeasuredLoad:
    """Request a path for some seconds, after one second that is not measured; exits unless each answer is 200."""
    _load(servers, path, seconds=1, connections=connections)
    before = _read_cpu_s(servers)
    with _write(servers, per_s=writes_per_s):
        done = _load(servers, path, seconds=seconds, connections=connections)
    spent = {name: after - before[name] for name, after in _read_cpu_s(servers).items()}
    return MeasuredLoad(
        per_s=done["per_s"],
        p50_ms=done["p50_ms"],
        p95_ms=done["p95_ms"],
        web_ms=spent["web"] * 1000 / done["count"],
        postgres_ms=spent["postgres"] * 1000 / done["count"],
    )


@contextmanager
def _write(servers: Servers, *, per_s: int) -> Iterator[None]:
    """Commit a change of a series so often, without another effect, in a thread."""
    has_ended = Event()

    def write() -> None:
        while per_s and not has_ended.wait(1 / per_s):
            servers.query(
                "UPDATE benchapp_series SET judging_is_due = judging_is_due"
                " WHERE id = (SELECT min(id) FROM benchapp_series) RETURNING id"
            )

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def _load(servers: Servers, path: str, *, seconds: float, connections: int) -> dict[str, Any]:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{servers.port}\r\nAccept-Encoding: gzip, br\r\n\r\n".encode()
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", str(servers.port), str(connections), str(seconds)],
        input=frame([request] * int(_PER_S_MAXIMUM * seconds)),
        capture_output=True,
        cwd=ROOT,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if set(answer["statuses"]) != {"200"}:
        sys.exit(f"{path}: {answer['statuses']}")
    return answer


def _read_cpu_s(servers: Servers) -> dict[str, float]:
    """Return the CPU time of the processes and their descendants, living or ended, by name."""
    parents, ticks = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(int(field) for field in fields[11:15])
    totals = {}
    for name, process in servers.processes.items():
        family = {process.pid}
        while more := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= more
        totals[name] = sum(ticks.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")
    return totals
