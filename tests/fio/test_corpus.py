"""Public outputs of others, which are not committed: read, or refused for a reason that is no fault of ours."""

from pathlib import Path

import pytest

from benchapp.fio import UnreadableOutput, read_output
from benchapp.fio.report import Direction, Report

CORPUS = Path(__file__).parents[2].parent / "shared" / "data" / "fio" / "public"

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the public outputs are not at {CORPUS}"),
]


def list_reports() -> list[tuple[str, Report | UnreadableOutput]]:
    found: list[tuple[str, Report | UnreadableOutput]] = []
    for path in sorted(CORPUS.rglob("*")):
        if path.is_file() and path.name != "index.csv":
            try:
                found.append((path.name, read_output(path.read_bytes())))
            except UnreadableOutput as error:
                found.append((path.name, error))
    return found


def is_consistent(direction: Direction) -> bool:
    """Say whether IOPS × mean size is the bandwidth; small counts round too much to tell."""
    if not direction.iops or not direction.total_ios or not direction.io_bytes or direction.iops < 100:
        return True
    expected = direction.iops * direction.io_bytes / direction.total_ios
    return abs(expected / (direction.bandwidth_bytes_per_s or expected) - 1) < 0.01


def test_every_public_output_is_read_or_refused_with_a_reason() -> None:
    reports = list_reports()

    codes = {error.code for _, error in reports if isinstance(error, UnreadableOutput)}
    assert sum(isinstance(report, Report) for _, report in reports) >= 60
    assert codes <= {"format-not-supported-yet", "no-report"}


def test_iops_and_bandwidth_of_every_public_output_agree() -> None:
    odd = [
        (name, job.name, direction.name)
        for name, report in list_reports()
        if isinstance(report, Report)
        for document in report.documents
        for job in document.jobs
        for direction in job.directions
        if not is_consistent(direction)
    ]

    assert odd == []
