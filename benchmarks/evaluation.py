"""CPU time to evaluate one more run in each of 1 000 series: of the pipeline and of its PostgreSQL backend.

    python -m benchmarks evaluation [--runs 240] [--rounds 16] [--seed 1]

The histories are those of the fleet benchmark, with the metrics of a real run. Each round writes one run in each
series, and evaluates all series that are due, with changes, levels, incidents and notices.
"""

import argparse
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

from benchmarks.database import open_database

_HOSTS: Final = 5
_CELLS: Final = 200
# Runs of all series that are written in one statement.
_WRITTEN_AT_ONCE: Final = 50


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of one round: CPU of the pipeline, CPU of PostgreSQL, and elapsed."""

    pipeline_s: float
    postgres_s: float
    elapsed_s: float


def main() -> None:
    """Print a row for the first evaluation of all runs, and one for each run more."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks evaluation")
    parser.add_argument("--runs", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with open_database():
        _measure_rounds(runs=options.runs, rounds=options.rounds, seed=options.seed)


def _measure_rounds(*, runs: int, rounds: int, seed: int) -> None:
    from django.db import connection

    from benchmarks.fleet_noise import make_values
    from benchmarks.fleet_world import make_world, write_runs

    values = make_values(hosts=_HOSTS, cells=_CELLS, runs=runs + rounds, seed=seed)
    world = make_world(values, hosts=_HOSTS, planted=[], seed=seed)
    for first in range(0, runs, _WRITTEN_AT_ONCE):
        write_runs(world, first, min(first + _WRITTEN_AT_ONCE, runs))
    with connection.cursor() as cursor:
        # As autovacuum does a minute after rows were written; otherwise the plans change during the rounds.
        cursor.execute("ANALYZE")
    print(f"{_HOSTS * _CELLS} series, {runs} runs each; aim for one run more: 0.5 s of CPU")
    print("| | pipeline, CPU s | PostgreSQL, CPU s | elapsed s |\n|---|---|---|---|")
    _print_row("all runs", _evaluate(runs - 1))
    spent = []
    for run in range(runs, runs + rounds):
        write_runs(world, run, run + 1)
        spent.append(_evaluate(run))
        _print_row(f"run {run + 1}", spent[-1])
    _print_row(
        "mean of one run more",
        Spent(
            statistics.fmean(each.pipeline_s for each in spent),
            statistics.fmean(each.postgres_s for each in spent),
            statistics.fmean(each.elapsed_s for each in spent),
        ),
    )


def _evaluate(run: int) -> Spent:
    from benchmarks.fleet_world import say_time
    from benchmarks.fleet_year import judge_all_due

    postgres_s, pipeline_s, started = _read_postgres_s(), process_time(), perf_counter()
    judge_all_due(say_time(run))
    return Spent(process_time() - pipeline_s, _read_postgres_s() - postgres_s, perf_counter() - started)


def _read_postgres_s() -> float:
    """Return the CPU time of the backend of this connection."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print_row(label: str, spent: Spent) -> None:
    print(
        f"| {label} | {spent.pipeline_s:.2f} | {spent.postgres_s:.2f} | {spent.elapsed_s:.2f} |", flush=True
    )


if __name__ == "__main__":
    main()
