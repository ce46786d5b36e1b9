"""Keep the servers running, and stop them in reverse order."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final, Self

from benchapp.operation.embedded.child import ServerFailed, open_log, read_tail, stop

_BACKOFF_S: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
# After running this long, a server's backoff is reset.
_HEALTHY_AFTER_S: Final = 60.0
_TICK_S: Final = 1.0
# A server that gives no sign of life for this long is killed. Its sign is looked for every few seconds.
_HUNG_AFTER_S: Final = 20.0
_LIFE_CHECK_S: Final = 5.0
_LOG_CHECK_S: Final = 60.0
_LOG_LIMIT_BYTES: Final = 16 * 2**20
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """A stop was requested during the start."""


@dataclass(frozen=True)
class Service:
    """One server: how to start it, check readiness and life, and stop it."""

    name: str
    spawn: Callable[[], subprocess.Popen[bytes]]
    is_ready: Callable[[], bool]
    log: Path
    is_alive: Callable[[], bool] = lambda: True
    ready_timeout_s: float = 30
    ask: signal.Signals = signal.SIGTERM
    patience_s: float = 20
    kill_signal: signal.Signals = signal.SIGKILL


@dataclass
class _Running:
    service: Service
    process: subprocess.Popen[bytes] | None
    started_at: float
    # Last sign of life; a server that starts has until it should be ready.
    alive_at: float
    failures: int = 0
    start_again_at: float | None = None


@dataclass
class Supervisor:
    """Starts services in order and stops them in reverse order."""

    report: Callable[[str], None]
    on_restart: Callable[[], None] = lambda: None
    requests: int = 0
    _running: list[_Running] = field(default_factory=list)
    _logs_checked_at: float = field(default_factory=time.monotonic)
    _life_checked_at: float = field(default_factory=time.monotonic)

    def launch(self, service: Service) -> None:
        """Start a service without waiting for it."""
        self.check_stop()
        now = time.monotonic()
        self._running.append(_Running(service, service.spawn(), now, now + service.ready_timeout_s))

    def wait_ready(self, name: str) -> None:
        """Wait until a launched service is ready; ServerFailed if it ends or takes too long."""
        entry = next(entry for entry in self._running if entry.service.name == name)
        service, process = entry.service, entry.process
        deadline = time.monotonic() + service.ready_timeout_s
        while process is not None and not service.is_ready():
            self.check_stop()
            if process.poll() is not None:
                raise ServerFailed(f"{name} ended with status {process.returncode}\n{read_tail(service.log)}")
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"{name} was not ready within {service.ready_timeout_s:.0f} s\n{read_tail(service.log)}"
                )
            time.sleep(0.03)

    def check_stop(self) -> None:
        """Raise StopRequested after a stop request."""
        if self.requests:
            raise StopRequested

    def pids(self) -> dict[str, int]:
        """Return the process ids of running services."""
        return {entry.service.name: entry.process.pid for entry in self._running if entry.process is not None}

    def watch(self, until: Callable[[], bool] = lambda: False) -> None:
        """Restart services that end or hang, until a stop request or `until` returns true."""
        while not self.requests and not until():
            for entry in self._running:
                self._check_service(entry)
            if time.monotonic() - self._life_checked_at > _LIFE_CHECK_S:
                self._life_checked_at = time.monotonic()
                for entry in self._running:
                    self._check_life(entry)
            if time.monotonic() - self._logs_checked_at > _LOG_CHECK_S:
                self._logs_checked_at = time.monotonic()
                for entry in self._running:
                    trim_log(entry.service.log)
            self._sleep(_TICK_S)

    def stop_all(self) -> None:
        """Stop all services in reverse order; a second stop request kills them."""
        first = max(self.requests, 1)
        while self._running:
            entry = self._running.pop()
            if entry.process is not None:
                stop(
                    entry.process,
                    ask=entry.service.ask,
                    patience_s=entry.service.patience_s,
                    kill_signal=entry.service.kill_signal,
                    is_urgent=lambda: self.requests > first,
                )

    @contextlib.contextmanager
    def signals(self) -> Iterator[Self]:
        """Count stop signals instead of terminating, and wake up when a child ends."""
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        previous = {number: signal.signal(number, self._count_request) for number in _SIGNALS}
        previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        try:
            yield self
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            for descriptor in self._pipe:
                os.close(descriptor)

    def _count_request(self, number: int, frame: FrameType | None) -> None:
        self.requests += 1
        if self.requests == 1:
            self.report("Stopping … (again to force)")

    def _sleep(self, seconds: float) -> None:
        readable, _, _ = select.select([self._pipe[0]], [], [], seconds)
        if readable:
            os.read(self._pipe[0], 4096)

    def _check_service(self, entry: _Running) -> None:
        now = time.monotonic()
        if entry.process is None:
            if entry.start_again_at is not None and now >= entry.start_again_at:
                entry.process, entry.started_at, entry.start_again_at = entry.service.spawn(), now, None
                entry.alive_at = now + entry.service.ready_timeout_s
                self.on_restart()
            return
        status = entry.process.poll()
        if status is None:
            return
        service = entry.service
        stop(entry.process)  # remaining processes would occupy the port or the queue
        entry.failures = 1 if now - entry.started_at > _HEALTHY_AFTER_S else entry.failures + 1
        pause_s = _BACKOFF_S[min(entry.failures, len(_BACKOFF_S)) - 1]
        entry.process, entry.start_again_at = None, now + pause_s
        self.report(
            f"{service.name} {describe_status(status)}; restarting in {pause_s:.0f} s (see {service.log})"
        )

    def _check_life(self, entry: _Running) -> None:
        """Kill a server that hangs, without a request that it could not answer; the next check restarts it."""
        if entry.process is None:
            return
        if entry.service.is_alive():
            entry.alive_at = max(entry.alive_at, time.monotonic())
        elif time.monotonic() - entry.alive_at > _HUNG_AFTER_S:
            self.report(f"{entry.service.name} does not answer for {_HUNG_AFTER_S:.0f} s and is killed")
            entry.process.kill()


def describe_status(status: int) -> str:
    """Return how a process ended as text."""
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def trim_log(log: Path, limit_bytes: int = _LOG_LIMIT_BYTES) -> None:
    """Rotate a long log to .1 while its server keeps the file open."""
    try:
        if log.stat().st_size <= limit_bytes:
            return
        with open_log(older := log.with_name(f"{log.name}.1")) as copy:
            os.truncate(older, 0)
            copy.write(log.read_bytes())
        os.truncate(log, 0)  # the server appends, so its next line is at the start
    except FileNotFoundError:
        return
