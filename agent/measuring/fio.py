"""Find fio, run it in a process group of its own, and end it gently."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import IO, Any, Callable, Sequence

from agent.exit_codes import CannotMeasure
from agent.measuring.orphans import end_workers, find_path

# cron's PATH is /usr/bin:/bin.
_EXTRA_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/opt/fio/bin"
_POLL_INTERVAL_S = 0.2
# fio answers SIGINT with a report of what it has; its jobs may wait for I/O in flight.
_STOP_STEPS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# json+ of the largest shipped profile is below 1 MiB; the server takes 32 MiB.
_OUTPUT_MAXIMUM = 32 * 2**20
_STDERR_MAXIMUM = 64 * 1024
_PROBE_TIMEOUT_S = 20
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Fio:
    """The fio of this machine; version as it prints it: "fio-3.33"."""

    path: str
    version: str
    engines: frozenset[str]


@dataclass(frozen=True)
class FioResult:
    """What one execution of fio left. exit_status is None if a signal ended it, signal is None if none did.

    stopped_because: why the agent ended it, None where it ended by itself. started_at, finished_at: seconds since
    the epoch by this host's clock.
    """

    argv: tuple[str, ...]
    exit_status: int | None
    signal: int | None
    stdout: str
    stderr: str
    started_at: float
    finished_at: float
    stopped_because: str | None

    @property
    def is_success(self) -> bool:
        return self.exit_status == 0 and self.stopped_because is None

    @property
    def has_report(self) -> bool:
        """Say whether there is something to store: fio prints its complaints on standard output as well."""
        return '"fio version"' in self.stdout


class StopSignals:
    """Notes SIGINT, SIGTERM and SIGHUP instead of dying of them, so that what is in hand can be put away."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.count = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # as nohup left it
                self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.count += 1


def find_fio(path: str | None = None) -> Fio:
    """Return the fio on PATH, or the named one; CannotMeasure says how to get it."""
    found = shutil.which(path or "fio", path=os.environ.get("PATH", "") + ":" + _EXTRA_PATH)
    if found is None:
        raise CannotMeasure(
            f"{path} cannot be executed"
            if path
            else "fio is not installed: apt install fio, or dnf install fio"
        )
    version = _ask(found, "--version").strip()
    # The list's first line is a title.
    engines = frozenset(line.strip() for line in _ask(found, "--enghelp").splitlines()[1:])
    return Fio(found, version, engines)


def prefer_engine(platform: str = sys.platform) -> str:
    """Return the engine that keeps a queue full on a system."""
    if platform in ("win32", "cygwin"):
        return "windowsaio"
    return "libaio" if platform.startswith("linux") else "posixaio"


def choose_engine(fio: Fio, *, platform: str = sys.platform) -> str:
    """Return the system's own asynchronous engine where fio has it, else psync, which every fio has."""
    preferred = prefer_engine(platform)
    return preferred if preferred in fio.engines else "psync"


def build_argv(fio: Fio, jobfile: str, *, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command; json+ keeps the latency histograms, which percentiles over jobs are made of."""
    return (fio.path, "--output-format=json+", "--eta=never", *options, jobfile)


def run_fio(
    argv: Sequence[str],
    *,
    directory: int,
    scratch_directory: str,
    time_limit_s: float,
    stop: StopSignals,
    tick: Callable[[], None],
    spent_s: float = 0.0,
) -> FioResult:
    """Run fio in directory until it ends, a stop signal arrives, or time_limit_s is over.

    directory: a descriptor, as another user may meanwhile put something else under its path.
    spent_s: what earlier executions of the same run have taken of it.
    Its output goes to unnamed files in scratch_directory: the filesystem under test may be full.
    """
    started_at = time.time()
    with tempfile.TemporaryFile(dir=scratch_directory) as stdout:
        with tempfile.TemporaryFile(dir=scratch_directory) as stderr:
            process = _start(argv, directory, outputs=(stdout, stderr))
            try:
                stopped_because = _watch(process, stop, time_limit_s=time_limit_s, spent_s=spent_s, tick=tick)
            finally:
                # What ended well took its jobs with it; an exception of our own gets here with fio still alive.
                if process.poll() != 0:
                    _kill_group(process)
                    end_workers(find_path(directory))
            return _make_result(
                argv,
                process,
                outputs=(stdout, stderr),
                started_at=started_at,
                stopped_because=stopped_because,
            )


def _start(
    argv: Sequence[str], directory: int, *, outputs: tuple[IO[bytes], IO[bytes]]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            env=make_environment(),
            start_new_session=True,
            preexec_fn=_enter(directory),
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotMeasure(f"fio cannot be started: {error}") from None


def make_environment() -> dict[str, str]:
    """Return our environment for fio, which speaks English and needs no token."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_AGENT_")}
    return {**kept, "LC_ALL": "C"}


def _enter(directory: int) -> Callable[[], None]:
    """Return what makes a child start in a directory, and end when the agent is killed."""
    bind_to_parent = make_mortal()

    def prepare() -> None:
        os.fchdir(directory)
        if bind_to_parent:
            bind_to_parent()

    return prepare


def make_mortal() -> Callable[[], None] | None:
    """Return what makes a child end when the agent is killed; None where the system has no such thing."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return None
    parent = os.getpid()

    def bind_to_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:  # killed between fork and prctl
            os._exit(1)

    return bind_to_parent


def _watch(
    process: subprocess.Popen[bytes],
    stop: StopSignals,
    *,
    time_limit_s: float,
    spent_s: float,
    tick: Callable[[], None],
) -> str | None:
    deadline = time.monotonic() + time_limit_s - spent_s
    pause_s = _POLL_INTERVAL_S / 64  # a fio that fails does so at once
    while process.poll() is None:
        if stop.received is not None:
            _stop_gently(process, stop)
            return f"stopped by {signal.Signals(stop.received).name}"
        if time.monotonic() > deadline:
            _stop_gently(process, stop)
            return f"stopped after the hard time limit of {time_limit_s:.0f} s"
        tick()
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_S)
    return None


def _stop_gently(process: subprocess.Popen[bytes], stop: StopSignals) -> None:
    """Ask with SIGINT, then SIGTERM, then SIGKILL; another signal to the agent shortens the patience."""
    for number, patience_s in _STOP_STEPS:
        if number == signal.SIGKILL:
            _kill_group(process)
        else:
            process.send_signal(number)
        asked = stop.count
        deadline = time.monotonic() + patience_s
        while process.poll() is None and time.monotonic() < deadline and stop.count == asked:
            time.sleep(0.05)
        if process.poll() is not None:
            return


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what is left of fio's own process group; its jobs have left it, and go by end_workers."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _make_result(
    argv: Sequence[str],
    process: subprocess.Popen[bytes],
    *,
    outputs: tuple[IO[bytes], IO[bytes]],
    started_at: float,
    stopped_because: str | None,
) -> FioResult:
    status = process.wait(timeout=30)
    stderr = _read_text(outputs[1], _STDERR_MAXIMUM)
    if stopped_because:
        stderr += f"bench-agent: {stopped_because}\n"
    return FioResult(
        argv=tuple(argv),
        exit_status=status if status >= 0 else None,
        signal=-status if status < 0 else None,
        stdout=_read_text(outputs[0], _OUTPUT_MAXIMUM),
        stderr=stderr,
        started_at=started_at,
        finished_at=time.time(),
        stopped_because=stopped_because,
    )


def _read_text(file: IO[bytes], maximum: int) -> str:
    file.seek(0)
    return file.read(maximum).decode("utf-8", "replace")


def _ask(path: str, option: str) -> str:
    try:
        answer = subprocess.run(
            [path, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(f"{path} {option} does not work: {error}") from None
    if answer.returncode != 0 and option == "--version":
        raise CannotMeasure(f"{path} {option} ended with status {answer.returncode}: is it fio?")
    return answer.stdout.decode("utf-8", "replace")
