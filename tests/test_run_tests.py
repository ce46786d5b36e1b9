"""tools/run-tests: what fails beside others and passes alone is named; what fails again, or too often, fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stack import ROOT

SHY = """
from pathlib import Path

def test_shy():
    note = Path("seen")
    was_there = note.exists()
    note.touch()
    assert was_there

def test_bold():
    pass
"""
BROKEN = "def test_broken():\n    assert False\n\ndef test_bold():\n    pass\n"
MANY = "import pytest\n\n@pytest.mark.parametrize('number', range(11))\ndef test_broken(number):\n    assert False\n"


def run_tests(place: Path, text: str) -> subprocess.CompletedProcess[str]:
    (place / "test_it.py").write_text(text)
    (place / "pytest.ini").write_text("[pytest]\n")
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "DJANGO"))}
    ours = {
        "PYTHON": sys.executable,
        "PYTHONPATH": f"{ROOT}:{os.environ['PYTHONPATH']}",
        "PYTEST_WORKERS": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_PLUGINS": "xdist.plugin",
    }
    return subprocess.run(
        [ROOT / "tools" / "run-tests"],
        cwd=place,
        env=known | ours,
        capture_output=True,
        text=True,
        check=False,
    )


def test_test_that_passes_alone_passes_and_is_named(tmp_path: Path) -> None:
    done = run_tests(tmp_path, SHY)

    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert "1 failed, 1 passed" in done.stdout
    title = next(place for place, line in enumerate(said) if " passed only when run alone " in line)
    assert "test_it.py::test_shy" in said[title:]
    assert " 1 passed" in said[-1]


@pytest.mark.parametrize(("text", "tries"), [(BROKEN, 2), (MANY, 1)], ids=["again", "too many"])
def test_what_fails_again_or_too_often_fails(tmp_path: Path, text: str, tries: int) -> None:
    done = run_tests(tmp_path, text)

    assert done.returncode == 1
    assert done.stdout.count("short test summary info") == tries
    assert "passed only when run alone" not in done.stdout


def test_run_without_tests_fails(tmp_path: Path) -> None:
    assert run_tests(tmp_path, "").returncode == 5
