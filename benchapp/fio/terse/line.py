"""One line of fio's terse format, versions 2 to 5: one job, or one group of jobs."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from msgspec import Struct, field

from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.report import Direction, DirectionName, Disk, Job
from benchapp.fio.terse.direction import (
    PERCENTILES_AT,
    PERCENTILES_COUNT,
    read_number,
    read_share,
    read_terse_direction,
    read_whole,
)
from benchapp.fio.terse.disks import LINE_LENGTH_MAXIMUM, read_further
from benchapp.fio.version import parse_version

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
# More digits than any counter has, as a damaged one may.
_WHOLE: Final = re.compile(r"-?\d{1,40}", re.ASCII)
# Place of the name of the job.
_NAME_AT: Final = {2: 1, 3: 2, 4: 2, 5: 2}
_NO_OPTIONS: Final[Mapping[str, str]] = {}
_DEPTHS: Final = ("1", "2", "4", "8", "16", "32", ">=64")
_BOUNDS: Final = (2, 4, 10, 20, 50, 100, 250, 500, 750, 1000)
_BOUNDS_NS: Final[tuple[int | None, ...]] = (
    *(bound * 1_000 for bound in _BOUNDS),
    *(bound * 1_000_000 for bound in (*_BOUNDS, 2000)),
    None,
)
_TAIL_LENGTH: Final = 34
_TAIL_COUNTERS: Final = (2, 3, 4)
_TAIL_SHARES: Final = (0, 1, 5, _TAIL_LENGTH - 1)


_Name = TypeVar("_Name")


class UnreadableTerse(Exception):
    """A line cannot be read; fields: how many it has."""

    def __init__(self, reason: str, fields: int) -> None:
        super().__init__(reason)
        self.fields = fields


class TerseLine(Struct, frozen=True, gc=False):
    """The content of one line.

    number: of the line, from 1; job: its index is set later.
    disks: those in the line; client_disks: those that client mode prints on a separate line after it.
    is_cut: the text ends within its disks.
    """

    number: int
    version: int
    fio_version: str
    job: Job
    disks: tuple[Disk, ...]
    client_disks: list[Disk] = field(default_factory=list)
    is_cut: bool = False


class _LineParts(Struct, frozen=True, gc=False):
    """A line in parts. head: name, group and error; cpu: user and system, per cent; counters: switches and faults;
    shares: per cent, of depths and latencies; further: fields behind them."""

    fio_version: str
    head: Sequence[str]
    directions: Sequence[Direction | None]
    cpu: tuple[float | None, float | None]
    counters: tuple[int | None, int | None, int | None]
    shares: Sequence[float | None]
    further: Sequence[str]


def read_line(text: str, *, number: int, hostname: str | None, is_last: bool) -> TerseLine:
    """Return the content of a line that begins with its version. Raises UnreadableTerse.

    is_last: the text ends with it, and without the end of a line, so that its disks may be cut off.
    Job name and description may hold semicolons: the 20 percentiles of the first direction are the anchor.
    """
    version = int(text[0])
    parts = _read_parts(text, version)
    further = read_further(parts.further, is_last=is_last)
    try:
        job = _make_job(parts, hostname, further.description)
    except ValueError as error:
        raise _refuse_field(error, text) from error
    return TerseLine(number, version, parts.fio_version, job, further.disks, is_cut=further.is_cut)


def _read_parts(text: str, version: int) -> _LineParts:
    """Return the parts of a line. Raises UnreadableTerse."""
    stride = 47 if version == 5 else 41
    fields = text.split(";", LINE_LENGTH_MAXIMUM)
    anchor = _find_anchor(fields)
    first = anchor - PERCENTILES_AT
    if anchor < 0 or first < _NAME_AT[version] + 3:
        raise UnreadableTerse("the percentiles are not at their place", len(fields))
    blocks = _count_blocks(fields, first, stride)
    tail_at = first + blocks * stride
    names = _DIRECTIONS.get((version, blocks))
    tail = fields[tail_at : tail_at + _TAIL_LENGTH]
    if names is None or not _is_tail(tail):
        raise UnreadableTerse("it has missing or extra fields", len(fields))
    # Python's own grammar of numbers has digits in groups.
    if "_" in text and any("_" in field for field in fields[first : tail_at + _TAIL_LENGTH]):
        raise UnreadableTerse("a field is not a valid number: it has an underscore", len(fields))
    fio_version = "" if version == 2 else fields[1].strip()
    fio = parse_version(fio_version)
    try:
        directions = [
            read_terse_direction(name, fields[start : start + stride], version=fio)
            for name, start in zip(names, range(first, tail_at, stride), strict=True)
        ]
        shares = [read_share(text) for text in tail[5:]]
        head = fields[_NAME_AT[version] : first]
        return _LineParts(
            fio_version,
            head,
            directions,
            (read_share(tail[0]), read_share(tail[1])),
            (read_whole(tail[2]), read_whole(tail[3]), read_whole(tail[4])),
            shares,
            fields[tail_at + _TAIL_LENGTH :],
        )
    except ValueError as error:
        raise _refuse_field(error, text) from error


def _refuse_field(error: ValueError, text: str) -> UnreadableTerse:
    return UnreadableTerse(f"a field is not valid: {error}", text.count(";") + 1)


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
    """Return whether these are shares in per cent around three counters; checks a few of them."""
    if len(fields) != _TAIL_LENGTH or any(fields[place].endswith("%") for place in _TAIL_COUNTERS):
        return False
    return all(fields[place].endswith("%") for place in _TAIL_SHARES)


def _make_job(parts: _LineParts, hostname: str | None, description: str | None) -> Job:
    """Return the job of a line. Raises ValueError if its group or error is not a number."""
    *names, groupid, error = parts.head
    _check_head(groupid, error)
    user_percent, system_percent = parts.cpu
    switches, major_faults, minor_faults = parts.counters
    shares = parts.shares
    return Job(
        0,
        ";".join(names),
        min(read_whole(groupid) or 0, INTEGER_MAXIMUM),
        hostname,
        _read_error(error),
        1,
        _NO_OPTIONS,
        tuple([direction for direction in parts.directions if direction is not None]),
        description=description,
        cpu_user_percent=user_percent,
        cpu_system_percent=system_percent,
        context_switches=switches,
        major_faults=major_faults,
        minor_faults=minor_faults,
        depth=dict(_pair_shares(_DEPTHS, shares[: len(_DEPTHS)])),
        latency_shares=tuple(_pair_shares(_BOUNDS_NS, shares[len(_DEPTHS) :])),
        has_all_options=False,
    )


def _check_head(groupid: str, error: str) -> None:
    """Raise ValueError where group and error are not printed as whole numbers.

    In a line that lost its beginning, these are the samples of a block whose percentiles are incomplete: a mean
    and a deviation, never whole ones, before fields of every other kind that would make up the name.
    """
    if not (_WHOLE.fullmatch(groupid) and _WHOLE.fullmatch(error)):
        raise ValueError(f"{groupid[:20]!r} and {error[:20]!r} are neither group nor error")


def _pair_shares(names: Sequence[_Name], shares: Sequence[float | None]) -> Iterable[tuple[_Name, float]]:
    """Return each share with its name, without those that are None."""
    pairs: Iterable[tuple[_Name, Any]] = zip(names, shares, strict=True)
    return [pair for pair in pairs if pair[1] is not None] if None in shares else pairs


def _read_error(text: str) -> int:
    """Return the error number: 1, an unspecified error, for a number above 32 bits."""
    value = int(read_number(text))
    return value if -INTEGER_MAXIMUM <= value <= INTEGER_MAXIMUM else 1
