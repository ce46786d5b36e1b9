"""What complete lists cost: seconds, bytes and memory of `GET /api/v1/points`, beside COPY of the same rows.

    python -m benchmarks.export [SERIES] [MEASUREMENTS-OF-EACH]

The limit beside them is PostgreSQL's own COPY of the joined rows, without names and labels. Memory: by how much the web
process grows at most while it sends.
"""

import sys
import threading
import time
import urllib.request
from pathlib import Path

from benchmarks.charts import SEED as FLEET
from benchmarks.charts import VACUUM
from tests.servers import Servers

SERIES, MEASUREMENTS = 4000, 250
# A tenth of the hosts of SEED: 400 series of each.
TENTH = "q=host:host-0001"
REQUESTS = {
    "CSV": "format=csv",
    "JSON": "format=json",
    "NDJSON": "format=ndjson",
    "Parquet": "format=parquet",
    "CSV, long, three metrics": "format=csv&shape=long&metrics=iops,latency_mean_ns,latency_p99_ns",
    "CSV, four columns": "format=csv&fields=series,started_at,host&metrics=iops",
}
COPY = """
import time
from django.db import connection
query = '''COPY (SELECT m.*, r.profile, r.labels, h.name, s.*, e.* FROM benchapp_measurement m
    JOIN benchapp_run r ON r.id = m.run_id JOIN benchapp_host h ON h.id = r.host_id
    JOIN benchapp_series s ON s.id = m.series_id JOIN benchapp_environment e ON e.id = r.environment_id {where})
    TO STDOUT (FORMAT csv)'''
connection.ensure_connection()
started, count, size = time.perf_counter(), 0, 0
with connection.connection.cursor().copy(query) as copy:
    for row in copy:
        count, size = count + 1, size + len(row)
print(count, size, time.perf_counter() - started)
"""


def main() -> None:
    """Print the table."""
    wanted = [int(argument) for argument in sys.argv[1:3]]
    series, measurements = (*wanted, *(SERIES, MEASUREMENTS)[len(wanted) :])
    servers = Servers(environment={"BENCHAPP_PUBLIC_READ": "1"})
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        seed = FLEET.format(series=series, measurements=measurements, long=measurements)
        servers.manage("shell", "--no-imports", "-c", seed)
        servers.manage("shell", "--no-imports", "-c", VACUUM)
        servers.start_web()
        print(
            f"{'':40}{'rows':>10}{'MB':>8}{'s':>8}{'rows/s':>10}{'+ MiB':>8}   aim: 100 000 in 3 s, + 150 MiB"
        )
        for label, where in (("a tenth", "WHERE h.name = 'host-0001'"), ("all", "")):
            printed = servers.manage("shell", "--no-imports", "-c", COPY.format(where=where))
            count, size, taken_s = printed.strip().splitlines()[-1].split()
            _print_line(f"COPY of {label} (the limit)", int(count), int(size), float(taken_s), "")
            for name, query in REQUESTS.items():
                more = f"&{TENTH}" if where else ""
                _measure(servers, f"{name}, {label}", f"{query}{more}", int(count))
    finally:
        servers.stop()


def _measure(servers: Servers, label: str, query: str, count: int) -> None:
    pid = servers.processes["web"].pid
    before = peak = _read_rss_mib(pid)
    is_done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not is_done.wait(0.05):
            peak = max(peak, _read_rss_mib(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started, size = time.perf_counter(), 0
    try:
        address = f"http://127.0.0.1:{servers.port}/api/v1/points?{query}"
        with urllib.request.urlopen(address, timeout=600) as answer:
            while part := answer.read(1 << 20):
                size += len(part)
    finally:
        taken_s = time.perf_counter() - started
        is_done.set()
        watcher.join()
    _print_line(label, count, size, taken_s, f"{peak - before:8.0f}")


def _print_line(label: str, count: int, size: int, taken_s: float, grown: str) -> None:
    print(f"{label:40}{count:10}{size / 1e6:8.1f}{taken_s:8.2f}{count / taken_s:10.0f}{grown:>8}", flush=True)


def _read_rss_mib(pid: int) -> float:
    """Return the memory of the web process: the master of the server and its worker."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    pages = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in pids)
    return pages * 4096 / 2**20


if __name__ == "__main__":
    main()
