"""Weight of the scripts, and the time until Chromium has drawn a history of 1 000 points.

    python -m benchmarks pages

The first visit has an empty cache, the second a warm one; both count from the click to the first contentful paint and
to the drawn chart; on loopback, and as over a slow line (Chromium's emulation). Web process, PostgreSQL and Chromium
share the cores. What pages cost over a fleet: benchmarks.load.
"""

import json
import shutil
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers import Servers

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
    names = ("chromium", "chromium-headless-shell", "chromium-browser")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        sys.exit("no Chromium: apt-get install chromium")
    _draw(chromium)


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
