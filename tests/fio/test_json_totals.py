"""Jobs that ran together have totals, and nothing in them is counted twice."""

from typing import Any

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Direction, Total
from benchapp.fio.totals import total_up
from tests.fio.outputs import make_direction, make_job, make_latency, make_output, read_single


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


def test_jobs_of_one_group_are_added_up_and_others_are_not() -> None:
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


def test_read_and_write_have_a_total_behind_them() -> None:
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
def test_mixed_and_sync_are_added_to_nothing(name: str, directions: list[str]) -> None:
    (total,) = total_up(read_single(name).groups)

    assert [direction.name for direction in total.directions] == directions


def test_total_of_unified_both_is_what_fio_calls_mixed() -> None:
    (total,) = total_up(read_single("generated/19_unified_both_json.out").groups)

    both, mixed = find_total(total, "total"), find_total(total, "mixed")
    assert (both.io_bytes, both.total_ios) == (mixed.io_bytes, mixed.total_ios)
    assert both.completion.mean_ns == pytest.approx(mixed.completion.mean_ns, rel=1e-9)


def test_servers_are_added_up_and_all_clients_is_not() -> None:
    document = read_single("generated/62_client_two_json.out")

    (total,) = total_up(document.groups)
    (of_fio,) = [job for job in document.jobs if job.is_aggregate]
    assert total.groups == (0, 1)
    assert [find_total(total, name).total_ios for name in ("read", "write")] == [
        direction.total_ios for direction in of_fio.directions
    ]


def test_idle_direction_beside_an_active_one_makes_no_total() -> None:
    job = make_job(**{"job options": {"rw": "rw"}}, write=make_direction(io_bytes=0, total_ios=0, runtime=0))

    (total,) = total_up(read_output(make_output(job)).documents[0].groups)

    assert [direction.name for direction in total.directions] == ["read", "write"]
