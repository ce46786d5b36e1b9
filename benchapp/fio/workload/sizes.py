"""fio's grammar of sizes and times."""

import re
from typing import Final

from benchapp.fio.numbers import BIGINT_MAXIMUM

_SIZE: Final = re.compile(r"(?:0x([0-9a-f]{1,16})|(\d{1,19})(?:([kmgtp])(i?)b?|b)?)", re.ASCII)
_TIME: Final = re.compile(r"(\d{1,15})(d|h|m|s|sec|ms|msec|us|usec)?", re.ASCII)
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_SECONDS: Final = {
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "sec": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "us": 1e-6,
    "usec": 1e-6,
}


def parse_size(text: str, *, kb_base: int = 1024) -> int | None:
    """Return the bytes of "4k", "1GiB" or "0x1000"; None for per cent, expressions and anything else.

    On purpose, fio reverses the prefixes under its default kb_base=1024: 4k, 4KB and 4Ki are 4096, and 4KiB is
    4000. Under kb_base=1000 it is the other way round.
    """
    cleaned = text.strip().lower()
    match = _SIZE.fullmatch(cleaned)
    if match is None:
        return None
    hexadecimal, digits, prefix, binary = match.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    else:
        base = kb_base
        if binary and cleaned.endswith("b"):
            base = 1000 if kb_base == 1024 else 1024
        value = int(digits) * (base ** _POWERS[prefix] if prefix else 1)
    return value if value <= BIGINT_MAXIMUM else None


def parse_duration_s(text: str, *, unit: str = "s") -> float | None:
    """Return the seconds of "60", "1m" or "500ms"; a bare number counts in `unit`. None for anything else."""
    match = _TIME.fullmatch(text.strip().lower())
    if match is None:
        return None
    digits, suffix = match.groups()
    return int(digits) * _SECONDS[suffix or unit]
