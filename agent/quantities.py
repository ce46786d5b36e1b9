"""Parse and format sizes, counts, durations and times."""

from __future__ import annotations

import re
import time

_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_COUNT_MAXIMUM = 2**31 - 1
_SIZE_MAXIMUM = 2**62
# A higher load average is not a useful limit.
LOAD_MAXIMUM = 100_000.0


def parse_size(text: str) -> int:
    """Return bytes: 64m, 64M and 64MiB are ×1024², 64MB is ×1000²; ValueError describes the format."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a valid size; use bytes (4096) or a unit (64m, 500GiB)")
    number, unit, binary, byte = match.groups()
    factor = (1000 if unit and byte and not binary else 1024) ** _POWERS[unit.lower()]
    size = int(float(number) * factor) if "." in number else int(number) * factor
    if size > _SIZE_MAXIMUM:
        raise ValueError(f"{text} is too large; the maximum is 4 EiB")
    return size


def parse_count(text: str) -> int:
    """Return a whole number from 0 to 2³¹ − 1; the suffixes k and m are ×1000 and ×1 000 000, as in 16k IOPS."""
    text = text.strip()
    factor = {"k": 1000, "m": 1000 * 1000}.get(text[-1:].lower(), 1)
    digits = text[:-1] if factor > 1 else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10:
        raise ValueError(f"{text!r} is not a whole number")
    if int(digits) * factor > _COUNT_MAXIMUM:
        raise ValueError(f"{text} exceeds the maximum of {_COUNT_MAXIMUM}")
    return int(digits) * factor


def parse_duration(text: str) -> int:
    """Return seconds: 90, 90s, 15m, 6h or 30d."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a valid duration; use 90, 90s, 15m, 6h or 30d")
    return int(match.group(1)) * _SECONDS[match.group(2)]


def parse_limit(text: str, *, maximum: float) -> float:
    """Return a number above 0, up to and including the maximum; ValueError describes the format."""
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit <= maximum:
        raise ValueError(f"{text!r} is not a number above 0 and up to {maximum:g}")
    return limit


def format_size(size_bytes: float) -> str:
    """Return bytes for display, in powers of 1024."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size_bytes < 1024 or unit == "TiB":
            break
        size_bytes /= 1024
    return f"{size_bytes:.0f} {unit}" if size_bytes >= 10 else f"{size_bytes:.3g} {unit}"


def format_duration(seconds: float) -> str:
    """Return seconds for display: 45 s, 12 min, 3 h, 2 d."""
    for unit, length_s in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"


def format_latency(nanoseconds: float) -> str:
    """Return a latency for display: 850 ns, 120 µs, 3.2 ms, 1.5 s."""
    for unit, length_ns in (("s", 10**9), ("ms", 10**6), ("µs", 10**3)):
        if nanoseconds >= length_ns:
            return f"{nanoseconds / length_ns:.3g} {unit}"
    return f"{nanoseconds:.0f} ns"


def format_time(seconds: float) -> str:
    """Return RFC 3339 in UTC from seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
