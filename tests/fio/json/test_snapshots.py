"""Snapshots of one execution are one document; several executions are several."""

import json
from typing import Any

import pytest

from benchapp.fio import read_output
from tests.fio.outputs import make_content, make_direction, make_job, make_output, read_bytes, read_fixture


def make_snapshot(seconds: int, *, at: int = 1000, **changes: Any) -> bytes:
    """Return the report of a job that started at `at` and did 1 MiB/s, `seconds` later."""
    counts = {"io_bytes": seconds * 2**20, "total_ios": seconds * 256, "runtime": seconds * 1000}
    read = make_direction(**counts, bw_bytes=2**20, iops=256.0)
    return make_output(make_job(read=read, elapsed=seconds, **changes), timestamp=at + seconds) + b"\n"


@pytest.mark.parametrize(
    ("name", "total_bytes"),
    [
        ("generated/50_status_interval_json.out", 266571776),
        ("versions/fio-3.36/json_status_interval.json", 213561344),
        # No times and no total_ios; run times in µs until the last report.
        ("versions/fio-2.1.3/json_status_interval.json", 347512832),
    ],
)
def test_only_the_last_of_four_snapshots_is_used(name: str, total_bytes: int) -> None:
    report = read_fixture(name)

    (document,) = report.documents
    assert document.groups[0].directions[0].io_bytes == total_bytes
    (note,) = [note for note in report.warnings if note.code == "cumulative-snapshots"]
    assert note.message.startswith("3 reports (0, 1, 2) are snapshots")


def test_truncated_last_snapshot_leaves_the_last_complete_one() -> None:
    text = make_snapshot(1) + make_snapshot(2) + make_snapshot(3)[:-30]

    (document,) = read_output(text).documents

    assert (document.groups[0].directions[0].io_bytes, document.is_partial) == (2 * 2**20, False)


def test_two_executions_of_one_job_file_are_two_documents() -> None:
    first, second = read_bytes("generated/50_status_interval_json.out"), read_bytes("generated/07_json.out")

    third = second.replace(b"1795246631", b"1795246731")

    documents = read_output(second + first + third).documents

    assert [document.jobs[0].name for document in documents] == ["rr", "st", "rr"]


@pytest.mark.parametrize(
    ("later", "count"),
    [
        (make_snapshot(3), 1),
        (make_snapshot(3, at=1001), 1),
        # Printed 60 s later with 1 s more elapsed: started later.
        (make_snapshot(3, at=1060), 2),
        # Its elapsed time begins again.
        (make_snapshot(1, at=1005), 2),
        (make_snapshot(3, groupid=1), 2),
        (make_snapshot(3, jobname="other"), 2),
        (make_snapshot(3, **{"job options": {"rw": "write"}}), 2),
    ],
)
def test_same_start_and_jobs_with_more_bytes_are_a_snapshot(later: bytes, count: int) -> None:
    assert len(read_output(make_snapshot(2) + later).documents) == count


@pytest.mark.parametrize(("start", "count"), [(999, 1), (998, 2)])
def test_job_start_is_used_if_printed(start: int, count: int) -> None:
    text = make_snapshot(2, job_start=999) + make_snapshot(3, job_start=start)

    assert len(read_output(text).documents) == count


def test_fewer_bytes_than_before_are_another_execution() -> None:
    less = make_output(make_job(read=make_direction(io_bytes=1), elapsed=3), timestamp=1003)

    assert len(read_output(make_snapshot(2) + less).documents) == 2


def test_documents_keep_their_place_in_the_warnings() -> None:
    text = make_snapshot(1) + make_snapshot(2) + make_output(jobs=[1, make_job("b")])

    report = read_output(text)

    assert [note.where for note in report.warnings] == ["", "document 2, job 0"]


def test_documents_keep_their_place_after_reports_without_jobs_and_truncated_ones() -> None:
    without_jobs, cut = make_output(jobs=None), make_output()[:60] + b"\n"
    text = without_jobs + cut + make_snapshot(1) + make_snapshot(2) + make_output(jobs=[1, make_job("b")])

    report = read_output(text)

    assert [(note.code, note.where) for note in report.warnings] == [
        ("no-jobs", "document 0"),
        ("truncated-report", "document 1"),
        ("cumulative-snapshots", ""),
        ("unreadable-job", "document 4, job 0"),
    ]
    assert "(2)" in report.warnings[2].message


def make_client_report(seconds: int, *, at: int) -> bytes:
    """Return the entry of a server in a client report: neither elapsed nor, before 3.36, job_start."""
    counts = {"io_bytes": seconds * 2**20, "total_ios": seconds * 256, "runtime": seconds * 1000}
    read = make_direction(**counts, bw_bytes=2**20, iops=256.0)
    content = make_content(timestamp=at) | {"client_stats": [make_job(hostname="a", port=1, read=read)]}
    del content["jobs"], content["client_stats"][0]["elapsed"]
    return json.dumps(content).encode() + b"\n"


def change_runtimes(text: str, factor: float) -> str:
    report = json.loads(text)
    for direction in (job[name] for job in report["jobs"] for name in ("read", "write")):
        direction["runtime"] = int(direction["runtime"] * factor)
    return json.dumps(report)


def make_old_report(read: dict[str, Any], *, version: str, **changes: Any) -> bytes:
    job = {"jobname": "job", "groupid": 0, "read": read}
    return make_output(jobs=[job], **{"fio version": version, "timestamp": None, **changes}) + b"\n"


def make_old_read(io_bytes: int, runtime: int, **changes: Any) -> dict[str, Any]:
    return {"io_bytes": io_bytes, "runtime": runtime, "clat": {"min": 5, "max": 90, "mean": 20.0}, **changes}


@pytest.mark.parametrize(("seconds", "at"), [(3, 1001), (3, 86400), (2, 1001)])
def test_reports_of_clients_are_separate_executions(seconds: int, at: int) -> None:
    text = make_client_report(2, at=1000) + make_client_report(seconds, at=at)

    assert len(read_output(text).documents) == 2


def test_client_run_again_the_next_day_is_another_execution() -> None:
    first = read_bytes("generated/62_client_two_json.out").decode()
    again = first.replace('"timestamp" : 17', '"timestamp" : 18')

    assert len(read_output((first + again).encode()).documents) == 2
    assert len(read_output((first + first).encode()).documents) == 1


@pytest.mark.parametrize("version", ["2.0.10", "2.1.3", "2.1.14", "2.2.8"])
@pytest.mark.parametrize(("factor", "count"), [(1 / 1.4, 2), (1.4, 2), (1, 1)])
def test_report_without_elapsed_is_a_snapshot_only_if_time_and_bytes_grew(
    version: str, factor: float, count: int
) -> None:
    first = read_bytes(f"versions/fio-{version}/json.json").decode()

    assert len(read_output((first + change_runtimes(first, factor)).encode()).documents) == count


@pytest.mark.parametrize(
    ("later", "count"),
    [
        (make_old_read(3000, 3000), 1),
        (make_old_read(3000, 3000, clat={"min": 5, "max": 80, "mean": 20.0}), 2),
        (make_old_read(3000, 3000, clat={"min": 6, "max": 90, "mean": 20.0}), 2),
        (make_old_read(3000, 2000), 2),
        (make_old_read(2000, 3000), 2),
        (make_old_read(2000, 2000), 1),
    ],
)
def test_cumulative_values_distinguish_executions_of_old_versions(later: dict[str, Any], count: int) -> None:
    text = make_old_report(make_old_read(2000, 2000), version="fio-2.1.14")

    assert len(read_output(text + make_old_report(later, version="fio-2.1.14")).documents) == count


@pytest.mark.parametrize(("passed_s", "count"), [(0, 1), (1, 1), (2, 1), (3, 2), (86400, 2)])
def test_without_elapsed_times_of_printing_must_differ_by_the_growth_of_the_run_time(
    passed_s: int, count: int
) -> None:
    first = make_old_report(make_old_read(2000, 2000), version="fio-2.2.8", timestamp=1000)
    later = make_old_report(make_old_read(3000, 3000), version="fio-2.2.8", timestamp=1000 + passed_s)

    assert len(read_output(first + later).documents) == count


@pytest.mark.parametrize(("later", "count"), [((3_100, 3_000), 1), ((3_100, 300_000), 2)])
def test_run_time_of_old_snapshots_is_in_microseconds(later: tuple[int, int], count: int) -> None:
    """3000 ms continue 2 888 768 µs; 300 000 ms are less than 600 000 ms: another execution."""
    earlier = make_old_read(3_000, 2_888_768 if count == 1 else 600_000)
    text = make_old_report(earlier, version="fio-2.1.3")

    text += make_old_report(make_old_read(*later), version="fio-2.1.3")

    assert len(read_output(text).documents) == count


def test_run_time_of_a_finished_job_may_be_slightly_below_that_of_its_snapshot() -> None:
    """fio 3.19 counts to the moment of printing, until the job is reaped."""
    early = make_direction(runtime=3153)
    text = make_output(make_job(read=early), timestamp=1003) + b"\n"

    same = make_output(make_job(read=make_direction(runtime=3001)), timestamp=1003)
    more = make_output(make_job(read=make_direction(runtime=3001, total_ios=101)), timestamp=1003)

    assert len(read_output(text + same).documents) == 1
    assert len(read_output(text + more).documents) == 2
