"""Planted fleets, judged by the real detection, and the raw values that were planted.

Right answers are calculated from `PlantedSeries.values` by plain code: nothing here reads what the product calculated.

LARGE: 48 hosts, 920 series, 40 days.

| planted | where |
|---|---|
| step, open | db-03: random reads −25 % from day 30; db-09 to db-16: random reads −18 % from day 32, with kernel 6.5 |
| narrow step | db-30: all 4k requests −20 % from day 30; they alone have queue depth 32 |
| drift | db-20: all series lose 1 % a day from day 16, and continue |
| recovered | db-22: all series −30 % from day 14 to day 24 |
| pool | db-46 to db-48 are the pool edge: −20 % from day 30 |

SMALL: five hosts, each with its own queue depth; three file sizes, the largest has 60 % of the IOPS; a volume type for
USD 0.

| planted | where |
|---|---|
| step, open | db-02: random reads −30 % from day 28 |
| improved | db-03: sequential writes +25 % from day 26 |
| failed | db-05: all runs of days 10 and 11, and of the last day |

MONTH: twelve hosts, 30 days; the hosts of st1 do not state their stripes.

| planted | where |
|---|---|
| drift | db-04, one of five with its layouts, and db-11, the only one with its: all series lose 1 % a day from day 8 |
| step, open | random reads from day 22: db-08, one of five with its layout, −30 %; db-12, alone with its, −25 % |

SINGLE: one host with one volume and one file size, for 30 days without a change.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from errno import EIO
from statistics import median
from typing import Any, Final

from django.utils import timezone

from benchapp.judge import judge_due
from benchapp.models import Host, Measurement, Run, Series
from tests.factories import (
    fill_series,
    make_environment,
    make_host,
    make_price,
    make_runs,
    make_target,
    make_workload,
    note_measurements,
)
from tests.row_insertion import copy_rows, copy_values

DAYS: Final = 40
DAY: Final = timedelta(days=1)
GIB: Final = 2**30
POOL: Final = "edge"
# A failed run measures this share of what it should.
FAILED: Final = 0.1
# rw, block size, queue depth of db-01, IOPS of one volume.
WORKLOADS: Final = (
    ("randread", 4096, 32, 3000.0),
    ("randwrite", 4096, 32, 2500.0),
    ("randread", 16_384, 16, 2000.0),
    ("read", 2**20, 8, 200.0),
    ("write", 2**20, 8, 150.0),
)
VOLUME_TYPES: Final = {"gp3": 1.0, "io2": 1.6, "st1": 0.4, "nvme": 3.0}
VOLUME_SIZE: Final = 100 * GIB
NOISE: Final = {"iops": 0.02, "latency_mean_ns": 0.02, "latency_p99_ns": 0.05}


@dataclass(frozen=True, slots=True)
class Group:
    """Hosts of one scope by their numbers: several are a pool. volume_counts: of each layout that they measure.

    states_stripes: whether their results have the stripe count.
    """

    numbers: tuple[int, ...]
    volume_type: str
    volume_counts: tuple[int, ...]
    depth_factor: int = 1
    failed_days: frozenset[int] = frozenset()
    states_stripes: bool = True


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What is planted. find_factor: of the IOPS by number of the host, rw, block size and day.

    judged_after: the fleet is judged after this many days and after the last. prices: per GiB and month.
    upgraded: hosts and the day of their new kernel. size_shares: of the IOPS that files of a size have, 1 of others.
    """

    name: str
    seed: int
    days: int
    groups: tuple[Group, ...]
    file_sizes: tuple[int, ...]
    prices: Mapping[str, float]
    find_factor: Callable[[int, str, int, int], float]
    judged_after: int
    upgraded: tuple[range, int] = (range(0), 0)
    size_shares: Mapping[int, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True)
class PlantedSeries:
    """One series as it was planted: values by metric, a value for each day, and the factor of its IOPS on each day.

    stripe_count: 1 of a single volume, None if unknown.
    """

    hosts: tuple[str, ...]
    rw: str
    block_size_bytes: int
    iodepth: int
    file_size_bytes: int
    volume_type: str
    volume_count: int
    stripe_count: int | None
    factors: list[float]
    failed_days: frozenset[int]
    values: dict[str, list[float]] = field(default_factory=dict)
    id: int = 0

    @property
    def scope(self) -> str:
        """Return what it belongs to: "host:db-01" or "pool:edge"."""
        return f"host:{self.hosts[0]}" if len(self.hosts) == 1 else f"pool:{POOL}"

    @property
    def pattern(self) -> str:
        """Return its block size and rw, as axes of Matrix have them: "4096 randread"."""
        return f"{self.block_size_bytes} {self.rw}"

    @property
    def is_drifting(self) -> bool:
        """Return whether it has no current level, as it changes every day until the last."""
        return self.factors[-1] != self.factors[-2] != self.factors[-3]

    @property
    def is_worse(self) -> bool:
        """Return whether its last days are below its first."""
        return self.factors[-1] < self.factors[0]

    @property
    def level_days(self) -> list[int]:
        """Return the days of the current level: since the last planted step, without failed runs."""
        first = self.step_days[-1] if self.step_days else 0
        return [day for day in range(first, len(self.factors)) if day not in self.failed_days]

    @property
    def step_days(self) -> list[int]:
        """Return the days on which a planted step begins."""
        return [day for day in range(1, len(self.factors)) if self.factors[day] != self.factors[day - 1]]

    def find_step(self, metric: str, day: int) -> float:
        """Return the change of the median at a step, as after / before − 1."""
        days = [0, *self.step_days, len(self.factors)]
        place = days.index(day)
        levels = [
            median(self.values[metric][each] for each in range(*ends) if each not in self.failed_days)
            for ends in (days[place - 1 : place + 1], days[place : place + 2])
        ]
        return levels[1] / levels[0] - 1

    def list_level(self, metric: str) -> list[float]:
        """Return the planted values of the current level."""
        return [self.values[metric][day] for day in self.level_days]

    def median(self, metric: str, days: slice | None = None) -> float:
        """Return the median of the planted values of these days, by default of the current level."""
        return median(self.list_level(metric) if days is None else self.values[metric][days])

    def percentile(self, metric: str, tenth: int) -> float:
        """Return p10 (1) to p90 (9) of the current level, interpolated between ranks."""
        values = sorted(self.list_level(metric))
        rank = (len(values) - 1) * tenth / 10
        low = int(rank)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (rank - low)


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet. start_at: of day 0; the runs of a day are within an hour."""

    start_at: datetime
    series: list[PlantedSeries]
    plan: FleetPlan

    @property
    def hosts(self) -> list[str]:
        """Return the names of all hosts in order."""
        return sorted(name_host(number) for group in self.plan.groups for number in group.numbers)

    def list_failed_days(self, host: str) -> frozenset[int]:
        """Return the days on which the runs of a host failed."""
        return next(each.failed_days for each in self.plan.groups if host in map(name_host, each.numbers))

    def at(self, day: int) -> datetime:
        """Return when a day begins."""
        return self.start_at + day * DAY

    def of(self, host: str, **fields: Any) -> list[PlantedSeries]:
        """Return the series of a host with these fields."""
        return [
            each
            for each in self.series
            if host in each.hosts and all(getattr(each, name) == value for name, value in fields.items())
        ]


def name_host(number: int) -> str:
    """Return the name of a host by its number, from 1."""
    return f"db-{number:02}"


def plant_fleet(plan: FleetPlan | None = None) -> Fleet:
    """Write a fleet, a run of each layout of each host a day, and judge it twice; LARGE by default."""
    plan = plan or LARGE
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    fleet = Fleet(now - plan.days * DAY, [], plan)
    chance = random.Random(plan.seed)
    rows: list[Series] = []
    for group in plan.groups:
        _plant_group(fleet, group, rows, chance)
    for days in (range(plan.judged_after), range(plan.judged_after, plan.days)):
        _write_days(fleet, rows, days)
        _judge()
    for volume_type, per_gib in plan.prices.items():
        make_price(volume_type=volume_type, per_gib_month=per_gib)
    make_price()
    return fleet


def _judge() -> None:
    while judge_due().series_ids:
        pass


def _plant_group(fleet: Fleet, group: Group, rows: list[Series], chance: random.Random) -> None:
    """Make the hosts of one scope, and their series without runs."""
    plan = fleet.plan
    pool = POOL if len(group.numbers) > 1 else ""
    hosts = [make_host(name_host(number), pool=pool) for number in group.numbers]
    for count in group.volume_counts:
        target = make_target(
            volume_type=group.volume_type,
            volume_count=count,
            stripe_count=count if group.states_stripes else None,
            volume_size_bytes=VOLUME_SIZE,
            raid_level="raid0" if count > 1 else "none",
        )
        for rw, block_size, depth, iops in WORKLOADS:
            for file_size in plan.file_sizes:
                planted = PlantedSeries(
                    hosts=tuple(host.name for host in hosts),
                    rw=rw,
                    block_size_bytes=block_size,
                    iodepth=depth * group.depth_factor,
                    file_size_bytes=file_size,
                    volume_type=group.volume_type,
                    volume_count=count,
                    stripe_count=count if group.states_stripes or count == 1 else None,
                    factors=[
                        plan.find_factor(group.numbers[0], rw, block_size, day) for day in range(plan.days)
                    ],
                    failed_days=group.failed_days,
                )
                share = plan.size_shares.get(file_size, 1.0)
                _draw_values(planted, iops * VOLUME_TYPES[group.volume_type] * count * share, chance)
                fleet.series.append(planted)
                workload = make_workload(
                    rw=rw, block_size_bytes=block_size, iodepth=planted.iodepth, file_size_bytes=file_size
                )
                rows.append(
                    fill_series(
                        scope=planted.scope,
                        host=hosts[0],
                        target=target,
                        workload=workload,
                        direction="write" if rw.endswith("write") else "read",
                    )
                )


def _find_large_factor(host: int, rw: str, block_size_bytes: int, day: int) -> float:
    is_random_read = rw == "randread"
    rules: tuple[tuple[bool, Callable[[], float]], ...] = (
        (host == 3 and is_random_read and day >= 30, lambda: 0.75),
        (9 <= host <= 16 and is_random_read and day >= 32, lambda: 0.82),
        (host == 20 and day >= 16, lambda: 0.99 ** (day - 15)),
        (host == 22 and 14 <= day < 24, lambda: 0.7),
        (host == 30 and block_size_bytes == 4096 and day >= 30, lambda: 0.8),
        (host >= 46 and day >= 30, lambda: 0.8),
    )
    return next((factor() for holds, factor in rules if holds), 1.0)


def _find_small_factor(host: int, rw: str, block_size_bytes: int, day: int) -> float:
    if host == 2 and rw == "randread" and day >= 28:
        return 0.7
    return 1.25 if host == 3 and rw == "write" and day >= 26 else 1.0


def _find_month_factor(host: int, rw: str, block_size_bytes: int, day: int) -> float:
    if host in (4, 11) and day >= 8:
        return float(0.99 ** (day - 7))
    steps = {8: 0.7, 12: 0.75}
    return steps[host] if host in steps and rw == "randread" and day >= 22 else 1.0


def _group_large() -> Iterator[Group]:
    counts = ((1, 4), (2, 8), (4, 16))
    for number in range(1, 46):
        volume_type = "gp3" if number <= 24 else "io2" if number <= 36 else "st1"
        yield Group((number,), volume_type, counts[number % 3])
    yield Group((46, 47, 48), "st1", counts[46 % 3])


LARGE: Final = FleetPlan(
    name="large",
    seed=44,
    days=DAYS,
    groups=tuple(_group_large()),
    file_sizes=(5 * GIB, 20 * GIB),
    prices={"io2": 0.125, "st1": 0.045},
    find_factor=_find_large_factor,
    judged_after=34,
    upgraded=(range(9, 17), 32),
)
SMALL: Final = FleetPlan(
    name="small",
    seed=5,
    days=38,
    groups=(
        Group((1,), "gp3", (1, 4)),
        Group((2,), "gp3", (1, 4), depth_factor=2),
        Group((3,), "io2", (2, 8), depth_factor=4),
        Group((4,), "nvme", (2,), depth_factor=8),
        Group((5,), "st1", (3,), depth_factor=16, failed_days=frozenset({10, 11, 37})),
    ),
    file_sizes=(GIB, 8 * GIB, 64 * GIB),
    prices={"io2": 0.125, "nvme": 0.0, "st1": 0.045},
    find_factor=_find_small_factor,
    judged_after=33,
    size_shares={64 * GIB: 0.6},
)
MONTH: Final = FleetPlan(
    name="month",
    seed=12,
    days=30,
    groups=(
        *(Group((number,), "gp3", (1, 4)) for number in range(1, 6)),
        *(Group((number,), "io2", (2,)) for number in range(6, 11)),
        Group((11,), "nvme", (2,)),
        Group((12,), "st1", (1, 8), states_stripes=False),
    ),
    file_sizes=(4 * GIB,),
    prices={"io2": 0.125, "nvme": 0.1, "st1": 0.045},
    find_factor=_find_month_factor,
    judged_after=26,
)
SINGLE: Final = FleetPlan(
    name="single",
    seed=1,
    days=30,
    groups=(Group((1,), "gp3", (1,)),),
    file_sizes=(4 * GIB,),
    prices={},
    find_factor=lambda *_: 1.0,
    judged_after=25,
)


def _draw_values(planted: PlantedSeries, iops: float, chance: random.Random) -> None:
    """Requests in flight / IOPS is the mean latency (Little's law); p99 is three times as long."""
    for metric, noise in NOISE.items():
        planted.values[metric] = []
        for day, factor in enumerate(planted.factors):
            level = iops * factor * (FAILED if day in planted.failed_days else 1)
            if metric != "iops":
                level = planted.iodepth * 1e9 / level * (3 if metric == "latency_p99_ns" else 1)
            planted.values[metric].append(level * (1 + noise * max(-2.5, min(2.5, chance.gauss(0, 1)))))
    planted.values["bandwidth_bytes_per_s"] = [
        value * planted.block_size_bytes for value in planted.values["iops"]
    ]


def _write_days(fleet: Fleet, rows: list[Series], days: range) -> None:
    """Write the runs of these days: the hosts of a pool take turns."""
    if rows[0].pk is None:
        copy_rows(rows)
        for planted, row in zip(fleet.series, rows, strict=True):
            planted.id = row.pk
    environments = {kernel: make_environment(kernel=kernel) for kernel in ("6.1.0", "6.5.0")}
    hosts = {host.name: host for host in Host.objects.all()}
    by_target: dict[tuple[tuple[str, ...], int], list[tuple[PlantedSeries, Series]]] = {}
    for planted, row in zip(fleet.series, rows, strict=True):
        by_target.setdefault((planted.hosts, row.target_id), []).append((planted, row))
    for (names, _), members in by_target.items():
        for turn, name in enumerate(names):
            own = [day for day in days if day % len(names) == turn]
            runs = make_runs(
                hosts[name],
                [fleet.at(day) + members[0][0].volume_count * timedelta(minutes=3) for day in own],
                target=members[0][1].target,
                environments=[environments[_find_kernel(fleet.plan, name, day)] for day in own],
            )
            copy_values(
                Measurement,
                (
                    {
                        "run_id": run.pk,
                        "series_id": row.pk,
                        "started_at": run.started_at,
                        "position": place,
                        "latency_kind": "clat",
                        "error": EIO if day in planted.failed_days else 0,
                        **{metric: values[day] for metric, values in planted.values.items()},
                    }
                    for day, run in zip(own, runs, strict=True)
                    for place, (planted, row) in enumerate(members)
                ),
            )
            failed = [run.pk for day, run in zip(own, runs, strict=True) if day in members[0][0].failed_days]
            Run.objects.filter(pk__in=failed).update(error=EIO, badges=["failed-job"])
    note_measurements(*rows)
    # The series has the badges of its newest run.
    for planted, row in zip(fleet.series, rows, strict=True):
        row.badges = ["failed-job"] if days[-1] in planted.failed_days else []
    Series.objects.bulk_update([row for row in rows if row.badges], ["badges"])


def _find_kernel(plan: FleetPlan, host: str, day: int) -> str:
    numbers, first_day = plan.upgraded
    return "6.5.0" if day >= first_day and host in map(name_host, numbers) else "6.1.0"
