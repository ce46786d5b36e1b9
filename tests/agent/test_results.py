"""Results of a run on the terminal and in --json: of the server, or of fio."""

import json
import re
from pathlib import Path

import pytest

from agent.measuring.fio_reports import list_fio_results
from agent.results import LevelComparison, ResultRow, describe_level, format_results, load_row
from benchapp.fio.output import read_output
from tests.agent import server as replies
from tests.agent.conftest import Machine
from tests.agent.server import RESULTS, HostileServer

VERSIONS = Path(__file__).parents[1] / "data" / "fio" / "versions"

PART = {
    "total_ios": 5000,
    "iops": 33415.1,
    "bw_bytes": 136867840,
    "lat_ns": {"mean": 1240000.0},
    "clat_ns": {"percentile": {"95.000000": 4000000, "99.000000": 8500000}},
}
NOTHING = {"total_ios": 0, "iops": 0.0}
REPORT = {
    "fio version": "fio-3.99",
    "jobs": [
        {"jobname": "randread-4k", "error": 0, "read": PART, "write": NOTHING},
        *({"jobname": name, "error": 0} for name in ("randwrite-4k", "read-1m", "write-1m")),
    ],
}


@pytest.fixture
def reporting(host: Machine) -> Machine:
    """A host whose fio prints a report with values."""
    output = host.home / "report.json"
    output.write_text(json.dumps(REPORT))
    host.environ.update(FAKE_FIO="reporting", FAKE_FIO_OUTPUT=str(output))
    return host


def test_terminal_shows_results_levels_badges_and_the_page(reporting: Machine, server: HostileServer) -> None:
    ended = reporting.measure(is_terminal=True)

    level = "−2.0 %, within the usual range of 23 runs; p99 latency +31 %, outside the usual range"
    assert ended.stdout.splitlines() == [
        "workload        IOPS    bandwidth  mean latency  p99 latency  vs. level",
        f"4k random read  33\u202f415  137 MB/s   1.24 ms       8.50 ms      {level}",
        "badge too-short: read for 4 s, less than 30 s",
        f"{server.url}/runs/5/",
    ]


def test_without_a_terminal_only_the_address_is_printed(reporting: Machine, server: HostileServer) -> None:
    ended = reporting.measure("--wait", "10")

    assert (ended.stdout, ended.stderr) == (f"{server.url}/runs/5/\n", "")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--wait", "0.1"), "the server has not stored the run within 0 s"),
        (("--wait", "0"), "--wait is 0"),
        (("--no-send",), "the result is not delivered yet"),
    ],
)
def test_values_of_fio_are_shown_if_the_server_has_not_stored_the_run(
    reporting: Machine, server: HostileServer, options: tuple[str, ...], reason: str
) -> None:
    server.polls_until_final = 1000

    heading, row, problem, _ = reporting.measure(*options, is_terminal=True).stdout.splitlines()

    assert heading.split() == ["workload", "IOPS", "bandwidth", "mean", "latency", "p99", "latency"]
    assert re.split(" {2,}", row) == ["randread-4k read", "33\u202f415", "137 MB/s", "1.24 ms", "8.50 ms"]
    assert problem == f"values of fio, not compared with earlier runs: {reason}"


@pytest.mark.parametrize(
    "reply",
    [
        replies.reply_problem(404, "not-found"),
        replies.captive_portal,
        replies.reply_run([{"iops": 1}]),
        replies.reply_run([{**RESULTS[0], "levels": 7}]),
        replies.reset,
    ],
)
def test_answer_that_is_no_run_leaves_the_values_of_fio(
    reporting: Machine, server: HostileServer, reply: replies.Reply
) -> None:
    server.run = reply

    document = json.loads(reporting.measure("--json", "--wait", "10").stdout)

    assert document["exit_code"] == 0
    assert document["comparison_problem"].startswith("the server ")
    (row,) = document["results"]
    assert (row["workload"], row["iops"], row["levels"]) == ("randread-4k read", 33415.1, None)


def test_json_has_the_same_results(reporting: Machine) -> None:
    document = json.loads(reporting.measure("--json", "--wait", "10").stdout)

    (row,) = document["results"]
    assert (row["workload"], row["latency_p99_ns"], row["elapsed_s"]) == ("4k random read", 8500000.0, None)
    assert row["levels"]["iops"] == {"n": 23, "change": -0.02, "is_usual": True}
    assert list(row["badges"]) == ["too-short"]
    assert document["comparison_problem"] is None


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (ResultRow("x", "read", 28, {}, {}, {}), "failed: error 28"),
        (ResultRow("x", "read", 0, {}, {}, {}), "no earlier run of this series"),
        (
            ResultRow("x", "read", 0, {}, {}, {"iops": LevelComparison(1, 0.1, None)}),
            "+10 % (1 run: too few for a usual range)",
        ),
        (
            ResultRow("x", "read", 0, {}, {}, {"elapsed_s": LevelComparison(9, 0.5, False)}),
            "+50 %, outside the usual range of 9 runs",
        ),
        (
            ResultRow("x", "read", 0, {}, {}, {"iops": LevelComparison(9, None, True)}),
            "level 0, within the usual range of 9 runs",
        ),
    ],
)
def test_level_is_described(row: ResultRow, text: str) -> None:
    assert describe_level(row) == text


def test_reports_of_old_fio_and_of_several_executions_are_read() -> None:
    old = {
        "total_ios": 500,
        "iops": 10.5,
        "bw": 42,
        "lat": {"mean": 7.5},
        "clat": {"percentile": {"99.000000": 9}},
    }
    output = f"fio: note {{\n{json.dumps({'jobs': [{'jobname': 'old', 'write': old}]})}\n{json.dumps(REPORT)}"

    first, second = list_fio_results(output)

    # p99 of 500 I/Os is hidden, as on the server.
    assert (first.workload, first.values) == (
        "old write",
        {"iops": 10.5, "bandwidth_bytes_per_s": 43008.0, "latency_mean_ns": 7500.0},
    )
    assert second.values["latency_p99_ns"] == 8500000.0
    assert load_row(first.dump()) == first


def test_timings_of_small_files_are_read() -> None:
    rows = list_fio_results(
        "$ time for i in {0..1000}; do echo 'test' > \"test${i}.txt\"; done\n\nreal\t0m1.250000s\nuser\t0m0.1s\n"
        '$ time for i in {0..1000}; do cat "test${i}.txt" > /dev/null; done\n\nreal\t1m0.500000s\n'
    )

    assert [(row.workload, row.direction, row.values) for row in rows] == [
        ("small files write", "write", {"elapsed_s": 1.25}),
        ("small files read", "read", {"elapsed_s": 60.5}),
    ]
    assert format_results(rows)[1].split() == ["small", "files", "write", "1.25", "s"]


@pytest.mark.parametrize(
    "output", ["", "fio: error", '{"jobs": 5}', '{"jobs": [{"read": {"total_ios": "x"}}, 7]}']
)
def test_output_without_a_report_has_no_rows(output: str) -> None:
    assert list_fio_results(output) == ()


@pytest.mark.parametrize("version", ["fio-2.0.10", "fio-2.21", "fio-3.36"])
def test_values_of_real_reports_are_those_of_the_server(version: str) -> None:
    output = (VERSIONS / version / "json.json").read_bytes()
    (document,) = read_output(output).documents
    directions = [one for job in document.jobs for one in job.directions]

    rows = list_fio_results(output.decode())

    assert len(rows) == len(directions)
    for row, direction in zip(rows, directions, strict=True):
        total = direction.total or direction.completion
        assert row.direction == direction.name
        assert row.values["iops"] == pytest.approx(direction.iops, rel=0.01)
        assert row.values["bandwidth_bytes_per_s"] == pytest.approx(direction.bandwidth_bytes_per_s, rel=0.01)
        assert row.values["latency_mean_ns"] == pytest.approx(total.mean_ns)


def test_badge_names_its_workloads_unless_all_have_it() -> None:
    rows = [
        ResultRow(
            "read",
            "read",
            error=0,
            values={"iops": 1.0},
            badges={"too-short": "2 s.", "few-samples": "9 of 10."},
        ),
        ResultRow("write", "write", error=0, values={"iops": 1.0}, badges={"too-short": "2 s."}),
    ]

    assert format_results(rows)[3:] == ["badge too-short: 2 s.", "badge few-samples: 9 of 10. (read)"]
