"""Unresponsive storage: its processes cannot be killed, and access to it blocks."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.exit_codes import StorageHangs
from agent.measuring.fio import StopSignals, kill_orphans, list_orphans, run_fio
from agent.measuring.workspace import Workspace, clean_leftovers
from tests.agent.conftest import Machine, open_directory


def test_other_processes_are_not_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=tmp_path) as other:
        kill_orphans(str(tmp_path))

        assert other.poll() is None


def test_process_that_survives_sigkill_is_reported_as_unresponsive_storage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.measuring.fio.list_orphans", lambda directory: (2**30,))
    monkeypatch.setattr("agent.measuring.fio.DEATH_S", 0.0)

    with pytest.raises(StorageHangs, match=f"process {2**30} does not end after SIGKILL"):
        kill_orphans("/data")


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
def test_jobs_of_a_killed_fio_are_killed(tmp_path: Path) -> None:
    jobs = ("--name=a", "--rw=write", "--size=1m", "--time_based", "--runtime=60", "--rate=64k")

    def kill_main() -> None:
        workers = list_orphans(str(tmp_path))
        if len(workers) > 1 and (tmp_path / "a.0.0").exists():
            os.kill(min(workers), signal.SIGKILL)
            time.sleep(0.01)

    with StopSignals() as stop, open_directory(tmp_path) as directory:
        result = run_fio(
            (str(shutil.which("fio")), *jobs),
            directory=directory,
            scratch_directory=str(tmp_path),
            time_limit_s=30.0,
            stop=stop,
            tick=kill_main,
        )

    assert (result.signal, list_orphans(str(tmp_path))) == (signal.SIGKILL, ())


@pytest.mark.fio
@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed; run apt install fio")
def test_jobs_are_killed_if_the_agent_fails(tmp_path: Path) -> None:
    def break_pipe() -> None:
        if (tmp_path / "a.0.0").exists():
            raise BrokenPipeError

    with StopSignals() as stop, open_directory(tmp_path) as directory, pytest.raises(BrokenPipeError):
        run_fio(
            (str(shutil.which("fio")), "--name=a", "--rw=write", "--size=1m", "--time_based", "--runtime=60"),
            directory=directory,
            scratch_directory=str(tmp_path),
            time_limit_s=30.0,
            stop=stop,
            tick=break_pipe,
        )

    assert list_orphans(str(tmp_path)) == ()


def test_run_on_unresponsive_storage_ends_without_cleanup(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.measuring.fio.list_orphans", lambda directory: (2**30,))
    monkeypatch.setattr("agent.measuring.fio.DEATH_S", 0.0)

    ended = machine.measure("--no-send", "--time-limit", "1", FAKE_FIO="hanging")

    assert ended.returncode == 5
    assert "does not end after SIGKILL" in ended.stderr
    (left,) = machine.leftovers()
    with pytest.raises(StorageHangs):
        clean_leftovers(str(machine.spool))
    assert left.exists()
    monkeypatch.undo()
    assert clean_leftovers(str(machine.spool)) == [f"removed {left} of a killed run"]
    assert machine.leftovers() == []


def test_workspace_on_unresponsive_storage_is_not_accessed(machine: Machine) -> None:
    with pytest.raises(StorageHangs), Workspace(str(machine.directory), str(machine.spool), run_id="a"):
        raise StorageHangs("process 77")

    assert [path.name for path in machine.leftovers()] == [".bench-agent-a"]
