"""One line of fio's terse format, versions 2 to 5: one job, or one group of jobs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.report import Direction, DirectionName, Disk, Job
from benchapp.fio.terse_direction import (
    PERCENTILES_AT,
    PERCENTILES_COUNT,
    read_direction,
    read_number,
    read_share,
    read_whole,
)
from benchapp.fio.version import parse_version

# A line of 1000 disks has 60 KB; names and descriptions are bounded by fio.
LINE_LENGTH_MAXIMUM: Final = 2**20
# Fields of a whole line without disks, with every direction that the version has.
FIELDS_EXPECTED: Final = {2: "161 (120 before fio 2.0.10)", 3: "121", 4: "162", 5: "180"}

_R: Final[tuple[DirectionName, ...]] = ("read", "write")
_T: Final[tuple[DirectionName, ...]] = ("read", "write", "trim")
_M: Final[tuple[DirectionName, ...]] = ("mixed",)
# (version, blocks) → directions: unified_rw_reporting prints "mixed" alone, or behind the others.
_DIRECTIONS: Final[Mapping[tuple[int, int], tuple[DirectionName, ...]]] = {
    **{(version, 1): _M for version in (2, 3, 4, 5)},
    **{(version, 3): _T for version in (2, 4, 5)},
    **{(version, 4): (*_T, *_M) for version in (2, 4, 5)},
    (2, 2): _R,
    (3, 2): _R,
    (3, 3): (*_R, *_M),
}
_DEPTHS: Final = ("1", "2", "4", "8", "16", "32", ">=64")
_BOUNDS: Final = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
_BOUNDS_NS: Final[tuple[int | None, ...]] = (
    *(bound * 1_000 for bound in _BOUNDS),
    *(bound * 1_000_000 for bound in (*_BOUNDS, 2000)),
    None,
)
# cpu 5, depth 7, µs 10, ms 12.
_TAIL_LENGTH: Final = 34
_TAIL_COUNTERS: Final = (2, 3, 4)
_TAIL_SHARES: Final = (0, 1, 5, _TAIL_LENGTH - 1)
_DISK_LENGTH: Final = 9
_WHOLE: Final = re.compile(r"-?\d{1,20}", re.ASCII)
_CUT: Final = re.compile(r"\d{0,20}\.?\d{0,2}", re.ASCII)
# Of the masters md and dm: the average of what is listed by itself behind it.
_OF_MEMBERS: Final = "slaves"


class UnreadableTerse(Exception):
    """Say what is wrong with a line; fields: how many it has."""

    def __init__(self, reason: str, fields: int) -> None:
        super().__init__(reason)
        self.fields = fields


@dataclass(frozen=True, slots=True)
class TerseLine:
    """What one line says.

    at: where it begins, in characters; number: of the line, from 1; job: its index is to be set.
    disks: those in the line; client_disks: those that client mode prints on a line of their own behind it.
    is_cut: the text ends within its disks.
    """

    at: int
    number: int
    version: int
    fio_version: str
    job: Job
    disks: tuple[Disk, ...]
    client_disks: tuple[Disk, ...] = ()
    is_cut: bool = False


def read_line(text: str, *, at: int, number: int, hostname: str | None, is_last: bool) -> TerseLine:
    """Return what a line that begins with its version says. Raises UnreadableTerse.

    is_last: the text ends with it, and without the end of a line, so that its disks may be cut off.
    Job name and description may hold semicolons: the 20 percentiles of the first direction are the anchor.
    """
    fields = text.split(";", LINE_LENGTH_MAXIMUM)
    version = int(fields[0])
    anchor = _find_anchor(fields)
    name_at = 1 if version == 2 else 2
    first = anchor - PERCENTILES_AT
    if anchor < 0 or first < name_at + 3:
        raise UnreadableTerse("the percentiles are not where they should be", len(fields))
    stride = 47 if version == 5 else 41
    blocks = _count_blocks(fields, first, stride)
    tail_at = first + blocks * stride
    names = _DIRECTIONS.get((version, blocks))
    if names is None or not _is_tail(fields[tail_at : tail_at + _TAIL_LENGTH]):
        raise UnreadableTerse("fields are missing, or are too many", len(fields))
    # Python's own grammar of numbers has digits in groups.
    if "_" in text and any("_" in field for field in fields[first : tail_at + _TAIL_LENGTH]):
        raise UnreadableTerse("a field is not what it should be: it has an underscore", len(fields))
    fio_version = "" if version == 2 else fields[1].strip()
    fio = parse_version(fio_version)
    further = _read_further(fields[tail_at + _TAIL_LENGTH :], is_last=is_last)
    try:
        directions = [
            read_direction(name, fields[start : start + stride], version=fio)
            for name, start in zip(names, range(first, tail_at, stride), strict=True)
        ]
        job = _make_job(fields[name_at:first], fields[tail_at:], directions, hostname)
    except ValueError as error:
        raise UnreadableTerse(f"a field is not what it should be: {error}", len(fields)) from error
    if further.description:
        job = replace(job, description=further.description)
    return TerseLine(at, number, version, fio_version, job, further.disks, is_cut=further.is_cut)


def _find_anchor(fields: Sequence[str]) -> int:
    """Return where the first 20 fields of the form P%=value in a row begin; -1 if nowhere."""
    run = 0
    for place, text in enumerate(fields):
        run = run + 1 if "%=" in text else 0
        if run == PERCENTILES_COUNT:
            return place + 1 - run
    return -1


def _count_blocks(fields: Sequence[str], first: int, stride: int) -> int:
    count = 0
    for start in range(first, len(fields) - stride + 1, stride):
        anchor = start + PERCENTILES_AT
        if "%=" not in fields[anchor] or "%=" not in fields[anchor + PERCENTILES_COUNT - 1]:
            break
        count += 1
    return count


def _is_tail(fields: Sequence[str]) -> bool:
    """Say whether these are shares in per cent around three counters, by a few of them."""
    if len(fields) != _TAIL_LENGTH or any(fields[place].endswith("%") for place in _TAIL_COUNTERS):
        return False
    return all(fields[place].endswith("%") for place in _TAIL_SHARES)


def _make_job(
    head: Sequence[str],
    tail: Sequence[str],
    directions: Sequence[Direction | None],
    hostname: str | None,
) -> Job:
    shares = [read_share(text) for text in tail[5:_TAIL_LENGTH]]
    return Job(
        index=0,
        name=";".join(head[:-2]),
        groupid=min(read_whole(head[-2]) or 0, INTEGER_MAXIMUM),
        hostname=hostname,
        error=_read_error(head[-1]),
        clones=1,
        options={},
        directions=tuple(direction for direction in directions if direction is not None),
        cpu_user_percent=read_share(tail[0]),
        cpu_system_percent=read_share(tail[1]),
        context_switches=read_whole(tail[2]),
        major_faults=read_whole(tail[3]),
        minor_faults=read_whole(tail[4]),
        depth={level: share for level, share in zip(_DEPTHS, shares, strict=False) if share is not None},
        latency_shares=tuple(
            (bound, share)
            for bound, share in zip(_BOUNDS_NS, shares[len(_DEPTHS) :], strict=True)
            if share is not None
        ),
        has_all_options=False,
    )


def _read_error(text: str) -> int:
    """Return the error number: 1 for a number that is none of any platform, as something went wrong."""
    value = int(read_number(text))
    return value if -INTEGER_MAXIMUM <= value <= INTEGER_MAXIMUM else 1


@dataclass(frozen=True, slots=True)
class _Further:
    disks: tuple[Disk, ...]
    description: str | None
    is_cut: bool


def _read_further(fields: Sequence[str], *, is_last: bool) -> _Further:
    """Read what may follow: disks, two counters of errors (continue_on_error), the description."""
    disks, place = _read_disks(fields)
    rest = fields[place:]
    if is_last and _is_beginning_of_disk(rest):
        return _Further(disks, None, is_cut=True)
    if len(rest) >= 2 and _WHOLE.fullmatch(rest[0]) and _WHOLE.fullmatch(rest[1]):
        rest = rest[2:]
    return _Further(disks, ";".join(rest) or None, is_cut=False)


def read_disk_line(text: str) -> tuple[Disk, ...]:
    """Return the disks of a line of their own (";vda;53015;…;57.29%"); none if it is no such line."""
    fields = text.split(";", LINE_LENGTH_MAXIMUM)[1:]
    disks, place = _read_disks(fields)
    return disks if place == len(fields) else ()


def _read_disks(fields: Sequence[str]) -> tuple[tuple[Disk, ...], int]:
    disks = []
    place = 0
    while _is_disk(fields[place : place + _DISK_LENGTH]):
        name, *texts = fields[place : place + _DISK_LENGTH]
        place += _DISK_LENGTH
        if name != _OF_MEMBERS:
            disks.append(_make_disk(name, texts))
    return tuple(disks), place


def _make_disk(name: str, texts: Sequence[str]) -> Disk:
    read_ios, write_ios, read_merges, write_merges, read_ms, write_ms, queued_ms = map(read_whole, texts[:7])
    return Disk(
        name,
        read_ios,
        write_ios,
        read_share(texts[7]),
        read_merges,
        write_merges,
        None if read_ms is None else read_ms / 1000,
        None if write_ms is None else write_ms / 1000,
        None if queued_ms is None else queued_ms / 1000,
    )


def _is_disk(fields: Sequence[str]) -> bool:
    if len(fields) != _DISK_LENGTH or not fields[-1].endswith("%"):
        return False
    try:
        read_number(fields[-1])
    except ValueError:
        return False
    return all(_WHOLE.fullmatch(text) for text in fields[1:-1])


def _is_beginning_of_disk(fields: Sequence[str]) -> bool:
    """Say whether these may be the first fields of a disk that was cut off: a name and counters."""
    if not 2 <= len(fields) <= _DISK_LENGTH or _WHOLE.fullmatch(fields[0]):
        return False
    return all(_WHOLE.fullmatch(text) for text in fields[1:-1]) and _CUT.fullmatch(fields[-1]) is not None
