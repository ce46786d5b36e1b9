"""Merge directions that ran at the same time; values that cannot be calculated exactly are withheld."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import mul
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.merging.histogram import find_percentiles, merge_bins
from benchapp.fio.numbers import BIGINT_MAXIMUM, read_amount
from benchapp.fio.report import PRINTED_DIRECTIONS, Direction, DirectionName, Latency
from benchapp.fio.value_sources import SourceFacts, ValueSources, collect_sources

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
