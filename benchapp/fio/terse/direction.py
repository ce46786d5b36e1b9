"""One direction of a terse line: 41 fields, 47 from version 5 on, in base units."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.numbers import read_amount, read_count
from benchapp.fio.report import Direction, DirectionName, Latency, Samples
from benchapp.fio.terse.sources import TerseState, collect_terse_sources
from benchapp.fio.version import SAMPLES_SUMMED, Version

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
