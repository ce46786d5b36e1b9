"""Numbers of fio's output within the range of the database, and versions of fio to compare."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

# PostgreSQL's bigint and integer; fio's unsigned 64-bit counters wrap to negative at the same bound.
BIGINT_MAXIMUM: Final = 2**63 - 1
INTEGER_MAXIMUM: Final = 2**31 - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_9999_S: Final = 253_370_764_800


def read_amount(value: object) -> float | None:
    """Return a number from 0 to 2^63 - 1, int or float as it came; None for nan, inf, negative, text."""
    kind = type(value)
    # Comparisons with nan are false.
    if (kind is float or kind is int) and 0 <= value <= BIGINT_MAXIMUM:  # type: ignore[operator]
        return value  # type: ignore[return-value]
    return None


def read_count(value: object) -> int | None:
    """Return a whole number from 0 to 2^63 - 1; 12.0, as some tools rewrite it, is 12."""
    if type(value) is int:
        return value if 0 <= value <= BIGINT_MAXIMUM else None
    # 2.0**63 itself would pass a comparison with 2**63 - 1 made in floats.
    if type(value) is float and 0 <= value < 2.0**63 and value.is_integer():
        return int(value)
    return None


def read_errno(value: object) -> int:
    """Return an error number; 1, an unspecified error, for anything but a 32-bit number."""
    if type(value) is int:
        return value if -INTEGER_MAXIMUM <= value <= INTEGER_MAXIMUM else 1
    return 1 if value else 0


def read_moment(seconds: object, *, milliseconds: object = None) -> datetime | None:
    """Return the moment of a count since 1970, the finer count where there is one; None if absurd."""
    fine = read_count(milliseconds)
    if fine and fine < _YEAR_9999_S * 1000:
        return _EPOCH + timedelta(milliseconds=fine)
    coarse = read_count(seconds)
    if coarse and coarse < _YEAR_9999_S:
        return _EPOCH + timedelta(seconds=coarse)
    return None


Version = tuple[int, int, int]

UNKNOWN_VERSION: Final[Version] = (0, 0, 0)
# From this version the samples of clones are added up, before they were averaged over jobs.
SAMPLES_SUMMED: Final[Version] = (3, 13, 0)

_NUMBER: Final = re.compile(r"(?:fio[- ])?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)
# Longer than any version.
_LENGTH_MAXIMUM: Final = 64


def parse_version(text: str) -> Version:
    """Return (3, 33, 0) for "fio-3.33"; builds from git ("fio-3.26-19-ge7e53") count as their tag.

    (0, 0, 0) where there is none. The tag 3.4 prints "fio-3.3".
    """
    return _parse(text[:_LENGTH_MAXIMUM])


# Texts have but a few versions.
@lru_cache(maxsize=256)
def _parse(text: str) -> Version:
    match = _NUMBER.match(text)
    if match is None:
        return UNKNOWN_VERSION
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)
