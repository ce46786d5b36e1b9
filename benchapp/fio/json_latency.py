"""One latency distribution of fio's JSON, in ns; the usual shape is read in bulk, as it is most of the work."""

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final

from benchapp.fio.histogram import read_bucket
from benchapp.fio.numbers import BIGINT_MAXIMUM, read_amount, read_count
from benchapp.fio.report import Latency

Raw = Mapping[str, Any]

# stat.h of 2.x: 19 groups of 64 buckets.
_BUCKETS: Final = 1216
_KEYS: Final = {kind: (f"{kind}_ns", kind) for kind in ("slat", "clat", "lat")}


def read_latency(raw: Raw, kind: str) -> Latency | None:
    """Read slat, clat or lat, in µs or ns as the key says; None where fio counted no samples."""
    in_ns, in_us = _KEYS[kind]
    part, scale = raw.get(in_ns), 1
    if part is None:
        part, scale = raw.get(in_us), 1000
    if not isinstance(part, dict):
        return None
    count = read_count(part.get("N"))
    minimum, maximum = read_amount(part.get("min")), read_amount(part.get("max"))
    mean, stddev = read_amount(part.get("mean")), read_amount(part.get("stddev"))
    # Before 3.18 there is no N: nothing measured is all zeros.
    if count == 0 or (count is None and not minimum and not maximum and not mean):
        return None
    if minimum is not None and maximum is not None and minimum > maximum:
        return None
    if scale != 1:
        minimum, maximum, mean, stddev = (
            None if value is None else read_amount(round(value * scale, 3))
            for value in (minimum, maximum, mean, stddev)
        )
    percentiles, bins = part.get("percentile"), part.get("bins")
    return Latency(
        minimum,
        maximum,
        mean,
        stddev,
        count,
        _read_percentiles(percentiles, scale) if isinstance(percentiles, dict) else (),
        _read_bins(bins, scale) if isinstance(bins, dict) else None,
    )


def _read_percentiles(raw: Raw, scale: int) -> tuple[tuple[float, float], ...]:
    """Read percentiles, ascending; fio before 3.4 pads unused slots with the key 0.00."""
    values = raw.values()
    percents = _parse_percents(tuple(raw))
    if percents and _are_amounts(values, BIGINT_MAXIMUM // scale):
        if scale == 1:
            return tuple(zip(percents, values, strict=True))
        return tuple((percent, value * scale) for percent, value in zip(percents, values, strict=True))
    return _read_odd_percentiles(raw, scale)


@lru_cache(maxsize=64)
def _parse_percents(keys: tuple[str, ...]) -> tuple[float, ...]:
    """Return the percents if they are in order; empty if anything is odd. Lists of percentiles are few."""
    try:
        percents = tuple(float(key) for key in keys if len(key) < 20)
    except ValueError:
        return ()
    is_plain = len(percents) == len(keys) and all(0 < percent <= 100 for percent in percents)
    return percents if is_plain and sorted(set(percents)) == list(percents) else ()


def _read_odd_percentiles(raw: Raw, scale: int) -> tuple[tuple[float, float], ...]:
    found: dict[float, float] = {}
    for key, value in raw.items():
        try:
            percent = float(key)
        except ValueError:
            continue
        amount = read_amount(value)
        if 0 < percent <= 100 and amount is not None and amount * scale <= BIGINT_MAXIMUM:
            found[percent] = amount * scale
    return tuple(sorted(found.items()))


def _are_amounts(values: Collection[Any], maximum: int) -> bool:
    """Say whether all are whole numbers from 0 to the maximum, and there are some."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= maximum


def _read_bins(raw: Raw, scale: int) -> dict[int, int] | None:
    """Read a histogram, ascending by value; None if it holds anything but counts."""
    counts = raw.values()
    if not _are_amounts(counts, BIGINT_MAXIMUM):
        return None
    if "FIO_IO_U_PLAT_BITS" in raw:
        return _read_buckets(raw, scale)
    try:
        values = [int(key) for key in raw]
    except ValueError:
        return None
    if not _are_amounts(values, BIGINT_MAXIMUM // scale):
        return None
    if scale != 1:
        values = [value * scale for value in values]
    bins = dict(zip(values, counts, strict=True))
    if 0 in counts:
        bins = {value: count for value, count in bins.items() if count}
    # fio prints them in order.
    return bins if values == sorted(values) else dict(sorted(bins.items()))


def _read_buckets(raw: Raw, scale: int) -> dict[int, int] | None:
    """Read what 2.2.12 to 2.19 print: all buckets by index, and three keys that say how many bits they have."""
    filled = {int(key): count for key, count in raw.items() if count and key.isdecimal() and len(key) < 10}
    return {read_bucket(index) * scale: filled[index] for index in sorted(filled) if index < _BUCKETS} or None
