"""The fields after the numbers of a terse line: disks, counters of errors, the description."""

import re
from collections.abc import Sequence
from typing import Final

import orjson
from msgspec import Struct

from benchapp.fio.report import Disk, make_disk
from benchapp.fio.terse.direction import read_number, read_share, read_whole

# A line of 1000 disks has 60 KB; names and descriptions are bounded by fio.
LINE_LENGTH_MAXIMUM: Final = 2**20
_DISK_LENGTH: Final = 9
_WHOLE: Final = re.compile(r"-?\d{1,20}", re.ASCII)
_PLAIN_DISK: Final = re.compile(r"(?:\d{1,18}+,){7}\d{1,9}+\.\d{1,9}+%", re.ASCII)
_CUT: Final = re.compile(r"\d{0,20}\.?\d{0,2}", re.ASCII)
# Of the masters md and dm: the average of the devices that are listed after it.
_OF_MEMBERS: Final = "slaves"


class Further(Struct, frozen=True, gc=False):
    """The values of these fields; is_cut: the text ends within the disks."""

    disks: tuple[Disk, ...]
    description: str | None
    is_cut: bool


def read_further(fields: Sequence[str], *, is_last: bool) -> Further:
    """Read what may follow: disks, two counters of errors (continue_on_error), the description."""
    disks, place = _read_disks(fields)
    rest = fields[place:]
    if is_last and _is_beginning_of_disk(rest):
        return Further(disks, None, is_cut=True)
    if len(rest) >= 2 and _WHOLE.fullmatch(rest[0]) and _WHOLE.fullmatch(rest[1]):
        rest = rest[2:]
    return Further(disks, ";".join(rest) or None, is_cut=False)


def read_disk_line(text: str) -> tuple[Disk, ...]:
    """Return the disks of a separate line (";vda;53015;…;57.29%"); empty for any other line."""
    fields = text.split(";", LINE_LENGTH_MAXIMUM)[1:]
    disks, place = _read_disks(fields)
    return disks if place == len(fields) else ()


def _read_disks(fields: Sequence[str]) -> tuple[tuple[Disk, ...], int]:
    disks = []
    place = 0
    while place + _DISK_LENGTH <= len(fields):
        name, *texts = fields[place : place + _DISK_LENGTH]
        disk = _convert_disk(name, texts)
        if disk is None:
            if not _is_disk(name, texts):
                break
            disk = make_disk(name, [read_whole(text) for text in texts[:-1]], read_share(texts[-1]))
        place += _DISK_LENGTH
        if name != _OF_MEMBERS:
            disks.append(disk)
    return tuple(disks), place


def _convert_disk(name: str, texts: Sequence[str]) -> Disk | None:
    """Return a disk whose numbers are plain; None for any other."""
    text = ",".join(texts)
    if _PLAIN_DISK.fullmatch(text) is None:
        return None
    try:
        *counts, share = orjson.loads(f"[{text[:-1]}]")
    except ValueError:
        return None
    return make_disk(name, counts, share)


def _is_disk(name: str, texts: Sequence[str]) -> bool:
    if not texts[-1].endswith("%"):
        return False
    try:
        read_number(texts[-1])
    except ValueError:
        return False
    return all(_WHOLE.fullmatch(text) for text in texts[:-1])


def _is_beginning_of_disk(fields: Sequence[str]) -> bool:
    """Return whether these may be the first fields of a truncated disk: a name and counters."""
    if not 2 <= len(fields) <= _DISK_LENGTH or _WHOLE.fullmatch(fields[0]):
        return False
    return all(_WHOLE.fullmatch(text) for text in fields[1:-1]) and _CUT.fullmatch(fields[-1]) is not None
