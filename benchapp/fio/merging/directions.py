"""Merge directions that ran at the same time; values that cannot be calculated exactly are withheld."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import isclose, isqrt
from operator import mul
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.numbers import BIGINT_MAXIMUM, read_amount
from benchapp.fio.report import (
    PRINTED_DIRECTIONS,
    Direction,
    DirectionName,
    Latency,
    SourceFacts,
    ValueSources,
    collect_sources,
)

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
    of_ns, of_us = _LAST_NS
    return isclose(value_ns, of_ns, rel_tol=_LAST_WITHIN) or isclose(value_ns, of_us, rel_tol=_LAST_WITHIN)


_T = TypeVar("_T", int, float)


class MergeParts(Struct, frozen=True, gc=False):
    """What is merged: its name in texts, and the reason code for percentiles that need histograms.

    last_weight: by what means are weighted where neither samples nor I/Os are counted (before 2.1.14, and in
    terse): clones have the same block size, so bytes are used; for others the number of I/Os follows from the rates.
    """

    word: str
    withheld: str
    last_weight: str


_WEIGHTED_BY: Final = "mean weighted by "
_SAMPLES: Final = "samples"
_IOS: Final = "I/Os (total_ios)"
_BYTES: Final = "bytes (io_bytes)"
_RATE: Final = "I/Os (iops × run time)"

CLONES: Final = MergeParts("jobs", "clones-without-bins", _BYTES)
GROUPS: Final = MergeParts("groups", "groups-without-bins", _RATE)
DIRECTIONS: Final = MergeParts("directions", "groups-without-bins", _RATE)


class _Weights(Struct, frozen=True, gc=False):
    """How much each part counts, and by what; of one kind for all parts, none where that cannot be known."""

    kind: str
    values: Sequence[float]


_UNWEIGHTED: Final = _Weights("", ())


def merge_directions(entries: Iterable[Sequence[Direction]], parts: MergeParts) -> tuple[Direction, ...]:
    """Merge the directions of several entries that ran together, each with its like, in fio's order."""
    by_name: dict[DirectionName, list[Direction]] = defaultdict(list)
    for directions in entries:
        for direction in directions:
            by_name[direction.name].append(direction)
    return tuple(merge_alike(name, by_name[name], parts) for name in PRINTED_DIRECTIONS if name in by_name)


def find_weight(source: str) -> str:
    """Return the weight of a mean as named in its entry of `sources`; samples by default."""
    if not source.startswith(_WEIGHTED_BY):
        return _SAMPLES
    return source.removeprefix(_WEIGHTED_BY).partition(" of ")[0]


def did_io(direction: Direction) -> bool:
    """Return whether there was I/O, or may have been: the counts of a group that lacks clones are unknown."""
    return direction.total_ios != 0 or bool(direction.io_bytes)


def merge_alike(name: DirectionName, directions: Sequence[Direction], parts: MergeParts) -> Direction:
    """Merge directions under a name; a single one that did any I/O is taken as it is."""
    # A clone without any I/O adds nothing.
    active = [direction for direction in directions if did_io(direction)] or directions[:1]
    if len(active) == 1:
        return active[0] if active[0].name == name else replace(active[0], name=name)
    runtimes = [part.runtime_s for part in active if part.runtime_s is not None]
    latencies = [[getattr(part, kind) for part in active] for kind in ("submission", "completion", "total")]
    weights = [_weigh(active, of_kind, parts) for of_kind in latencies]
    submission, completion, total = map(_merge_latencies, latencies, weights)
    merged = Direction(
        name,
        _add_up([part.io_bytes for part in active]),
        _add_up([part.total_ios for part in active]),
        _add_up([part.iops for part in active]),
        _add_up([part.bandwidth_bytes_per_s for part in active]),
        max(runtimes) if runtimes else None,
        submission,
        completion,
        total,
        short_ios=_add_up([part.short_ios for part in active]),
        dropped_ios=_add_up([part.dropped_ios for part in active]),
    )
    value_sources = _list_sources(merged, active, parts, [by.kind for by in weights])
    return replace(merged, missing=value_sources.missing, sources=value_sources.sources)


def _weigh(active: Sequence[Direction], latencies: Sequence[Latency | None], parts: MergeParts) -> _Weights:
    """Return the best weights that all parts have; two kinds are never mixed."""
    if all(latency is not None and latency.count for latency in latencies):
        return _Weights(_SAMPLES, [latency.count or 0 for latency in latencies if latency])
    if all(part.total_ios for part in active):
        return _Weights(_IOS, [part.total_ios or 0 for part in active])
    if parts.last_weight == _BYTES:
        values: list[float] = [part.io_bytes or 0 for part in active]
    else:
        values = [(part.iops or 0) * (part.runtime_s or 0) for part in active]
    # A rate that was cut to a whole number may be 0.
    return _Weights(parts.last_weight, values) if all(values) else _UNWEIGHTED


def _list_sources(
    merged: Direction, active: Sequence[Direction], parts: MergeParts, weights: Sequence[str]
) -> ValueSources:
    of_all = f"of {len(active)} {parts.word}"
    added_up = f"sum {of_all}"
    samples = None if merged.name == "sync" else "clones"
    return collect_sources(
        SourceFacts(
            _explain_absence(active, "io_bytes") if merged.io_bytes is None else added_up,
            _explain_absence(active, "total_ios") if merged.total_ios is None else added_up,
            _explain_absence(active, "iops") if merged.iops is None else added_up,
            _explain_absence(active, "bandwidth_bytes_per_s")
            if merged.bandwidth_bytes_per_s is None
            else added_up,
            "not-reported" if merged.runtime_s is None else f"longest {of_all}",
            *_explain_latencies(active, (merged.submission, merged.completion, merged.total), parts, weights),
            samples,
            samples,
            None if merged.short_ios is None else added_up,
            None if merged.dropped_ios is None else added_up,
        )
    )


def _add_up(values: Sequence[_T | None]) -> _T | None:
    # A partial sum is not a sum; and 10 000 clones may exceed what can be stored.
    if None in values:
        return None
    total = sum(values)  # type: ignore[arg-type]
    return total if total <= BIGINT_MAXIMUM else None


def _explain_absence(active: Sequence[Direction], name: str) -> str:
    return next((part.missing[name] for part in active if name in part.missing), "out-of-range")


def _explain_latencies(
    active: Sequence[Direction],
    latencies: tuple[Latency | None, Latency | None, Latency | None],
    parts: MergeParts,
    weights: Sequence[str],
) -> tuple[str | None, str | None, str | None, str | None, str | None]:
    """Return the facts of submission, completion, total, latency as such, and percentiles."""
    submission, completion, total = latencies
    sources = [
        f"{_WEIGHTED_BY}{weight} of {len(active)} {parts.word}" if weight else "groups-without-counts"
        for weight in weights
    ]
    if completion is None and total is None:
        reasons = {part.missing.get("latency") for part in active}
        reason = (reasons.pop() if len(reasons) == 1 else None) or "clones-disagree"
        return sources[0] if submission else None, None, None, reason, reason
    if (completion and completion.percentiles) or (total and total.percentiles):
        percentiles = f"merged bins of {len(active)} {parts.word}"
    else:
        is_same = all(part.missing.get("percentiles") == "not-reported" for part in active)
        percentiles = "not-reported" if is_same else parts.withheld
    return (
        sources[0] if submission else _explain_kind(active, "submission"),
        sources[1] if completion else _explain_kind(active, "completion"),
        sources[2] if total else _explain_kind(active, "total"),
        None,
        percentiles,
    )


def _explain_kind(active: Sequence[Direction], kind: str) -> str | None:
    # sync has only the total.
    if active[0].name == "sync":
        return None
    return "not-measured" if all(kind in part.missing for part in active) else "clones-disagree"


def _merge_latencies(latencies: Sequence[Latency | None], by: _Weights) -> Latency | None:
    """Merge one kind of latency of all parts; None unless all of them measured it."""
    parts = [latency for latency in latencies if latency is not None]
    if len(parts) < len(latencies):
        return None
    minima, maxima, means, deviations, counts = zip(
        *[(part.minimum_ns, part.maximum_ns, part.mean_ns, part.stddev_ns, part.count) for part in parts],
        strict=True,
    )
    mean = _pool_means(means, by.values)
    bins = _merge_all_bins(parts)
    percents = {percent for part in parts for percent, _ in part.percentiles} if bins else ()
    return Latency(
        None if None in minima else min(minima),
        None if None in maxima else max(maxima),
        mean,
        None if mean is None else _pool_deviations(deviations, means, by.values, mean),
        _add_up(counts),
        # From the histograms of all parts together; without them there are none.
        find_percentiles(bins, sorted(percents)) if bins else (),
        bins,
    )


def _pool_means(means: Sequence[float], weights: Sequence[float]) -> float | None:
    total = sum(weights)
    return None if not total or None in means else sum(map(mul, weights, means)) / total


def _pool_deviations(
    deviations: Sequence[float], means: Sequence[float], weights: Sequence[float], mean: float
) -> float | None:
    """Pool standard deviations as fio's sum_stat does: within the parts and between their means."""
    if None in deviations:
        return None
    total = sum(weights)
    if total <= 1:
        return 0.0
    squares = [
        # A part without weight has no deviation either.
        (weight - 1) * float(deviation * deviation) + weight * (own - mean) * (own - mean) if weight else 0.0
        for deviation, own, weight in zip(deviations, means, weights, strict=True)
    ]
    return read_amount(math.sqrt(sum(squares) / (total - 1)))


def _merge_all_bins(parts: Sequence[Latency]) -> dict[int, int] | None:
    histograms = [part.bins for part in parts if part.bins is not None]
    if len(histograms) < len(parts):
        return None
    bins = merge_bins(histograms)
    return bins if sum(bins.values()) <= BIGINT_MAXIMUM else None
