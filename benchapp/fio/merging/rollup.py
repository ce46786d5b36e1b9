"""Roll up the clones of one job into a group; values that cannot be calculated exactly are withheld."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from benchapp.fio.merging.directions import CLONES, merge_directions
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import INTEGER_MAXIMUM
from benchapp.fio.report import Direction, Group, Job
from benchapp.fio.workload.options import count_jobs_asked, is_set

# fio prints whole IOPS; a size that is drawn from a range has a mean.
_IOPS_MINIMUM: Final = 10
_SIZES_WITHIN: Final = 1.5


def roll_up(
    jobs: Sequence[Job], *, where: str, is_partial: bool, notes: Notes, may_lack_clones: bool = False
) -> tuple[Group, ...]:
    """Return one group for all entries of the same group, name, options and host, in order of appearance.

    fio's aggregate over clients is in none. Of a report that was cut, a group that lacks clones has no values.
    may_lack_clones: where the report was cut, clones of its last job may be missing unless its options list how
    many there were.
    """
    unsure = jobs[-1] if jobs and is_partial and may_lack_clones else None
    if len(jobs) == 1 and not jobs[0].is_aggregate:
        return (_make_group(jobs, where=where, is_partial=is_partial, unsure=unsure, notes=notes),)
    groups = [
        _make_group(members, where=where, is_partial=is_partial, unsure=unsure, notes=notes)
        for members in _find_clones(jobs)
    ]
    return tuple(sorted(groups, key=lambda group: group.jobs[0]))


def _find_clones(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    alike: dict[object, list[Job]] = defaultdict(list)
    # The sum of all clients is the result where its parts are absent.
    is_sum_alone = all(job.is_aggregate for job in jobs)
    for job in jobs:
        if is_sum_alone or not job.is_aggregate:
            alike[job.groupid, job.hostname, job.name].append(job)
    for members in alike.values():
        first = members[0].options
        if all(job.options == first for job in members):
            yield from [members] if first or len(members) == 1 else _separate_sizes(members)
            continue
        by_options: dict[object, list[Job]] = defaultdict(list)
        for job in members:
            by_options[frozenset(job.options.items())].append(job)
        yield from by_options.values()


def _separate_sizes(members: Sequence[Job]) -> list[list[Job]]:
    """Separate entries without options that differ in their block size: these are not clones."""
    by_sizes: list[tuple[dict[str, float], list[Job]]] = []
    for job in members:
        sizes = _measure_sizes(job)
        for others, alike in by_sizes:
            if all(_is_near(size, sizes.get(name, size)) for name, size in others.items()):
                alike.append(job)
                break
        else:
            by_sizes.append((sizes, [job]))
    return [alike for _, alike in by_sizes]


def _measure_sizes(job: Job) -> dict[str, float]:
    return {
        direction.name: direction.bandwidth_bytes_per_s / direction.iops
        for direction in job.directions
        if direction.bandwidth_bytes_per_s and direction.iops and direction.iops >= _IOPS_MINIMUM
    }


def _is_near(one: float, other: float) -> bool:
    return max(one, other) <= min(one, other) * _SIZES_WITHIN


def _make_group(
    members: Sequence[Job], *, where: str, is_partial: bool, unsure: Job | None, notes: Notes
) -> Group:
    first = members[0]
    asked = count_jobs_asked(first.options)
    seen, directions = first.clones, first.directions
    if len(members) > 1:
        seen = sum(job.clones for job in members)
        directions = merge_directions([job.directions for job in members], CLONES)
    gap = _find_gap(members, asked, seen, unsure) if is_partial else ""
    if gap:
        directions = tuple(_withhold(direction) for direction in directions)
        notes.add(
            "clones-missing",
            f"{where}, job {first.index} ({first.name})",
            f"{gap}; the values of the group are not known",
        )
    return Group(
        name=first.name,
        groupid=first.groupid,
        hostname=None if first.is_aggregate else first.hostname,
        numjobs=min(max(asked or 1, seen), INTEGER_MAXIMUM),
        error=max([job.error for job in members], key=bool),
        options=first.options,
        directions=directions,
        jobs=tuple([job.index for job in members]),
        iodepth=first.iodepth,
        has_all_options=all(job.has_all_options for job in members),
    )


def _find_gap(members: Sequence[Job], asked: int | None, seen: int, unsure: Job | None) -> str:
    """Describe the clones of a truncated report that are or may be missing; empty if complete."""
    if asked:
        return f"only {seen} of {asked} clones are complete" if seen < asked else ""
    # Clones follow each other; a sum of all of them is whole.
    if unsure is None or members[-1] is not unsure:
        return ""
    if unsure.clones > 1 or is_set(unsure.options, "group_reporting"):
        return ""
    return f"the output ends after {seen} of the clones, and their number is not known"


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
