"""Years of a fleet: fills a database, then drives intake, detection and reading together: `make bench SCALE=1`.

    python -m benchmarks load [--scale 1] [--hosts 10000] [--series 200000] [--parts intake pages upkeep]

Scale: millions of measurements. Series, runs and measurements are written by SQL. Hosts have a few of 40 layouts, a run
has the ten workloads of one. 5 000 series, all with a step of −20 %, are evaluated as workers do. Results are envelopes
around a real fio document of 20 KB with four measurements, whose values vary. CPU: of web process and PostgreSQL for
each answer to one client, with nothing else at work. Live: while results arrive. Client and servers share the cores.
With --database the first run builds the database there and keeps it.
"""

import argparse
import copy
import gzip
import http.client
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final
from uuid import uuid4

import orjson
import psycopg

from benchmarks.client import frame
from tests.envelopes import make_envelope, read_fio
from tests.servers import ROOT, Servers, wait_for

DOCUMENT: Final = "80_multi_job_json.out"
WORKLOADS: Final = 10
LIVE_HOSTS: Final = 40
# Series that workers evaluate, and their runs.
JUDGED: Final = 5000
RUNS_JUDGED: Final = 40
# Rounds since the planted step.
ROUNDS: Final = 8
PAGES: Final = {
    "Overview": "/",
    "Hosts": "/hosts/",
    "a host": "/hosts/{host}/",
    "a host of 20 000 runs": "/hosts/host-00001/",
    "Series": "/series/",
    "a series": "/series/{series}/",
    "Runs": "/runs/",
    "runs of a host": "/runs/?q=host:{host}",
    "a run": "/runs/{run}/",
    "Incidents": "/incidents/",
    "an incident": "/incidents/{incident}/",
    "Scaling": "/scaling/",
    "Scaling over hosts": "/scaling/?x=host",
    "Scaling, a filter": "/scaling/?q=rw:randread",
    "Matrix": "/matrix/",
    "Matrix over hosts": "/matrix/?x=host",
    "Choose a layout": "/layouts/?iops=10000",
    "Compare": "/compare/?a=volume_type:gp3&b=volume_type:io2",
    "readiness": "/readyz",
    "search": "/search/results?text=gp3+16+volumes",
    "API hosts": "/api/v1/hosts?limit=100",
    "API series": "/api/v1/series?limit=100",
    "API runs": "/api/v1/runs?limit=100",
    "API points": "/api/v1/series/{series}/points?limit=1000",
    "API points of a host": "/api/v1/points?q=host:{host}&limit=1000",
    "API history": "/api/v1/history?series={series}",
    "API scaling": "/api/v1/scaling",
    "API matrix": "/api/v1/matrix",
}
_RATES: Final = ("iops", "iops_mean", "bw", "bw_bytes", "bw_mean", "total_ios", "io_bytes", "io_kbytes")

# Rows that hosts share, and hosts with their series. One series in three of a host has its layout alone.
FLEET: Final = """
INSERT INTO benchapp_host (name, pool, created_at, last_seen_at, agent_version, schedule, schedule_since_at,
  schedule_reported_by)
 SELECT 'host-' || lpad(n::text, 5, '0'), CASE WHEN n > {hosts} * .9 THEN 'pool-' || n / 20 ELSE '' END,
  now() - interval '2 years', now(), '0.1.0', jsonb_build_array(jsonb_build_object('profile', 'ebs-series',
  'directory', '/data', 'every_s', 21600, 'splay_s', 600)), now() - interval '2 years', ''
 FROM generate_series(1, {hosts}) n;
INSERT INTO benchapp_environment (key, kernel, os, fio_version, cpu_model, cpu_count, facts)
 SELECT sha256(('e' || n)::bytea), '6.' || n, 'Debian 12', 'fio-3.36', 'Xeon', 8, '{{}}' FROM generate_series(1, 5) n;
INSERT INTO benchapp_target (key, volume_type, volume_count, volume_size_bytes, raid_level, stripe_count, filesystem)
 SELECT sha256(('t' || n)::bytea), (ARRAY['gp3', 'io2'])[1 + n % 2], 2 ^ (n / 2 % 5),
  (ARRAY[20, 100, 200, 500])[1 + n / 10] * 1073741824::bigint, CASE WHEN n / 2 % 5 > 0 THEN 'raid0' ELSE 'none' END,
  2 ^ (n / 2 % 5), 'xfs' FROM generate_series(0, 39) n;
INSERT INTO benchapp_workload (key, rw, block_size_bytes, block_size_text, iodepth, numjobs, file_size_bytes,
  file_size_text, is_direct, engine, read_share_percent, options)
 SELECT sha256(('w' || n)::bytea), (ARRAY['read', 'write', 'randread', 'randwrite'])[1 + n % 4],
  CASE WHEN n < 8 THEN 4096 ELSE 33554432 END, '', CASE WHEN n < 4 THEN 1 WHEN n < 8 THEN 32 ELSE 8 END, 4,
  5368709120, '', TRUE, 'libaio', CASE WHEN n % 2 = 0 THEN 100 ELSE 0 END, '{{}}' FROM generate_series(0, 9) n;
INSERT INTO benchapp_series (key, key_version, scope, host_id, target_id, workload_id, direction, badges,
  measurement_count, first_at, last_at, judging_is_due, is_reread, former_targets, {target}, {workload})
 SELECT sha256((h.id || ' ' || t.id || ' ' || w.id)::bytea), 1,
  CASE h.pool WHEN '' THEN 'host:' || h.name ELSE 'pool:' || h.pool END, CASE h.pool WHEN '' THEN h.id END, t.id, w.id,
  CASE WHEN w.rw LIKE '%read' THEN 'read' ELSE 'write' END, '{{}}', {runs}, now() - interval '6 hours' * ({runs} - 1),
  now() - interval '1 hour', FALSE, FALSE, '{{}}', {target}, {workload}
 FROM (SELECT DISTINCT ON (CASE pool WHEN '' THEN name ELSE pool END) * FROM benchapp_host) h
 CROSS JOIN generate_series(0, {layouts} - 1) place
 JOIN benchapp_target t ON t.id = 1 + (h.id * 7 + place * 11) % 40 CROSS JOIN benchapp_workload w;
INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)
 SELECT id, 1 + id % 5, first_at, last_at FROM benchapp_series;
"""
# The runs of one round, and their measurements: every six hours, the newest an hour ago.
ROUND: Final = """
INSERT INTO benchapp_submission (id, host_id, scope, kind, parameters, body, body_bytes, digest, received_at, state,
  attempts, settled_at, reason_code, reason, parser_version)
 SELECT md5(s.id || '-' || {round})::uuid, h.id, s.scope, 'envelope', '{{}}', NULL, 0,
  sha256((s.id || '-' || {round})::bytea), {at}, 'stored', 1, {at}, '', '', 99
 FROM benchapp_series s JOIN fleet h ON h.series_id = s.id WHERE s.workload_id = 1 AND {which};
INSERT INTO benchapp_run (submission_id, document, host_id, target_id, environment_id, profile, labels, started_at,
  started_at_is_known, finished_at, format, fio_version, command, error, is_partial, warnings, badges, parser_version,
  excluded_reason)
 SELECT md5(s.id || '-' || {round})::uuid, 0, h.id, s.target_id, 1 + s.id % 5, 'ebs-series', '{{"rack": "r1"}}', {at},
  TRUE, NULL, 'json+', 'fio-3.36', '{{"argv": ["fio", "series.fio"], "exit_status": 0}}', 0, FALSE, '[]', '{{}}', 99, ''
 FROM benchapp_series s JOIN fleet h ON h.series_id = s.id WHERE s.workload_id = 1 AND {which};
INSERT INTO benchapp_measurement (series_id, run_id, ordinal, position, job_name, started_at, error, iops,
  bandwidth_bytes_per_s, latency_kind, latency_mean_ns, latency_stddev_ns, latency_p50_ns, latency_p95_ns,
  latency_p99_ns, latency_p99_9_ns, latency_max_ns, total_ios, io_bytes, runtime_s, clones, percentiles, missing,
  badges, is_excluded)
 SELECT s.id, r.id, 0, s.workload_id, 'job', {at}, 0, v.iops, v.iops * s.block_size_bytes, 'clat', 4e9 / v.iops,
  2e9 / v.iops, 3e9 / v.iops, 6e9 / v.iops, 9e9 / v.iops, 2e10 / v.iops, 9e10 / v.iops, v.iops * 60,
  v.iops * 60 * s.block_size_bytes, 60, 4, {percentiles}, '{{}}', '[]', FALSE
 FROM benchapp_series s JOIN fleet h ON h.series_id = s.id
 JOIN benchapp_series first ON first.scope = s.scope AND first.target_id = s.target_id AND first.workload_id = 1
 JOIN benchapp_run r ON r.submission_id = md5(first.id || '-' || {round})::uuid
 CROSS JOIN LATERAL (SELECT {factor} * 4000 * sqrt(s.volume_count)
  * (1 + 0.02 * (random() + random() - random() - random())) AS iops) v WHERE {which};
"""
AT: Final = "now() - interval '1 hour' - interval '6 hours' * {round}"
PERCENTS: Final = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
# The host of the first series in each scope; 20 000 more runs of the first host, of one workload.
BEFORE: Final = """
CREATE TEMPORARY TABLE fleet AS
 SELECT series.id AS series_id, coalesce(host_id, (SELECT min(host.id) FROM benchapp_host host
  WHERE 'pool:' || host.pool = scope)) AS id FROM benchapp_series series;
CREATE UNIQUE INDEX ON fleet (series_id);
ANALYZE;
"""
LONG: Final = """
INSERT INTO benchapp_run (submission_id, document, host_id, target_id, environment_id, profile, labels, started_at,
  started_at_is_known, format, fio_version, command, error, is_partial, warnings, badges, parser_version,
  excluded_reason)
 SELECT r.submission_id, n, 1, r.target_id, r.environment_id, r.profile, '{}', r.started_at - interval '20 minutes' * n,
  TRUE, 'json', r.fio_version, '{}', 0, FALSE, '[]', '{}', 99, '' FROM generate_series(1, 20000) n,
  LATERAL (SELECT * FROM benchapp_run WHERE host_id = 1 ORDER BY started_at LIMIT 1) r;
INSERT INTO benchapp_measurement (series_id, run_id, ordinal, position, job_name, started_at, error, iops,
  bandwidth_bytes_per_s, latency_kind, latency_p99_ns, clones, percentiles, missing, badges, is_excluded)
 SELECT (SELECT min(id) FROM benchapp_series s WHERE s.host_id = 1 AND s.target_id = r.target_id), r.id, 0, 0, '',
  r.started_at, 0, 33000 + 900 * sin(r.id), 1.2e8, 'clat', 447488, 1, '{}', '{}', '[]', FALSE
 FROM benchapp_run r WHERE r.host_id = 1 AND r.document > 0;
"""
# What the pipeline stores beside them; levels, statuses and newest values of series that workers do not evaluate.
AFTER: Final = """
UPDATE benchapp_series s SET measurement_count = m.n, first_at = m.first_at, last_at = m.last_at FROM (SELECT series_id,
  count(*) n, min(started_at) first_at, max(started_at) last_at FROM benchapp_measurement GROUP BY 1) m
 WHERE m.series_id = s.id;
UPDATE benchapp_seriesenvironment e SET first_at = s.first_at, last_at = s.last_at FROM benchapp_series s
 WHERE s.id = series_id;
UPDATE benchapp_host h SET run_count = n FROM (SELECT host_id, count(*) n FROM benchapp_run GROUP BY 1) r
 WHERE r.host_id = h.id;
CREATE TEMPORARY TABLE levels AS SELECT series_id, metric, min(m.started_at) from_at, max(m.started_at) to_at,
  min(run_id) first_run_id, count(*) n, avg(value) median, min(value) minimum, max(value) maximum
 FROM benchapp_measurement m CROSS JOIN LATERAL (VALUES ('iops', iops),
  ('bandwidth_bytes_per_s', bandwidth_bytes_per_s),
  ('latency_mean_ns', latency_mean_ns), ('latency_p50_ns', latency_p50_ns), ('latency_p95_ns', latency_p95_ns),
  ('latency_p99_ns', latency_p99_ns), ('latency_p99_9_ns', latency_p99_9_ns), ('latency_max_ns', latency_max_ns)
  ) v (metric, value) WHERE value IS NOT NULL AND series_id NOT IN (SELECT series_id FROM fleet WHERE id <= {judged})
 GROUP BY 1, 2;
INSERT INTO benchapp_level (series_id, metric, from_at, to_at, first_run_id, n, median, p10, p90, minimum, maximum,
  last, is_recovery, is_current, latency_kind)
 SELECT series_id, metric, from_at, to_at, first_run_id, n, median, median * .97, median * 1.03, minimum, maximum,
  median, FALSE, TRUE, CASE WHEN metric LIKE 'latency%' THEN 'clat' ELSE '' END FROM levels;
INSERT INTO benchapp_newestvalues (series_id, metric, to_at, recent)
 SELECT series_id, metric, to_at, array_fill(median, ARRAY[least(n, 20)::int]) FROM levels;
INSERT INTO benchapp_detectionresult (series_id, metric, status, n, spread, smallest_detectable_change, seasons,
  smallest_change, method, judged_at, evaluated_to_at)
 SELECT series_id, metric, 'steady', n, .02, .05, '{{}}', .05, 'load', now(), to_at FROM levels
 WHERE metric IN ('iops', 'latency_mean_ns', 'latency_p99_ns');
UPDATE benchapp_series SET judging_is_due = TRUE WHERE id IN (SELECT series_id FROM fleet WHERE id <= {judged});
"""


def main() -> None:
    """Fill, measure and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks load")
    parser.add_argument("--scale", type=float, default=1, help="millions of measurements (1)")
    parser.add_argument("--hosts", type=int, default=10_000)
    parser.add_argument("--series", type=int, default=200_000)
    parser.add_argument("--backlog", type=int, default=2000, help="results that wait before a worker starts")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1], help="processes of the worker, one after another"
    )
    parser.add_argument("--rate", type=float, default=2, help="results a second while pages are read")
    parser.add_argument("--visits", type=int, default=7, help="of each page")
    parser.add_argument("--pages", nargs="*", choices=PAGES, default=PAGES, metavar="NAME")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS)
    parser.add_argument("--database", type=Path, metavar="DIR", help="build it there, or reuse what is there")
    options = parser.parse_args()
    servers = Servers(
        environment={"BENCHAPP_PUBLIC_READ": "1"},
        **({"directory": options.database} if options.database else {}),
    )
    try:
        is_filled = servers.postgres.is_initialized
        servers.start_postgres()
        servers.start_valkey()
        _print_time("migrations of an empty or kept database", _time(servers, "migrate", "--verbosity", "0"))
        servers.manage("collectstatic", "--noinput", "--verbosity", "0")
        if not is_filled:
            _fill(servers, options)
        _print_sizes(servers)
        for part in options.parts:
            PARTS[part](servers, options)
    finally:
        servers.stop(keeps_directory=options.database is not None)


def _fill(servers: Servers, options: argparse.Namespace) -> None:
    """Write hosts, series and their history; evaluate the part with planted steps."""
    layouts = max(1, round(options.series / options.hosts / WORKLOADS))
    judged = min(JUDGED // (layouts * WORKLOADS), options.hosts // 2)
    runs = max(1, round(options.scale * 1e6 / (options.hosts * layouts * WORKLOADS)))
    pairs = ", ".join(
        f"'{percent:g}', (3e9 * {1 / (1.01 - percent / 100):.3f} / v.iops)::bigint" for percent in PERCENTS
    )
    values: dict[str, Any] = {"hosts": options.hosts, "layouts": layouts, "runs": runs, "judged": judged}
    for name in ("target", "workload"):
        ((values[name],),) = servers.query(
            "SELECT string_agg(column_name, ', ') FROM information_schema.columns"
            " WHERE column_name NOT IN ('id', 'key') AND table_name = %s",
            f"benchapp_{name}",
        )
    started = time.perf_counter()
    with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
        # Rows refer to each other as they should: foreign keys are not checked again.
        connection.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        connection.execute(FLEET.format(**values))
        connection.execute(BEFORE)
        for number in reversed(range(max(runs, RUNS_JUDGED))):
            all_or_judged = "TRUE" if number < runs else f"h.id <= {judged}"
            factor = f"CASE WHEN h.id <= {judged} THEN 0.8 ELSE 1.0 END" if number < ROUNDS else "1.0"
            insert = ROUND.replace("{at}", AT).replace("{percentiles}", f"jsonb_build_object({pairs})")
            connection.execute(insert.format(round=number, which=all_or_judged, factor=factor))
            _print_progress(number, runs)
        connection.execute(LONG)
        connection.execute(AFTER.format(**values))
        connection.execute("VACUUM ANALYZE")
    _print_time("filled", time.perf_counter() - started)
    started = time.perf_counter()
    servers.manage("drain")
    count = judged * layouts * WORKLOADS
    _print(
        f"evaluated for the first time, of {RUNS_JUDGED} runs",
        f"{count / (time.perf_counter() - started):.0f} series/s",
    )
    with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _print_progress(number: int, runs: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{number} of {runs} rounds left ", end="", file=sys.stderr)


def _print_sizes(servers: Servers) -> None:
    ((measurements, series, hosts, runs),) = servers.query(
        "SELECT (SELECT count(*) FROM benchapp_measurement), (SELECT count(*) FROM benchapp_series),"
        " (SELECT count(*) FROM benchapp_host), (SELECT count(*) FROM benchapp_run)"
    )
    print(f"{measurements} measurements of {runs} runs, {series} series, {hosts} hosts\n")
    print("| bytes per measurement | table | indexes |\n|---|---|---|")
    for table, in_table, in_indexes in servers.query(
        "SELECT relname, pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables"
        " ORDER BY pg_total_relation_size(relid) DESC LIMIT 6"
    ):
        print(f"| {table} | {in_table / measurements:.0f} | {in_indexes / measurements:.0f} |")
    print()


def _drive_intake(servers: Servers, options: argparse.Namespace) -> None:
    """Accept results while no worker runs, then store and evaluate what waits."""
    servers.start_web()
    tokens = list(servers.issue_tokens(*(f"live-{number:02}" for number in range(LIVE_HOSTS))).values())
    documents = _list_documents(1)
    due = "SELECT count(*) FROM benchapp_series WHERE judging_is_due"
    for workers in options.workers:
        requests = [_post(tokens[place % LIVE_HOSTS], next(documents)) for place in range(options.backlog)]
        done = _load(servers, requests, connections=8, seconds=600)
        _print(
            "accepted, 8 clients",
            f"{done['per_s']:.0f}/s, p50 {done['p50_ms']:.1f}, p99 {done['p99_ms']:.1f} ms",
        )
        before = _read_cpu_s(servers)
        servers.start_worker(concurrency=workers)
        started = time.perf_counter()
        wait_for(lambda: servers.count("received") == 0, within_s=3600, what="all results are stored")
        stored_s = time.perf_counter() - started
        wait_for(lambda: servers.query(due)[0][0] == 0, within_s=3600, what="all series are evaluated")
        elapsed_s = time.perf_counter() - started
        spent = {name: after - before.get(name, 0) for name, after in _read_cpu_s(servers).items()}
        _print(
            f"{options.backlog} that waited, {workers} worker processes: stored",
            f"{options.backlog / stored_s:.0f}/s",
        )
        cpu = ", ".join(
            f"{name} {spent[name] * 1000 / options.backlog:.1f}" for name in ("worker", "postgres")
        )
        _print(
            "  stored and evaluated",
            f"{options.backlog / elapsed_s:.0f}/s, {elapsed_s:.0f} s; CPU each: {cpu} ms",
        )
        _print_memory(servers)
        servers.kill("worker")
    _stop(servers, "web")


def _drive_pages(servers: Servers, options: argparse.Namespace) -> None:
    """Read each page and list alone, and again while results arrive."""
    servers.start_web()
    ids = servers.query(
        "SELECT (SELECT series_id FROM benchapp_measurement ORDER BY id DESC LIMIT 1),"
        " (SELECT max(id) FROM benchapp_run), (SELECT incident_id FROM benchapp_change"
        " WHERE incident_id IS NOT NULL GROUP BY 1 ORDER BY count(*) DESC LIMIT 1)"
    )[0]
    names = dict(zip(("series", "run", "incident"), ids, strict=True)) | {
        "host": f"host-{options.hosts // 2:05}"
    }
    paths = {label: PAGES[label].format(**names) for label in options.pages}
    alone = {label: _visit(servers, path, options.visits) for label, path in paths.items()}
    servers.start_worker()
    tokens = list(servers.issue_tokens(*(f"live-{number:02}" for number in range(LIVE_HOSTS))).values())
    with _post_steadily(servers, tokens, per_s=options.rate):
        live: dict[str, list[float]] = {label: [] for label in paths}
        for _ in range(options.visits):
            for label, path in paths.items():
                live[label].append(_get(servers, path)[0])
    print(
        f"\n| ms | first | median | web CPU | PostgreSQL CPU | KiB | live, {options.rate:g}/s: median | p95 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for label, taken in live.items():
        first, median, web, database, size = alone[label]
        figures = (
            first,
            median,
            web,
            database,
            size / 1024,
            statistics.median(taken),
            sorted(taken)[int(len(taken) * 0.95)],
        )
        print(f"| {label} | " + " | ".join(f"{figure:.0f}" for figure in figures) + " |", flush=True)
    _print_memory(servers)
    for name in ("worker", "web"):
        _stop(servers, name)


def _drive_upkeep(servers: Servers, options: argparse.Namespace) -> None:
    """Undo and repeat the newest migration; back up, and restore."""
    names = sorted(path.stem for path in (ROOT / "benchapp" / "migrations").glob("0*.py"))
    _print_time(f"back to {names[-2]}", _time(servers, "migrate", "benchapp", names[-2], "--verbosity", "0"))
    _print_time(f"migration {names[-1]}", _time(servers, "migrate", "--verbosity", "0"))
    file = servers.directory / "bench.dump"
    seconds = _time(servers, "backup", str(file))
    _print_time(f"backup of {file.stat().st_size / 1e6:.0f} MB", seconds)
    _print_time(
        "restore", _time(servers, "restore", str(file), "--force", "--data-dir", str(servers.directory))
    )
    file.unlink()


PARTS: Final = {"intake": _drive_intake, "pages": _drive_pages, "upkeep": _drive_upkeep}


def _visit(servers: Servers, path: str, visits: int) -> tuple[float, float, float, float, int]:
    """Return milliseconds of the first and of further visits, CPU of each, and bytes."""
    first, _ = _get(servers, path)
    before = _read_cpu_s(servers)
    taken = [_get(servers, path) for _ in range(visits)]
    spent = {name: (after - before[name]) * 1000 / visits for name, after in _read_cpu_s(servers).items()}
    return first, statistics.median(ms for ms, _ in taken), spent["web"], spent["postgres"], taken[0][1]


def _get(servers: Servers, path: str) -> tuple[float, int]:
    connection = http.client.HTTPConnection("127.0.0.1", servers.port, timeout=120)
    started = time.perf_counter()
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    size = len(answer.read())
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status}")
    return (time.perf_counter() - started) * 1000, size


def _list_documents(seed: int) -> Iterator[bytes]:
    """Yield envelopes around the fio document with values that vary by 2 %, each started a minute after the other."""
    document, chance, moment = (
        orjson.loads(read_fio(DOCUMENT)),
        Random(seed),
        datetime.now(UTC) - timedelta(days=20),
    )
    while True:
        moment += timedelta(minutes=1)
        changed = copy.deepcopy(document)
        changed |= {"timestamp": int(moment.timestamp()), "timestamp_ms": int(moment.timestamp() * 1000)}
        changed["time"] = moment.strftime("%a %b %d %H:%M:%S %Y")
        for job in changed["jobs"]:
            job.pop("job_start", None)
            for direction in (job[name] for name in ("read", "write") if job[name]["total_ios"]):
                factor = chance.gauss(1, 0.02)
                direction |= {
                    name: type(direction[name])(direction[name] * factor)
                    for name in _RATES
                    if name in direction
                }
        ends = {"started_at": moment.isoformat(), "finished_at": (moment + timedelta(seconds=20)).isoformat()}
        yield orjson.dumps(make_envelope(id=str(uuid4()), fio_output=orjson.dumps(changed).decode(), **ends))


def _post(token: str, envelope: bytes) -> bytes:
    body = gzip.compress(envelope, 6)
    head = (
        f"POST /api/v1/submissions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Encoding: gzip\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class _post_steadily:  # noqa: N801
    """Post results while a block runs, so many a second, in a thread."""

    def __init__(self, servers: Servers, tokens: list[str], *, per_s: float) -> None:
        self.has_ended, documents = Event(), _list_documents(2)

        def post() -> None:
            for place, document in enumerate(documents):
                if self.has_ended.wait(1 / per_s):
                    return
                status, answer = servers.post("/api/v1/submissions", document, tokens[place % len(tokens)])
                if status != 202:
                    print(f"not accepted: {status} {answer}", file=sys.stderr)

        self.thread = Thread(target=post)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.has_ended.set()
        self.thread.join()


def _load(servers: Servers, requests: list[bytes], *, connections: int, seconds: float) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.client", str(servers.port), str(connections), str(seconds)],
        input=frame(requests),
        capture_output=True,
        cwd=ROOT,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    if not set(answer["statuses"]) <= {"200", "202"}:
        sys.exit(f"{answer['statuses']}")
    return answer


def _list_families(servers: Servers) -> dict[str, set[int]]:
    """Return the ids of each process and of its living descendants, by name."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    families = {}
    for name, process in servers.processes.items():
        families[name] = {process.pid}
        while more := {pid for pid, parent in parents.items() if parent in families[name]} - families[name]:
            families[name] |= more
    return families


def _read_cpu_s(servers: Servers) -> dict[str, float]:
    """Return the CPU time of the processes and their descendants, living or ended, by name."""
    totals = {}
    for name, family in _list_families(servers).items():
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15] for pid in family]
        totals[name] = sum(int(ticks) for four in fields for ticks in four) / os.sysconf("SC_CLK_TCK")
    return totals


def _print_memory(servers: Servers) -> None:
    shares = []
    for name, family in _list_families(servers).items():
        texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in family]
        shares.append(f"{name} {sum(int(text.split('Pss:')[1].split()[0]) for text in texts) / 1024:.0f}")
    _print("memory (PSS)", f"{', '.join(shares)} MiB")


def _stop(servers: Servers, name: str) -> None:
    process = servers.processes.pop(name)
    process.terminate()
    process.wait()


def _time(servers: Servers, *arguments: str) -> float:
    started = time.perf_counter()
    servers.manage(*arguments)
    return time.perf_counter() - started


def _print_time(label: str, seconds: float) -> None:
    _print(label, f"{seconds:.1f} s")


def _print(label: str, figure: str) -> None:
    print(f"{label:60}{figure}", flush=True)


if __name__ == "__main__":
    main()
