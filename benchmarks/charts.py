"""Response times of charts: scaling, matrix, history over 1 million measurements in 20 000 series.

    python -m benchmarks.charts [SERIES] [MEASUREMENTS-OF-EACH]

Server: from the request to the whole answer, one client on loopback; the first request, which loads the code, is
listed separately. Uncached: each request asks for another requirement. Drawn: in headless Chromium with a warm cache,
from the click to the drawn chart. Everything shares the cores. The bare limits are PostgreSQL alone: the rows that the
scaling page and a ranking of layouts need, fetched and discarded.
"""

import shutil
import statistics
import sys
import time
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from tests.servers import Servers

SERIES: Final = 20_000
MEASUREMENTS: Final = 50
REQUESTS: Final = 30
VISITS: Final = 5
LONG_HISTORY: Final = 10_000
FLAGS: Final = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
]

# 40 layouts × 10 workloads for each host; a run measures one layout.
SEED: Final = """
from django.db import connection
from tests.factories import make_environment
environment = make_environment(kernel="6.1.0")
series, measurements, long = {series}, {measurements}, {long}
def run(sql, *values):
    with connection.cursor() as cursor:
        cursor.execute(sql, values or None)
        return cursor.rowcount
hosts = max(1, series // 400)
run('''INSERT INTO benchapp_host (name, pool, created_at, agent_version, schedule_reported_by)
       SELECT 'host-' || lpad(n::text, 4, '0'), '', now(), '0.1.0', '' FROM generate_series(1, %s) n''', hosts)
run('''INSERT INTO benchapp_target (key, volume_type, volume_count, volume_size_bytes, raid_level, stripe_count,
        filesystem)
       SELECT sha256(('t' || n)::bytea), (ARRAY['gp3', 'io2'])[1 + n % 2], 2 ^ (n / 2 % 5),
              (ARRAY[20, 100, 200, 500])[1 + n / 10] * 1073741824::bigint, CASE WHEN n / 2 % 5 > 0 THEN 'raid0' END,
              2 ^ (n / 2 % 5), 'xfs' FROM generate_series(0, 39) n''')
run('''INSERT INTO benchapp_workload (key, rw, block_size_bytes, block_size_text, iodepth, numjobs, file_size_bytes,
        file_size_text, is_direct, engine, read_share_percent, options)
       SELECT sha256(('w' || n)::bytea), (ARRAY['read', 'write', 'randread', 'randwrite'])[1 + n % 4],
              CASE WHEN n < 8 THEN 4096 ELSE 33554432 END, '', CASE WHEN n < 4 THEN 1 WHEN n < 8 THEN 32 ELSE 8 END, 4,
              5368709120, '', TRUE, 'libaio', CASE WHEN n % 2 = 0 THEN 100 ELSE 0 END, '{{}}'
       FROM generate_series(0, 9) n''')
columns = "volume_type, volume_count, volume_size_bytes, raid_level, stripe_count, filesystem"
work = ("rw, block_size_bytes, block_size_text, iodepth, numjobs, file_size_bytes, file_size_text, is_direct, engine,"
        " read_share_percent, options")
run(f'''INSERT INTO benchapp_series (key, key_version, scope, host_id, target_id, workload_id, direction, badges,
         measurement_count, first_at, last_at, judging_is_due, is_reread, former_targets, {{columns}}, {{work}})
        SELECT sha256((h.id || ' ' || t.id || ' ' || w.id)::bytea), 1, 'host:' || h.name, h.id, t.id, w.id,
               CASE WHEN w.rw LIKE '%%read' THEN 'read' ELSE 'write' END, '{{{{}}}}', %s,
               now() - make_interval(hours => 6 * %s), now(), TRUE, FALSE, '{{{{}}}}', {{columns}}, {{work}}
        FROM benchapp_host h CROSS JOIN benchapp_target t CROSS JOIN benchapp_workload w''', measurements, measurements)
run('''INSERT INTO benchapp_submission (id, host_id, scope, kind, parameters, body, body_bytes, digest, received_at,
        state, attempts, settled_at, reason_code, reason, parser_version)
       SELECT gen_random_uuid(), h.id, 'host:' || h.name, 'envelope', '{{}}', NULL, 0, sha256(''::bytea), now(),
              'stored', 1, now(), '', '', 99 FROM benchapp_host h''')
run('''INSERT INTO benchapp_run (submission_id, document, host_id, target_id, environment_id, profile, labels,
        started_at, started_at_is_known, format, fio_version, command, error, is_partial, warnings, badges,
        parser_version, excluded_reason)
       SELECT s.id, (t.id * 500 + n) %% 32000, s.host_id, t.id, %s, 'ebs-series', '{{}}',
              now() - make_interval(hours => 6 * n), TRUE, 'json', 'fio-3.33', '{{}}', 0, FALSE, '[]', '{{}}', 99, ''
       FROM benchapp_submission s CROSS JOIN benchapp_target t CROSS JOIN generate_series(0, %s - 1) n''',
    environment.pk, measurements)
run('''INSERT INTO benchapp_measurement (series_id, run_id, ordinal, position, job_name, started_at, error, iops,
        bandwidth_bytes_per_s, latency_kind, latency_mean_ns, latency_p50_ns, latency_p95_ns, latency_p99_ns,
        latency_p99_9_ns, latency_max_ns, clones, percentiles, missing, badges, is_excluded)
       SELECT s.id, r.id, 0, s.workload_id % 10, '', r.started_at, 0, v.iops, v.iops * s.block_size_bytes, 'clat',
              4e9 / v.iops, 3e9 / v.iops, 6e9 / v.iops, 9e9 / v.iops, 2e10 / v.iops, 9e10 / v.iops, 4,
              '{{}}', '{{}}', '[]', FALSE
       FROM benchapp_run r JOIN benchapp_series s ON s.host_id = r.host_id AND s.target_id = r.target_id
       CROSS JOIN LATERAL (SELECT 4000 * sqrt(s.volume_count) * (1 + 0.03 * sin(r.id * 7.1 + s.id)) AS iops) v
       ORDER BY r.started_at''')
run('''INSERT INTO benchapp_measurement (series_id, run_id, ordinal, position, job_name, started_at, error, iops,
        bandwidth_bytes_per_s, latency_kind, latency_p99_ns, clones, percentiles, missing, badges, is_excluded)
       SELECT s.id, r.id, n, n, '', r.started_at - make_interval(hours => n), 0,
              33000 + 900 * sin(n) + 400 * cos(n * 7), 1.2e8, 'clat', 447488, 4, '{{}}', '{{}}', '[]', FALSE
       FROM (SELECT * FROM benchapp_series ORDER BY id LIMIT 1) s,
            LATERAL (SELECT * FROM benchapp_run r WHERE r.target_id = s.target_id AND r.host_id = s.host_id LIMIT 1) r,
            generate_series(1, %s) n''', long)
run('''INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)
       SELECT m.series_id, r.environment_id, min(m.started_at), max(m.started_at)
       FROM benchapp_measurement m JOIN benchapp_run r ON r.id = m.run_id GROUP BY 1, 2''')
run("UPDATE benchapp_host h SET run_count = (SELECT count(*) FROM benchapp_run r WHERE r.host_id = h.id)")
run("ANALYZE")
first = run("UPDATE benchapp_series SET measurement_count = measurement_count + 0")
from benchapp.models import Measurement, Series
print(Series.objects.count(), Measurement.objects.count(), Series.objects.order_by("id").first().pk,
      Series.objects.order_by("-id").first().pk)
"""
VACUUM: Final = """
from django.db import connection
with connection.cursor() as cursor:
    cursor.execute("VACUUM ANALYZE")
"""
BARE: Final = """
import time
from django.db import connection
levels = "SELECT series_id, median, p10, p90, n FROM benchapp_level WHERE is_current AND "
def measure(condition):
    taken = []
    for _ in range(10):
        started = time.perf_counter()
        with connection.cursor() as cursor:
            cursor.execute(levels + condition)
            cursor.fetchall()
        taken.append(time.perf_counter() - started)
    return sorted(taken)[5] * 1000
three = "metric IN ('iops', 'bandwidth_bytes_per_s', 'latency_p99_ns') AND series_id IN (SELECT id FROM benchapp_series"
print(measure("metric = 'iops'"), measure(three + " WHERE rw = 'randread' AND block_size_bytes = 4096)"),
      measure(three + " WHERE rw = 'read')"))
"""
# p95 of a page or answer that is not cached.
UNCACHED_AIM_MS: Final = 300


def main() -> None:
    """Seed, measure and print the table."""
    wanted = [int(argument) for argument in sys.argv[1:3]]
    series, measurements = (*wanted, *(SERIES, MEASUREMENTS)[len(wanted) :])
    servers = Servers(environment={"BENCHAPP_PUBLIC_READ": "1"})
    try:
        servers.start_postgres()
        servers.manage("migrate", "--verbosity", "0")
        servers.manage("collectstatic", "--noinput", "--verbosity", "0")
        seed = SEED.format(series=series, measurements=measurements, long=LONG_HISTORY)
        started = time.perf_counter()
        counts = servers.manage("shell", "--no-imports", "-c", seed).strip().splitlines()[-1].split()
        seeded_s = time.perf_counter() - started
        servers.manage("redetect")
        detected_s = time.perf_counter() - started - seeded_s
        print(f"{counts[1]} measurements in {counts[0]} series (seeded in {seeded_s:.0f} s)")
        print(
            f"levels and changes of all series: {detected_s:.1f} s, {int(counts[0]) / detected_s:.0f} series/s"
        )
        # What autovacuum does within minutes: a table filled at once has no statistics, and no map of what is visible.
        servers.manage("shell", "--no-imports", "-c", VACUUM)
        bare = servers.manage("shell", "--no-imports", "-c", BARE).strip().splitlines()[-1].split()
        servers.start_web()
        url = f"http://127.0.0.1:{servers.port}"
        _measure_server(url, int(counts[2]), int(counts[3]), float(bare[0]))
        _measure_uncached(url, [float(bare_ms) for bare_ms in bare[1:]])
        _measure_drawing(url, int(counts[2]), int(counts[3]))
    finally:
        servers.stop()


def _list_pages(long: int, usual: int) -> dict[str, str]:
    return {
        "scaling, nothing chosen": "/scaling/",
        "scaling of one host": "/scaling/?q=host:host-0001",
        "scaling, small multiples by file and volume": "/scaling/?q=host:host-0001&facet=volume_size_bytes",
        "matrix, nothing chosen": "/matrix/",
        "history of 50 runs": f"/series/{usual}/",
        f"history of {LONG_HISTORY} runs": f"/series/{long}/",
        "history of many series": "/history/?q=host:host-0001+volume_type:gp3+volume_count:4+bs:4k",
        "layouts for a requirement, of all hosts": "/layouts/?iops=8000&p99_ms=3&block_size=4k",
        "comparison of two hosts": "/compare/?a=host:host-0001&b=host:host-0002&metric=iops",
    }


def _measure_server(base: str, long: int, usual: int, bare_ms: float) -> None:
    print(f"{'server, ms':46}{'first':>9}{'median':>9}{'p95':>9}{'KB':>9}   aim: p95 under 100")
    print(f"{'the bare rows of scaling, PostgreSQL alone':46}{'':9}{bare_ms:9.1f}")
    for label, path in _list_pages(long, usual).items():
        first_ms, _ = _request(base + path)
        taken, sizes = zip(*(_request(base + path) for _ in range(REQUESTS)), strict=True)
        _print_times(label, first_ms, taken, size=sizes[0])


def _measure_uncached(base: str, bare_ms: Sequence[float]) -> None:
    print(
        f"{'uncached, ms':46}{'first':>9}{'median':>9}{'p95':>9}{'KB':>9}   aim: p95 under {UNCACHED_AIM_MS}"
    )
    for label, query, limit_ms in (
        ("a fifth of the series: random reads", "p99_ms=3&block_size=4k", bare_ms[0]),
        ("three tenths: sequential reads", "pattern=read", bare_ms[1]),
    ):
        print(f"{'the bare rows of ' + label:46}{'':9}{limit_ms:9.1f}")
        for path, least in (("/layouts/", 1000), ("/api/v1/layouts", 2000)):
            taken, sizes = zip(
                *(_request(f"{base}{path}?iops={least + place}&{query}") for place in range(REQUESTS + 1)),
                strict=True,
            )
            _print_times(f"  {path}", taken[0], taken[1:], size=sizes[0])


def _print_times(label: str, first_ms: float, taken: Sequence[float], *, size: int) -> None:
    p95 = sorted(taken)[int(0.95 * len(taken))]
    print(f"{label:46}{first_ms:9.1f}{statistics.median(taken):9.1f}{p95:9.1f}{size / 1000:9.0f}", flush=True)


def _request(url: str) -> tuple[float, int]:
    started = time.perf_counter()
    with urllib.request.urlopen(url, timeout=60) as response:
        size = len(response.read())
    return (time.perf_counter() - started) * 1000, size


def _measure_drawing(base: str, long: int, usual: int) -> None:
    names = ("chromium", "chromium-headless-shell", "chromium-browser")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        print("no Chromium: apt-get install chromium; the drawing is not measured")
        return
    from playwright.sync_api import sync_playwright

    print(
        f"{'drawn, ms (median of ' + str(VISITS) + ', warm cache)':46}{'chart':>9}          aim: under 1000"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
        for label, path in _list_pages(long, usual).items():
            # The matrix is a table; without prices layouts are, too.
            if label.startswith(("matrix", "layouts")):
                continue
            _draw(page, base + path)
            drawn = [_draw(page, base + path) for _ in range(VISITS)]
            print(f"{label:46}{statistics.median(drawn):9.0f}", flush=True)
        browser.close()


def _draw(page: Any, url: str) -> float:
    page.goto(url)
    page.wait_for_selector("[data-drawn]")
    return float(page.evaluate("performance.getEntriesByName('chart-drawn')[0].startTime"))


if __name__ == "__main__":
    main()
