"""Roll clones of one job up into a group, without calculating what cannot be known."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from benchapp.fio.histogram import find_percentiles, merge_bins
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import BIGINT_MAXIMUM, INTEGER_MAXIMUM
from benchapp.fio.options import count_jobs_asked
from benchapp.fio.report import Direction, DirectionName, Group, Job, Latency

_T = TypeVar("_T", int, float)

_ORDER: Final[tuple[DirectionName, ...]] = ("read", "write", "trim", "mixed", "sync")


def roll_up(jobs: Sequence[Job], *, where: str, is_partial: bool, notes: Notes) -> tuple[Group, ...]:
    """Return one group for all entries of the same group, name, options and host, in order of appearance.

    fio's aggregate over clients is in none. Of a report that was cut, a group that lacks clones has no values.
    """
    groups = [
        _make_group(members, where=where, is_partial=is_partial, notes=notes)
        for members in _find_clones(jobs)
    ]
    return tuple(sorted(groups, key=lambda group: group.jobs[0]))


def _find_clones(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    alike: dict[object, list[Job]] = defaultdict(list)
    for job in jobs:
        if not job.is_aggregate:
            alike[job.groupid, job.hostname, job.name].append(job)
    for members in alike.values():
        if len(members) == 1:
            yield members
            continue
        by_options: dict[object, list[Job]] = defaultdict(list)
        for job in members:
            by_options[frozenset(job.options.items())].append(job)
        yield from by_options.values()


def _make_group(members: Sequence[Job], *, where: str, is_partial: bool, notes: Notes) -> Group:
    first = members[0]
    seen = sum(job.clones for job in members)
    asked = count_jobs_asked(first.options)
    if len(members) == 1:
        directions = first.directions
    else:
        directions = merge_directions([job.directions for job in members])
    if is_partial and asked and seen < asked:
        directions = tuple(_withhold(direction) for direction in directions)
        notes.add(
            "clones-missing",
            f"{where}, job {first.index} ({first.name})",
            f"only {seen} of {asked} clones were printed whole; the values of the group are not known",
        )
    return Group(
        name=first.name,
        groupid=first.groupid,
        hostname=first.hostname,
        numjobs=min(max(asked or 1, seen), INTEGER_MAXIMUM),
        error=next((job.error for job in members if job.error), 0),
        options=first.options,
        directions=directions,
        jobs=tuple(job.index for job in members),
        iodepth=first.iodepth,
    )


def _withhold(direction: Direction) -> Direction:
    names = ("io_bytes", "total_ios", "iops", "bandwidth_bytes_per_s", "latency", "percentiles")
    return Direction(
        direction.name,
        None,
        None,
        None,
        None,
        direction.runtime_s,
        missing=dict.fromkeys((*names, "bandwidth_samples", "iops_samples"), "clones-missing"),
    )


def merge_directions(parts: Sequence[Sequence[Direction]]) -> tuple[Direction, ...]:
    """Merge the directions of several entries that ran together."""
    by_name: dict[DirectionName, list[Direction]] = defaultdict(list)
    for directions in parts:
        for direction in directions:
            by_name[direction.name].append(direction)
    return tuple(_merge_direction(by_name[name]) for name in _ORDER if name in by_name)


def _merge_direction(clones: Sequence[Direction]) -> Direction:
    # A clone that never got to do any I/O adds nothing.
    active = [clone for clone in clones if clone.total_ios != 0 or clone.io_bytes] or clones[:1]
    if len(active) == 1:
        return active[0]
    missing: dict[str, str] = {}

    def add(name: str, take: Callable[[Direction], _T | None]) -> _T | None:
        total = _add_up([take(clone) for clone in active])
        if total is None:
            missing[name] = next(
                (clone.missing[name] for clone in active if name in clone.missing), "out-of-range"
            )
        return total

    runtimes = [clone.runtime_s for clone in active if clone.runtime_s is not None]
    merged = Direction(
        name=active[0].name,
        io_bytes=add("io_bytes", lambda clone: clone.io_bytes),
        total_ios=add("total_ios", lambda clone: clone.total_ios),
        iops=add("iops", lambda clone: clone.iops),
        bandwidth_bytes_per_s=add("bandwidth_bytes_per_s", lambda clone: clone.bandwidth_bytes_per_s),
        runtime_s=max(runtimes) if runtimes else None,
        submission=_merge_latency(active, lambda clone: clone.submission),
        completion=_merge_latency(active, lambda clone: clone.completion),
        total=_merge_latency(active, lambda clone: clone.total),
        missing=missing,
    )
    if merged.runtime_s is None:
        missing["runtime_s"] = "not-reported"
    if merged.name != "sync":
        missing["bandwidth_samples"] = missing["iops_samples"] = "clones"
    _explain_latency(merged, active, missing)
    return merged


def _add_up(values: Sequence[_T | None]) -> _T | None:
    known = [value for value in values if value is not None]
    total = sum(known)
    # Half a sum is none; and 10 000 clones may exceed what can be stored.
    return total if len(known) == len(values) and total <= BIGINT_MAXIMUM else None


def _explain_latency(merged: Direction, active: Sequence[Direction], missing: dict[str, str]) -> None:
    if merged.completion is None and merged.total is None:
        reasons = {clone.missing.get("latency") for clone in active}
        reason = reasons.pop() if len(reasons) == 1 else None
        missing["latency"] = missing["percentiles"] = reason or "clones-disagree"
        return
    for latency, name in (
        (merged.submission, "submission"),
        (merged.completion, "completion"),
        (merged.total, "total"),
    ):
        if latency is None and merged.name != "sync":
            is_same = all(name in clone.missing for clone in active)
            missing[name] = "not-measured" if is_same else "clones-disagree"
    has_percentiles = any(latency and latency.percentiles for latency in (merged.completion, merged.total))
    if not has_percentiles:
        is_same = all(clone.missing.get("percentiles") == "not-reported" for clone in active)
        missing["percentiles"] = "not-reported" if is_same else "clones-without-bins"


@dataclass(frozen=True, slots=True)
class _Part:
    """A latency with its weight: samples, else I/Os, else bytes (of clones, all of one block size)."""

    latency: Latency
    weight: float


def _merge_latency(
    clones: Sequence[Direction], take: Callable[[Direction], Latency | None]
) -> Latency | None:
    """Merge one kind of latency of all clones; None unless all of them measured it."""
    parts = []
    for clone in clones:
        latency = take(clone)
        if latency is None:
            return None
        parts.append(_Part(latency, latency.count or clone.total_ios or clone.io_bytes or 0))
    minima = [part.latency.minimum_ns for part in parts if part.latency.minimum_ns is not None]
    maxima = [part.latency.maximum_ns for part in parts if part.latency.maximum_ns is not None]
    mean = _pool_mean(parts)
    merged = Latency(
        minimum_ns=min(minima) if len(minima) == len(parts) else None,
        maximum_ns=max(maxima) if len(maxima) == len(parts) else None,
        mean_ns=mean,
        stddev_ns=None if mean is None else _pool_stddev(parts, mean),
        count=_add_up([part.latency.count for part in parts]),
    )
    return _merge_percentiles(merged, parts)


def _pool_mean(parts: Sequence[_Part]) -> float | None:
    weight = sum(part.weight for part in parts)
    means = [part.latency.mean_ns for part in parts]
    if not weight or None in means:
        return None
    return sum(part.weight * (part.latency.mean_ns or 0) for part in parts) / weight


def _pool_stddev(parts: Sequence[_Part], mean_ns: float) -> float | None:
    """Pool standard deviations as fio's sum_stat does: within the parts and between their means."""
    if any(part.latency.stddev_ns is None for part in parts):
        return None
    weight = sum(part.weight for part in parts)
    if weight <= 1:
        return 0.0
    squares = sum(
        max(part.weight - 1, 0) * float(part.latency.stddev_ns or 0) ** 2
        + part.weight * ((part.latency.mean_ns or 0) - mean_ns) ** 2
        for part in parts
    )
    return math.sqrt(squares / (weight - 1))


def _merge_percentiles(merged: Latency, parts: Sequence[_Part]) -> Latency:
    """Take percentiles from the histograms of all parts together; without them there are none."""
    if any(part.latency.bins is None for part in parts):
        return merged
    bins = merge_bins(part.latency.bins or {} for part in parts)
    percents = sorted({percent for part in parts for percent, _ in part.latency.percentiles})
    if sum(bins.values()) > BIGINT_MAXIMUM:
        return merged
    return replace(merged, percentiles=find_percentiles(bins, percents), bins=bins)
