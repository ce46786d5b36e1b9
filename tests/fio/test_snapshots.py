"""Snapshots of one execution count once; executions count each."""

from typing import Any

import pytest

from benchapp.fio import read_output
from tests.fio.outputs import make_direction, make_job, make_output, read_bytes, read_fixture


def make_snapshot(seconds: int, *, at: int = 1000, **changes: Any) -> bytes:
    """Return what a job that started at `at` and has done 1 MiB a second says `seconds` later."""
    read = make_direction(io_bytes=seconds * 2**20, total_ios=seconds * 256, runtime=seconds * 1000)
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
def test_only_the_last_of_four_snapshots_counts(name: str, total_bytes: int) -> None:
    report = read_fixture(name)

    (document,) = report.documents
    assert document.groups[0].directions[0].io_bytes == total_bytes
    (note,) = [note for note in report.warnings if note.code == "cumulative-snapshots"]
    assert note.message.startswith("3 reports (0, 1, 2) are snapshots")


def test_cut_last_snapshot_leaves_the_last_complete_one() -> None:
    text = make_snapshot(1) + make_snapshot(2) + make_snapshot(3)[:-30]

    (document,) = read_output(text).documents

    assert (document.groups[0].directions[0].io_bytes, document.is_partial) == (2 * 2**20, False)


def test_two_executions_of_one_job_file_are_two_documents() -> None:
    first, second = read_bytes("generated/50_status_interval_json.out"), read_bytes("generated/07_json.out")

    documents = read_output(second + first + second).documents

    assert [document.jobs[0].name for document in documents] == ["rr", "st", "rr"]


@pytest.mark.parametrize(
    ("later", "count"),
    [
        (make_snapshot(3), 1),
        (make_snapshot(3, at=1001), 1),
        # Printed 60 s later, with 1 s more on its clock: started later.
        (make_snapshot(3, at=1060), 2),
        # Its clock starts anew.
        (make_snapshot(1, at=1005), 2),
        (make_snapshot(3, groupid=1), 2),
        (make_snapshot(3, jobname="other"), 2),
        (make_snapshot(3, **{"job options": {"rw": "write"}}), 2),
    ],
)
def test_same_start_same_jobs_and_more_bytes_make_a_snapshot(later: bytes, count: int) -> None:
    assert len(read_output(make_snapshot(2) + later).documents) == count


@pytest.mark.parametrize(("start", "count"), [(999, 1), (998, 2)])
def test_job_start_decides_where_it_is_printed(start: int, count: int) -> None:
    text = make_snapshot(2, job_start=999) + make_snapshot(3, job_start=start)

    assert len(read_output(text).documents) == count


def test_fewer_bytes_than_before_are_another_execution() -> None:
    less = make_output(make_job(read=make_direction(io_bytes=1), elapsed=3), timestamp=1003)

    assert len(read_output(make_snapshot(2) + less).documents) == 2


def test_documents_keep_their_place_in_the_warnings() -> None:
    text = make_snapshot(1) + make_snapshot(2) + make_output(jobs=[1, make_job("b")])

    report = read_output(text)

    assert [note.where for note in report.warnings] == ["", "document 2, job 0"]
