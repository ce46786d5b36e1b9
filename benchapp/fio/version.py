"""Compare fio's versions."""

import re
from functools import lru_cache
from typing import Final

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
