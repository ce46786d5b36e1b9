"""fio's latency histograms: merging them, and taking percentiles by fio's own definition."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Final

# stat.h of fio: 64 buckets for each power of two.
_PLAT_BITS: Final = 6
_PLAT_VALUES: Final = 1 << _PLAT_BITS


def merge_bins(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add up histograms (value → samples), ascending by value."""
    merged: dict[int, int] = {}
    known = merged.get
    for bins in histograms:
        if merged:
            for value, samples in bins.items():
                merged[value] = known(value, 0) + samples
        else:
            merged.update(bins)
    return dict(sorted(merged.items()))


def find_percentiles(bins: Mapping[int, int], percents: Iterable[float]) -> tuple[tuple[float, float], ...]:
    """Return (per cent, value) for each of the percents: the first bin at which that share is reached.

    Follows calc_clat_percentiles in fio's stat.c, which compares in long double; in whole numbers here, as the
    double of 99.9 is a little more than 99.9. Empty without samples.
    """
    values = sorted(bins)
    reached = list(accumulate(map(bins.__getitem__, values)))
    if not reached or not reached[-1]:
        return ()
    return tuple(
        (percent, values[min(bisect_left(reached, _count_wanted(percent, reached[-1])), len(values) - 1)])
        for percent in percents
    )


def _count_wanted(percent: float, samples: int) -> int:
    """Return how many samples are that share, rounded up."""
    numerator, denominator = percent.as_integer_ratio()
    return -(-numerator * samples // (100 * denominator))


def read_bucket(index: int) -> int:
    """Return the value in the middle of a bucket, in fio's unit (µs in 2.x): stat.c, plat_idx_to_val.

    fio 2.2.12 to 2.19 printed bucket indices instead of values.
    """
    if index < _PLAT_VALUES << 1:
        return index
    error_bits = (index >> _PLAT_BITS) - 1
    base = 1 << (error_bits + _PLAT_BITS)
    return base + int((index % _PLAT_VALUES + 0.5) * (1 << error_bits))
