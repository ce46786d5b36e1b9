"""Parse and format sizes, counts, durations and times."""

from __future__ import annotations

import math
import re
import time
from typing import Mapping, Sequence

_SIZE = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_DURATION = re.compile(r"(\d{1,9})\s*([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_COUNT_MAXIMUM = 2**31 - 1
_SIZE_MAXIMUM = 2**62
_THIN_SPACE = "\u202f"
_SCALES: Mapping[str, Sequence[tuple[float, str]]] = {
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "s": ((1.0, "s"),),
}
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


def format_place(path: str) -> str:
    """Return where a run measures, for a sentence: in /data, on /dev/sdb."""
    return f"{'on' if path.startswith('/dev/') else 'in'} {path}"


def format_value(value: float | None, unit: str) -> str:
    """Return a value in a base unit as the server's pages do: 33 415 IOPS, 137 MB/s, 1.24 ms; "–" if unknown.

    The same table of cases (tests/data/format_cases.json) tests the server.
    """
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "operations/s":
        return _format_digits(value) if abs(value) < 99.95 else f"{value:,.0f}".replace(",", _THIN_SPACE)
    scales = _SCALES[unit]
    # 999.7 kB/s rounds to 1000 kB/s: use the next unit if the rounded value reaches it.
    divisor, name = next((scale for scale in scales if abs(value) >= scale[0] * 0.9995), scales[-1])
    return f"{_format_digits(value / divisor)} {name}"


def format_change(change: float) -> str:
    """Return a relative change in percent with its sign, as the server's pages do: −2.0 %, +120 %, ±0.0 %.

    The same table of cases (tests/data/change_cases.json) tests the server.
    """
    # 13.5 may be stored as 13.499999999999998: halves are rounded away from zero.
    percent = abs(change) * 100 + 1e-9
    size = f"{percent:.1f}" if percent < 9.95 else f"{percent:,.0f}".replace(",", _THIN_SPACE)
    return f"{'±' if size == '0.0' else '+' if change > 0 else '−'}{size} %"


def _format_digits(value: float) -> str:
    """Return three significant digits, from 100 a whole number."""
    size = abs(value)
    if size == 0:
        return "0"
    if size < 0.001:
        return "<0.001" if value > 0 else ">-0.001"
    for minimum, digits in ((99.95, 0), (9.995, 1), (0.9995, 2)):
        if size >= minimum:
            return f"{value:.{digits}f}"
    return f"{value:.3g}"


def format_time(seconds: float) -> str:
    """Return RFC 3339 in UTC from seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
