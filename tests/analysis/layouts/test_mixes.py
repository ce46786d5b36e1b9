"""The throughput of a mix between measured ones."""

import csv
from pathlib import Path
from statistics import median

import numpy as np
import pytest

from benchapp.analysis.layouts.mixes import MixEstimate, MixLevel, MixRefusal, estimate_mix

DATA = Path(__file__).parents[2] / "data" / "mixed_workloads.csv"


def level(read_share: float, median: float, *, spread: float = 0.0) -> MixLevel:
    return MixLevel(read_share, median, median * (1 - spread), median * (1 + spread))


WRITES, READS = level(0, 10_000), level(1, 40_000)


def estimate(*levels: MixLevel, read_share: float) -> MixEstimate:
    found = estimate_mix(levels, read_share)
    assert isinstance(found, MixEstimate)
    return found


@pytest.mark.parametrize(
    ("read_share", "value", "high"),
    [(0.5, 16_000, 20_000), (0.8, 25_000, 50_000), (0.9, 400_000 / 13, 400_000 / 9)],
)
def test_service_times_of_reads_and_writes_are_added(read_share: float, value: float, high: float) -> None:
    found = estimate(WRITES, READS, read_share=read_share)

    assert (found.value, found.low, found.high) == pytest.approx((value, value, high))
    assert (found.below, found.above) == (0, 1)


def test_spread_of_the_runs_widens_the_interval() -> None:
    found = estimate(level(0, 10_000, spread=0.1), level(1, 40_000, spread=0.2), read_share=0.5)

    assert found.value == pytest.approx(16_000)
    assert found.low == pytest.approx(1 / (0.5 / 9_000 + 0.5 / 32_000))
    assert found.high == pytest.approx(22_000)


def test_neighboring_measured_shares_are_preferred() -> None:
    found = estimate(READS, level(0.5, 12_000), WRITES, read_share=0.75)

    assert (found.below, found.above) == (0.5, 1)
    assert found.value == pytest.approx(1 / (0.5 / 12_000 + 0.5 / 40_000))
    assert found.high == pytest.approx(24_000)


def test_neither_kind_is_faster_in_a_mix_than_alone() -> None:
    found = estimate(WRITES, level(0.9, 30_000), READS, read_share=0.95)

    assert found.high == pytest.approx(40_000 / 0.95)
    faster = estimate(WRITES, level(0.9, 60_000), READS, read_share=0.95)
    assert faster.high == pytest.approx(faster.value)


def test_measured_share_is_the_measurement() -> None:
    measured = level(0.7, 12_000)

    assert estimate_mix([WRITES, measured, READS], 0.7) is measured


@pytest.mark.parametrize(
    ("levels", "read_share", "refusal"),
    [
        ([], 0.5, "one-share"),
        ([READS], 0.5, "one-share"),
        ([level(0.5, 1), READS], 0.3, "outside"),
        ([WRITES, level(0.5, 1)], 0.7, "outside"),
        ([level(0, 0), READS], 0.5, "not-positive"),
    ],
)
def test_nothing_is_extrapolated(levels: list[MixLevel], read_share: float, refusal: MixRefusal) -> None:
    assert estimate_mix(levels, read_share) == refusal


def test_interval_holds_the_value_and_narrows_toward_measured_shares() -> None:
    for percent in range(1, 100):
        found = estimate(WRITES, READS, read_share=percent / 100)
        assert found.low <= found.value <= found.high
    near = estimate(WRITES, READS, read_share=0.001)
    assert (near.value, near.high) == pytest.approx((10_000, 10_000), rel=0.002)


def read_measured_mixes(runtime_s: int) -> list[list[MixLevel]]:
    """Return the mixes of each load of mixed_workloads.csv: fio 3.33, direct, one file of 512 MiB on ext4 on a virtual
    disk, in random order in each round."""
    values: dict[tuple[str, ...], dict[int, list[float]]] = {}
    with DATA.open(newline="") as file:
        for row in csv.DictReader(file):
            if int(row["runtime_s"]) == runtime_s:
                load = values.setdefault((row["rw"], row["block_size"], row["iodepth"]), {})
                own = load.setdefault(int(row["read_share_percent"]), [])
                own.append(float(row["read_iops"]) + float(row["write_iops"]))
    return [
        [
            MixLevel(share / 100, *(float(each) for each in np.percentile(own, (50, 10, 90))))
            for share, own in sorted(load.items())
        ]
        for load in values.values()
    ]


@pytest.mark.parametrize(
    ("runtime_s", "is_pure", "error", "covered", "count"),
    [
        (4, True, 0.113, 14, 15),
        (4, False, 0.053, 14, 15),
        (2, True, 0.193, 13, 20),
        (2, False, 0.151, 14, 20),
    ],
)
def test_left_out_mixes_differ_as_documented(
    runtime_s: int, is_pure: bool, error: float, covered: int, count: int
) -> None:
    """The numbers of docs/deciding.md: each mix left out, from reads and writes only or from its neighbors."""
    errors, hits = [], 0
    for load in read_measured_mixes(runtime_s):
        for left_out in load[1:-1]:
            others = [load[0], load[-1]] if is_pure else [each for each in load if each is not left_out]
            found = estimate(*others, read_share=left_out.read_share)
            errors.append(abs(found.value / left_out.median - 1))
            hits += found.low <= left_out.median <= found.high

    assert (len(errors), hits) == (count, covered)
    assert median(errors) == pytest.approx(error, abs=0.001)
