"""Reads, writes and a mix of one layout, with known throughputs."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from benchapp.models import Host, Series
from tests.factories import (
    NOON,
    add_measurements,
    calculate_levels,
    make_host,
    make_runs,
    make_series,
    make_target,
    make_workload,
    note_measurements,
)

BLOCK = 4096
# Percent of reads → IOPS of both directions together: half of 1 / 40 000 + 1 / 10 000 is 1 / 16 000.
PURE = {100: 40_000.0, 0: 10_000.0}


def plant_mixes(
    iops: Mapping[int, float],
    *,
    depth: int = 8,
    started_at: datetime = NOON,
    target: Mapping[str, Any] | None = None,
    work: Mapping[str, Any] | None = None,
    name: str = "db-mixes",
) -> list[Series]:
    """Make three runs of each read share on one host, 1 % apart; random 4k, with p99 latency."""
    host = Host.objects.filter(name=name).first() or make_host(name)
    layout = make_target(
        **{
            "volume_type": "gp3",
            "volume_count": 4,
            "volume_size_bytes": 100 * 2**30,
            "instance_type": "m5.4xlarge",
            **(target or {}),
        }
    )
    made = []
    for share, value in iops.items():
        rw = {100: "randread", 0: "randwrite"}.get(share, "randrw")
        load = make_workload(**{"rw": rw, "read_share_percent": share, "iodepth": depth, **(work or {})})
        for direction, part in (("read", share / 100), ("write", 1 - share / 100)):
            if part:
                series = make_series(host=host, target=layout, workload=load, direction=direction)
                times = [started_at + timedelta(hours=hour) for hour in range(3)]
                values = [
                    {
                        "iops": value * part * factor,
                        "bandwidth_bytes_per_s": value * part * factor * BLOCK,
                        "latency_p99_ns": 1e6 * factor,
                    }
                    for factor in (0.99, 1.0, 1.01)
                ]
                add_measurements(series, make_runs(host, times, target=layout), values)
                made.append(series)
    note_measurements(*made)
    calculate_levels([each.pk for each in made])
    return made
