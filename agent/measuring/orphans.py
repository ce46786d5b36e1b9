"""What lives on of an fio that was killed: its jobs, and whatever waits for storage that hangs."""

from __future__ import annotations

import os
import signal
import time

from agent.exit_codes import StorageHangs
from agent.storage.sysfs import read_text

# A killed process frees its memory, and finishes the I/O that is in flight, before it is gone.
DEATH_S = 10.0
_PAUSE_S = 0.05


def end_workers(directory: str) -> None:
    """Kill every fio that works in a directory, which only those of one run do, and wait until they are gone.

    By their directory, as each job of fio makes a session of its own. StorageHangs if one stays: SIGKILL ends whatever
    does not wait for a device or a server that does not answer.
    """
    deadline = time.monotonic() + DEATH_S
    while True:
        workers = list_workers(directory)
        if not workers:
            return
        if time.monotonic() > deadline:
            raise StorageHangs(
                f"fio does not end even by SIGKILL, process {workers[0]}: the storage hangs; nothing more is done to "
                "it, and what fio wrote is removed by the next run"
            )
        for process in workers:
            _kill(process)
        time.sleep(_PAUSE_S)


def find_path(descriptor: int) -> str:
    """Return the current path of an open directory, also after it was renamed; "" where there is no /proc."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return ""


def list_workers(directory: str) -> tuple[int, ...]:
    """Return the fio processes that work in a directory; none where there is no /proc."""
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
        return False  # it ended meanwhile, or is another user's


def _kill(process: int) -> None:
    try:
        os.kill(process, signal.SIGKILL)
    except OSError:
        return  # it ended meanwhile
