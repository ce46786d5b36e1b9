"""Heat maps: histograms over time, summed over the runs of a column."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Heat:
    """Columns of a heat map, ascending in time; rows are buckets from first_bucket on.

    first_us, last_us: of the runs in each column (microseconds since 1970); runs: how many; run_id: the last of them.
    counts: operations, columns × rows.
    """

    first_bucket: int
    first_us: Counts
    last_us: Counts
    runs: Counts
    run_id: Counts
    counts: Counts


@dataclass(frozen=True, slots=True)
class RunBins:
    """The histogram of one run. bins: first bucket, then operations per bucket."""

    at_us: int
    run_id: int
    bins: Sequence[int]


def make_heat(histograms: Sequence[RunBins], count: int) -> Heat | None:
    """Return at most `count` (1 or more) columns; None without operations.

    Up to `count` runs have a column each; more share columns of equal width in time, without the empty ones.
    """
    kept = [each for each in histograms if len(each.bins) > 1 and any(each.bins[1:])]
    if not kept:
        return None
    first = min(each.bins[0] for each in kept)
    height = max(each.bins[0] + len(each.bins) - 1 for each in kept) - first
    at_us = np.array([each.at_us for each in kept], dtype=np.int64)
    starts = _find_starts(at_us, count)
    ends = np.append(starts[1:], len(kept))
    counts = np.zeros((len(starts), height), dtype=np.int64)
    for column, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for each in kept[start:end]:
            low = each.bins[0] - first
            counts[column, low : low + len(each.bins) - 1] += np.asarray(each.bins[1:], dtype=np.int64)
    return Heat(
        first_bucket=first,
        first_us=at_us[starts],
        last_us=at_us[ends - 1],
        runs=ends - starts,
        run_id=np.array([kept[end - 1].run_id for end in ends], dtype=np.int64),
        counts=counts,
    )


def _find_starts(at_us: Counts, count: int) -> Counts:
    if len(at_us) <= count:
        return np.arange(len(at_us))
    width_us = max(1, -((at_us[0] - at_us[-1] - 1) // count))
    return np.flatnonzero(np.diff((at_us - at_us[0]) // width_us, prepend=-1))
