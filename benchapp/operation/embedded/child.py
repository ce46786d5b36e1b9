"""Start a server that ends with its supervisor, and stop it: first by request, then by force."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypedDict

from benchapp.operation.embedded.account import SystemAccount

_PR_SET_PDEATHSIG: Final = 1
_PAUSE_S: Final = 0.02
LOG_TAIL_LINES: Final = 15


class ServerFailed(Exception):
    """A server did not start, or ended; the message contains the end of its log."""


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    account: SystemAccount | None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a server in its own session, with output appended to the log.

    The kernel sends it `death_signal` when the calling thread ends, so call this from the main thread.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_log(log) as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
            umask=0o077,
            preexec_fn=die_with_parent(death_signal),
            **identity(account),
        )


def open_log(log: Path) -> BinaryIO:
    """Open a log for appending with mode 0600, also if it existed with another mode."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return os.fdopen(descriptor, "ab")


def run_tool(
    argv: Sequence[str],
    *,
    account: SystemAccount | None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run a short command as this account and return the completed process, without checking its status."""
    return subprocess.run(
        list(argv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=env,
        cwd="/",
        timeout=timeout_s,
        # Only the supervisor handles Ctrl-C: an interrupted initdb would print another error.
        start_new_session=True,
        check=False,
        **identity(account),
    )


def stop(
    process: subprocess.Popen[bytes],
    *,
    ask: signal.Signals = signal.SIGTERM,
    patience_s: float = 20,
    kill_signal: signal.Signals = signal.SIGKILL,
    is_urgent: Callable[[], bool] = lambda: False,
) -> int:
    """Send a server `ask`, then `kill_signal` after patience_s or if urgent; return its exit status.

    Remaining processes of its session are killed.
    """
    if process.poll() is None:
        process.send_signal(ask)
    deadline = time.monotonic() + patience_s
    while process.poll() is None and time.monotonic() < deadline and not is_urgent():
        time.sleep(_PAUSE_S)
    if process.poll() is None:
        process.send_signal(kill_signal)
    try:
        status = process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        status = process.wait()
    kill_session(process.pid)
    return status


def kill_session(leader_pid: int) -> None:
    """Kill the remaining processes of a child's process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader_pid, signal.SIGKILL)


def wait_until(
    is_ready: Callable[[], bool],
    process: subprocess.Popen[bytes],
    *,
    name: str,
    log: Path,
    timeout_s: float,
) -> None:
    """Wait until the server is ready; ServerFailed, with the end of its log, if it ends or takes too long."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        if process.poll() is not None:
            raise ServerFailed(f"{name} ended with status {process.returncode}\n{read_tail(log)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} was not ready within {timeout_s:.0f} s\n{read_tail(log)}")
        time.sleep(_PAUSE_S)


def read_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """Return the last lines of a log, indented, below its path."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode(errors="replace")
    except OSError:
        return f"  (no log at {log})"
    return "\n".join([f"  the end of {log}:", *(f"  | {line}" for line in text.splitlines()[-lines:])])


def die_with_parent(death_signal: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """Return a preexec function that ends the child when this process ends; None outside of Linux."""
    if not sys.platform.startswith("linux"):
        return None
    # Loaded before the fork: in the child, another thread's lock could block it forever.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def prepare() -> None:
        # After setuid, which clears it. The next line detects a parent that ended before.
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class Identity(TypedDict):
    """Arguments of Popen that change the user."""

    user: int | None
    group: int | None
    extra_groups: list[int] | None


def identity(account: SystemAccount | None) -> Identity:
    """Return Popen's arguments to run as this account."""
    if account is None:
        return {"user": None, "group": None, "extra_groups": None}
    return {"user": account.uid, "group": account.gid, "extra_groups": []}
