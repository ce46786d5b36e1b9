"""Values of real outputs of many versions, read by eye from the files."""

from datetime import UTC, datetime

import pytest

from benchapp.fio import read_output
from benchapp.fio.report import Disk, Samples
from tests.fio.outputs import (
    find_direction,
    make_direction,
    make_job,
    make_latency,
    make_output,
    read_fixture,
    read_single,
)


# io_bytes is KiB before 2.21; bandwidth is exact where bw_bytes is missing; µs become ns.
@pytest.mark.parametrize(
    ("name", "direction", "expected"),
    [
        ("versions/fio-2.0.10/json.json", "read", (121880576, None, 29756, 121880576, 1.0, 80110)),
        ("versions/fio-2.2.10/json.json", "read", (104726528, 25568, 25568, 104726528, 1.0, 98460)),
        ("versions/fio-2.2.10/json.json", "write", (41664512, 10172, 10172, 41664512, 1.0, 112560)),
        (
            "versions/fio-2.21/json.json",
            "read",
            (118444032, 28917, 28888.111888, 118325706, 1.001, 81394.301),
        ),
        (
            "versions/fio-3.0/json.json",
            "write",
            (54468608, 13298, 13284.715285, 54414193, 1.001, 88793.473154),
        ),
        (
            "versions/fio-3.7/json.json",
            "read",
            (116285440, 28390, 27833.333333, 114005333, 1.02, 87446.453857),
        ),
        ("versions/fio-3.16/json_slow_lt1KiBps.json", "read", (2048, 4, 1.332889, 682, 3.001, 104032.5)),
        (
            "versions/fio-3.36/json.json",
            "write",
            (42614784, 10404, 10393.606394, 42572211, 1.001, 126508.987313),
        ),
        ("generated/07_json.out", "read", (227856384, 55629, 27800.5997, 113871256, 2.001, 136037.352208)),
        ("generated/94_rate_iops_json.out", "read", (4096000, 1000, 499.750125, 2046976, 2.001, None)),
    ],
)
def test_totals_and_mean_are_in_base_units(name: str, direction: str, expected: tuple) -> None:
    io_bytes, total_ios, iops, bandwidth, runtime_s, mean_ns = expected

    found = find_direction(read_single(name), direction)

    assert (found.io_bytes, found.total_ios, found.runtime_s) == (io_bytes, total_ios, runtime_s)
    assert found.iops == iops
    assert found.bandwidth_bytes_per_s == pytest.approx(bandwidth, abs=1)
    if mean_ns is not None:
        assert found.completion.mean_ns == mean_ns


@pytest.mark.parametrize(
    ("name", "p50", "p99", "p99_99", "count"),
    [
        ("versions/fio-2.0.10/json.json", 72000, 117000, 5408000, 17),
        ("versions/fio-2.2.10/json.json", 89000, 179000, 4384000, 17),
        ("versions/fio-3.0/json.json", 79360, 121344, 3293184, 17),
        ("versions/fio-3.36/json.json", 73216, 864256, 5472256, 17),
    ],
)
def test_percentiles_are_in_ns_without_padding(
    name: str, p50: int, p99: int, p99_99: int, count: int
) -> None:
    percentiles = dict(find_direction(read_single(name), "read").completion.percentiles)

    assert (percentiles[50.0], percentiles[99.0], percentiles[99.99]) == (p50, p99, p99_99)
    assert len(percentiles) == count
    assert list(percentiles) == sorted(percentiles)


def test_every_value_of_one_distribution() -> None:
    completion = find_direction(read_single("generated/07_json.out"), "read").completion

    assert (completion.minimum_ns, completion.maximum_ns, completion.count) == (16524, 9115633, 55629)
    assert completion.stddev_ns == 473088.654606
    assert completion.bins is None


def test_samples_are_in_bytes_per_second() -> None:
    direction = find_direction(read_single("versions/fio-3.7/json.json"), "read")

    assert direction.bandwidth_samples == Samples(105938944, 126607360, 116273152.0, 14614777.109504, 2)
    assert direction.iops_samples == Samples(25864, 30910, 28387.0, 3568.060818, 2)


@pytest.mark.parametrize(
    ("name", "direction", "missing"),
    [
        ("generated/07_json.out", "read", {}),
        (
            "generated/A3_short_run_json.out",
            "read",
            {"submission": "not-measured", "bandwidth_samples": "short-run", "iops_samples": "short-run"},
        ),
        ("generated/86_no_percentiles_json.out", "read", {"percentiles": "not-reported"}),
        (
            "generated/88_gtod_reduce_json.out",
            "read",
            {"latency": "not-measured", "percentiles": "not-measured"},
        ),
        (
            "versions/fio-2.0.10/json.json",
            "read",
            {
                "total_ios": "not-reported",
                "bandwidth_samples": "unreliable-version",
                "iops_samples": "not-reported",
            },
        ),
        (
            "versions/fio-3.7/json_group2.json",
            "read",
            {"bandwidth_samples": "per-job-samples", "iops_samples": "per-job-samples"},
        ),
        ("versions/fio-3.13/json_group2.json", "read", {}),
        (
            "versions/fio-2.1.14/json_enospc.json",
            "write",
            {
                "iops": "zero-runtime",
                "bandwidth_bytes_per_s": "zero-runtime",
                "submission": "not-measured",
                "bandwidth_samples": "short-run",
                "iops_samples": "not-reported",
            },
        ),
        (
            "generated/35_err_no_size_json.out",
            "write",
            {
                "iops": "no-io",
                "bandwidth_bytes_per_s": "no-io",
                "latency": "no-io",
                "percentiles": "no-io",
                "bandwidth_samples": "no-io",
                "iops_samples": "no-io",
            },
        ),
    ],
)
def test_every_missing_value_has_a_reason(name: str, direction: str, missing: dict[str, str]) -> None:
    assert find_direction(read_single(name), direction).missing == missing


def test_rates_of_a_trim_with_zero_run_time_are_withheld() -> None:
    direction = find_direction(read_single("generated/27_trim_file_json.out"), "trim")

    assert (direction.total_ios, direction.iops, direction.missing["iops"]) == (1, None, "zero-runtime")


@pytest.mark.parametrize(
    ("name", "directions"),
    [
        ("generated/07_json.out", ["read"]),
        ("versions/fio-3.36/json.json", ["read", "write"]),
        ("generated/18_unified_mixed_json.out", ["mixed"]),
        ("generated/19_unified_both_json.out", ["read", "write", "mixed"]),
        ("generated/23_verify_json.out", ["read", "write"]),
        ("generated/25_fsync_json.out", ["write", "sync"]),
        ("generated/27_trim_file_json.out", ["trim"]),
        ("generated/35_err_no_size_json.out", ["write"]),
    ],
)
def test_only_used_or_requested_directions_are_listed(name: str, directions: list[str]) -> None:
    assert [direction.name for direction in read_single(name).groups[0].directions] == directions


def test_sync_latency_is_total() -> None:
    sync = find_direction(read_single("generated/25_fsync_json.out"), "sync")

    assert (sync.total_ios, sync.total.mean_ns) == (255, 2649463.32549)
    assert dict(sync.total.percentiles)[99.0] == 15269888
    assert sync.iops is None


@pytest.mark.parametrize(
    ("name", "completion_p99", "total_p99"),
    [
        # lat_percentiles=1: before 3.18 only lat, until 3.12 under the name clat_ns; later versions print both.
        ("versions/fio-3.1/json_latpct.json", None, 142336),
        ("versions/fio-3.13/json_latpct.json", None, 211968),
        ("generated/84_lat_percentiles_json.out", 254976, 288768),
    ],
)
def test_percentiles_belong_to_the_latency_of_their_table(
    name: str, completion_p99: int | None, total_p99: int | None
) -> None:
    direction = find_direction(read_single(name), "read")

    assert dict(direction.completion.percentiles).get(99.0) == completion_p99
    assert dict(direction.total.percentiles).get(99.0) == total_p99


@pytest.mark.parametrize(
    ("version", "options", "is_total"),
    [
        ("fio-3.1", {"lat_percentiles": "1"}, True),
        ("fio-3.12", {"lat_percentiles": "1"}, True),
        ("fio-3.12", {"clat_percentiles": "0"}, True),
        ("fio-3.12", {"lat_percentiles": "0"}, False),
        ("fio-3.12", {}, False),
        ("fio-3.13", {"lat_percentiles": "1"}, False),
    ],
)
def test_versions_up_to_3_12_print_lat_under_clat(
    version: str, options: dict[str, str], is_total: bool
) -> None:
    job = make_job(**{"job options": {"rw": "read", **options}})

    (direction,) = read_output(make_output(job, **{"fio version": version})).documents[0].groups[0].directions

    assert bool(direction.completion.percentiles) is not is_total
    assert bool(direction.total.percentiles) is is_total


def test_submission_percentiles_are_kept() -> None:
    direction = find_direction(read_single("generated/85_lat_slat_clat_percentiles_json.out"), "read")

    assert len(direction.submission.percentiles) == 17


def test_times_version_disk_and_cpu_of_a_document() -> None:
    document = read_single("versions/fio-3.36/json.json")

    assert (document.format, document.fio_version, document.is_partial) == ("json", "fio-3.36", False)
    assert document.started_at == datetime(2026, 11, 21, 8, 15, 13, 775000, UTC)
    assert document.finished_at == datetime(2026, 11, 21, 8, 15, 14, 841000, UTC)
    assert (document.jobs[0].cpu_user_percent, document.jobs[0].context_switches) == (1.9, 12258)
    assert document.jobs[0].iodepth == 4


def test_start_is_time_of_printing_minus_elapsed_before_3_36() -> None:
    document = read_single("generated/07_json.out")

    assert document.started_at == datetime(2026, 11, 21, 7, 37, 8, 126000, UTC)
    assert document.disks == (Disk("vda", 52823, 34, 55.317024, 15, 0, 3.856, 0.004, 4.024),)
    assert document.jobs[0].depth["4"] == 99.994607


def test_oldest_json_has_no_time() -> None:
    document = read_single("versions/fio-2.0.10/json.json")

    assert (document.started_at, document.finished_at) == (None, None)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"io_bytes": 2**63}, "io_bytes"),
        ({"io_bytes": -1}, "io_bytes"),
        ({"io_bytes": 10**30}, "io_bytes"),
        ({"total_ios": 18446744073709551615}, "total_ios"),
        ({"iops": -5.0}, "iops"),
        ({"runtime": 2**64}, "runtime_s"),
    ],
)
def test_number_out_of_range_is_missing_with_a_reason(changes: dict[str, float], field: str) -> None:
    output = make_output(make_job(read=make_direction(**changes)))

    (direction,) = read_output(output).documents[0].groups[0].directions

    assert getattr(direction, field) is None
    assert direction.missing[field] == "out-of-range"


def test_distribution_with_minimum_above_maximum_is_withheld() -> None:
    job = make_job(read=make_direction(clat_ns=make_latency(min=100, max=10)))

    (direction,) = read_output(make_output(job)).documents[0].groups[0].directions

    assert (direction.completion, direction.missing["completion"]) == (None, "not-measured")


def test_minute_without_io_is_a_zero() -> None:
    idle = make_direction(io_bytes=0, bw_bytes=0, iops=0.0, total_ios=0, runtime=60000)
    idle |= {key: make_latency(N=0, min=0, max=0, mean=0.0) for key in ("slat_ns", "clat_ns", "lat_ns")}

    (direction,) = read_output(make_output(make_job(read=idle))).documents[0].groups[0].directions

    assert (direction.iops, direction.bandwidth_bytes_per_s, direction.total_ios) == (0.0, 0.0, 0)
    assert direction.missing["latency"] == "not-measured"


def test_report_without_options_has_a_note() -> None:
    report = read_fixture("versions/fio-2.2.10/json.json")

    assert report.documents[0].jobs[0].options == {}
    assert [note.code for note in report.warnings] == ["options-not-reported"]


def test_own_options_win_over_global_ones() -> None:
    job = make_job(**{"job options": {"bs": "8k", "rw": "write"}})

    report = read_output(make_output(job, **{"global options": {"bs": "4k", "direct": "1"}}))

    assert report.documents[0].jobs[0].options == {"bs": "8k", "direct": "1", "rw": "write"}


def test_bare_flags_of_3_39_are_kept() -> None:
    options = read_single("versions/fio-3.39/json_group2.json").jobs[0].options

    assert (options["time_based"], options["group_reporting"]) == ("", "")


def test_options_of_other_types_become_text_as_fio_prints_it() -> None:
    job = make_job(**{"job options": {"rw": "read", "bs": 4096, "direct": True, "thread": False, "x": {}}})

    assert read_output(make_output(job)).documents[0].jobs[0].options == {
        "rw": "read",
        "bs": "4096",
        "direct": "",
        "thread": "0",
    }


def test_invalid_entry_is_skipped_with_a_note() -> None:
    report = read_output(make_output(make_job("a"), jobs=[1, make_job("a")]))

    assert [job.index for job in report.documents[0].jobs] == [1]
    assert [(note.code, note.where) for note in report.warnings] == [("unreadable-job", "document 0, job 0")]


def test_group_that_hides_other_jobs_has_a_warning() -> None:
    report = read_output(make_output(make_job("first", job_runtime=4000)))

    assert [(note.code, note.where) for note in report.warnings] == [
        ("group-of-different-jobs", "document 0, job 0 (first)")
    ]
