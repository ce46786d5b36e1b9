"""The published EBS series as rows: series with the summary of their one measurement, for tests of pictures."""

import csv
from functools import cache
from pathlib import Path
from typing import Any

from benchapp.models import Host, Level, Series
from tests.factories import NOON, fill_series, make_host, make_target, make_workload
from tests.row_insertion import copy_rows, insert_row

CSV = Path(__file__).parents[1] / "benchapp" / "samples" / "ebs-2013.csv"
_SIZES = {"4k": 4096, "32m": 32 * 2**20}


@cache
def read_numbers() -> tuple[dict[str, str], ...]:
    """Return the lines of the series."""
    lines = [line for line in CSV.read_text().splitlines() if not line.startswith("#")]
    return tuple(csv.DictReader(lines))


def make_ebs_series(*studies: int) -> Host:
    """Make the series of these studies (of all eight where none is named) on one host; return it."""
    host = make_host("ebs-2013")
    lines = [line for line in read_numbers() if not studies or int(line["study"]) in studies]
    cells = copy_rows(_fill_series(host, line) for line in lines)
    copy_rows(_fill_level(series, line) for series, line in zip(cells, lines, strict=True))
    return host


def make_level(series: Series, metric: str, median: float, **values: Any) -> Level:
    """Make the current level of one metric of a series: one run unless given otherwise."""
    level = insert_row(_describe_level(series, metric, median, **values))
    # As detection does: whoever caches a series sees by its row that it has changed.
    Series.objects.filter(pk=series.pk).update(judging_is_due=False)
    return level


def _describe_level(series: Series, metric: str, median: float, **values: Any) -> Level:
    statistics = {"n": 1, "p10": median, "p90": median, "minimum": median, "maximum": median, "last": median}
    times = {"from_at": NOON, "to_at": NOON, "first_run_id": 0, "is_current": True}
    return Level(series=series, metric=metric, median=median, **{**statistics, **times, **values})


def _fill_level(series: Series, line: dict[str, str]) -> Level:
    if line["iops"]:
        return _describe_level(series, "iops", float(line["iops"]))
    return _describe_level(series, "bandwidth_bytes_per_s", float(line["bandwidth_mb_s"]) * 1e6)


def _fill_series(host: Host, line: dict[str, str]) -> Series:
    target = make_target(
        volume_type=line["volume_type"],
        volume_count=int(line["volume_count"]),
        volume_size_bytes=int(line["volume_size_gb"]) * 2**30,
        provisioned_iops=int(line["provisioned_iops"]) if line["provisioned_iops"] else None,
        raid_level=line["raid_level"],
        stripe_count=int(line["stripe_count"]) if line["stripe_count"] else None,
        instance_type=line["instance_type"],
        filesystem="xfs",
    )
    workload = make_workload(
        rw=line["rw"],
        block_size_bytes=_SIZES[line["block_size"]],
        iodepth=1,
        numjobs=int(line["numjobs"]),
        file_size_bytes=int(line["file_size_gb"]) * 2**30,
        runtime_s=float(line["runtime_s"]),
    )
    direction = "write" if line["rw"].endswith("write") else "read"
    return fill_series(
        scope=host.scope,
        host=host,
        target=target,
        workload=workload,
        direction=direction,
        measurement_count=1,
        first_at=NOON,
        last_at=NOON,
    )
