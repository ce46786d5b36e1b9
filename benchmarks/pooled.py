"""Changes of pooled levels: below the threshold of each series, found in all series of a host together.

    python -m benchmarks pooled [--hosts 12] [--series 40] [--size 0.03] [--quiet 200] [--seed 1]

A fleet with the noise of real histories (benchmarks/fleet_noise.py) through the pipeline. First nothing changes: after
80 runs the pooled levels alone are evaluated after each of `--quiet` runs, and their changes are false. Then all series
of every host decrease for 20 runs, evaluated completely after each run.
"""

import argparse
import statistics
import time
from dataclasses import dataclass
from typing import Final
from unittest import mock

from benchmarks.database import open_database

_KNOWN_RUNS: Final = 80
_LOW_RUNS: Final = 20
_LATER_RUNS: Final = 12


@dataclass(frozen=True, slots=True)
class HostResult:
    """The incident of one host. delay_runs, recovery_runs: after the decrease and after its end; None for never.

    series: in the incident; own: of these, detected by themselves; relative: the size in the title.
    """

    name: str
    delay_runs: int | None
    recovery_runs: int | None
    series: int
    own: int
    relative: float | None


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks pooled")
    parser.add_argument("--hosts", type=int, default=12)
    parser.add_argument("--series", type=int, default=40, help="of a host, a multiple of 4")
    parser.add_argument("--size", type=float, default=0.03, help="of the decrease: 0.03 is 3 %%")
    parser.add_argument("--quiet", type=int, default=200, help="runs without a change")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with open_database():
        _run(options)


def _run(options: argparse.Namespace) -> None:
    from benchmarks.fleet_months import LAYOUTS
    from benchmarks.fleet_noise import make_metrics, make_values
    from benchmarks.fleet_world import Upgrade, write_runs, write_world

    first = _KNOWN_RUNS + options.quiet
    runs = first + _LOW_RUNS + _LATER_RUNS
    iops = make_values(hosts=options.hosts, cells=options.series, runs=runs, seed=options.seed)
    iops[:, first : first + _LOW_RUNS] *= 1 - options.size
    metrics = make_metrics(iops, works=options.series // len(LAYOUTS), seed=options.seed)
    upgrades = [[Upgrade(0, {"kernel": "6.0.0"})] for _ in range(options.hosts)]
    world = write_world(metrics, upgrades=upgrades, layouts=LAYOUTS)
    write_runs(world, 0, _KNOWN_RUNS)
    spent_s, false = 0.0, 0
    for run in range(_KNOWN_RUNS, first):
        write_runs(world, run, run + 1)
        started = time.perf_counter()
        false += _judge_pooled_alone(run)
        spent_s += time.perf_counter() - started
    print(f"{options.hosts} hosts × {options.series} series, seed {options.seed}\n")
    if options.quiet:
        host_runs = options.hosts * options.quiet
        print(f"False changes of pooled levels: {false} in {host_runs} runs of a host")
        print(f"Evaluation of the pooled levels: {1000 * spent_s / host_runs:.1f} ms per run of a host")
    _judge_completely(first)
    started = time.perf_counter()
    for run in range(first, runs):
        write_runs(world, run, run + 1)
        _judge_completely(run + 1)
    spent_s = time.perf_counter() - started
    print(
        f"Writing and evaluation of all: {1000 * spent_s / options.hosts / (runs - first):.0f} ms per run of a host\n"
    )
    _report([_score(number + 1, first) for number in range(options.hosts)], options.size)


def _judge_pooled_alone(run: int) -> int:
    """Evaluate the pooled levels of all hosts as if their series had been evaluated; return the number of changes."""
    from django.db import transaction

    from benchapp.detection.rules.pooled_levels import POOLED_METHOD
    from benchapp.detection.write.pooled import judge_pooled
    from benchapp.models import Change, Series
    from benchmarks.fleet_world import say_time

    Series.objects.update(judging_is_due=False)
    with transaction.atomic():
        written = judge_pooled(set(Series.objects.values_list("scope", flat=True)), now=say_time(run))
    new = Change.objects.filter(pk__in=written, method=POOLED_METHOD, found_at=say_time(run))
    starts = new.values_list("series__scope", "metric", "evidence__pooled__started_at")
    return len(set(starts.order_by()))


def _judge_completely(end: int) -> None:
    from django.utils import timezone

    from benchapp.judge import detect_and_notify
    from benchapp.models import Series
    from benchmarks.fleet_world import say_time

    now = say_time(end - 1)
    Series.objects.update(judging_is_due=True)
    with mock.patch.object(timezone, "now", lambda: now):
        while detect_and_notify(limit=200).series_ids:
            pass


def _score(number: int, first: int) -> HostResult:
    from benchapp.detection.rules.pooled_levels import POOLED_METHOD
    from benchapp.models import Change, Incident, IncidentEvent
    from benchmarks.fleet_world import find_run

    name = f"host-{number:02}"
    own = Incident.objects.filter(scope=f"host:{name}", is_regression=True, metric__gt="")
    near = [one for one in own if abs(find_run(one.started_at) - first) <= 5]
    incident = max(near, key=lambda one: one.change_count, default=None)
    if incident is None:
        return HostResult(name, None, None, 0, 0, None)
    events = IncidentEvent.objects.filter(incident=incident)
    opened = events.get(kind="opened")
    ends = [find_run(at) for at in events.filter(kind="recovered").values_list("at", flat=True)]
    later = [run - first - _LOW_RUNS + 1 for run in ends if run >= first + _LOW_RUNS]
    changes = Change.objects.filter(incident=incident).exclude(state="withdrawn")
    series = set(changes.values_list("series_id", flat=True))
    pooled = set(changes.filter(method=POOLED_METHOD).values_list("series_id", flat=True))
    return HostResult(
        name,
        find_run(opened.at) - first + 1,
        min(later, default=None),
        len(series),
        len(series - pooled),
        incident.relative if incident.metric == "iops" else None,
    )


def _report(results: list[HostResult], size: float) -> None:
    delays = [one.delay_runs for one in results if one.delay_runs is not None]
    ends = [one.recovery_runs for one in results if one.recovery_runs is not None]
    print(
        "| host | delay, runs | recovery, runs | series | detected alone | size |\n|---|---|---|---|---|---|"
    )
    for one in results:
        relative = "" if one.relative is None else f"{one.relative:+.1%}"
        print(
            f"| {one.name} | {one.delay_runs or 'never'} | {one.recovery_runs or 'never'} | {one.series} | {one.own}"
            f" | {relative} |"
        )
    soon = sum(delay <= 6 for delay in delays)
    print(
        f"\nDetected within 6 runs: {soon} of {len(results)}; recovered within 3: {sum(end <= 3 for end in ends)}"
    )
    if delays:
        errors = [abs(one.relative + size) * 100 for one in results if one.relative is not None]
        print(
            f"Delay {statistics.median(delays):g} runs (median), {max(delays)} (maximum);"
            f" size off by {statistics.median(errors):.1f} points (median), {max(errors):.1f} (maximum)"
        )


if __name__ == "__main__":
    main()
