"""`manage.py import` of a folder: files per second, from the files to stored runs with changes detected.

    python -m benchmarks.importing [FILES]

CPU time per file of the command and of PostgreSQL, as elapsed time depends on what else the machine does; the start of
the command is part of both. The limit, in one process: each file read, decoded by orjson and compressed, and all bodies
stored by COPY.
"""

import gzip
import json
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import psycopg

from tests.envelopes import read_fio
from tests.servers import ROOT, Servers

FILES = 3000
# One job with json+, as an agent or a cron line writes it; and four jobs.
DOCUMENTS = ("80_multi_job_json.out", "25_fsync_json.out")


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else FILES
    servers = Servers()
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        print(f"{'':40}{'files/s':>8}{'limit':>8}{'CPU ms/file':>12}{'PostgreSQL':>11}")
        for document in DOCUMENTS:
            with TemporaryDirectory() as folder:
                _write_files(Path(folder), document, count)
                _measure(servers, document, folder, count)
    finally:
        servers.stop()


def _write_files(folder: Path, document: str, count: int) -> None:
    """Write outputs whose start differs, so that each is a run of its own."""
    report = json.loads(read_fio(document)[read_fio(document).index("{") :])
    first = int(report["timestamp"])
    for number in range(count):
        report["timestamp"] = first + 60 * number
        report["timestamp_ms"] = 1000 * report["timestamp"]
        report.pop("time", None)
        (folder / f"{number:06}.json").write_text(json.dumps(report))


def _measure(servers: Servers, document: str, folder: str, count: int) -> None:
    argv = (
        sys.executable,
        "manage.py",
        "import",
        folder,
        "--host",
        document.partition(".")[0],
        "--create-host",
    )
    postgres_s, command_s, started = _read_postgres_s(servers), _read_children_s(), time.perf_counter()
    done = subprocess.run(
        argv, cwd=ROOT, env=servers.env("import"), capture_output=True, text=True, check=False
    )
    elapsed_s = time.perf_counter() - started
    command_s, postgres_s = _read_children_s() - command_s, _read_postgres_s(servers) - postgres_s
    if f"stored: {count} files" not in done.stdout:
        raise SystemExit(f"{done.stdout}\n{done.stderr}")
    limit = count / _time_bare(servers, Path(folder))
    print(
        f"imported, {document:30}{count / elapsed_s:8.0f}{limit:8.0f}"
        f"{command_s / count * 1000:12.2f}{postgres_s / count * 1000:11.2f}",
        flush=True,
    )


def _read_children_s() -> float:
    """Return the CPU time of the ended processes that this one started, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _read_postgres_s(servers: Servers) -> float:
    """Return the CPU time of all processes of the cluster, also of ended backends."""
    postmaster = (servers.postgres.directory / "postmaster.pid").read_text().split()[0]
    ticks = sum(map(int, _read_stat(postmaster)[11:15]))
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdigit() and (fields := _read_stat(process.name))[1] == postmaster:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_stat(process_id: str) -> list[str]:
    """Return the fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()


def _time_bare(servers: Servers, folder: Path) -> float:
    """Return the seconds of the parts that no import can omit."""
    where = {"host": str(servers.postgres.socket_directory), "user": "benchapp", "dbname": "benchapp"}
    with psycopg.connect(**where) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS bare_import (body bytea)")
        started = time.perf_counter()
        with cursor.copy("COPY bare_import FROM STDIN (FORMAT BINARY)") as copy:
            for path in sorted(folder.iterdir()):
                body = path.read_bytes()
                orjson.loads(body)
                # As intake.posts.submissions.pack.
                copy.write_row([gzip.compress(body, compresslevel=1)])
        connection.commit()
        return time.perf_counter() - started


if __name__ == "__main__":
    main()
