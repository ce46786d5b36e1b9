"""fio's latency histograms: merging them, taking percentiles by fio's own definition, and coarsening them."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from math import isclose, isqrt
from typing import Final

from benchapp.fio.numbers import BIGINT_MAXIMUM

# stat.h of fio: 64 buckets for each power of two.
_PLAT_BITS: Final = 6
_PLAT_VALUES: Final = 1 << _PLAT_BITS

# A quarter of a power of two, 19 %: a chart of many runs cannot show finer buckets, and fio's own 64 would take
# 16 times the space. The first whole ns of each bucket up to 2^63, in whole numbers, as log2 rounds.
_BUCKETS_PER_OCTAVE: Final = 4
_EDGES: Final = tuple(
    root if root**_BUCKETS_PER_OCTAVE == 1 << bucket else root + 1
    for bucket in range(63 * _BUCKETS_PER_OCTAVE + 1)
    for root in [isqrt(isqrt(1 << bucket))]
)


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


def coarsen_bins(bins: Mapping[int, int]) -> list[int] | None:
    """Return a coarser histogram: the number of its first bucket, then the samples of that and each one behind it.

    bins: value in ns → samples, ascending. Bucket k holds 2^(k/4) to 2^((k+1)/4) ns, left inclusive, and the first one
    0 ns too. The samples add up to those of bins; None where there are none, or more than can be stored.
    """
    values = list(bins)
    reached = list(accumulate(bins.values(), initial=0))
    if not 0 < reached[-1] <= BIGINT_MAXIMUM:
        return None
    first, last = _find_bucket(values[0]), _find_bucket(values[-1])
    edges = _EDGES[first + 1 : last + 1]
    places = [0, *(bisect_left(values, edge) for edge in edges), len(values)]
    return [first, *(reached[right] - reached[left] for left, right in pairwise(places))]


def _find_bucket(value: int) -> int:
    """Return floor(4 × log2(value)), exactly."""
    return (value**_BUCKETS_PER_OCTAVE).bit_length() - 1 if value > 0 else 0


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


# Of 29 groups of buckets in ns, and of 19 in µs before 3.0: stat.h.
_LAST_NS: Final = (read_bucket(29 * _PLAT_VALUES - 1), read_bucket(19 * _PLAT_VALUES - 1) * 1000)
# Text rounds to ms; the next bucket is 8e-3 away, and one of ns is 9e-5 from the last one of µs.
_LAST_WITHIN: Final = 5e-5


def is_saturated(value_ns: float) -> bool:
    """Return whether a percentile is in the last bucket, which has all that took longer: the value is a minimum."""
    return any(isclose(value_ns, last_ns, rel_tol=_LAST_WITHIN) for last_ns in _LAST_NS)
