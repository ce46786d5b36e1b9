"""Fixtures of the agent's tests: a machine for each test, with a scripted server and fio."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from agent.commands.cli import main
from agent.scheduling.schedule_command import Machine as Schedules
from tests.agent.server import TOKEN, HostileServer

ROOT = Path(__file__).parents[2]
T = TypeVar("T")
S = TypeVar("S", bound=ThreadingHTTPServer)

FAKE_FIO = """#!/bin/sh
# Replaces fio; FAKE_FIO selects its behavior.
case "$1" in
  --version) echo fio-3.99; exit 0 ;;
  --enghelp) printf 'Available IO engines:\\n\\tpsync\\n%s\\n' "${FAKE_FIO_ENGINE-\tlibaio}"; exit 0 ;;
esac
touch bench-agent.test
for jobfile; do :; done
jobs="$(sed -n '/^.global./d; s/^.\\(.*\\)]$/{"jobname": "\\1", "error": 0}/p' "$jobfile" 2>/dev/null | paste -sd, -)"
report='{"fio version": "fio-3.99", "jobs": ['"$jobs]}"
case "$FAKE_FIO" in
  failing) echo "fio: ENOSPC on laying out file" >&2; echo "$report"; exit 2 ;;
  silent) echo "fio: engine libaio not loadable" >&2; exit 1 ;;
  mute) exit 0 ;;
  hanging) trap 'echo "fio: terminating on signal 2"; echo "$report"; exit 128' INT
    touch ready
    while :; do sleep 0.05; done ;;
  stubborn) trap '' INT TERM; touch ready; while :; do sleep 0.05; done ;;
  reporting) cat "$FAKE_FIO_OUTPUT" ;;
  *) echo "$report" ;;
esac
"""

CRONTAB = """#!/bin/sh
# Replaces crontab: stores the table in a file.
[ "$1" = -u ] && { name="crontab-of-$2"; shift 2; }
table="$(dirname "$0")/${name:-crontab-of-me}"
case "$1" in
  -l) [ -f "$table.txt" ] || { echo "no crontab for root" >&2; exit 1; }
    cat "$table.txt" ;;
  -) cat > "$table.txt" ;;
esac
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The agent has one thread when it starts a program; a test has the server's, too, and Python 3.12 warns."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"))


def wait_for(find: Callable[[], T]) -> T:
    """Return what a function returns as soon as that is true."""
    deadline = time.monotonic() + 60
    while not (found := find()):
        assert time.monotonic() < deadline, find
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def serve(server: S) -> Iterator[S]:
    """Answer requests in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def open_directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Terminal(io.StringIO):
    """Standard input or standard error of a person."""

    def isatty(self) -> bool:
        return True


@dataclass
class Machine:
    """A host: home, spool, a directory to measure, and the agent as cron starts it."""

    home: Path
    environ: dict[str, str]
    directory: Path = field(init=False)
    spool: Path = field(init=False)

    def __post_init__(self) -> None:
        self.directory = self.home / "disk"
        self.directory.mkdir()
        self.spool = self.home / "spool"

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "agent", *arguments],
            cwd=ROOT,
            env={**self.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # The tests themselves may run under nohup, which every child would inherit.
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )

    def run(
        self, *arguments: str, stdin: Any = "", is_terminal: bool = False, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in this process, which saves the imports; `start` runs it as a process."""
        stdout, stderr = io.StringIO(), Terminal() if is_terminal else io.StringIO()
        with (
            mock.patch.dict(os.environ, {**self.environ, **environ}, clear=True),
            mock.patch("sys.stdin", io.StringIO(stdin) if isinstance(stdin, str) else stdin),
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            status = main(arguments)
        return subprocess.CompletedProcess(arguments, status, stdout.getvalue(), stderr.getvalue())

    def run_json(self, *arguments: str, **environ: str) -> dict[str, Any]:
        return json.loads(self.run(*arguments, "--json", **environ).stdout)

    def configure(self, section: str, **settings: str) -> None:
        """Set keys of a section of the configuration."""
        path = Path(self.environ["BENCH_AGENT_CONFIG"])
        text, heading = path.read_text(), f"[{section}]\n"
        lines = heading + "".join(f"{name} = {value}\n" for name, value in settings.items())
        path.write_text(text.replace(heading, lines) if heading in text else text + lines)

    def install(
        self, *options: str, kind: str = "--cron", every: str = "6h"
    ) -> subprocess.CompletedProcess[str]:
        """Schedule the profile quick."""
        return self.run(
            *("schedule", "install", kind, "--every", every, "--profile", "quick"),
            *("--directory", str(self.directory), *options),
        )

    def measure(
        self, *arguments: str, is_terminal: bool = False, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return self.run(
            *("run", "--profile", "quick", "--directory", str(self.directory), *arguments),
            is_terminal=is_terminal,
            **environ,
        )

    def pending(self) -> list[Path]:
        return sorted((self.spool / "pending").glob("2*.json.gz"))

    def rejected(self) -> list[Path]:
        return sorted((self.spool / "rejected").glob("2*.json.gz"))

    def leftovers(self) -> list[Path]:
        return sorted(self.directory.iterdir())


@pytest.fixture(autouse=True)
def hide_own_schedules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Schedules:
    """Hide this machine's schedules from every test, and skip the observation of its disks."""
    schedules = Schedules(str(tmp_path / "root"), is_root=True, environ={"PATH": str(tmp_path / "bin")})
    monkeypatch.setattr("agent.scheduling.schedule_command.find_machine", lambda: schedules)
    monkeypatch.setattr("agent.requests.adopt_schedule.find_machine", lambda: schedules)
    monkeypatch.setattr("agent.measuring.load.OBSERVATION_S", 0.005)
    return schedules


@pytest.fixture
def table(hide_own_schedules: Schedules, tmp_path: Path) -> Path:
    """A machine with a running cron; the file is its crontab."""
    command = tmp_path / "bin" / "crontab"
    command.parent.mkdir()
    command.write_text(CRONTAB)
    command.chmod(0o755)
    cron = Path(hide_own_schedules.root) / "proc" / "77"
    cron.mkdir(parents=True)
    (cron.parent / "1").mkdir()
    (cron / "comm").write_text("cron\n")
    return command.parent / "crontab-of-me.txt"


@pytest.fixture
def server() -> Iterator[HostileServer]:
    with serve(HostileServer()) as hostile:
        yield hostile


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without a configured server."""
    fio = tmp_path / "fio"
    fio.write_text(FAKE_FIO)
    fio.chmod(0o755)
    config = tmp_path / "agent.ini"
    config.write_text(f"# mine\n[run]\nfio = {fio}\n[labels]\nRack = r1\n")
    environ = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    environ.update(
        HOME=str(tmp_path), BENCH_AGENT_CONFIG=str(config), BENCH_AGENT_SPOOL=str(tmp_path / "spool")
    )
    return Machine(tmp_path, environ)


@pytest.fixture
def host(machine: Machine, server: HostileServer) -> Machine:
    """A machine that is enrolled at the server."""
    machine.environ.update(BENCH_AGENT_URL=server.url, BENCH_AGENT_TOKEN=TOKEN)
    return machine
