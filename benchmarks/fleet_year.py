"""A year of a fleet through the pipeline: what is planted in it, and day after day written and judged."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final
from unittest import mock

from django.utils import timezone

from benchapp.pipeline.judge import judge_due
from benchmarks.fleet_noise import Kind, Planted
from benchmarks.fleet_world import (
    RUNS_A_DAY,
    STRIPE_COUNTS,
    VOLUME_TYPES,
    World,
    find_layouts,
    list_cells,
    say_time,
    write_runs,
)
from benchmarks.histories import make_generator

# As benchapp.tasks has it.
_JUDGED_AT_ONCE: Final = 200
# Runs before anything is judged: they are learnt from.
LEARNT_RUNS: Final = 24
# After a regression every run is judged by itself, so that its delay is counted in runs.
_WATCHED_RUNS: Final = 8
_LEAST_SIZE: Final = 0.05
_MOST_SIZE: Final = 0.30
_KINDS: Final[tuple[Kind, ...]] = ("host", "volume type", "stripe width")


def choose_planted(count: int, *, hosts: int, cells: int, runs: int, seed: int) -> list[Planted]:
    """Return regressions evenly over the time, of 5 to 30 %, in turn of a host, a volume type, a width on a host."""
    generator = make_generator("fleet planted", seed)
    sizes = [_LEAST_SIZE + (_MOST_SIZE - _LEAST_SIZE) * n / max(count - 1, 1) for n in range(count)]
    generator.shuffle(sizes)
    chosen = []
    for number, size in enumerate(sizes):
        run = round((number + 1) * runs / (count + 1)) + int(generator.integers(-3, 4))
        kind, host = _KINDS[number % len(_KINDS)], int(generator.integers(hosts))
        volume_type = VOLUME_TYPES[int(generator.integers(len(VOLUME_TYPES)))]
        width = STRIPE_COUNTS[int(generator.integers(len(STRIPE_COUNTS)))]
        name = f"host-{host + 1:02}"
        words, where, layouts = {
            "host": (name, host, find_layouts()),
            "volume type": (volume_type, None, find_layouts(volume_type=volume_type)),
            "stripe width": (f"{name}, {width} stripes", host, find_layouts(stripe_count=width)),
        }[kind]
        of = list_cells(hosts, cells, host=where, layouts=layouts)
        chosen.append(Planted(kind=kind, words=words, host=where, cells=of, run=run, size=size))
    return chosen


def plan_judging(runs: int, planted: Sequence[Planted], *, every: int) -> Iterator[tuple[int, int]]:
    """Yield from which run on up to before which is written before each judging."""
    watched = {run for one in planted for run in range(one.run + 1, one.run + _WATCHED_RUNS + 1)}
    first = 0
    for end in range(LEARNT_RUNS, runs + 1):
        if end % every == 0 or end in watched or end == runs:
            yield first, end
            first = end


def live(
    world: World,
    planted: Sequence[Planted],
    *,
    every: int = RUNS_A_DAY,
    judge: Callable[[datetime], int],
    show: Callable[[int], None] = lambda run: None,
) -> int:
    """Write and judge all runs in the order of time; return how many events somebody was told of."""
    told = 0
    for first, end in plan_judging(world.runs, planted, every=every):
        write_runs(world, first, end)
        told += judge(say_time(end - 1))
        show(end)
    return told


def judge_all_due(now: datetime) -> int:
    """Judge what is due by the clock of the fleet; return how many events somebody is told of."""
    told = 0
    with mock.patch.object(timezone, "now", lambda: now):
        while True:
            judged = judge_due(limit=_JUDGED_AT_ONCE)
            if not judged.series_ids:
                return told
            told += len(judged.event_ids)
