"""Values of a report that contradict each other are warned about."""

import pytest

from benchapp.fio import read_output
from tests.fio.outputs import make_direction, make_job, make_output


def list_codes(**changes: object) -> list[str]:
    options = {"rw": "read", "iodepth": "4"}
    counts = {"io_bytes": 2**30, "total_ios": 2**18, "runtime": 1000, "iops": 2.0**18, "bw_bytes": 2**30}
    direction = make_direction(**{**counts, **changes})
    report = read_output(make_output(make_job(read=direction, **{"job options": options})))
    assert report.documents[0].is_partial is bool(report.warnings)
    return [note.code for note in report.warnings]


def make_latency(mean_ns: float) -> dict[str, object]:
    return {"min": 1, "max": 10**10, "mean": mean_ns, "stddev": 1.0, "N": 2**18}


@pytest.mark.parametrize(
    ("mean_ns", "codes"), [(15_000, []), (60_000, []), (15_000_000, ["latency-contradicts-depth"])]
)
def test_latency_fits_the_rate_and_the_queue_depth(mean_ns: float, codes: list[str]) -> None:
    assert list_codes(lat_ns=make_latency(mean_ns)) == codes


@pytest.mark.parametrize(
    ("bandwidth", "codes"),
    [(2**30, []), (2**20, ["rate-contradicts-bytes"]), (2**40, ["rate-contradicts-bytes"])],
)
def test_bandwidth_fits_the_bytes_and_the_run_time(bandwidth: int, codes: list[str]) -> None:
    assert list_codes(bw_bytes=bandwidth) == codes


@pytest.mark.parametrize(
    ("iops", "codes"),
    [(2.0**18, []), (2.0**14, ["rate-contradicts-counts"]), (2.0**22, ["rate-contradicts-counts"])],
)
def test_iops_fit_the_counts_and_the_run_time(iops: float, codes: list[str]) -> None:
    assert list_codes(iops=iops) == codes


@pytest.mark.parametrize(
    ("printed", "damaged", "name"),
    [
        ("IOPS=999", "IOPS=99?", "iops"),
        ("BW=3996KiB", "BW=3,996KiB", "bandwidth_bytes_per_s"),
        ("(4000KiB", "(4'000KiB", "io_bytes"),
        ("max=3971, avg=97", "max=3,971, avg=97", "latency, percentiles"),
        ("lat (usec): min=23", "lat (us): min=23", "latency, percentiles"),
    ],
)
def test_figure_that_cannot_be_read_is_warned_about(printed: str, damaged: str, name: str) -> None:
    text = (
        "a: (groupid=0, jobs=1): err= 0: pid=7: Wed Dec 21 14:56:37 2022\n"
        "  read: IOPS=999, BW=3996KiB/s (4092kB/s)(4000KiB/1001msec)\n"
        "     lat (usec): min=23, max=3971, avg=97.34, stdev=223.69\n"
        "     issued rwts: total=1000,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
        "Run status group 0 (all jobs):\n"
    )

    report = read_output(text.replace(printed, damaged).encode())

    assert [note.message for note in report.warnings if note.code == "values-missing"] == [
        f"read: {name} cannot be read"
    ]
    assert report.documents[0].is_partial


def test_total_of_a_group_that_is_not_that_of_its_jobs_is_warned_about() -> None:
    text = (
        "a: (groupid=0, jobs=1): err= 0: pid=7: Wed Dec 21 14:56:37 2022\n"
        "  read: IOPS=999, BW=3996KiB/s (4092kB/s)(4000KiB/1001msec)\n"
        "     issued rwts: total=1000,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
        "Run status group 0 (all jobs):\n"
        "   READ: bw=7992KiB/s (8184kB/s), 3996KiB/s-3996KiB/s, io=8000KiB (8192kB), run=1001-1001msec\n"
    )

    report = read_output(text.encode())

    assert [note.message for note in report.warnings if note.code == "total-contradicts-jobs"] == [
        "READ of group 0 has io=8000KiB, but its jobs 4000 KiB: jobs are missing, or a figure is wrong"
    ]
    assert report.documents[0].is_partial


def test_job_without_values_is_warned_about() -> None:
    report = read_output(make_output({"jobname": "a", "groupid": 0, "error": 0}))

    assert [note.code for note in report.warnings] == ["options-not-reported", "values-missing"]


def test_direction_that_was_counted_but_not_printed_is_warned_about() -> None:
    text = (
        "a: (groupid=0, jobs=1): err= 0: pid=7: Wed Dec 21 14:56:37 2022\n"
        "  cpu          : usr=1.00%, sys=1.00%, ctx=1, majf=0, minf=1\n"
        "     issued rwts: total=641,0,0,0 short=0,0,0,0 dropped=0,0,0,0\n"
        "Run status group 0 (all jobs):\n"
    )

    report = read_output(text.encode())

    assert "values-missing" in [note.code for note in report.warnings]
    assert report.documents[0].is_partial


def test_entries_of_a_job_that_did_nothing_are_named() -> None:
    options = {"rw": "read", "bs": "4k"}
    idle = make_job(
        read=make_direction(io_bytes=0, total_ios=0, runtime=0, iops=0.0), **{"job options": options}
    )

    report = read_output(make_output(make_job(**{"job options": options}), idle, idle, idle))

    (note,) = [note for note in report.warnings if note.code == "idle-jobs"]
    assert note.message.startswith("3 of 4 entries of this job did no I/O")
    assert not report.documents[0].is_partial


@pytest.mark.parametrize(
    ("ramp", "runtime", "has_hint"), [("60", "45", True), ("1m", "60", False), ("5", "", False)]
)
def test_ramp_longer_than_the_run_is_named(ramp: str, runtime: str, has_hint: bool) -> None:
    options = {"rw": "read", "ramp_time": ramp, "runtime": runtime}

    report = read_output(make_output(make_job(**{"job options": options})))

    assert ("ramp-exceeds-runtime" in [note.code for note in report.warnings]) is has_hint
