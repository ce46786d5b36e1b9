"""Disk space, time, memory and files that a run requires."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """Resources of a run.

    space_bytes: on disk; duration_s: without the first write of the test file; memory_bytes: of fio and its buffers;
    transferred_bytes: written or read without a runtime limit; files: their number.
    """

    space_bytes: int
    duration_s: float
    memory_bytes: int
    transferred_bytes: int = 0
    files: int = 1
