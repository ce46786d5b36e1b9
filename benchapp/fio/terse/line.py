"""One line of fio's terse format, versions 2 to 5: one job, or one group of jobs."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from benchapp.fio.numbers import (
    INTEGER_MAXIMUM,
    SAMPLES_SUMMED,
    Version,
    parse_version,
    read_amount,
    read_count,
)
from benchapp.fio.report import Direction, DirectionName, Disk, Job, Latency, Samples, ValueSources, make_disk

_BANDWIDTH_SOURCES: Final = {
    "exact": "io in KiB × 1024 / runtime; the printed bw, cut to whole KiB/s, agrees",
    "decimal": "io in KiB × 1024 / runtime; the printed bw is in kB/s of 1000 bytes, as fio 2.0 has it",
    "printed": "bw in KiB/s × 1024; io and runtime would give another",
}
_SOURCES: Final = {
    "io_bytes": "io in KiB × 1024",
    "iops": "iops, cut to a whole number",
    "runtime_s": "runtime in ms",
    "submission": "slat in µs × 1000",
    "completion": "clat in µs × 1000",
    "total": "lat in µs × 1000",
    "percentiles": "P%=µs × 1000; of clat, unless lat_percentiles was set, which terse does not say",
    "bandwidth_samples": "bw min, max, mean and dev in KiB/s × 1024",
    "iops_samples": "iops min, max, mean and stdev",
}
# The values that may be absent, with the default reason.
_REASONS: Final = {
    **dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s", "runtime_s"), "out-of-range"),
    **dict.fromkeys(("bandwidth_samples", "iops_samples"), "short-run"),
    **dict.fromkeys(("submission", "completion", "total"), "not-measured"),
}
VALUES: Final = (*_REASONS, "percentiles")


class TerseState(Struct, frozen=True, gc=False):
    """Everything that determines sources and reasons. rates: the reason for their absence, or empty."""

    reasons: tuple[tuple[str, str], ...]
    rates: str
    bandwidth_source: str
    is_per_job: bool
    has_iops_samples: bool
    absent: tuple[bool, ...]


@lru_cache(maxsize=1024)
def collect_terse_sources(state: TerseState) -> ValueSources:
    """Return the reason for each absent value and the source of each other; a text has few different states."""
    absent = [name for name, is_absent in zip(VALUES, state.absent, strict=True) if is_absent]
    missing: dict[str, str] = {"total_ios": "not-in-format", **dict(state.reasons)}
    if state.rates:
        missing["iops"] = state.rates
    if state.rates == "zero-runtime":
        missing["bandwidth_bytes_per_s"] = state.rates
    if state.is_per_job:
        missing["bandwidth_samples"] = "per-job-samples"
    if not state.has_iops_samples:
        missing["iops_samples"] = "not-in-format"
    for name in absent:
        if name in _REASONS:
            missing.setdefault(name, _REASONS[name])
    if "completion" in absent and "total" in absent:
        missing["latency"] = missing["percentiles"] = missing.get("completion", "not-measured")
    elif "percentiles" in absent:
        missing["percentiles"] = "not-reported"
    every = {**_SOURCES, "bandwidth_bytes_per_s": _BANDWIDTH_SOURCES[state.bandwidth_source]}
    return ValueSources(missing, {name: source for name, source in every.items() if name not in missing})


_KIB: Final = 1024
_NS_PER_US: Final = 1000
_DIGITS_MAXIMUM: Final = 40
# A century; as ns it is still what a database keeps.
_MOST_US: Final = 3 * 10**15
# Places of the fields in a block.
_SLAT, _CLAT, _PERCENTILES, _LAT, _BANDWIDTH, _FURTHER = 4, 8, 12, 32, 36, 41
_IDLE: Final = ["0", "0", "0", "0"]
_NO_LATENCY: Final = ["0", "0", "0.000000", "0.000000"]
PERCENTILES_AT: Final = _PERCENTILES
PERCENTILES_COUNT: Final = _LAT - _PERCENTILES
# Samples of one job are near its rate; those of two jobs, averaged, are half of it.
_PER_JOB_SHARE: Final = 0.67
_LONG_ENOUGH_S: Final = 2.0


class _Block(Struct, frozen=True, gc=False):
    """The values of a block, in printed units (KiB, KiB/s, ms) except for structs; reasons: of latencies, by name."""

    io_kib: int | None
    bandwidth_kib: int | None
    iops: int | None
    runtime_ms: int | None
    submission: Latency | None
    completion: Latency | None
    total: Latency | None
    bandwidth_samples: Samples | None
    iops_samples: Samples | None
    has_iops_samples: bool
    reasons: tuple[tuple[str, str], ...] = ()


@lru_cache(maxsize=4096)
def read_number(text: str) -> float:
    """Return a number; nan for a value that fio could not calculate ("-nan", "inf", Windows' "1.#IND").

    Raises ValueError for anything else. Cached: most fields are zeros and per cents that repeat.
    """
    if "#" in text:
        return math.nan
    if len(text) > _DIGITS_MAXIMUM:
        raise ValueError(f"{text[:_DIGITS_MAXIMUM]!r} is not a valid number")
    value = float(text[:-1] if text[-1:] == "%" else text)
    return value if math.isfinite(value) else math.nan


@lru_cache(maxsize=1024)
def read_share(text: str) -> float | None:
    """Return a share in per cent; None if it is nan or below zero. Raises ValueError for text."""
    return read_amount(read_number(text))


def read_whole(text: str) -> int | None:
    """Return a counter; None if it wrapped below zero or is not finite. Raises ValueError for text."""
    if text.isdecimal() and len(text) <= _DIGITS_MAXIMUM:
        return read_count(int(text))
    return read_count(read_number(text))


def read_terse_direction(name: DirectionName, fields: Sequence[str], *, version: Version) -> Direction | None:
    """Return the values of one block; None without I/O in this direction.

    fields: 41 or 47. version: of fio, (0, 0, 0) in terse 2, which does not print it. Raises ValueError for
    fields that are not numbers.
    """
    if fields[:_SLAT] == _IDLE and fields[_CLAT:_PERCENTILES] == fields[_LAT:_BANDWIDTH] == _NO_LATENCY:
        return None
    reasons: dict[str, str] = {}
    io_kib, bandwidth_kib, iops, runtime_ms = (read_whole(text) for text in fields[:_SLAT])
    submission, completion, total = _read_latencies(fields, reasons)
    if io_kib == 0 and runtime_ms == 0 and completion is None and total is None:
        return None
    block = _Block(
        io_kib,
        bandwidth_kib,
        iops,
        runtime_ms,
        submission,
        completion,
        total,
        _read_bandwidth_samples(fields[_BANDWIDTH:]),
        _read_iops_samples(fields),
        len(fields) > _FURTHER,
        tuple(reasons.items()),
    )
    return _make_direction(name, block, version)


def _make_direction(name: DirectionName, block: _Block, version: Version) -> Direction:
    io_kib, iops, runtime_ms, samples = block.io_kib, block.iops, block.runtime_ms, block.bandwidth_samples
    bandwidth, source = _find_bandwidth(io_kib, block.bandwidth_kib, runtime_ms)
    rates = ""
    if runtime_ms == 0:
        rates = "zero-runtime"
        iops = bandwidth = None
    elif iops == 0 and io_kib:
        # Truncated to a whole number: less than one per second is 0.
        rates = "not-in-format"
        iops = None
    io_bytes = None if io_kib is None else read_count(io_kib * _KIB)
    runtime_s = None if runtime_ms is None else runtime_ms / 1000
    is_per_job = samples is not None and _is_per_job(samples, bandwidth, runtime_s, version)
    if is_per_job:
        samples = None
    submission, completion, total = block.submission, block.completion, block.total
    has_percentiles = (completion and completion.percentiles) or (total and total.percentiles)
    # In the order of VALUES.
    absent = (
        io_bytes is None,
        iops is None,
        bandwidth is None,
        runtime_s is None,
        samples is None,
        block.iops_samples is None,
        submission is None,
        completion is None,
        total is None,
        not has_percentiles,
    )
    value_sources = collect_terse_sources(
        TerseState(block.reasons, rates, source, is_per_job, block.has_iops_samples, absent)
    )
    return Direction(
        name,
        io_bytes,
        None,
        None if iops is None else float(iops),
        bandwidth,
        runtime_s,
        submission,
        completion,
        total,
        samples,
        block.iops_samples,
        value_sources.missing,
        value_sources.sources,
    )


def _find_bandwidth(
    io_kib: int | None, bandwidth_kib: int | None, runtime_ms: int | None
) -> tuple[float | None, str]:
    """Return bytes/s and their source: exact if the printed, truncated value agrees."""
    if bandwidth_kib is None:
        return None, "printed"
    if io_kib is not None and runtime_ms:
        exact = io_kib * _KIB * 1000 / runtime_ms
        # io is truncated to whole KiB too, which matters in short runs.
        tolerance = 1 + 1000 / runtime_ms
        if abs(exact / _KIB - bandwidth_kib) <= tolerance:
            return exact, "exact"
        if abs(exact / 1000 - bandwidth_kib) <= tolerance * 1.024:
            return exact, "decimal"
    return read_amount(float(bandwidth_kib * _KIB)), "printed"


def _read_latencies(fields: Sequence[str], missing: dict[str, str]) -> tuple[Latency | None, ...]:
    """Return slat, clat and lat; percentiles are with clat, or with lat where clat was not measured."""
    submission = _read_latency(fields[_SLAT:_CLAT], "submission", missing)
    completion = _read_latency(fields[_CLAT:_PERCENTILES], "completion", missing)
    total = _read_latency(fields[_LAT:_BANDWIDTH], "total", missing)
    percentiles = _read_percentiles(fields[_PERCENTILES:_LAT])
    if completion is not None:
        completion = replace(completion, percentiles=percentiles)
    elif total is not None:
        total = replace(total, percentiles=percentiles)
    return submission, completion, total


def _read_latency(fields: Sequence[str], name: str, missing: dict[str, str]) -> Latency | None:
    """Read min, max, mean and dev in µs; None if all are zero, which fio prints for unmeasured values."""
    try:
        minimum, maximum, mean, stddev = map(float, fields)
    except ValueError:
        minimum, maximum, mean, stddev = map(read_number, fields)
    # Comparisons with nan are false.
    if not (0 <= minimum <= maximum < _MOST_US and 0 <= mean < _MOST_US and 0 <= stddev < _MOST_US):
        return _read_odd_latency((minimum, maximum, mean, stddev), name, missing)
    if not maximum and not mean:
        return None
    return Latency(
        minimum * _NS_PER_US,
        maximum * _NS_PER_US,
        round(mean * _NS_PER_US, 3),
        round(stddev * _NS_PER_US, 3),
        None,
    )


def _read_odd_latency(numbers: Sequence[float], name: str, missing: dict[str, str]) -> Latency | None:
    is_number = all(map(math.isfinite, numbers))
    missing[name] = "out-of-range" if is_number else "not-a-number"
    minimum, maximum, mean, stddev = (read_amount(round(number * _NS_PER_US, 3)) for number in numbers)
    if (
        minimum is not None and maximum is not None and minimum > maximum
    ) or minimum is maximum is mean is None:
        return None
    return Latency(minimum, maximum, mean, stddev, None)


def _read_percentiles(fields: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Read "99.00%=151" in µs, ascending; "0%=0" fills the slots that are not used."""
    parts = ";".join(fields).replace("%=", ";").split(";")
    labels = tuple([read_number(text) for text in parts[::2]])
    values = [int(text) for text in parts[1::2]]
    if len(values) != len(fields):
        raise ValueError("a percentile is not a pair of per cent and value")
    percents, is_plain = _order_percents(labels)
    if is_plain and min(values) >= 0 and max(values) < _MOST_US:
        return tuple(zip(percents, [value * _NS_PER_US for value in values]))  # noqa: B905
    found = {
        percent: value * _NS_PER_US
        for percent, value in zip(percents, values, strict=False)
        if percent and 0 <= value < _MOST_US
    }
    return tuple(sorted(found.items()))


@lru_cache(maxsize=64)
def _order_percents(labels: tuple[float, ...]) -> tuple[tuple[float, ...], bool]:
    """Return per cents, without the zeros at the end, and whether they ascend; lists of percentiles are few."""
    percents = list(labels)
    while percents and percents[-1] == 0:
        percents.pop()
    is_plain = all(0 < percent <= 100 for percent in percents) and percents == sorted(set(percents))
    return tuple(float(percent) if 0 < percent <= 100 else 0.0 for percent in percents), is_plain


def _read_bandwidth_samples(fields: Sequence[str]) -> Samples | None:
    """Read bw min, max, agg%, mean and dev, and, of version 5, how many there were."""
    minimum, maximum, _, mean, stddev = map(read_number, fields[:5])
    count = read_whole(fields[5]) if len(fields) > 5 else None
    if count == 0 or (count is None and not maximum and not mean):
        return None
    return _make_samples((minimum, maximum, mean, stddev), _KIB, count)


def _read_iops_samples(fields: Sequence[str]) -> Samples | None:
    if len(fields) <= _FURTHER:
        return None
    minimum, maximum, mean, stddev = (read_number(text) for text in fields[_FURTHER + 1 : _FURTHER + 5])
    count = read_whole(fields[_FURTHER + 5])
    return _make_samples((minimum, maximum, mean, stddev), 1, count) if count else None


def _make_samples(numbers: Sequence[float], scale: int, count: int | None) -> Samples | None:
    minimum, maximum, mean, stddev = (read_amount(number * scale) for number in numbers)
    if minimum is None or maximum is None or mean is None or stddev is None:
        return None
    return Samples(minimum, maximum, mean, stddev, count)


def _is_per_job(samples: Samples, bandwidth: float | None, runtime_s: float | None, version: Version) -> bool:
    """Return whether samples are those of one job of a group, by the rates: terse does not print clones."""
    if version >= SAMPLES_SUMMED or bandwidth is None or (runtime_s or 0) < _LONG_ENOUGH_S:
        return False
    return samples.mean < bandwidth * _PER_JOB_SHARE


# A line of 1000 disks has 60 KB; names and descriptions are bounded by fio.
LINE_LENGTH_MAXIMUM: Final = 2**20
_DISK_LENGTH: Final = 9
_COUNT: Final = re.compile(r"-?\d{1,20}", re.ASCII)
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
    if len(rest) >= 2 and _COUNT.fullmatch(rest[0]) and _COUNT.fullmatch(rest[1]):
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
    return all(_COUNT.fullmatch(text) for text in texts[:-1])


def _is_beginning_of_disk(fields: Sequence[str]) -> bool:
    """Return whether these may be the first fields of a truncated disk: a name and counters."""
    if not 2 <= len(fields) <= _DISK_LENGTH or _COUNT.fullmatch(fields[0]):
        return False
    return all(_COUNT.fullmatch(text) for text in fields[1:-1]) and _CUT.fullmatch(fields[-1]) is not None


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
