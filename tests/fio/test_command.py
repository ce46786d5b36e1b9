"""python -m benchapp.fio reads files from the command line, without Django."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchapp.fio.__main__ import main
from benchapp.fio.output import PARSER_VERSION
from tests.fio.outputs import OUTPUTS

GOOD = str(OUTPUTS / "generated" / "08_jsonplus.out")
EMPTY = str(OUTPUTS / "generated" / "B2_killed_json.out")


def test_each_file_becomes_one_line_of_json(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    status = main([GOOD, GOOD])

    output, errors = capfdbinary.readouterr()
    reports = [json.loads(line) for line in output.splitlines()]
    assert (status, errors, len(reports)) == (0, b"", 2)
    assert reports[0]["documents"][0]["groups"][0]["directions"][0]["iops"] == 25481.75912
    assert reports[0]["documents"][0]["finished_at"].endswith("Z")


def test_unreadable_file_is_listed_with_a_reason(capfd: pytest.CaptureFixture[str]) -> None:
    status = main([EMPTY, "/nowhere/file", GOOD])

    output, errors = capfd.readouterr()
    assert status == 1
    assert len(output.splitlines()) == 1
    assert errors.splitlines() == [
        f"{EMPTY}: unknown format: empty-output: no fio report found: the output is empty; was fio killed?",
        "/nowhere/file: No such file or directory",
    ]


def test_logs_are_read_after_the_outputs_with_the_unit_of_their_version(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("a_lat.1.log", "500, 7, 0, 4096\n"), ("a_bw.2.log", "500, 2, 1, 0\n1000, 3, 1, 0\n")):
        (tmp_path / name).write_text(text)
    old = str(OUTPUTS / "versions" / "fio-2.16" / "json.json")
    latencies, rates = str(tmp_path / "a_lat.1.log"), str(tmp_path / "a_bw.2.log")

    status = main([latencies, rates, old])

    report, *logs = map(json.loads, capfd.readouterr().out.splitlines())
    assert (status, report["documents"][0]["fio_version"]) == (0, "fio-2.16")
    assert [(log["log"], log["kind"], log["job"], log["is_windowed"]) for log in logs] == [
        (latencies, "lat", 1, False),
        (rates, "bw", 2, True),
    ]
    assert logs[0]["directions"]["read"] == {
        "at_s": [0.5],
        "values": [7000.0],
        "block_bytes": [4096],
        "maximums": [],
    }
    assert logs[1]["directions"]["write"]["values"] == [2048.0, 3072.0]


@pytest.mark.parametrize("outputs", [[], [GOOD, str(OUTPUTS / "versions" / "fio-2.16" / "json.json")]])
def test_latency_logs_without_a_single_version_are_skipped_with_a_reason(
    outputs: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_clat.1.log").write_text("500, 7, 0, 4096\n")
    (tmp_path / "a_iops.1.log").write_text("soon\n")

    status = main([*outputs, str(tmp_path / "a_clat.1.log"), str(tmp_path / "a_iops.1.log")])

    printed, errors = capfd.readouterr()
    assert (status, len(printed.splitlines())) == (1, len(outputs))
    assert ["log-unit-unknown" in errors, "unreadable-log" in errors] == [True, True]


def test_command_reads_standard_input_and_loads_no_django() -> None:
    program = (
        "import sys; from benchapp.fio.__main__ import main; main([]); sys.exit('django' in sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=Path(GOOD).read_bytes(),
        capture_output=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
    )

    assert json.loads(done.stdout)["parser_version"] == PARSER_VERSION
