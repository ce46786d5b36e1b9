"""python -m benchapp.fio reads files from the command line, without Django."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchapp.fio.__main__ import main
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


def test_unreadable_file_is_named_with_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    status = main([EMPTY, "/nowhere/file", GOOD])

    output, errors = capfd.readouterr()
    assert status == 1
    assert len(output.splitlines()) == 1
    assert errors.splitlines() == [
        f"{EMPTY}: no format of fio: empty-output: no fio report found: the output is empty; was fio killed?",
        "/nowhere/file: No such file or directory",
    ]


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

    assert json.loads(done.stdout)["parser_version"] == 4
