"""Jobs that ran together have totals, and nothing in them is counted twice."""

from typing import Any

import pytest

from benchapp.fio import read_output
from benchapp.fio.merging.jobs import total_up
from benchapp.fio.report import Direction, Total
from tests.fio.outputs import make_direction, make_job, make_latency, make_output, read_bytes, read_single


def find_total(total: Total, name: str) -> Direction:
    return next(direction for direction in total.directions if direction.name == name)


def with_bins(bins: dict[str, int]) -> dict[str, Any]:
    percentile = {"50.000000": 1, "99.000000": 1}
    return make_direction(
        clat_ns=make_latency(N=sum(bins.values()), max=99999, percentile=percentile, bins=bins)
    )


def test_total_of_one_group_is_the_group() -> None:
    document = read_single("generated/07_json.out")

    assert total_up(document.groups) == (Total(0, document.groups[0].directions, (0,)),)


def test_only_jobs_of_one_group_are_added_up() -> None:
    jobs = [make_job("a"), make_job("b"), make_job("c", groupid=1)]

    totals = total_up(read_output(make_output(*jobs)).documents[0].groups)

    assert [(total.groupid, total.groups) for total in totals] == [(0, (0, 1)), (1, (2,))]
    assert [find_total(total, "read").iops for total in totals] == [100.0, 50.0]
    assert find_total(totals[0], "read").sources["iops"] == "sum of 2 groups"


def test_percentiles_of_several_groups_are_withheld_without_bins() -> None:
    (total,) = total_up(read_output(make_output(make_job("a"), make_job("b"))).documents[0].groups)

    read = find_total(total, "read")
    assert (read.completion.percentiles, read.missing["percentiles"]) == ((), "groups-without-bins")


def test_percentiles_of_several_groups_come_from_merged_bins() -> None:
    jobs = [make_job("a", read=with_bins({"100": 100})), make_job("b", read=with_bins({"10000": 100}))]

    (total,) = total_up(read_output(make_output(*jobs)).documents[0].groups)

    assert find_total(total, "read").completion.percentiles == ((50.0, 100), (99.0, 10000))


def test_read_and_write_are_followed_by_a_total() -> None:
    (total,) = total_up(read_single("versions/fio-3.36/json.json").groups)

    read, write, both = total.directions
    assert [direction.name for direction in total.directions] == ["read", "write", "total"]
    assert (both.total_ios, both.io_bytes) == (
        read.total_ios + write.total_ios,
        read.io_bytes + write.io_bytes,
    )
    assert both.sources["iops"] == "sum of 2 directions"
    assert both.missing["percentiles"] == "groups-without-bins"


@pytest.mark.parametrize(
    ("name", "directions"),
    [
        ("generated/18_unified_mixed_json.out", ["mixed"]),
        ("generated/19_unified_both_json.out", ["read", "write", "mixed", "total"]),
        ("generated/25_fsync_json.out", ["write", "sync"]),
    ],
)
def test_mixed_and_sync_are_in_no_total(name: str, directions: list[str]) -> None:
    (total,) = total_up(read_single(name).groups)

    assert [direction.name for direction in total.directions] == directions


def test_total_of_unified_both_is_what_fio_calls_mixed() -> None:
    (total,) = total_up(read_single("generated/19_unified_both_json.out").groups)

    both, mixed = find_total(total, "total"), find_total(total, "mixed")
    assert (both.io_bytes, both.total_ios) == (mixed.io_bytes, mixed.total_ios)
    assert both.completion.mean_ns == pytest.approx(mixed.completion.mean_ns, rel=1e-9)


def test_total_adds_up_servers_without_all_clients() -> None:
    text = read_bytes("generated/62_client_two_json.out").replace(
        b'"127.0.0.1",\n      "port" : 8766', b'"db-2"'
    )
    document = read_output(text).documents[0]

    (total,) = total_up(document.groups)
    (of_fio,) = [job for job in document.jobs if job.is_aggregate]
    assert total.groups == (0, 1)
    assert [find_total(total, name).total_ios for name in ("read", "write")] == [
        direction.total_ios for direction in of_fio.directions
    ]


def test_idle_direction_and_one_active_direction_have_no_total() -> None:
    job = make_job(**{"job options": {"rw": "rw"}}, write=make_direction(io_bytes=0, total_ios=0, runtime=0))

    (total,) = total_up(read_output(make_output(job)).documents[0].groups)

    assert [direction.name for direction in total.directions] == ["read", "write"]


def make_old_output(*, with_total_ios: bool, iops: tuple[float, float] = (10_000.0, 100.0)) -> bytes:
    """Return 100 000 reads of 4 KiB in 100 µs each and 1000 writes of 1 MiB in 10 ms each, without samples (N)."""

    def make_part(count: int, block_kb: int, rate: float, mean: float) -> dict[str, Any]:
        counts = {"total_ios": count} if with_total_ios else {}
        clat = {"min": 1, "max": 99999, "mean": mean, "stddev": 0.0}
        return {
            "io_bytes": count * block_kb,
            "bw": 9,
            "iops": rate,
            "runtime": 10_000,
            "clat": clat,
            **counts,
        }

    read = make_part(100_000, 4, iops[0], 100.0)
    write = make_part(1_000, 1024, iops[1], 10_000.0)
    job = {"jobname": "job", "groupid": 0, "read": read, "write": write}
    return make_output(jobs=[job], **{"fio version": "fio-2.1.10"})


def find_total_of_all(text: bytes) -> Direction:
    (total,) = total_up(read_output(text).documents[0].groups)
    return find_total(total, "total")


@pytest.mark.parametrize(
    ("with_total_ios", "weight"), [(True, "I/Os (total_ios)"), (False, "I/Os (iops × run time)")]
)
def test_mean_of_small_and_large_blocks_is_weighted_by_ios_and_not_by_bytes(
    with_total_ios: bool, weight: str
) -> None:
    total = find_total_of_all(make_old_output(with_total_ios=with_total_ios))

    # (100 000 × 100 µs + 1000 × 10 ms) / 101 000
    assert total.completion.mean_ns == pytest.approx(198_019.8, rel=1e-6)
    assert total.sources["completion"] == f"mean weighted by {weight} of 2 directions"


def test_mean_is_withheld_without_any_count_of_ios() -> None:
    total = find_total_of_all(make_old_output(with_total_ios=False, iops=(10_000.0, 0)))

    assert (total.completion.mean_ns, total.completion.stddev_ns) == (None, None)
    assert (total.completion.minimum_ns, total.completion.maximum_ns) == (1_000, 99_999_000)
    assert total.missing["completion"] == "groups-without-counts"
    assert "completion" not in total.sources


def test_weights_of_two_kinds_are_never_mixed() -> None:
    """Only one job counts samples: both are weighted by total_ios, 100 and 300."""
    counted = make_direction(clat_ns=make_latency(N=5, mean=10.0), total_ios=100)
    uncounted = make_direction(clat_ns={"min": 1, "max": 99, "mean": 20.0, "stddev": 0.0}, total_ios=300)
    jobs = [make_job("a", read=counted), make_job("b", read=uncounted)]

    (total,) = total_up(read_output(make_output(*jobs)).documents[0].groups)

    read = find_total(total, "read")
    assert (read.completion.mean_ns, read.completion.count) == (17.5, None)
    assert read.sources["completion"] == "mean weighted by I/Os (total_ios) of 2 groups"
