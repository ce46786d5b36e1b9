"""fio's latency histograms: merging them, and taking percentiles by fio's own definition."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

# stat.h of fio: 64 buckets for each power of two.
_PLAT_BITS: Final = 6
_PLAT_VALUES: Final = 1 << _PLAT_BITS


def merge_bins(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add up histograms (value → samples), ascending by value."""
    total: Counter[int] = Counter()
    for bins in histograms:
        total.update(bins)
    return dict(sorted(total.items()))


def find_percentiles(bins: Mapping[int, int], percents: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (per cent, value) for ascending percents: the first bin at which that share is reached.

    Follows calc_clat_percentiles in fio's stat.c, which compares in long double; in whole numbers here, as the
    double of 99.9 is a little more than 99.9. Empty without samples.
    """
    ordered = sorted(bins.items())
    samples = sum(bins.values())
    if not samples:
        return ()
    found = []
    values = iter(ordered)
    value, reached = next(values)
    for percent in percents:
        numerator, denominator = percent.as_integer_ratio()
        wanted = numerator * samples
        while reached * 100 * denominator < wanted:
            following = next(values, None)
            if following is None:
                break
            value = following[0]
            reached += following[1]
        found.append((percent, value))
    return tuple(found)


def read_bucket(index: int) -> int:
    """Return the value in the middle of a bucket, in fio's unit (µs in 2.x): stat.c, plat_idx_to_val.

    fio 2.2.12 to 2.19 printed bucket indices instead of values.
    """
    if index < _PLAT_VALUES << 1:
        return index
    error_bits = (index >> _PLAT_BITS) - 1
    base = 1 << (error_bits + _PLAT_BITS)
    return base + int((index % _PLAT_VALUES + 0.5) * (1 << error_bits))
