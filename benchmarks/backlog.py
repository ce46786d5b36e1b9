"""Results stored and evaluated per second by two workers, with a million measurements stored.

    python -m benchmarks backlog [--stored 1000000] [--hosts 250] [--known 48] [--rounds 8] [--workers 2] [--seed 1]

A result is an envelope around a real fio document of 20 KB with three jobs, so four measurements; values vary by 2 %
between runs. Each host has `--known` results before. In each round every host posts one more: stored and evaluated,
with changes, levels, incidents and notices. What envelopes cost to accept is measured by `intake`.
"""

import argparse
import copy
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from typing import Any, Final
from uuid import UUID

import orjson

from benchmarks.database import open_database, set_up_django
from tests.envelopes import make_envelope, read_fio

DOCUMENT: Final = "80_multi_job_json.out"
_START: Final = datetime(2026, 3, 1, tzinfo=UTC)
_STEP: Final = timedelta(hours=6)
_SPREAD: Final = 0.02
# The measurements that are stored before: of 1 000 other series.
_OTHER_HOSTS: Final = 10
_OTHER_CELLS: Final = 100
_RATES: Final = ("iops", "iops_mean", "bw", "bw_bytes", "bw_mean", "total_ios", "io_bytes", "io_kbytes")
_LATENCIES: Final = ("slat_ns", "clat_ns", "lat_ns")


def main() -> None:
    """Print a row for each round."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks backlog")
    for option, default in (("stored", 1_000_000), ("hosts", 250), ("known", 48), ("rounds", 8)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with open_database():
        _run(options)


def _run(options: argparse.Namespace) -> None:
    from benchapp.models import Host, Measurement

    _store_others(options.stored, seed=options.seed)
    hosts = Host.objects.bulk_create(Host(name=f"load-{number:04}") for number in range(options.hosts))
    documents = _Documents(seed=options.seed)
    with ProcessPoolExecutor(
        options.workers, mp_context=get_context("spawn"), initializer=set_up_django
    ) as workers:
        list(workers.map(_settle, range(options.workers)))
        for number in range(options.known):
            _post(hosts, documents, number)
        _settle_all(workers, options.workers)
        _analyze()
        print(
            f"{Measurement.objects.count()} measurements stored; {options.hosts} hosts, {options.workers} workers"
        )
        print("| round | elapsed s | results/s | measurements/s |\n|---|---|---|---|")
        spent_s = 0.0
        for number in range(options.known, options.known + options.rounds):
            _post(hosts, documents, number)
            started, before = time.perf_counter(), Measurement.objects.count()
            _settle_all(workers, options.workers)
            elapsed_s = time.perf_counter() - started
            spent_s += elapsed_s
            stored = Measurement.objects.count() - before
            print(
                f"| {number + 1} | {elapsed_s:.2f} | {options.hosts / elapsed_s:.0f} | {stored / elapsed_s:.0f} |",
                flush=True,
            )
    _check()
    rate = options.hosts * options.rounds / spent_s
    print(f"| all | {spent_s:.2f} | {rate:.0f} (aim 1000) | |")


def _store_others(count: int, *, seed: int) -> None:
    """Store measurements of other series, without evaluation."""
    from django.db import connection

    from benchapp.models import Series
    from benchmarks.fleet_noise import make_values
    from benchmarks.fleet_world import make_world, write_runs

    runs = count // (_OTHER_HOSTS * _OTHER_CELLS)
    values = make_values(hosts=_OTHER_HOSTS, cells=_OTHER_CELLS, runs=max(runs, 1), seed=seed)
    world = make_world(values, hosts=_OTHER_HOSTS, planted=[], seed=seed)
    for first in range(0, runs, 50):
        write_runs(world, first, min(first + 50, runs))
    Series.objects.update(judging_is_due=False)
    with connection.cursor() as cursor:
        # The runs have ids by their place in the fleet.
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('benchapp_run', 'id'), max(id)) FROM benchapp_run"
        )
    _analyze()


def _analyze() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


class _Documents:
    """The fio document with values that vary."""

    def __init__(self, *, seed: int) -> None:
        from benchmarks.histories import make_generator

        self.document: dict[str, Any] = orjson.loads(read_fio(DOCUMENT))
        self.generator = make_generator("backlog", seed)

    def make(self, moment: datetime) -> bytes:
        """Return the next document. moment: start of the run, which fio states too."""
        document = copy.deepcopy(self.document)
        document |= {"timestamp": int(moment.timestamp()), "timestamp_ms": int(moment.timestamp() * 1000)}
        document["time"] = moment.strftime("%a %b %d %H:%M:%S %Y")
        for job in document["jobs"]:
            job.pop("job_start", None)
        for direction in _list_directions(document):
            factor = 1 + _SPREAD * float(self.generator.standard_normal())
            for name in _RATES:
                if name in direction:
                    direction[name] = type(direction[name])(direction[name] * factor)
            for latency in (direction[name] for name in _LATENCIES if name in direction):
                for name in ("min", "max", "mean", "stddev"):
                    latency[name] = type(latency[name])(latency[name] / factor)
                percentiles = latency.get("percentile", {})
                latency |= {"percentile": {at: int(ns / factor) for at, ns in percentiles.items()}}
        return orjson.dumps(document)


def _list_directions(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for job in document["jobs"]:
        yield from (job[name] for name in ("read", "write") if job[name]["total_ios"])


def _post(hosts: list[Any], documents: _Documents, number: int) -> None:
    from benchapp.intake.posts.submissions import IncomingSubmission, accept_submissions
    from benchapp.models import Kind

    moment = _START + number * _STEP
    accept_submissions(
        [
            IncomingSubmission(
                host.pk,
                Kind.ENVELOPE,
                orjson.dumps(
                    make_envelope(
                        id=str(UUID(int=(number << 32) + host.pk)),
                        started_at=moment.isoformat(),
                        finished_at=(moment + timedelta(seconds=20)).isoformat(),
                        fio_output=documents.make(moment).decode(),
                    )
                ),
                UUID(int=(number << 32) + host.pk),
            )
            for host in hosts
        ]
    )


def _settle_all(workers: ProcessPoolExecutor, count: int) -> None:
    list(workers.map(_settle, range(count)))


def _settle(_: int) -> None:
    """Store and evaluate as the tasks do, until nothing waits."""
    from benchapp.intake.normalize.batch import normalize_batch
    from benchapp.judge import detect_and_notify
    from benchmarks.fleet_year import JUDGED_AT_ONCE

    while normalize_batch().claimed:
        pass
    while detect_and_notify(limit=JUDGED_AT_ONCE).series_ids:
        pass


def _check() -> None:
    """Raise if results were rejected, still wait or were not evaluated: the figures would be of other work."""
    from benchapp.models import Series, State, Submission

    waiting = Submission.objects.exclude(state=State.STORED).count()
    due = Series.objects.filter(judging_is_due=True).count()
    if waiting or due:
        raise SystemExit(f"{waiting} results are not stored, {due} series are not evaluated")


if __name__ == "__main__":
    main()
