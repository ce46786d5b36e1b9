"""One direction of a terse line: 41 fields, 47 from version 5 on, in base units."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from benchapp.fio.numbers import read_amount, read_count
from benchapp.fio.report import Direction, DirectionName, Latency, Samples
from benchapp.fio.version import Version

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
# From this version the samples of clones are added up, before they were averaged over jobs.
_SAMPLES_SUMMED: Final[Version] = (3, 13, 0)
# Samples of one job are near its rate; those of two jobs, averaged, are half of it.
_PER_JOB_SHARE: Final = 0.67
_LONG_ENOUGH_S: Final = 2.0

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


@lru_cache(maxsize=4096)
def read_number(text: str) -> float:
    """Return a number; nan for what fio could not calculate ("-nan", "inf", Windows' "1.#IND").

    Raises ValueError for what is no number. Most are zeros and percents, and come again and again.
    """
    if "#" in text:
        return math.nan
    if len(text) > _DIGITS_MAXIMUM:
        raise ValueError(f"{text[:_DIGITS_MAXIMUM]!r} is no number")
    value = float(text[:-1] if text[-1:] == "%" else text)
    return value if math.isfinite(value) else math.nan


@lru_cache(maxsize=1024)
def read_share(text: str) -> float | None:
    """Return a share in per cent; None where it is no number, or below zero. Raises ValueError for text."""
    return read_amount(read_number(text))


def read_whole(text: str) -> int | None:
    """Return a counter; None where it wrapped below zero or is no finite number. Raises ValueError for text."""
    if text.isdecimal() and len(text) <= _DIGITS_MAXIMUM:
        return read_count(int(text))
    return read_count(read_number(text))


def read_direction(name: DirectionName, fields: Sequence[str], *, version: Version) -> Direction | None:
    """Return the values of one block; None if nothing was done in this direction.

    fields: 41 or 47. version: of fio, (0, 0, 0) where terse 2 does not tell. Raises ValueError for fields that
    are no numbers.
    """
    if fields[:_SLAT] == _IDLE and fields[_CLAT:_PERCENTILES] == fields[_LAT:_BANDWIDTH] == _NO_LATENCY:
        return None
    missing: dict[str, str] = {"total_ios": "not-in-format"}
    io_kib, bandwidth_kib, iops, runtime_ms = (read_whole(text) for text in fields[:_SLAT])
    submission, completion, total = _read_latencies(fields, missing)
    if io_kib == 0 and runtime_ms == 0 and completion is None and total is None:
        return None
    bandwidth, source = _find_bandwidth(io_kib, bandwidth_kib, runtime_ms)
    if runtime_ms == 0:
        missing["iops"] = missing["bandwidth_bytes_per_s"] = "zero-runtime"
        iops = bandwidth = None
    elif iops == 0 and io_kib:
        # Cut to a whole number, less than one a second is nothing.
        missing["iops"] = "not-in-format"
        iops = None
    runtime_s = None if runtime_ms is None else runtime_ms / 1000
    samples = _read_bandwidth_samples(fields[_BANDWIDTH:])
    if samples is not None and _is_per_job(samples, bandwidth, runtime_s, version):
        missing["bandwidth_samples"] = "per-job-samples"
        samples = None
    direction = Direction(
        name,
        None if io_kib is None else read_count(io_kib * _KIB),
        None,
        None if iops is None else float(iops),
        bandwidth,
        runtime_s,
        submission,
        completion,
        total,
        samples,
        _read_iops_samples(fields, missing),
        missing,
    )
    return _explain(direction, missing, source)


def _find_bandwidth(
    io_kib: int | None, bandwidth_kib: int | None, runtime_ms: int | None
) -> tuple[float | None, str]:
    """Return bytes/s and how they were found: exact where the printed one, which is cut, agrees."""
    if bandwidth_kib is None:
        return None, "printed"
    if io_kib is not None and runtime_ms:
        exact = io_kib * _KIB * 1000 / runtime_ms
        # io is cut to whole KiB too, which weighs in short runs.
        doubt = 1 + 1000 / runtime_ms
        if abs(exact / _KIB - bandwidth_kib) <= doubt:
            return exact, "exact"
        if abs(exact / 1000 - bandwidth_kib) <= doubt * 1.024:
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
    """Read min, max, mean and dev in µs; None where all are zero, which is how fio prints nothing measured."""
    try:
        minimum, maximum, mean, stddev = map(float, fields)
    except ValueError:
        minimum, maximum, mean, stddev = map(read_number, fields)
    # nan is not between anything.
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
    percents, is_plain = _read_percents(tuple(parts[::2]))
    values = [int(text) for text in parts[1::2]]
    if len(values) != len(fields):
        raise ValueError("the percentiles are no pairs")
    if is_plain and min(values) >= 0 and max(values) < _MOST_US:
        return tuple(zip(percents, [value * _NS_PER_US for value in values], strict=False))
    found = {
        percent: value * _NS_PER_US
        for percent, value in zip(percents, values, strict=False)
        if percent and 0 <= value < _MOST_US
    }
    return tuple(sorted(found.items()))


@lru_cache(maxsize=64)
def _read_percents(texts: tuple[str, ...]) -> tuple[tuple[float, ...], bool]:
    """Return per cents, without the zeros at the end, and whether they ascend; lists of percentiles are few."""
    percents = [read_number(text) for text in texts]
    while percents and percents[-1] == 0:
        percents.pop()
    is_plain = all(0 < percent <= 100 for percent in percents) and percents == sorted(set(percents))
    return tuple(percent if 0 < percent <= 100 else 0.0 for percent in percents), is_plain


def _read_bandwidth_samples(fields: Sequence[str]) -> Samples | None:
    """Read bw min, max, agg%, mean and dev, and, of version 5, how many there were."""
    minimum, maximum, _, mean, stddev = map(read_number, fields[:5])
    count = read_whole(fields[5]) if len(fields) > 5 else None
    if count == 0 or (count is None and not maximum and not mean):
        return None
    return _make_samples((minimum, maximum, mean, stddev), _KIB, count)


def _read_iops_samples(fields: Sequence[str], missing: dict[str, str]) -> Samples | None:
    if len(fields) <= _FURTHER:
        missing["iops_samples"] = "not-in-format"
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
    """Say whether samples are those of one job of a group: terse does not tell clones, but the rates do."""
    if version >= _SAMPLES_SUMMED or bandwidth is None or (runtime_s or 0) < _LONG_ENOUGH_S:
        return False
    return samples.mean < bandwidth * _PER_JOB_SHARE


def _explain(direction: Direction, missing: dict[str, str], bandwidth_source: str) -> Direction:
    """Say why each absent value is absent, and where each other one comes from."""
    for value, name in (
        (direction.io_bytes, "io_bytes"),
        (direction.iops, "iops"),
        (direction.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
        (direction.runtime_s, "runtime_s"),
    ):
        if value is None:
            missing.setdefault(name, "out-of-range")
    for samples, name in (
        (direction.bandwidth_samples, "bandwidth_samples"),
        (direction.iops_samples, "iops_samples"),
    ):
        if samples is None:
            missing.setdefault(name, "short-run")
    latencies = (
        (direction.submission, "submission"),
        (direction.completion, "completion"),
        (direction.total, "total"),
    )
    for latency, name in latencies:
        if latency is None:
            missing.setdefault(name, "not-measured")
    has_latency = direction.completion is not None or direction.total is not None
    has_percentiles = any(latency.percentiles for latency, _ in latencies if latency)
    if not has_latency:
        missing["latency"] = missing["percentiles"] = missing.get("completion", "not-measured")
    elif not has_percentiles:
        missing["percentiles"] = "not-reported"
    present = tuple(name for name in (*_SOURCES, "bandwidth_bytes_per_s") if name not in missing)
    return replace(direction, sources=_list_sources(present, bandwidth_source))


@lru_cache(maxsize=256)
def _list_sources(present: tuple[str, ...], bandwidth_source: str) -> Mapping[str, str]:
    """Return the sources of what is there; one dict for all directions alike, as a text has thousands."""
    every = {**_SOURCES, "bandwidth_bytes_per_s": _BANDWIDTH_SOURCES[bandwidth_source]}
    return {name: every[name] for name in present}
