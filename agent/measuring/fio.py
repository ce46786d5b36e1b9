"""Find fio, run it in its own process group, stop it with its orphans, and read its logs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import IO, Any, Callable, Sequence

from agent.exit_codes import CannotMeasure, StorageHangs
from agent.programs import find_program
from agent.storage.sysfs import read_text

_POLL_INTERVAL_S = 0.2
# On SIGINT fio prints a report of its results so far; its jobs may wait for I/O in flight.
_STOP_STEPS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# json+ of the largest shipped profile is below 1 MiB; the server accepts 32 MiB.
_OUTPUT_MAXIMUM = 32 * 2**20
_STDERR_MAXIMUM = 64 * 1024
_PROBE_TIMEOUT_S = 20
_PR_SET_PDEATHSIG = 1
# A killed process first frees its memory and completes I/O in flight.
DEATH_S = 10.0
_PAUSE_S = 0.05
# In fio's working directory, which is removed after the run.
LOG_PREFIX = "bench-agent"
_LOG_NAME = re.compile(r"bench-agent_(?:bw|iops|lat|clat|slat)(?:\.[0-9]{1,6})?\.log")
# A line of a log is about 30 bytes: an hour of one job in seconds is 0.5 MB. The server accepts 32 MiB and 200 logs.
_LOGS_MAXIMUM_BYTES = 8 * 10**6
_LOGS_MAXIMUM = 200
_MEGABYTE = 10**6
_AVERAGED_MS = 1000


@dataclass(frozen=True)
class Fio:
    """The fio of this machine; version as printed: "fio-3.33"."""

    path: str
    version: str
    engines: frozenset[str]


@dataclass(frozen=True)
class FioResult:
    """The result of one execution of fio. exit_status: None if a signal ended it; signal: None if none did.

    stopped_because: why the agent stopped it, None if it exited normally. started_at, finished_at: seconds since the
    epoch by this host's clock. job_problem: what the report shows of a job that failed or is missing, None if nothing.
    """

    argv: tuple[str, ...]
    exit_status: int | None
    signal: int | None
    stdout: str
    stderr: str
    started_at: float
    finished_at: float
    stopped_because: str | None
    job_problem: str | None = None

    @property
    def failure(self) -> str | None:
        """Return why the execution failed, as a predicate ("was killed by signal 9"); None if it did not.

        The one definition on this host: it decides on the exit status, and the envelope carries it to the server.
        """
        if self.stopped_because:
            return f"was {self.stopped_because}"
        if self.signal is not None:
            return f"was killed by signal {self.signal}"
        return f"failed with status {self.exit_status}" if self.exit_status else self.job_problem

    @property
    def has_report(self) -> bool:
        """Return whether the output contains a report: fio also prints errors to standard output."""
        return '"fio version"' in self.stdout


class StopSignals:
    """Records SIGINT, SIGTERM and SIGHUP instead of terminating, so that the run can clean up."""

    def __init__(self) -> None:
        self.received: int | None = None
        self.count = 0
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # ignored, as with nohup
                self._previous[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _record(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self.count += 1


def find_fio(path: str | None = None) -> Fio:
    """Return the fio on PATH, or at a path; CannotMeasure if it is missing."""
    found = find_program(path or "fio")
    if found is None:
        raise CannotMeasure(
            f"cannot execute {path}; set fio in [run] of the configuration to an installed fio"
            if path
            else "fio is not installed; run apt install fio, or dnf install fio",
            reason_code="fio-missing",
        )
    version = _query(found, "--version").strip()
    # The first line is a heading.
    engines = frozenset(line.strip() for line in _query(found, "--enghelp").splitlines()[1:])
    return Fio(found, version, engines)


def prefer_engine(platform: str = sys.platform) -> str:
    """Return the asynchronous engine of a platform."""
    if platform in ("win32", "cygwin"):
        return "windowsaio"
    return "libaio" if platform.startswith("linux") else "posixaio"


def choose_engine(fio: Fio, *, platform: str = sys.platform) -> str:
    """Return the platform's asynchronous engine if this fio has it, else psync, which every fio has."""
    preferred = prefer_engine(platform)
    return preferred if preferred in fio.engines else "psync"


def build_argv(fio: Fio, jobfile: str, *, options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the command; json+ includes latency histograms, from which percentiles over jobs are calculated."""
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
    """Run fio in directory until it exits, a stop signal arrives, or time_limit_s has passed.

    directory: a descriptor, because another user may replace what its path refers to.
    spent_s: part of time_limit_s used by earlier executions of the run.
    Output goes to unnamed files in scratch_directory: the filesystem under test may be full.
    """
    started_at = time.time()
    with tempfile.TemporaryFile(dir=scratch_directory) as stdout:
        with tempfile.TemporaryFile(dir=scratch_directory) as stderr:
            process = _start(argv, directory, outputs=(stdout, stderr))
            try:
                stopped_because = _watch(process, stop, time_limit_s=time_limit_s, spent_s=spent_s, tick=tick)
            finally:
                # After exit status 0 no job is left; after an exception of the agent fio may still run.
                if process.poll() != 0:
                    _kill_group(process)
                    kill_orphans(find_path(directory))
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
        raise CannotMeasure(f"cannot start fio: {error}") from None


def make_environment() -> dict[str, str]:
    """Return the environment of other programs: locale C, without the agent's variables, such as the token."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BENCH_AGENT_")}
    return {**inherited, "LC_ALL": "C"}


def _enter(directory: int) -> Callable[[], None]:
    """Return a preexec function that changes to a directory and binds the child to the agent's life."""
    bind_to_parent = make_parent_death_hook()

    def prepare() -> None:
        os.fchdir(directory)
        if bind_to_parent:
            bind_to_parent()

    return prepare


def make_parent_death_hook() -> Callable[[], None] | None:
    """Return a preexec function that ends a child when the agent is killed; None without prctl."""
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
    pause_s = _POLL_INTERVAL_S / 64  # fio usually fails immediately
    while process.poll() is None:
        if stop.received is not None:
            _stop_gently(process, stop)
            return f"stopped by {signal.Signals(stop.received).name}"
        if time.monotonic() > deadline:
            _stop_gently(process, stop)
            return f"stopped after the time limit of {time_limit_s:.0f} s"
        tick()
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_INTERVAL_S)
    return None


def _stop_gently(process: subprocess.Popen[bytes], stop: StopSignals) -> None:
    """Send SIGINT, then SIGTERM, then SIGKILL; another signal to the agent shortens the waits."""
    for number, patience_s in _STOP_STEPS:
        if number == signal.SIGKILL:
            _kill_group(process)
        else:
            process.send_signal(number)
        count = stop.count
        deadline = time.monotonic() + patience_s
        while process.poll() is None and time.monotonic() < deadline and stop.count == count:
            time.sleep(0.05)
        if process.poll() is not None:
            return


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill fio's own process group; its jobs have left it and are killed by kill_orphans."""
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


def _query(path: str, option: str) -> str:
    try:
        ended = subprocess.run(
            [path, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMeasure(f"{path} {option} failed: {error}") from None
    if ended.returncode != 0 and option == "--version":
        raise CannotMeasure(f"{path} {option} exited with status {ended.returncode}; is it fio?")
    return ended.stdout.decode("utf-8", "replace")


def kill_orphans(directory: str) -> None:
    """Kill every fio process in a run's directory and wait until they have ended.

    Found by directory, because each job of fio creates its own session. StorageHangs if one stays: it waits for a
    device or server that does not respond.
    """
    deadline = time.monotonic() + DEATH_S
    while True:
        orphans = list_orphans(directory)
        if not orphans:
            return
        if time.monotonic() > deadline:
            raise StorageHangs(
                f"fio process {orphans[0]} does not end after SIGKILL: the storage does not respond; the next run "
                "removes its files"
            )
        for process in orphans:
            _kill(process)
        time.sleep(_PAUSE_S)


def find_path(descriptor: int) -> str:
    """Return the current path of an open directory, also after it was renamed; "" without /proc."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def list_orphans(directory: str) -> tuple[int, ...]:
    """Return the fio processes in a directory; none without /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return ()
    return tuple(int(name) for name in names if name.isdigit() and _is_fio_in(name, directory))


def _is_fio_in(process: str, directory: str) -> bool:
    if not read_text("/proc", process, "comm").startswith("fio"):
        return False
    try:
        return os.readlink(f"/proc/{process}/cwd") == directory
    except OSError:
        return False  # ended meanwhile, or owned by another user


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return  # ended meanwhile


def list_log_options(fio_version: str) -> tuple[str, ...]:
    """Return the options for logs with averages over 1 s; fio writes the files when a job ends."""
    kinds = tuple(f"--write_{kind}_log={LOG_PREFIX}" for kind in ("bw", "iops", "lat"))
    # Jobs of a profile run one after the other and log times since their own start; epoch times keep their order.
    clock = ("--log_unix_epoch=1",) if re.match(r"fio-[3-9]\.", fio_version) else ()
    return (*kinds, f"--log_avg_msec={_AVERAGED_MS}", *clock)


def read_logs(directory: int) -> dict[str, str]:
    """Return the logs in fio's directory, a descriptor, by file name: all, or CannotMeasure without any."""
    try:
        names = sorted(name for name in os.listdir(directory) if _LOG_NAME.fullmatch(name))
        total = sum(os.stat(name, dir_fd=directory).st_size for name in names)
        if not names:
            raise CannotMeasure("fio wrote no logs")
        if len(names) > _LOGS_MAXIMUM:
            raise CannotMeasure(f"fio wrote {len(names)} logs; the maximum is {_LOGS_MAXIMUM}")
        if total > _LOGS_MAXIMUM_BYTES:
            limit = f"{_LOGS_MAXIMUM_BYTES // _MEGABYTE} MB"
            raise CannotMeasure(f"fio's logs take {total / _MEGABYTE:.1f} MB; the maximum is {limit}")
        return {name: _read_log(name, directory) for name in names}
    except OSError as error:
        raise CannotMeasure(f"cannot read fio's logs: {error}") from None


def _read_log(name: str, directory: int) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    with open(descriptor, encoding="ascii", errors="replace") as file:
        return file.read(_LOGS_MAXIMUM_BYTES)
