"""Orphaned fio processes: jobs of a killed fio, also those that wait for unresponsive storage."""

from __future__ import annotations

import os
import signal
import time

from agent.exit_codes import StorageHangs
from agent.storage.sysfs import read_text

# A killed process first frees its memory and completes I/O in flight.
DEATH_S = 10.0
_PAUSE_S = 0.05


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
