"""Checks of space, inodes and memory before anything is written."""

from __future__ import annotations

import os
import re

from agent.exit_codes import CannotMeasure
from agent.measuring.workspace import check_free_space
from agent.profiles.needs import Needs
from agent.quantities import format_size
from agent.storage.sysfs import read_text


def check_resources(directory: str, needs: Needs, *, reserve_bytes: int | None) -> None:
    """Raise CannotMeasure if space, inodes or memory are not sufficient for a run."""
    if needs.space_bytes:
        check_free_space(directory, needs.space_bytes, reserve_bytes=reserve_bytes)
        _check_inodes(directory, needs.files)
    free_bytes = find_free_memory()
    if free_bytes is not None and needs.memory_bytes > free_bytes:
        raise CannotMeasure(
            f"not enough memory: jobs and buffers need {format_size(needs.memory_bytes)}, "
            f"{format_size(free_bytes)} are free; use fewer jobs, smaller blocks or a lower iodepth"
        )


def find_free_memory(*, root: str = "/") -> int | None:
    """Return the bytes available to a new process: of the machine or of the control group, whichever is less."""
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
    """Return the bytes of cached files, which count as used but can be reclaimed."""
    match = re.search(r"^inactive_file (\d+)$", read_text(directory, "memory.stat"), re.MULTILINE)
    return int(match.group(1)) if match else 0


def _check_inodes(directory: str, needed: int) -> None:
    state = os.statvfs(directory)
    # Filesystems that allocate inodes dynamically report 0 of 0.
    if state.f_files and state.f_favail < needed:
        raise CannotMeasure(
            f"not enough inodes: {directory} has {state.f_favail} free, {needed} are needed; delete files, "
            "or measure in another directory"
        )
