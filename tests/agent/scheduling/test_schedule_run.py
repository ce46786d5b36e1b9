"""Scheduled runs: splay, log, waiting for the lock, and cleanup after a crash."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from agent.console import LogFile
from agent.measuring.workspace import write_marker
from agent.running.run_command import choose_splay, make_seed
from tests.agent.conftest import Machine, wait_for
from tests.agent.running.test_run_command import TIME
from tests.agent.server import HostileServer
from tests.agent.storage.trees import write_tree


def test_splay_is_the_same_for_a_host_and_a_day() -> None:
    first = choose_splay(600, seed="host 1", day="2026-11-21")

    assert first == choose_splay(600, seed="host 1", day="2026-11-21")
    assert first != choose_splay(600, seed="host 1", day="2026-11-22")
    assert first != choose_splay(600, seed="host 2", day="2026-11-21")


def test_splay_spreads_a_fleet_evenly() -> None:
    """500 hosts are distributed evenly over ten minutes."""
    delays = [choose_splay(600, seed=f"host {number}", day="2026-11-21") for number in range(500)]

    parts = [sum(part <= delay // 60 < part + 1 for delay in delays) for part in range(10)]
    assert (min(delays) >= 0, max(delays) < 600, sum(parts)) == (True, True, 500)
    assert min(parts) >= 30


def test_host_is_known_by_its_machine_id(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"etc/machine-id": "0123abcd\n"})

    assert make_seed("quick", "/data", root=root) == "0123abcd\nquick\n/data"
    assert make_seed("quick", "/data", root=str(tmp_path / "none")) == f"{os.uname().nodename}\nquick\n/data"


def test_run_waits_for_its_splay(
    host: Machine, server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(
        "agent.running.run_command.wait_splay", lambda delay_s, announce: waited.append(delay_s)
    )

    assert host.measure("--splay", "10m").returncode == 0
    assert host.measure("--splay", "10m").returncode == 0

    assert waited[0] == waited[1]
    assert 0 <= waited[0] < 600
    assert len(server.stored) == 2


def start_with_splay(host: Machine) -> subprocess.Popen[str]:
    """Start a run with a splay of days, and return when it waits."""
    log = host.home / "log"
    process = host.start(
        *("run", "--profile", "quick", "--directory", str(host.directory)),
        "--splay",
        "30d",
        "--log",
        str(log),
    )
    wait_for(lambda: log.exists() and "starting in" in log.read_text())
    return process


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signal_ends_the_splay_at_once(
    host: Machine, server: HostileServer, number: int, status: int
) -> None:
    process = start_with_splay(host)

    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)

    assert process.returncode == status
    assert "stopped before the run started: nothing was measured" in stderr
    assert (host.leftovers(), host.pending(), server.seen) == ([], [], [])


def test_lock_is_free_during_the_splay(host: Machine) -> None:
    process = start_with_splay(host)

    assert host.measure().returncode == 0
    process.terminate()
    process.communicate(timeout=60)


def test_run_with_patience_waits_for_the_lock(host: Machine, server: HostileServer) -> None:
    options = ("run", "--profile", "quick", "--directory", str(host.directory))
    first = host.start(*options, FAKE_FIO="hanging")
    wait_for(lambda: list(host.directory.glob("*/bench-agent.test")))
    log = host.home / "log"
    second = host.start(*options, "--patience", "10m", "--log", str(log))
    wait_for(lambda: log.exists() and "waiting" in log.read_text())

    first.terminate()
    first.communicate(timeout=60)
    _, stderr = second.communicate(timeout=60)

    assert (second.returncode, stderr) == (0, "")
    assert len(server.stored) == 1


def test_log_has_a_line_for_each_event(host: Machine) -> None:
    log = host.home / "log"

    ended = host.measure("--log", str(log), "--quiet")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    lines = log.read_text().splitlines()
    assert all(re.fullmatch(rf"{TIME} \S.*", line) for line in lines)
    assert [line[21:60] for line in lines] == [
        f"bench-agent 0.1.0 started, process {os.getpid()}"[:39],
        f"quick in {host.directory}: takes about 18 s"[:39],
        lines[2][21:60],
    ]
    assert "/api/v1/submissions/" in lines[2]


def test_log_marks_errors(host: Machine) -> None:
    log = host.home / "log"
    host.configure("run", log="log")

    host.measure(FAKE_FIO="silent")
    host.measure()

    lines = log.read_text().splitlines()
    assert re.fullmatch(rf"{TIME} ERROR fio failed with status 1: .*", lines[2])
    assert len(lines) == 6


def test_unwritable_log_does_not_end_the_run(host: Machine, server: HostileServer) -> None:
    ended = host.measure("--log", "/nonexistent/log")

    assert ended.returncode == 0
    assert ended.stderr.count("cannot write the log /nonexistent/log") == 1
    assert len(server.stored) == 1


def test_full_log_is_rotated_once(tmp_path: Path) -> None:
    log, last = tmp_path / "log", tmp_path / "log.1"
    last.write_text("the one before")
    log.write_text("x" * (2**20 - 30))

    LogFile(str(log)).write("an event that takes more than what is left")

    assert len(last.read_text()) == 2**20 - 30
    assert log.read_text().endswith("an event that takes more than what is left\n")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["log", "log.1"]


def test_multiline_event_is_one_line(tmp_path: Path) -> None:
    LogFile(str(tmp_path / "log")).write("one\ntwo\r\n\tthree \udcff")

    assert (tmp_path / "log").read_text()[21:] == "one two three \\udcff\n"


def test_files_of_a_crashed_run_are_removed_before_the_next_measurement(
    host: Machine, server: HostileServer
) -> None:
    left = host.directory / ".bench-agent-crashed"
    left.mkdir()
    (left / "bench-agent.test").write_bytes(b"\0" * 4096)
    (host.spool / "running").mkdir(parents=True)
    write_marker(str(host.spool / "running" / "crashed.json"), str(left), inode=left.stat().st_ino)
    log = host.home / "log"

    ended = host.measure("--log", str(log))

    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"removed {left} of a killed run" in log.read_text()
    assert (host.leftovers(), list((host.spool / "running").iterdir())) == ([], [])


def test_killed_run_is_cleaned_up_by_the_next(host: Machine, server: HostileServer) -> None:
    options = ("run", "--profile", "quick", "--directory", str(host.directory))
    process = host.start(*options, FAKE_FIO="hanging")
    wait_for(lambda: list(host.directory.glob("*/bench-agent.test")))
    process.kill()
    process.communicate(timeout=60)
    assert host.leftovers() != []

    ended = host.measure("--json")

    assert json.loads(ended.stdout)["exit_code"] == 0
    assert host.leftovers() == []
