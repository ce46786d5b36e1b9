"""A planted fleet of 48 hosts, 920 series and 40 days through the real detection, and the raw values that were planted.

Right answers are calculated from `PlantedSeries.values` by plain code: nothing here reads what the product calculated.

| planted | where |
|---|---|
| step, open | db-03: random reads −25 % from day 30; db-09 to db-16: random reads −18 % from day 32, with kernel 6.5 |
| narrow step | db-30: all 4k requests −20 % from day 30; they alone have queue depth 32 |
| drift | db-20: all series lose 1 % a day from day 16, and continue |
| recovered | db-22: all series −30 % from day 14 to day 24 |
| pool | db-46 to db-48 are the pool edge: −20 % from day 30 |
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any, Final

from django.utils import timezone

from benchapp.models import Host, Measurement, Series
from benchapp.pipeline.judge import judge_due
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

HOSTS: Final = 48
DAYS: Final = 40
DAY: Final = timedelta(days=1)
GIB: Final = 2**30
POOL: Final = "edge"
# rw, block size, queue depth, IOPS of one volume.
WORKLOADS: Final = (
    ("randread", 4096, 32, 3000.0),
    ("randwrite", 4096, 32, 2500.0),
    ("randread", 16_384, 16, 2000.0),
    ("read", 2**20, 8, 200.0),
    ("write", 2**20, 8, 150.0),
)
FILE_SIZES: Final = (5 * GIB, 20 * GIB)
VOLUME_TYPES: Final = {"gp3": 1.0, "io2": 1.6, "st1": 0.4}
VOLUME_COUNTS: Final = ((1, 4), (2, 8), (4, 16))
NOISE: Final = {"iops": 0.02, "latency_mean_ns": 0.02, "latency_p99_ns": 0.05}


@dataclass(slots=True)
class PlantedSeries:
    """One series as it was planted: values by metric, a value for each day, and the factor of its IOPS on each day."""

    hosts: tuple[str, ...]
    rw: str
    block_size_bytes: int
    iodepth: int
    file_size_bytes: int
    volume_type: str
    volume_count: int
    factors: list[float]
    values: dict[str, list[float]] = field(default_factory=dict)
    id: int = 0

    @property
    def has_changed(self) -> bool:
        """Return whether something was planted in it."""
        return min(self.factors) < 1

    def median(self, metric: str, days: slice = slice(None)) -> float:
        """Return the median of the planted values of these days."""
        return median(self.values[metric][days])


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet. start_at: of day 0; the runs of a day are within an hour."""

    start_at: datetime
    series: list[PlantedSeries]

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


def plant_fleet() -> Fleet:
    """Write the fleet, a run of each layout of each host a day, and judge it after day 34 and after the last."""
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    fleet = Fleet(now - DAYS * DAY, [])
    chance = random.Random(44)
    rows: list[Series] = []
    for group in [*([number] for number in range(1, HOSTS - 2)), range(HOSTS - 2, HOSTS + 1)]:
        _plant_group(fleet, list(group), rows, chance)
    _write_days(fleet, rows, range(34))
    _judge()
    _write_days(fleet, rows, range(34, DAYS))
    _judge()
    for volume_type, per_gib in (("io2", 0.125), ("st1", 0.045)):
        make_price(volume_type=volume_type, per_gib_month=per_gib)
    make_price()
    return fleet


def _judge() -> None:
    while judge_due().series_ids:
        pass


def _plant_group(fleet: Fleet, numbers: list[int], rows: list[Series], chance: random.Random) -> None:
    """Make the hosts of one scope, and their series without runs."""
    pool = POOL if len(numbers) > 1 else ""
    hosts = [make_host(name_host(number), pool=pool) for number in numbers]
    first = numbers[0]
    volume_type = "gp3" if first <= 24 else "io2" if first <= 36 else "st1"
    for count in VOLUME_COUNTS[first % 3]:
        target = make_target(
            volume_type=volume_type,
            volume_count=count,
            stripe_count=count,
            volume_size_bytes=100 * GIB,
            raid_level="raid0" if count > 1 else "none",
        )
        for rw, block_size, depth, iops in WORKLOADS:
            for file_size in FILE_SIZES:
                planted = PlantedSeries(
                    hosts=tuple(host.name for host in hosts),
                    rw=rw,
                    block_size_bytes=block_size,
                    iodepth=depth,
                    file_size_bytes=file_size,
                    volume_type=volume_type,
                    volume_count=count,
                    factors=[find_factor(first, rw, block_size, day) for day in range(DAYS)],
                )
                _draw_values(planted, iops * VOLUME_TYPES[volume_type] * count, chance)
                fleet.series.append(planted)
                workload = make_workload(
                    rw=rw, block_size_bytes=block_size, iodepth=depth, file_size_bytes=file_size
                )
                rows.append(
                    fill_series(
                        scope=f"pool:{pool}" if pool else hosts[0].scope,
                        host=hosts[0],
                        target=target,
                        workload=workload,
                        direction="write" if rw.endswith("write") else "read",
                    )
                )


def find_factor(host: int, rw: str, block_size_bytes: int, day: int) -> float:
    """Return the factor of the IOPS on a day: what the table of this module has."""
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


def _draw_values(planted: PlantedSeries, iops: float, chance: random.Random) -> None:
    """Requests in flight / IOPS is the mean latency (Little's law); p99 is three times as long."""
    for metric, noise in NOISE.items():
        planted.values[metric] = []
        for factor in planted.factors:
            level = iops * factor
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
                environments=[environments[_find_kernel(name, day)] for day in own],
            )
            copy_values(
                Measurement,
                (
                    _fill(run, row, place, {metric: values[day] for metric, values in planted.values.items()})
                    for day, run in zip(own, runs, strict=True)
                    for place, (planted, row) in enumerate(members)
                ),
            )
    note_measurements(*rows)


def _find_kernel(host: str, day: int) -> str:
    return "6.5.0" if day >= 32 and name_host(9) <= host <= name_host(16) else "6.1.0"


def _fill(run: Any, series: Series, place: int, values: Mapping[str, float]) -> dict[str, Any]:
    return {
        "run_id": run.pk,
        "series_id": series.pk,
        "started_at": run.started_at,
        "position": place,
        "latency_kind": "clat",
        **values,
    }
