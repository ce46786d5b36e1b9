"""What pages cost: pages per second and CPU time of the server, files, and the time until Chromium has drawn a chart.

    python -m benchmarks pages [--pages NAME …] [--database DIR] [--writes PER_S]

Two versions are compared on one database: with --database the first run builds it, which takes minutes, and keeps it;
each run measures a copy. With --pages only these pages are measured, without files and drawing.

Pages per second: 8 connections that keep one request each under way, over 2 million measurements, while a series is
written once a second (--writes), as by a fleet with 3 600 results an hour: each write makes cached charts invalid.
CPU: of the web process and of PostgreSQL, per page. The limit beside them is a page without a query, in the same frame.
Drawing: a history of 1 000 points. The first visit has an empty cache, the second a warm one; both count from the
click to the first contentful paint and to the drawn chart; on loopback, and as over a slow line (Chromium's emulation).
Web process, PostgreSQL, client and Chromium share the cores.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

from benchapp.embedded.child import stop
from benchmarks.charts import SEED as FLEET
from benchmarks.charts import VACUUM
from benchmarks.client import frame
from tests.clusters import copy_cluster
from tests.servers import ROOT, Servers

SERIES, MEASUREMENTS = 4000, 500
CONNECTIONS = 8
SECONDS = 10
WRITES_PER_S = 1
RATED = {
    "no-query": "/docs/errors",
    "overview": "/",
    "matrix": "/matrix/",
    "scaling": "/scaling/",
    "runs": "/runs/",
    "series": "/series/",
    "hosts": "/hosts/",
    "incidents": "/incidents/",
}
POINTS = 1000
VISITS = 7
# A slow line: round trip and throughput in both directions. Aim of the drawn chart: 1 500 ms cold, 500 ms warm.
SLOW_LATENCY_MS = 150
SLOW_BYTES_PER_S = 200_000
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
SEED = """
from datetime import timedelta
from tests.factories import NOON, make_points, make_run, make_series
series = make_series()
run = make_run()
times = [NOON - timedelta(hours=8) * place for place in range({points})]
make_points(series, run, times, latency_kind="clat", bandwidth_bytes_per_s=1.2e8, latency_p99_ns=447488.0)
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("UPDATE benchapp_measurement SET iops = 33000 + 900 * sin(id) + 400 * cos(id * 7)")
print(series.pk)
"""
_TIMINGS = """() => ({
  paint: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  chart: performance.getEntriesByName("chart-drawn")[0].startTime,
  server: performance.getEntriesByType("navigation")[0].responseStart,
  script: performance.getEntriesByType("resource")
    .filter((entry) => entry.initiatorType === "script" || /\\.js$/.test(new URL(entry.name).pathname))
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0),
})"""


def main() -> None:
    """Print the tables."""
    options = _read_options()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if options.pages is None and chromium is None:
        sys.exit("no Chromium: apt-get install chromium, or name pages with --pages")
    _rate_pages(options)
    if options.pages is None and chromium is not None:
        _draw(chromium)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks pages",
        description="CPU time of pages, pages per second, weight of files, time until a chart is drawn in Chromium.",
    )
    parser.add_argument(
        "--pages",
        nargs="+",
        choices=RATED,
        metavar="NAME",
        help=f"measure only these pages, no files and no drawing: {', '.join(RATED)}",
    )
    parser.add_argument(
        "--database",
        type=Path,
        metavar="DIR",
        help="build the database there, or reuse the one that is there",
    )
    for name, default, text in (
        ("series", SERIES, "series, 400 for each host"),
        ("measurements", MEASUREMENTS, "measurements of each series"),
        ("seconds", SECONDS, "load for each page, in seconds"),
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


def _rate_pages(options: argparse.Namespace) -> None:
    """Print pages per second and CPU time per page over a fleet."""
    kept = options.database and options.database / "18"
    is_built = kept is not None and kept.exists()
    servers = Servers(environment={"BENCHAPP_PUBLIC_READ": "1"}, cluster=kept if is_built else None)
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        if not is_built:
            _build_fleet(servers, options)
            if kept is not None:
                stop(servers.processes.pop("postgres"), ask=signal.SIGINT, patience_s=60)
                copy_cluster(servers.postgres.directory, kept, account=servers.account)
                servers.start_postgres()
        servers.manage("collectstatic", "--noinput", "--verbosity", "0")
        servers.start_web()
        ((count,),) = servers.query("SELECT count(*) FROM benchapp_measurement")
        head = f"{count:,} measurements, {CONNECTIONS} clients, {options.writes} writes/s".replace(",", " ")
        print(f"{head:44}{'pages/s':>9}{'web ms':>9}{'PG ms':>9}{'p50 ms':>9}{'KB':>9}   aim: 100/s, 15 ms")
        for label in options.pages or RATED:
            _rate_page(servers, label, seconds=options.seconds, writes_per_s=options.writes)
    finally:
        servers.stop()


def _build_fleet(servers: Servers, options: argparse.Namespace) -> None:
    seed = FLEET.format(series=options.series, measurements=options.measurements, long=options.measurements)
    servers.manage("shell", "--no-imports", "-c", seed)
    servers.manage("redetect")
    servers.manage("shell", "--no-imports", "-c", VACUUM)


def _rate_page(servers: Servers, label: str, *, seconds: int, writes_per_s: int) -> None:
    path = RATED[label]
    _load(servers, path, seconds=1)
    before = _read_cpu_s(servers)
    with _write(servers, per_s=writes_per_s):
        done = _load(servers, path, seconds=seconds)
    spent = {name: after - before[name] for name, after in _read_cpu_s(servers).items()}
    per_page = (spent[name] * 1000 / done["count"] for name in ("web", "postgres"))
    size = _weigh_page(f"http://127.0.0.1:{servers.port}{path}")
    figures = "".join(f"{figure:9.1f}" for figure in (*per_page, done["p50_ms"], size))
    print(f"{label:44}{done['per_s']:9.0f}{figures}", flush=True)


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


def _draw(chromium: str) -> None:
    """Print the weight of the files and the time until a history is drawn."""
    servers = Servers(environment={"BENCHAPP_PUBLIC_READ": "1"})
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        servers.manage("collectstatic", "--noinput", "--verbosity", "0")
        _print_weights(servers.directory / "staticfiles")
        series = (
            servers.manage("shell", "--no-imports", "-c", SEED.format(points=POINTS)).strip().splitlines()[-1]
        )
        servers.start_web()
        _print_timings(f"http://127.0.0.1:{servers.port}/series/{series}/", chromium)
    finally:
        servers.stop()


def _load(servers: Servers, path: str, *, seconds: float) -> dict[str, Any]:
    request = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{servers.port}\r\nAccept-Encoding: gzip, br\r\n\r\n".encode()
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", str(servers.port), str(CONNECTIONS), str(seconds)],
        input=frame([request] * int(2000 * seconds)),
        capture_output=True,
        cwd=ROOT,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if set(answer["statuses"]) != {"200"}:
        sys.exit(f"{path}: {answer['statuses']}")
    return answer


def _weigh_page(url: str) -> float:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "br"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return len(response.read()) / 1000


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


def _print_weights(collected: Path) -> None:
    names = json.loads((collected / "staticfiles.json").read_text())["paths"]
    scripts = [name for name in names if name.startswith(("js/", "vendor/")) and name.endswith(".js")]
    sizes = {name: _weigh(collected / names[name]) for name in scripts}
    chart = sizes.pop("vendor/chart.umd.min.js") / 1000
    own = sum(sizes.values()) / 1000
    print(
        f"JavaScript as it is sent, gzip: ours {own:.1f} KB in {len(sizes)} modules, Chart.js {chart:.1f} KB,"
        f" all {own + chart:.1f} KB   aim: under 150; no page asks for all of it"
    )


def _weigh(path: Path) -> int:
    packed = path.with_name(f"{path.name}.gz")
    return (packed if packed.exists() else path).stat().st_size


def _print_timings(url: str, chromium: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        visits = list(_visit(browser, url, is_slow=False))
        slow = list(_visit(browser, url, is_slow=True))
        browser.close()
    line = f"{SLOW_LATENCY_MS} ms, {SLOW_BYTES_PER_S // 1000} KB/s"
    print(f"{f'history of {POINTS} points, ms (median of {VISITS})':44}{'server':>9}{'paint':>9}{'chart':>9}")
    for label, kept in (
        ("empty cache", [first for first, _ in visits]),
        ("warm cache", [again for _, again in visits]),
        (f"empty cache, {line} (aim: 1500)", [first for first, _ in slow]),
        (f"warm cache, {line} (aim: 500)", [again for _, again in slow]),
    ):
        figures = (statistics.median(visit[name] for visit in kept) for name in ("server", "paint", "chart"))
        print(f"{label:44}" + "".join(f"{figure:9.0f}" for figure in figures))


def _visit(browser: Any, url: str, *, is_slow: bool) -> Iterator[tuple[dict[str, float], dict[str, float]]]:
    browser.new_page().goto(url)  # what the server does once only is not counted
    for _ in range(VISITS):
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        if is_slow:
            _slow_down(context.new_cdp_session(page))
        yield _measure(page, url), _measure(page, url)
        context.close()


def _slow_down(devtools: Any) -> None:
    devtools.send("Network.enable")
    devtools.send(
        "Network.emulateNetworkConditions",
        {
            "offline": False,
            "latency": SLOW_LATENCY_MS,
            "downloadThroughput": SLOW_BYTES_PER_S,
            "uploadThroughput": SLOW_BYTES_PER_S,
        },
    )


def _measure(page: Any, url: str) -> dict[str, float]:
    page.goto(url)
    page.wait_for_selector("[data-drawn]")
    return dict(page.evaluate(_TIMINGS))


if __name__ == "__main__":
    main()
