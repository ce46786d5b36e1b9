"""What a run needs of this machine, looked at before anything is written."""

from __future__ import annotations

import os
import re

from agent.exit_codes import CannotMeasure
from agent.measuring.workspace import check_free_space
from agent.profiles.needs import Needs
from agent.quantities import format_size
from agent.storage.layout import read_text


def check_resources(directory: str, needs: Needs, *, reserve_bytes: int | None) -> None:
    """Raise CannotMeasure where space, files or memory for a run are not there."""
    if needs.space_bytes:
        check_free_space(directory, needs.space_bytes, reserve_bytes=reserve_bytes)
        _check_inodes(directory, needs.files)
    free_bytes = find_free_memory()
    if free_bytes is not None and needs.memory_bytes > free_bytes:
        raise CannotMeasure(
            f"{format_size(needs.memory_bytes)} of memory are needed for the jobs and their buffers, "
            f"{format_size(free_bytes)} are free: take fewer jobs, smaller blocks or a lower iodepth"
        )


def find_free_memory(*, root: str = "/") -> int | None:
    """Return the bytes that a new process may take: of the machine or of our control group, whichever are fewer."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", read_text(root, "proc/meminfo"), re.MULTILINE)
    free = [int(match.group(1)) * 1024] if match else []
    group = re.search(r"^0::/(.*)$", read_text(root, "proc/self/cgroup"), re.MULTILINE)
    if group:
        directory = os.path.join(root, "sys/fs/cgroup", group.group(1))
        limit, used = (read_text(directory, name) for name in ("memory.max", "memory.current"))
        if limit.isdigit() and used.isdigit():
            free.append(max(int(limit) - int(used) + _count_inactive(directory), 0))
    return min(free, default=None)


def _count_inactive(directory: str) -> int:
    """Return the bytes of cached files, which count as used and make room when asked."""
    match = re.search(r"^inactive_file (\d+)$", read_text(directory, "memory.stat"), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _check_inodes(directory: str, needed: int) -> None:
    state = os.statvfs(directory)
    # A filesystem that makes them as it needs them says 0 of 0.
    if state.f_files and state.f_favail < needed:
        raise CannotMeasure(f"{directory} has room for {state.f_favail} more files; {needed} are needed")
