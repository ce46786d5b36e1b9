"""Delay scheduled runs, so that the hosts of a fleet do not start at the same time."""

from __future__ import annotations

import hashlib
import os
import select
import signal
import time
from typing import Callable

from agent.exit_codes import Interrupted
from agent.measuring.fio import StopSignals

_MACHINE_ID = "etc/machine-id"


def choose_splay(splay_s: float, *, seed: str, day: str) -> float:
    """Return seconds from 0 to splay_s, right exclusive: the same for the same seed and day.

    Constant within a day, so that a host's interval is exact; different every day, so that periodic work of another
    host does not coincide with every run.
    """
    digest = hashlib.sha256(f"{seed}\n{day}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:7], "big") / 2**56 * splay_s


def make_seed(profile: str, directory: str, *, root: str = "/") -> str:
    """Return a seed that differs between hosts, profiles and directories."""
    try:
        with open(os.path.join(root, _MACHINE_ID), encoding="ascii", errors="replace") as file:
            host = file.read().strip()
    except OSError:
        host = ""
    return f"{host or os.uname().nodename}\n{profile}\n{directory}"


def wait_splay(delay_s: float, announce: Callable[[], None]) -> None:
    """Call announce and sleep; a stop signal raises Interrupted."""
    with StopSignals() as stop:
        announce()
        _sleep(delay_s, stop)
        if stop.received is not None:
            raise Interrupted("stopped before the run started: nothing was measured", stop.received)


def _sleep(delay_s: float, stop: StopSignals) -> None:
    """Sleep until the time has passed or a signal arrives; time.sleep would continue (PEP 475)."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous: int | None = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        deadline = time.monotonic() + delay_s
        while stop.received is None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            if select.select([reader], [], [], left_s)[0]:
                os.read(reader, 64)
    finally:
        signal.set_wakeup_fd(previous if previous is not None else -1)
        os.close(reader)
        os.close(writer)
