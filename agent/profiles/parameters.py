"""What `--set` adjusts: a name, a default, and a reader that refuses what cannot be."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Callable

from agent.quantities import format_size, parse_count, parse_size

DIRECTIONS = ("read", "write", "randread", "randwrite", "rw", "randrw")
_LATENCY = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(us|ms|s)", re.ASCII)
_LATENCY_NS = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SECTOR_BYTES = 512
_BLOCK_MAXIMUM = 64 * 2**20


@dataclass(frozen=True)
class Parameter:
    """One thing that `--set` adjusts; read turns text into the value or raises ValueError.

    default: None where it depends on something else, which default_words then name.
    """

    name: str
    default: Any
    unit: str
    explanation: str
    read: Callable[[str], Any]
    default_words: str = ""

    def describe_default(self) -> str:
        """Return the default for the eye."""
        if self.default_words:
            return self.default_words
        return format_size(self.default) if self.unit == "bytes" else f"{self.default} {self.unit}".strip()


def read_positive(text: str) -> int:
    """Return a whole number from 1 on."""
    value = parse_count(text)
    if value < 1:
        raise ValueError("at least 1 is wanted")
    return value


def read_file_size(text: str) -> int:
    """Return bytes, in whole MiB: the largest block of most profiles is 1 MiB, and O_DIRECT wants whole blocks."""
    size_bytes = parse_size(text)
    if size_bytes < 2**20 or size_bytes % 2**20:
        raise ValueError("whole MiB are wanted, at least 1m")
    return size_bytes


def read_block_size(text: str) -> int:
    """Return bytes, in whole sectors, at most 64 MiB."""
    size_bytes = parse_size(text)
    if not _SECTOR_BYTES <= size_bytes <= _BLOCK_MAXIMUM or size_bytes % _SECTOR_BYTES:
        raise ValueError(f"whole sectors of {_SECTOR_BYTES} bytes are wanted, at most 64m")
    return size_bytes


def read_direction(text: str) -> str:
    """Return one of fio's directions but trim, which destroys."""
    if text not in DIRECTIONS:
        raise ValueError(f"there are: {', '.join(DIRECTIONS)}")
    return text


def read_flag(text: str) -> str:
    """Return yes or no."""
    if text not in ("yes", "no"):
        raise ValueError("yes or no is wanted")
    return text


def read_latency(text: str) -> int:
    """Return nanoseconds from 500us, 10ms or 1.5s."""
    match = _LATENCY.fullmatch(text.strip().lower())
    if match is None or float(match.group(1)) <= 0:
        raise ValueError(f"{text!r} is no latency: write 500us, 10ms or 1.5s")
    return round(float(match.group(1)) * _LATENCY_NS[match.group(2)])


def read_existing_file(text: str) -> str:
    """Return the absolute path of a regular file that can be read."""
    path = os.path.abspath(text)
    if not os.path.isfile(path):
        raise ValueError(f"{path} is no file")
    if not os.access(path, os.R_OK):
        raise ValueError(f"{path} cannot be read by this user")
    return path
