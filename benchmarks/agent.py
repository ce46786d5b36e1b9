"""What the agent costs the host that it measures: start-up, memory, its own CPU while fio runs.

    python -m benchmarks.agent

The one-file agent as it is downloaded, beside an interpreter that does nothing. Commands that measure nothing are
started in a spool with a finished and an unfinished experiment and sweep. The run, and the four runs of the
experiment, are the shipped profile `quick` with fio at work in a temporary directory; the agent's CPU is its process
alone, without fio.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agent.job_state import ExperimentState, StateDirectory, SweepState
from benchapp.storage.agent_archive import build_agent_archive
from tests.agent.conftest import CRONTAB
from tests.agent.server import TOKEN, HostileServer

ROOT: Final = Path(__file__).parent.parent
STARTS: Final = 15


@dataclass(frozen=True)
class StartedCommand:
    """A command that is started many times. prepare: called before each start with its number."""

    title: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    prepare: Callable[[int], object]


@dataclass(frozen=True)
class Cost:
    """What one start costs; cpu_s: with its children."""

    elapsed_s: float
    cpu_s: float


def main() -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory(prefix="bb-") as name:
        place = Path(name)
        program = _build(place / "bench-agent.pyz")
        print(f"{'':52}{'measured':>12}{'aim':>10}")
        _measure_starts(program, place)
        _measure_run(program, place)
        _measure_experiment(program, place)


def _build(program: Path) -> Path:
    program.write_bytes(build_agent_archive(ROOT / "agent"))
    return program


def _measure_starts(program: Path, place: Path) -> None:
    """Print what commands cost that measure nothing; in turns, so that the load of the machine is that of all."""
    spool, left, directory = place / "states", place / "left", place / "disk"
    directory.mkdir()
    _leave_jobs(left)
    python = (sys.executable,)
    agent = (*python, str(program))
    experiment = ("experiment", "--pairs", "10", "--profile", "quick", "--directory", str(directory))
    switch = ("--switch-command", "true")
    with _serve_schedules(program, place) as adoption:
        commands = [
            StartedCommand(title, argv, _environment(spool), lambda number: _copy(left, spool))
            for title, argv in (
                ("an interpreter that does nothing", (*python, "-c", "pass")),
                ("bench-agent version, from the one file", (*agent, "version")),
                ("bench-agent status", (*agent, "status")),
                ("bench-agent experiment --dry-run", (*agent, *experiment, *switch, "--dry-run")),
                ("bench-agent experiment --abandon", (*agent, "experiment", "--abandon", "last")),
                ("bench-agent sweep --abandon", (*agent, "sweep", "--abandon", "last")),
            )
        ]
        commands.append(adoption)
        costs: dict[str, list[Cost]] = {command.title: [] for command in commands}
        for number in range(STARTS):
            for command in commands:
                command.prepare(number)
                costs[command.title].append(_time(command))
        for command in commands:
            command.prepare(STARTS)
            memory_kib = _watch(command.argv, command.environment, pause_s=0.001).peak_kib
            _print_start(command.title, costs[command.title], memory_kib=memory_kib)


def _leave_jobs(spool: Path) -> None:
    """Leave an experiment and a sweep of which half is done."""
    for kind, members in (
        (ExperimentState, {"arm": "a", "switching": None}),
        (SweepState, {"sizes": {}, "approved_contents": {}, "round": None}),
    ):
        steps = [{"label": f"size={number}m", "arm": "ab"[number % 2]} for number in range(20)]
        state = StateDirectory(kind, str(spool)).create("left", request={}, steps=steps, **members)
        for number in range(1, 11):
            state.begin_step(number, str(uuid.uuid4()))
            state.end_step(number, failure=None, is_spooled=True)


def _copy(left: Path, spool: Path) -> None:
    shutil.rmtree(spool, ignore_errors=True)
    shutil.copytree(left, spool)


@contextmanager
def _serve_schedules(program: Path, place: Path) -> Iterator[StartedCommand]:
    """Yield a poll that adopts another schedule at each start, in a crontab that is a file."""
    home = place / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "crontab").write_text(CRONTAB)
    (home / "bin" / "crontab").chmod(0o755)
    config = home / "agent.ini"
    config.write_text(f"[schedule]\nfrom_server = yes\nallow = quick\ndirectories = {home}\nper_day = 288\n")
    with HostileServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        environment = {
            **_environment(place / "adopting"),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "BENCH_AGENT_CONFIG": str(config),
            "BENCH_AGENT_URL": server.url,
            "BENCH_AGENT_TOKEN": TOKEN,
        }

        def want(number: int) -> None:
            line = {"profile": "quick", "parameters": {}, "directory": str(home)}
            server.want({**line, "every_s": 3600, "at_minute": number}, version=f"{number:x}")

        command = (sys.executable, str(program))
        install = (*command, "schedule", "install", "--poll", "--cron")
        subprocess.run(install, env=environment, check=True, capture_output=True)
        yield StartedCommand(
            "bench-agent poll, which adopts a schedule", (*command, "poll"), environment, want
        )
        server.shutdown()
        if len({report["version"] for report in server.adoptions}) < STARTS:
            raise SystemExit("the schedules were not adopted")


def _time(command: StartedCommand) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen(
        command.argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=command.environment,
    )
    _, status, usage = os.wait4(process.pid, 0)
    elapsed_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command.argv)} ended with status {process.returncode}")
    return Cost(elapsed_s, usage.ru_utime + usage.ru_stime)


def _print_start(title: str, costs: Sequence[Cost], *, memory_kib: int) -> None:
    aims = ("150 ms", "40 MiB") if title.startswith("bench-agent") else ("", "")
    _print(title, f"{statistics.median(cost.elapsed_s for cost in costs) * 1000:.0f} ms", aims[0])
    _print("  least", f"{min(cost.elapsed_s for cost in costs) * 1000:.0f} ms", "")
    _print("  CPU, with its children", f"{statistics.median(cost.cpu_s for cost in costs) * 1000:.0f} ms", "")
    _print("  most memory", f"{memory_kib / 1024:.1f} MiB", aims[1])


@dataclass(frozen=True)
class Watched:
    """A command that ran. during: time and its own CPU seconds, while it had a child."""

    elapsed_s: float
    peak_kib: int
    own_s: float
    during: Sequence[tuple[float, float]]


def _watch(argv: Sequence[str], environment: Mapping[str, str], *, pause_s: float = 0.1) -> Watched:
    started = time.perf_counter()
    process = subprocess.Popen(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak_kib, own_s = 0, 0.0
    during: list[tuple[float, float]] = []
    while process.poll() is None:
        status = _read_status(process.pid)
        if status:
            peak_kib, own_s = max(peak_kib, status[0]), status[1]
            if _has_child(process.pid):
                during.append((time.perf_counter(), own_s))
        time.sleep(pause_s)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with status {process.returncode}")
    return Watched(time.perf_counter() - started, peak_kib, own_s, during)


def _measure_run(program: Path, place: Path) -> None:
    command = [sys.executable, str(program), "run", "--profile", "quick", "--directory", str(place)]
    watched = _watch([*command, "--set", "size=16m", "--no-send", "--quiet"], _environment(place / "spool"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    _print("run of the profile quick", f"{watched.elapsed_s:.1f} s", "")
    _print("  most memory of the agent", f"{watched.peak_kib / 1024:.1f} MiB", "40 MiB")
    (first_at, before_s), (last_at, after_s) = watched.during[0], watched.during[-1]
    share = (after_s - before_s) / (last_at - first_at)
    _print(f"  its own CPU in the {last_at - first_at:.0f} s while fio ran", f"{share:.2%}", "1 %")
    _print("  its own CPU, start and end included", f"{watched.own_s:.2f} s", "")
    _print("  CPU of all that was started here", f"{children.ru_utime + children.ru_stime:.1f} s", "")


def _measure_experiment(program: Path, place: Path) -> None:
    command = [sys.executable, str(program), "experiment", "--pairs", "2", "--profile", "quick"]
    command += ["--directory", str(place), "--switch-command", "true", "--set", "size=16m"]
    watched = _watch([*command, "--set", "runtime=1", "--no-send", "--quiet"], _environment(place / "spool"))
    _print("experiment of four runs", f"{watched.elapsed_s:.1f} s", "")
    _print("  most memory of the agent", f"{watched.peak_kib / 1024:.1f} MiB", "40 MiB")
    _print("  its own CPU", f"{watched.own_s:.2f} s", "")


def _read_status(pid: int) -> tuple[int, float] | None:
    """Return the resident set in KiB and the CPU seconds of one process, its children left out."""
    try:
        memory = Path(f"/proc/{pid}/status").read_text()
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    resident = next((line.split()[1] for line in memory.splitlines() if line.startswith("VmHWM")), "0")
    return int(resident), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _has_child(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())
    except OSError:
        return False


def _environment(spool: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_AGENT_")}
    return {**kept, "BENCH_AGENT_SPOOL": str(spool)}


def _print(what: str, value: str, aim: str) -> None:
    print(f"{what:52}{value:>12}{aim:>10}", flush=True)


if __name__ == "__main__":
    main()
