"""Parameters of profiles for `--set` (name, default, parser), and what a run needs."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Callable

from agent.quantities import format_size, parse_count, parse_duration, parse_size

DIRECTIONS = ("read", "write", "randread", "randwrite", "rw", "randrw")
_LATENCY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s)", re.ASCII)
_LATENCY_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SECTOR_BYTES = 512
_BLOCK_MAXIMUM = 64 * 2**20
_DURATION_MAXIMUM_S = 2**31 - 1


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


@dataclass(frozen=True)
class Parameter:
    """A parameter; read parses text or raises ValueError.

    default: None if it depends on something else, described by default_text.
    """

    name: str
    default: Any
    unit: str
    description: str
    read: Callable[[str], Any]
    default_text: str = ""

    def describe_default(self) -> str:
        """Return the default for display."""
        if self.default_text:
            return self.default_text
        return format_size(self.default) if self.unit == "bytes" else f"{self.default} {self.unit}".strip()


def read_positive(text: str) -> int:
    """Return a whole number, at least 1."""
    value = parse_count(text)
    if value < 1:
        raise ValueError("must be at least 1")
    return value


def read_ramp(text: str) -> int:
    """Return seconds from 10, 10s, 15m or 6h."""
    seconds = parse_duration(text)
    if seconds > _DURATION_MAXIMUM_S:
        raise ValueError(f"{text} exceeds the maximum of {_DURATION_MAXIMUM_S} s")
    return seconds


def read_runtime(text: str) -> int:
    """Return seconds, at least 1."""
    seconds = read_ramp(text)
    if seconds < 1:
        raise ValueError("must be at least 1 s")
    return seconds


def read_file_size(text: str) -> int:
    """Return bytes, a multiple of 1 MiB: the largest block of most profiles, and O_DIRECT requires whole blocks."""
    size_bytes = parse_size(text)
    if size_bytes < 2**20 or size_bytes % 2**20:
        raise ValueError("must be a multiple of 1 MiB, at least 1m")
    return size_bytes


def read_block_size(text: str) -> int:
    """Return bytes, in whole sectors, at most 64 MiB."""
    size_bytes = parse_size(text)
    if not _SECTOR_BYTES <= size_bytes <= _BLOCK_MAXIMUM or size_bytes % _SECTOR_BYTES:
        raise ValueError(f"must be a multiple of {_SECTOR_BYTES} bytes, at most 64m")
    return size_bytes


def read_direction(text: str) -> str:
    """Return one of fio's directions except trim, which destroys data."""
    if text not in DIRECTIONS:
        raise ValueError(f"available: {', '.join(DIRECTIONS)}")
    return text


def read_flag(text: str) -> str:
    """Return yes or no."""
    if text not in ("yes", "no"):
        raise ValueError("use yes or no")
    return text


def read_latency(text: str) -> int:
    """Return nanoseconds from 500us, 10ms or 1.5s."""
    match = _LATENCY.fullmatch(text.strip().lower())
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"{text!r} is not a valid latency; use 500us, 10ms or 1.5s")
    return round(float(match.group(1)) * _LATENCY_NS[match.group(2)])


def read_existing_file(text: str) -> str:
    """Return the absolute path of a regular file that can be read."""
    path = os.path.abspath(text)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is not a file")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{path} is not readable by this user")
    return path
