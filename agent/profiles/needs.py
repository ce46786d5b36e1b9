"""Disk space, time, memory and files that a run requires."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Needs:
    """What a run takes.

    space_bytes: on disk; duration_s: without writing the test file for the first time; memory_bytes: of fio and its
    buffers; moved_bytes: what is written or read however long it takes, which no runtime ends; files: how many.
    """

    space_bytes: int
    duration_s: float
    memory_bytes: int
    moved_bytes: int = 0
    files: int = 1
