"""The history of a fleet: false incidents without any regression, incidents of planted ones, and two months of a user.

    python -m benchmarks fleet [--half quiet|planted|both|months|weekends] [--hosts 20] [--cells 320] [--days 365]
                               [--planted 12] [--workers 2] [--seed 1] [--judge-every 4] [--confirm 3]
                               [--directory DIR --days-at-once 10] [--first-day 0]

Rows are written in bulk, by day; everything after that is the pipeline itself: series are marked and evaluated, changes
reconciled, tested, grouped into incidents, and notices queued, by the fleet's clock. A day is evaluated at once
(--judge-every 1: each run), the first runs after a regression one by one. `--half months` has 11 hosts of 24 series, is
evaluated after each run, and has ten planted events of many kinds (benchmarks/fleet_months.py); --cells 8 is a smaller
variant; --confirm 3 adds up to three runs of a host and layout with an unconfirmed regression, half an hour apart, as
automatic confirmation does. `--half weekends` has two months in which every series loses 15 % on Saturdays and Sundays.
`--directory` keeps the database: the same command continues after the last written run, `--days-at-once` ends after so
many days more, with the report of all runs so far. It takes a half, and not the months. `--first-day` leaves out the
days before, with what is planted in them: a later part of the same year on another machine, or at the same time.
"""

import argparse
import collections
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from itertools import takewhile
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.database import open_database, set_up_django

if TYPE_CHECKING:
    from benchmarks.fleet_score import Score


def main() -> None:
    """Run the half that is wanted and print its table; each half has a process and a server of its own."""
    options = _read_options()
    if options.half == "both":
        for half in ("quiet", "planted"):
            command = [sys.executable, "-m", "benchmarks.fleet", *sys.argv[1:], "--half", half]
            subprocess.run(command, check=True)
        return
    with open_database(options.directory):
        if options.half == "months":
            _run_months(options)
        elif options.half == "weekends":
            _run_weekends(options)
        else:
            _run(options, planted=options.planted if options.half == "planted" else 0)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks fleet")
    for name, default in (("hosts", 20), ("days", 365), ("planted", 12), ("workers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--cells", type=int, help="of a host: 320, and 24 of --half months")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge-every", type=int, default=4, help="runs")
    parser.add_argument("--half", choices=("quiet", "planted", "both", "months", "weekends"), default="both")
    parser.add_argument("--confirm", type=int, default=0, help="additional runs of a regression; months")
    parser.add_argument("--directory", type=Path, help="of the database, which is kept; a short path")
    parser.add_argument("--days-at-once", type=int, help="end after so many days; with --directory")
    parser.add_argument("--first-day", type=int, default=0, help="leave out the days before; a half")
    options = parser.parse_args()
    if options.directory and options.half not in ("quiet", "planted"):
        parser.error("--directory: --half quiet or planted")
    if options.days_at_once and not options.directory:
        parser.error("--days-at-once: without --directory the rest could not be run")
    if options.first_day and options.half not in ("quiet", "planted"):
        parser.error("--first-day: --half quiet or planted")
    if options.confirm and options.half != "months":
        parser.error("--confirm: --half months")
    layouts = 4 if options.half in ("months", "weekends") else 20
    options.cells = options.cells or (320 if layouts == 20 else 24)
    if options.cells % layouts:
        parser.error(f"--cells: {layouts} layouts, so a multiple of {layouts}")
    return options


def _judge(now: datetime) -> None:
    from benchmarks.fleet_year import judge_all_due

    judge_all_due(now)


@contextmanager
def _start_workers(count: int) -> Iterator[Callable[[datetime], None]]:
    """Yield what evaluates everything that is due, in so many processes."""
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=set_up_django) as workers:
        yield lambda now: collections.deque(workers.map(_judge, [now] * count), maxlen=0)


def _run(options: argparse.Namespace, *, planted: int) -> None:
    from benchmarks.fleet_noise import make_values, plant
    from benchmarks.fleet_score import describe_notices, score
    from benchmarks.fleet_world import RUNS_A_DAY, find_next_run, make_world
    from benchmarks.fleet_year import LEARNT_RUNS, WATCHED_RUNS, choose_planted, live, plan_judging

    runs = options.days * RUNS_A_DAY
    size = {"hosts": options.hosts, "cells": options.cells, "runs": runs, "seed": options.seed}
    regressions = choose_planted(planted, **size)
    values = make_values(**size)
    plant(values, regressions)
    first = options.first_day * RUNS_A_DAY
    world = make_world(values, hosts=options.hosts, planted=regressions, seed=options.seed, first_run=first)
    before = find_next_run(world)
    last = min(runs, before + options.days_at_once * RUNS_A_DAY) if options.days_at_once else runs
    planned = plan_judging(runs, regressions, every=options.judge_every, first=first)
    started = time.monotonic()
    with _start_workers(options.workers) as judge:
        live(
            world,
            takewhile(lambda part: part[1] <= last, planned),
            judge=judge,
            show=lambda run: _show_progress(run, runs, started),
        )
    taken_s = time.monotonic() - started
    written = find_next_run(world)
    print(file=sys.stderr)
    title = f"{planted} regressions planted" if planted else "no regression"
    is_whole = (first, written) == (0, runs)
    part = "" if is_whole else f", days {options.first_day} to {written / RUNS_A_DAY:g}"
    print(
        f"\n{title}: {options.hosts} hosts × {options.cells} cells × {options.days} days, seed {options.seed}{part}"
    )
    reached = [
        one for one in regressions if first + LEARNT_RUNS < one.run and one.run + WATCHED_RUNS <= written
    ]
    weeks = (written - first) / RUNS_A_DAY / 7
    notices = describe_notices(world, weeks=weeks)
    for line in _write_report(score(world, reached), weeks=weeks, notices=notices):
        print(line)
    _print_speed(options.hosts * options.cells * (written - before), taken_s)


def _run_months(options: argparse.Namespace) -> None:
    from benchmarks.fleet_confirmation import Confirmation
    from benchmarks.fleet_months import HOSTS, RUNS, accept_level_at, list_events, make_months
    from benchmarks.fleet_months_score import score_months, write_report
    from benchmarks.fleet_score import describe_notices
    from benchmarks.fleet_world import RUNS_A_DAY
    from benchmarks.fleet_year import LEARNT_RUNS, live

    world = make_months(cells=options.cells, seed=options.seed, additional=options.confirm)
    started = time.monotonic()
    with _start_workers(options.workers) as judge:
        confirmation = Confirmation(world, judge)

        def act(end: int) -> None:
            accept_level_at(end)
            confirmation.confirm(end)

        live(
            world,
            [(0, LEARNT_RUNS), *((run, run + 1) for run in range(LEARNT_RUNS, RUNS))],
            judge=judge,
            act=act,
            show=lambda run: _show_progress(run, RUNS, started),
        )
    taken_s = time.monotonic() - started
    print(file=sys.stderr)
    added = f", {confirmation.count} additional runs" if options.confirm else ""
    print(f"\nTwo months: {HOSTS} hosts × {options.cells} series × {RUNS} runs, seed {options.seed}{added}\n")
    notices = describe_notices(world, weeks=RUNS / RUNS_A_DAY / 7)
    for line in write_report(score_months(world, list_events(options.cells)), notices=notices):
        print(line)
    _print_speed(HOSTS * options.cells * RUNS, taken_s)


def _run_weekends(options: argparse.Namespace) -> None:
    from benchapp.models import Incident
    from benchmarks.fleet_months import RUNS, make_weekends
    from benchmarks.fleet_score import describe_notices
    from benchmarks.fleet_world import RUNS_A_DAY
    from benchmarks.fleet_year import LEARNT_RUNS, live

    world = make_weekends(hosts=options.hosts, cells=options.cells, seed=options.seed)
    with _start_workers(options.workers) as judge:
        live(
            world,
            [(0, LEARNT_RUNS), *((run, run + 1) for run in range(LEARNT_RUNS, RUNS))],
            judge=judge,
        )
    found = Incident.objects.filter(is_regression=True, merged_into=None).order_by("opened_at")
    months = RUNS / RUNS_A_DAY / 30
    print(
        f"\nWeekends of −15 %: {options.hosts} hosts × {options.cells} series × {RUNS} runs, seed {options.seed}\n\n"
        "| measure | target | measured |\n|---|---|---|\n"
        f"| incidents of regressions a month, of each host | ≤ 1 | {len(found) / months / options.hosts:.2f} |"
    )
    for line in describe_notices(world, weeks=RUNS / RUNS_A_DAY / 7):
        print(line)
    for incident in found:
        print(f"- opened {incident.opened_at:%a %d %b}: {incident.title}")


def _print_speed(measured: int, taken_s: float) -> None:
    print(
        f"\n{measured} measurements written and evaluated in {taken_s:.0f} s, {measured / taken_s:.0f}/s",
        flush=True,
    )


def _show_progress(run: int, runs: int, started: float) -> None:
    taken_s = time.monotonic() - started
    print(f"\r   run {run} of {runs}, {taken_s:.0f} s ", end="", file=sys.stderr, flush=True)


def _write_report(result: "Score", *, weeks: float, notices: Iterable[str]) -> Iterator[str]:
    found = [one for one in result.found if one.delay_runs is not None]
    yield ""
    yield "| measure | aim | measured |\n|---|---|---|"
    if result.found:
        count = len(result.found)
        grouped = sum(one.is_grouped for one in result.found)
        yield f"| planted regressions found | ≥ 11 of 12 | {len(found)} of {count} |"
        yield f"| grouped as planted, of these | all | {grouped} of {len(found)} |"
    yield f"| false incidents | | {len(result.false)} |"
    yield f"| false incidents a week, whole fleet | ≤ 1 | {len(result.false) / weeks:.2f} |"
    yield from notices
    yield f"| incidents of improvements, without notices | | {result.improvements} |"
    if found:
        delays = [one.delay_runs for one in found if one.delay_runs is not None]
        errors = [abs(one.size_error) for one in found if one.size_error is not None]
        yield f"| delay, runs: median (longest) | | {statistics.median(delays):g} ({max(delays)}) |"
        yield f"| size, points beside: median (most) | | {statistics.median(errors):.1f} ({max(errors):.1f}) |"
    yield from _write_found(result)
    yield from (["", "False:", *(f"- {title}" for title in result.false[:40])] if result.false else [])


def _write_found(result: "Score") -> Iterator[str]:
    if not result.found:
        return
    yield ""
    yield "| planted | of | size | at run | delay, runs | incidents | cells of | grouped | points beside |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for one in result.found:
        planted = one.planted
        delay = "not found" if one.delay_runs is None else f"{one.delay_runs}"
        beside = "" if one.size_error is None else f"{one.size_error:+.1f}"
        yield (
            f"| {planted.kind} | {planted.text} | {planted.size:.0%} | {planted.run} | {delay} | {one.incidents}"
            f" | {one.cells} of {len(planted.cells)} | {'yes' if one.is_grouped else 'no'} | {beside} |"
        )


if __name__ == "__main__":
    main()
