"""Several executions of fio as one submission, and the figures of each."""

import json
from typing import Any

import pytest

from agent.measuring.fio import FioResult
from agent.measuring.fio_reports import Figures, join_jobfiles, join_results, read_figures


def make_result(stdout: str, *, status: int = 0, at: float = 0.0) -> FioResult:
    return FioResult(("fio", "x"), status, None, stdout, "", at, at + 5.0, None)


def report(**directions: dict[str, Any]) -> str:
    idle: dict[str, Any] = {"total_ios": 0, "iops": 0.0}
    job = {"error": 0, "read": idle, "write": idle, **directions}
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]}) + "\n"


def direction(iops: float, p95: float, *, key: str = "clat_ns") -> dict[str, Any]:
    return {"total_ios": 10, "iops": iops, key: {"percentile": {"95.000000": p95}}}


@pytest.mark.parametrize(
    ("stdout", "figures"),
    [
        (report(read=direction(1000.0, 250_000)), Figures(1000.0, 250_000.0)),
        (report(write=direction(10.0, 250, key="clat")), Figures(10.0, 250_000.0)),
        (report(read=direction(75.0, 100), write=direction(25.0, 900)), Figures(100.0, 900.0)),
        (report(read={"total_ios": 1, "iops": 5.0}), Figures(5.0, None)),
        ("fio: a note before\n" + report(read=direction(1.0, 2)), Figures(1.0, 2.0)),
        (report(), None),
        ("", None),
        ("fio: engine not loadable {", None),
        ('{"jobs": []}', None),
    ],
)
def test_figures_are_read_from_a_report(stdout: str, figures: Figures | None) -> None:
    assert read_figures(make_result(stdout)) == figures


def test_failed_execution_has_no_figures() -> None:
    assert read_figures(make_result(report(read=direction(1.0, 2)), status=1)) is None


def test_executions_are_joined_in_order() -> None:
    joined = join_results([make_result("one\n", at=10.0), make_result("two\n", status=1, at=20.0)])

    assert (joined.stdout, joined.exit_status) == ("one\ntwo\n", 1)
    assert (joined.started_at, joined.finished_at) == (10.0, 25.0)


def test_later_job_files_are_listed_by_their_differences() -> None:
    assert join_jobfiles(["[a]\niodepth=1\n", "[b]\niodepth=2\n"]) == (
        "[a]\niodepth=1\n# execution 2: [b], iodepth=2\n"
    )
