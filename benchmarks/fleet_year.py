"""The history of a fleet through the pipeline: planted regressions of a year; runs written and evaluated in order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final
from unittest import mock

from django.utils import timezone

from benchapp.judge import detect_and_notify
from benchapp.models import Subscription, User
from benchapp.notices.write.outbox import claim_next, settle_sent
from benchmarks.fleet_noise import Kind, Planted
from benchmarks.fleet_world import (
    STRIPE_COUNTS,
    VOLUME_TYPES,
    YEAR_LAYOUTS,
    World,
    find_layouts,
    find_next_run,
    list_cells,
    say_time,
    write_runs,
)
from benchmarks.histories import make_generator

# As benchapp.tasks has it.
JUDGED_AT_ONCE: Final = 200
# Runs before anything is judged: they are learnt from.
LEARNT_RUNS: Final = 24
# After a regression every run is judged by itself, so that its delay is counted in runs.
WATCHED_RUNS: Final = 8
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
        text, where, layouts = {
            "host": (name, host, find_layouts()),
            "volume type": (volume_type, None, find_layouts(volume_type=volume_type)),
            "stripe width": (f"{name}, {width} stripes", host, find_layouts(stripe_count=width)),
        }[kind]
        of = list_cells(hosts, cells, host=where, layouts=layouts, of=len(YEAR_LAYOUTS))
        chosen.append(Planted(kind=kind, text=text, host=where, cells=of, run=run, size=size))
    return chosen


def plan_judging(
    runs: int, planted: Sequence[Planted], *, every: int, first: int = 0
) -> Iterator[tuple[int, int]]:
    """Yield from which run on (`first` at the beginning) up to before which is written before each judging."""
    watched = {run for one in planted for run in range(one.run + 1, one.run + WATCHED_RUNS + 1)}
    for end in range(first + LEARNT_RUNS, runs + 1):
        if end % every == 0 or end in watched or end == runs:
            yield first, end
            first = end


def live(
    world: World,
    planned: Iterable[tuple[int, int]],
    *,
    judge: Callable[[datetime], None],
    show: Callable[[int], None] = lambda run: None,
    act: Callable[[int], None] = lambda run: None,
) -> None:
    """Write and evaluate all runs in the order of time, with a subscriber of everything.

    planned: from which run on up to before which is written before each evaluation; act: called after each. Runs that
    are written already are skipped.
    """
    written = find_next_run(world)
    owner, _ = User.objects.get_or_create(username="subscriber")
    Subscription.objects.get_or_create(owner=owner, channel="webhook", address="https://hooks.example.org/")
    for first, end in planned:
        if end < written:
            continue
        write_runs(world, max(first, written), end)
        judge(say_time(end - 1))
        act(end)
        show(end)


def judge_all_due(now: datetime) -> None:
    """Evaluate what is due by the clock of the fleet, and send the notices to nobody."""
    with mock.patch.object(timezone, "now", lambda: now):
        while detect_and_notify(limit=JUDGED_AT_ONCE).series_ids:
            pass
        while claim := claim_next(now=now):
            settle_sent(claim, "", now=now)
