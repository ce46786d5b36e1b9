"""The agent runs on Python 3.8 and later, without installed packages."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "agent").rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_file_is_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(), str(path), feature_version=(3, 8))


def find_python38() -> str | None:
    candidates = [shutil.which("python3.8"), *map(str, Path.home().glob(".pyenv/versions/3.8.*/bin/python3"))]
    for candidate in candidates:
        # A shim of a version manager is on PATH even if that version is not selected.
        if candidate and subprocess.run([candidate, "-V"], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


@pytest.mark.parametrize(
    "arguments", [["--help"], ["profiles"], ["version"], ["status"]], ids=lambda each: each[0]
)
def test_command_runs_on_python_3_8(arguments: list[str], tmp_path: Path) -> None:
    python = find_python38()
    if python is None:
        pytest.skip("there is no python3.8 on this machine")

    ended = subprocess.run(
        [python, "-m", "agent", *arguments],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "BENCH_AGENT_SPOOL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("command", ["version", "profiles", "status"])
def test_fast_command_imports_no_slow_module(command: str, tmp_path: Path) -> None:
    """ssl, urllib.request and subprocess take two thirds of the start-up time."""
    script = (
        "import sys\nfrom agent.commands.cli import main\n"
        f"status = main([{command!r}, '--quiet'])\n"
        "print(status, sorted({'ssl', 'urllib.request', 'subprocess', 'email', 'http.client'} & set(sys.modules)))"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "HOME": str(tmp_path), "BENCH_AGENT_SPOOL": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.stdout == "0 []\n"


def test_help_lists_every_exit_code() -> None:
    from agent.exit_codes import ExitCode

    ended = subprocess.run(
        [sys.executable, "-m", "agent", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert all(f"\n  {code.value}  " in ended.stdout for code in ExitCode)


def test_token_cannot_be_given_on_the_command_line() -> None:
    """Every user who may run ps could read it."""
    for command in ("enroll", "run", "flush", "check"):
        ended = subprocess.run(
            [sys.executable, "-m", "agent", command, "--help"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )

        assert "--token " not in ended.stdout
