"""Measured layouts with known prices, of which one is the cheapest for 20 000 random-read IOPS at p99 under 3 ms."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from benchapp.models import Host, Run, Series, Target
from tests.factories import (
    NOON,
    add_measurements,
    calculate_levels,
    make_environment,
    make_host,
    make_price,
    make_runs,
    make_series,
    make_target,
    make_workload,
    note_measurements,
)

GIB = 2**30
KIB = 2**10
MS = 10**6


@dataclass(frozen=True)
class PlantedLayout:
    """A layout and its loads: (queue depth, IOPS, p99 in ms)."""

    volume_type: str
    count: int
    size_gib: int
    provisioned_iops: int | None
    loads: tuple[tuple[int, float, float], ...]


LAYOUTS = (
    PlantedLayout("gp3", 4, 256, 3000, ((1, 4000.0, 0.4), (8, 11500.0, 1.2), (32, 11900.0, 6.0))),
    PlantedLayout("gp3", 8, 128, 3000, ((8, 15000.0, 1.0), (32, 23500.0, 2.0), (64, 23900.0, 5.5))),
    PlantedLayout("io2", 1, 1024, 32000, ((8, 21000.0, 0.5), (32, 31500.0, 1.1))),
    PlantedLayout("gp3", 16, 64, 3000, ((16, 19500.0, 1.5), (64, 40000.0, 3.6))),
    PlantedLayout("gp3", 8, 32, 3000, ((32, 23500.0, 2.0),)),
    PlantedLayout("local", 2, 900, None, ((32, 90000.0, 0.9),)),
)


def plant_layouts(*, started_at: datetime = NOON, has_prices: bool = True) -> list[Series]:
    """Make three runs of each load of LAYOUTS on one host, 1 % apart, and the prices of gp3, io2 and the instance."""
    host = make_host("db-layouts")
    series = [
        _plant_load(host, layout, load, started_at=started_at) for layout in LAYOUTS for load in layout.loads
    ]
    note_measurements(*series)
    calculate_levels([each.pk for each in series])
    if has_prices:
        make_price()
        make_price(volume_type="io2", per_gib_month=0.125, per_iops_month=0.065)
        make_price(instance_type="m5.4xlarge", per_hour=0.768)
    return series


def _plant_load(
    host: Host, layout: PlantedLayout, load: tuple[int, float, float], *, started_at: datetime
) -> Series:
    depth, iops, latency_ms = load
    target = make_target(
        volume_type=layout.volume_type,
        volume_count=layout.count,
        volume_size_bytes=layout.size_gib * GIB,
        provisioned_iops=layout.provisioned_iops,
        raid_level="0" if layout.count != 1 else None,
        filesystem="xfs",
        instance_type="m5.4xlarge",
    )
    series = make_series(host=host, target=target, workload=make_workload(iodepth=depth))
    times = [started_at + timedelta(hours=hour) for hour in range(3)]
    values = [
        {
            "iops": iops * factor,
            "bandwidth_bytes_per_s": iops * factor * 4 * KIB,
            "latency_p99_ns": latency_ms * MS * factor,
        }
        for factor in (0.99, 1.0, 1.01)
    ]
    add_measurements(series, make_runs(host, times, target=target), values)
    return series


def give_directories() -> None:
    """Let the runs of each layout have a directory of their own: /mnt/8-gp3-128."""
    for target in Target.objects.all():
        size_gib = (target.volume_size_bytes or 0) // GIB
        directory = f"/mnt/{target.volume_count}-{target.volume_type}-{size_gib}"
        environment = make_environment(kernel="6.1.0", facts={"directory": directory})
        Run.objects.filter(target=target).update(environment=environment)
