"""Find fio, run it, stop it, and remove its files."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.exit_codes import CannotMeasure
from agent.measuring import fio as module
from agent.measuring.fio import FioResult, StopSignals, build_argv, choose_engine, find_fio, run_fio
from agent.measuring.workspace import Workspace, check_free_space, clean_leftovers
from tests.agent.conftest import Machine, open_directory, wait_for

RUN_ID = "6f1c2a9e-0000-4000-8000-000000000001"


def run_fake(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, behavior: str, **options: object
) -> FioResult:
    monkeypatch.setenv("FAKE_FIO", behavior)
    found = find_fio(str(machine.home / "fio"))
    with StopSignals() as stop, open_directory(machine.directory) as directory:
        return run_fio(
            build_argv(found, "x.fio"),
            directory=directory,
            scratch_directory=str(machine.home),
            stop=stop,
            **{"time_limit_s": 60.0, "tick": lambda: None, **options},  # type: ignore[arg-type]
        )


def wait_for_traps(machine: Machine) -> Callable[[], None]:
    """Return a function that waits until the fake fio has set its traps."""

    def wait() -> None:
        while not (machine.directory / "ready").exists():
            time.sleep(0.005)

    return wait


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_fio_is_found_with_version_and_engines(machine: Machine) -> None:
    found = find_fio(str(machine.home / "fio"))

    assert (found.version, found.engines) == ("fio-3.99", {"psync", "libaio"})
    assert choose_engine(found) == "libaio"


def test_missing_engine_falls_back_to_psync(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_FIO_ENGINE", "")

    assert choose_engine(find_fio(str(machine.home / "fio"))) == "psync"


def test_missing_fio_names_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("agent.programs.DIRECTORIES", ())

    with pytest.raises(CannotMeasure, match="fio is not installed; run apt install fio"):
        find_fio()


def test_standard_output_and_error_are_separate(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_fake(machine, monkeypatch, "failing")

    assert result.has_report
    assert result.failure == "failed with status 2"
    assert (result.exit_status, result.signal) == (2, None)
    assert result.stderr == "fio: ENOSPC on laying out file\n"


def test_token_is_not_in_the_environment_of_fio(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.home / "fio").write_text("#!/bin/sh\nenv\n")
    monkeypatch.setenv("BENCH_AGENT_TOKEN", "bench_secret")

    assert "bench_secret" not in run_fake(machine, monkeypatch, "").stdout


def test_fio_above_the_time_limit_is_interrupted_and_its_report_is_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_fake(machine, monkeypatch, "hanging", time_limit_s=0.3, tick=wait_for_traps(machine))

    assert result.stopped_because == "stopped after the time limit of 0 s"
    assert (result.exit_status, result.has_report) == (128, True)
    assert result.stderr.endswith("bench-agent: stopped after the time limit of 0 s\n")


def test_fio_that_ignores_signals_is_killed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = ((signal.SIGINT, 0.1), (signal.SIGTERM, 0.1), (signal.SIGKILL, 5.0))
    monkeypatch.setattr(module, "_STOP_STEPS", steps)

    result = run_fake(machine, monkeypatch, "stubborn", time_limit_s=0.2, tick=wait_for_traps(machine))

    assert (result.exit_status, result.signal) == (None, signal.SIGKILL)


def test_second_signal_shortens_the_wait(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C, three times."""
    steps = ((signal.SIGINT, 300.0), (signal.SIGTERM, 300.0), (signal.SIGKILL, 60.0))
    monkeypatch.setattr(module, "_STOP_STEPS", steps)
    started_at = time.monotonic()
    script = "import os, signal, sys, time\nwhile True:\n  time.sleep(0.3)\n  os.kill(int(sys.argv[1]), signal.SIGINT)"
    before = signal.signal(signal.SIGINT, lambda *_: None)
    with subprocess.Popen([sys.executable, "-c", script, str(os.getpid())]) as impatient:
        result = run_fake(machine, monkeypatch, "stubborn", tick=wait_for_traps(machine))
        impatient.kill()
    signal.signal(signal.SIGINT, before)

    assert result.stopped_because == "stopped by SIGINT"
    assert time.monotonic() - started_at < 120


def test_workspace_is_removed_with_its_contents(machine: Machine) -> None:
    with Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID) as workspace:
        Path(workspace.directory, "bench.test").write_text("x")
        Path(workspace.directory, "deeper").mkdir()
        assert workspace.has_direct_io() in (True, False)

    assert machine.leftovers() == []
    assert list((machine.spool / "running").iterdir()) == []


def test_workspace_is_removed_after_an_exception(machine: Machine) -> None:
    with pytest.raises(RuntimeError), Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID):
        raise RuntimeError

    assert machine.leftovers() == []


def test_workspace_of_a_killed_run_is_removed_once(machine: Machine) -> None:
    workspace = Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID)
    workspace.__enter__()
    workspace.write_file("bench.test", "x")

    assert clean_leftovers(str(machine.spool)) == [f"removed {workspace.directory} of a killed run"]
    assert machine.leftovers() == []
    assert clean_leftovers(str(machine.spool)) == []


def test_marker_of_an_unmounted_disk_is_not_removed(machine: Machine) -> None:
    workspace = Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID)
    workspace.__enter__()
    machine.directory.rename(machine.home / "unmounted")

    # A clock that is wrong by years is no reason either.
    os.utime(machine.spool / "running" / f"{RUN_ID}.json", (0, 0))
    assert clean_leftovers(str(machine.spool)) == []

    (machine.home / "unmounted").rename(machine.directory)
    assert clean_leftovers(str(machine.spool)) == [f"removed {workspace.directory} of a killed run"]


@pytest.mark.parametrize("text", ["", "{", '{"directory": "/etc"}', '{"directory": 5}', "[]"])
def test_marker_with_another_directory_removes_nothing(machine: Machine, text: str) -> None:
    markers = machine.spool / "running"
    markers.mkdir(parents=True)
    (markers / "x.json").write_text(text)

    assert clean_leftovers(str(machine.spool)) == []
    assert list(markers.iterdir()) == []


def test_link_instead_of_a_workspace_is_not_followed(machine: Machine) -> None:
    precious = machine.home / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    workspace = Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID)
    workspace.__enter__()
    Path(workspace.directory).rmdir()
    Path(workspace.directory).symlink_to(precious)

    (note,) = clean_leftovers(str(machine.spool))

    assert note == f"cannot remove {workspace.directory} of a killed run: Not a directory"
    assert (precious / "file").exists()


def test_missing_support_for_direct_io_is_detected(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels before 6.6 refuse it on tmpfs; newer ones have no common filesystem that does."""
    real_open = os.open

    def refuse(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if flags & os.O_DIRECT:
            raise OSError(22, "Invalid argument")
        return real_open(path, flags, mode, dir_fd=dir_fd)

    with Workspace(str(machine.directory), str(machine.spool), run_id=RUN_ID) as workspace:
        monkeypatch.setattr(os, "open", refuse)
        assert not workspace.has_direct_io()
        monkeypatch.undo()


def test_reserve_remains_free(machine: Machine) -> None:
    check_free_space(str(machine.directory), 4096, reserve_bytes=0)

    with pytest.raises(CannotMeasure, match="must remain free; nothing was written"):
        check_free_space(str(machine.directory), 2**60, reserve_bytes=None)
    with pytest.raises(CannotMeasure, match="and 4 GiB must remain free"):
        free = os.statvfs(machine.directory).f_bavail * os.statvfs(machine.directory).f_frsize
        check_free_space(str(machine.directory), free - 2**31, reserve_bytes=2**32)


def test_fio_ends_when_its_agent_is_killed(machine: Machine) -> None:
    process = machine.start(
        "run", "--profile", "quick", "--directory", str(machine.directory), "--no-send", FAKE_FIO="hanging"
    )
    children = wait_for_children(process.pid)

    process.kill()
    process.wait()

    wait_for(lambda: not any(map(is_alive, children)))
    assert len(machine.leftovers()) == 1
    close(process)
    machine.measure("--no-send")
    assert machine.leftovers() == []


def wait_for_children(pid: int) -> list[int]:
    """Return the children of a process after fio has created its file."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    return wait_for(
        lambda: [
            int(child)
            for child in children.read_text().split()
            if Path(f"/proc/{child}/cwd/bench-agent.test").exists()
        ]
    )


def close(process: subprocess.Popen[str]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()
