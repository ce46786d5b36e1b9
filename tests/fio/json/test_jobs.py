"""Values of jobs outside of their directions, and of disks."""

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Disk, SteadyState
from tests.fio.outputs import find_direction, make_job, make_output, read_single


def test_latency_shares_ascend_in_ns_and_end_without_bound() -> None:
    shares = read_single("generated/07_json.out").jobs[0].latency_shares

    assert len(shares) == 32
    assert shares[0] == (2, 0.0)
    assert (shares[10][0], shares[20][0], shares[30:]) == (2_000, 2_000_000, ((2 * 10**9, 0.0), (None, 0.0)))
    assert dict(shares)[100_000] == 84.130579


def test_latency_shares_of_2_x_begin_at_two_microseconds() -> None:
    shares = read_single("versions/fio-2.2.10/json.json").jobs[0].latency_shares

    assert (len(shares), shares[0][0], shares[-1][0]) == (22, 2000, None)


def test_shares_with_an_invalid_value_are_skipped() -> None:
    shares = dict.fromkeys(["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"], 10.0)

    job = read_output(make_output(make_job(latency_us=shares | {"4": -1}))).documents[0].jobs[0]

    assert job.latency_shares == ()


def test_depths_and_faults_are_as_printed() -> None:
    job = read_single("generated/70_steadystate_attained_json.out").jobs[0]

    assert (job.depth["4"], job.depth_submitted["4"], job.depth_completed["4"]) == (99.994134, 100.0, 100.0)
    assert (job.major_faults, job.minor_faults) == (0, 15)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "generated/70_steadystate_attained_json.out",
            SteadyState("iops:90.000000%", True, 2.0, "2.541859%", 28011, 114734129),
        ),
        (
            "generated/71_steadystate_not_attained_json.out",
            SteadyState("iops_slope:0.000100%", False, 2.0, "-15.707072%", 29509, 120871659),
        ),
        ("generated/07_json.out", None),
    ],
)
def test_steady_state_is_read(name: str, expected: SteadyState | None) -> None:
    """Its bandwidth is in bytes/s, unlike bw elsewhere: the job did 114288008 and 118909568."""
    assert read_single(name).jobs[0].steady_state == expected


def test_short_and_dropped_ios_are_counted() -> None:
    read = find_direction(read_single("generated/07_json.out"), "read")

    assert (read.short_ios, read.dropped_ios) == (0, 0)


@pytest.mark.parametrize(
    ("name", "has_all"),
    [
        ("generated/07_json.out", [True]),
        ("versions/fio-2.2.10/json.json", [False]),
        ("generated/60_client_json.out", [True, True, False]),
    ],
)
def test_options_are_complete_only_where_fio_prints_them(name: str, has_all: list[bool]) -> None:
    assert [job.has_all_options for job in read_single(name).jobs] == has_all


def test_disks_under_a_composed_one_are_its_members() -> None:
    md = {"name": "md0", "read_ios": 8, "util": 0.0, "aggr_read_ios": 4, "aggr_util": 99.5}
    disks = [{"name": "sdz"}, md, {"name": "sda", "read_ios": 4, "in_queue": 1500}, {"name": "sdb"}, 7]

    document = read_output(make_output(disk_util=disks)).documents[0]

    assert [(disk.name, disk.is_member) for disk in document.disks] == [
        ("sdz", False),
        ("md0", False),
        ("sda", True),
        ("sdb", True),
    ]
    assert document.disks[2] == Disk("sda", 4, None, None, queued_s=1.5, is_member=True)
