"""Jobs that are reported as one, duplicates and snapshots of one execution, totals of groups."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.directions import CLONES, DIRECTIONS, GROUPS, did_io, merge_alike, merge_directions
from benchapp.fio.numbers import INTEGER_MAXIMUM, Version, read_amount
from benchapp.fio.report import Direction, Document, Group, Job, Notes, Report, Total
from benchapp.fio.workload import count_jobs_asked, is_set

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
            alike[job.groupid, job.hostname, job.server_number, job.name].append(job)
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
        numjobs=None
        if any(job.may_hide_jobs for job in members) or (gap and not asked)
        else min(max(asked or 1, seen), INTEGER_MAXIMUM),
        error=max([job.error for job in members], key=bool),
        options=first.options,
        directions=directions,
        jobs=tuple([job.index for job in members]),
        iodepth=first.iodepth,
        has_all_options=all(job.has_all_options for job in members),
        server_number=first.server_number,
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


# Terse and text round bytes, to KiB and to four digits: a tenth is the most that the carry lost before 3.26 takes.
_BYTES_WITHIN: Final = 0.1
# Reports of one moment with the same rates; more are not compared.
_ALIKE_MAXIMUM: Final = 8
# Of an execution with one of another format, which usually is the one behind the last that was found. Texts with
# thousands of both cost no more.
_COMPARISONS_PER_JOB: Final = 32
_NAMES: Final = {"json": "JSON", "json+": "JSON+", "terse": "terse", "normal": "text", "time": "timing"}

_JobKey = tuple[str, int]


class Executions:
    """The executions of a text: each once, in the first format that has it; linear in the number of jobs.

    A terse document gets the options and the number of clones of the text. A complete report is preferred to a
    truncated one.
    """

    def __init__(self, notes: Notes) -> None:
        self.documents: list[Document] = []
        self._notes = notes
        self._jobs: list[list[Job]] = []
        # By the first job, where documents may be of one execution, and which of them was found last.
        self._alike: defaultdict[_JobKey, list[int]] = defaultdict(list)
        self._last: dict[_JobKey, int] = {}
        self._comparisons_left = 0

    def add(self, documents: Sequence[Document]) -> bool:
        """Add those that are none of the executions so far; return whether any of them was kept, or there is none."""
        own = [_sort_jobs(document) for document in documents]
        self._comparisons_left += _COMPARISONS_PER_JOB * sum(map(len, own))
        new = []
        has_kept = not documents
        for document, jobs in zip(documents, own, strict=True):
            place = self._find(document, jobs)
            if place is None:
                new.append((document, jobs))
            else:
                has_kept |= self._choose(place, document)
        for document, jobs in new:
            if jobs:
                self._alike[_name_job(jobs[0])].append(len(self.documents))
            self.documents.append(document)
            self._jobs.append(jobs)
        return has_kept or bool(new)

    def _find(self, document: Document, jobs: Sequence[Job]) -> int | None:
        """Return the place of the same execution: mostly behind the one that was found before."""
        if not jobs:
            return None
        key = _name_job(jobs[0])
        places = self._alike.get(key, ())
        first = self._last.get(key, 0)
        for step in range(len(places)):
            at = (first + step) % len(places)
            if self._comparisons_left <= 0:
                break
            if self._is_same_run(places[at], document, jobs):
                self._last[key] = at
                return places[at]
        return None

    def _is_same_run(self, place: int, other: Document, theirs: Sequence[Job]) -> bool:
        """Return whether a document of another format is of one execution: the same jobs with the same I/O."""
        one, jobs = self.documents[place], self._jobs[place]
        self._comparisons_left -= 1
        if one.format == other.format or "time" in (one.format, other.format):
            return False
        # The jobs in a truncated text must be the same.
        if len(jobs) != len(theirs) and not (one.is_partial or other.is_partial):
            return False
        for job, their in zip(jobs, theirs, strict=False):
            self._comparisons_left -= 1
            if not _did_the_same(job, their):
                return False
        return True

    def _choose(self, place: int, other: Document) -> bool:
        """Keep one of two documents of one execution; return whether it is the other one."""
        kept, left = self.documents[place], other
        if kept.is_partial and not left.is_partial:
            kept, left = left, kept
        self._notes.add(
            "same-run-other-format",
            "",
            f"the output has one execution in two formats: {_NAMES[kept.format]} was read,"
            f" {_NAMES[left.format]} was skipped",
        )
        self.documents[place] = _borrow(kept, left, self._notes) if kept.format == "terse" else kept
        self._jobs[place] = _sort_jobs(self.documents[place])
        self._comparisons_left -= len(self._jobs[place])
        return self.documents[place] is other


def _name_job(job: Job) -> _JobKey:
    return job.name, job.groupid


def list_once(documents: Sequence[Document], notes: Notes) -> list[Document]:
    """Return the documents without repetitions: a text may hold a report twice, with the same digits throughout."""
    first_of: dict[object, list[Document]] = defaultdict(list)
    once = []
    for document in documents:
        job = document.jobs[0]
        alike = first_of[document.format, document.finished_at, job.name, *map(_list_digits, job.directions)]
        if any(document.jobs == other.jobs and document.disks == other.disks for other in alike):
            notes.add("repeated-report", "", "a report is in the text twice, and was read once")
            continue
        if len(alike) < _ALIKE_MAXIMUM:
            alike.append(document)
        once.append(document)
    return once


def _list_digits(direction: Direction) -> tuple[object, ...]:
    return direction.name, direction.io_bytes, direction.total_ios, direction.iops, direction.runtime_s


def _sort_jobs(document: Document) -> list[Job]:
    jobs = [job for job in document.jobs if not job.is_aggregate and _list_active(job)]
    return sorted(jobs, key=lambda job: job.groupid)


def _list_active(job: Job) -> dict[str, Direction]:
    return {
        direction.name: direction
        for direction in job.directions
        if direction.name != "sync" and (direction.io_bytes or direction.total_ios)
    }


def _did_the_same(job: Job, their: Job) -> bool:
    if _name_job(job) != _name_job(their):
        return False
    mine, theirs = _list_active(job), _list_active(their)
    # unified_rw_reporting: both formats need not show the same directions.
    return all(_agrees(mine[name], theirs[name]) for name in mine.keys() & theirs.keys())


def _agrees(one: Direction, other: Direction) -> bool:
    if one.total_ios is not None and other.total_ios is not None and one.total_ios != other.total_ios:
        return False
    if one.runtime_s is not None and other.runtime_s is not None and one.runtime_s != other.runtime_s:
        return False
    if one.io_bytes and other.io_bytes:
        return abs(one.io_bytes - other.io_bytes) <= _BYTES_WITHIN * max(one.io_bytes, other.io_bytes)
    return True


def _borrow(terse: Document, text: Document, notes: Notes) -> Document:
    """Give a terse document what only the text has: its date, and of jobs options, number of clones, counts, trims."""
    lenders = _find_lenders(text)
    names = Counter(map(_name_job, text.jobs))
    jobs = tuple(
        _lend(job, lenders.get(key), is_alone=names[key] == 1)
        for job in terse.jobs
        for key in [_name_job(job)]
    )
    return replace(
        terse,
        jobs=jobs,
        groups=roll_up(
            jobs, where="document 0", is_partial=terse.is_partial, notes=notes, may_lack_clones=True
        ),
        disks=terse.disks or text.disks,
        started_at=text.started_at,
        finished_at=text.finished_at,
    )


def _find_lenders(text: Document) -> dict[_JobKey, Job]:
    """Return the one job of each name and group; of clones printed one by one, any: their options are the same."""
    return {_name_job(job): job for job in text.jobs if not job.is_aggregate}


def _lend(job: Job, lender: Job | None, *, is_alone: bool) -> Job:
    if lender is None:
        return job
    return replace(
        job,
        directions=tuple(_complete(job.directions, lender.directions)) if is_alone else job.directions,
        options=lender.options,
        clones=lender.clones,
        may_hide_jobs=lender.may_hide_jobs,
        iodepth=lender.iodepth,
        started_at=lender.started_at,
    )


def _complete(own: Sequence[Direction], lent: Sequence[Direction]) -> Iterator[Direction]:
    """Give the directions with the counts of I/Os, and those that the format lacks, in fio's order."""
    by_name = {direction.name: direction for direction in own}
    for direction in lent:
        mine = by_name.pop(direction.name, None)
        if mine is None:
            yield direction
        elif mine.total_ios is None and direction.total_ios is not None:
            missing = {name: reason for name, reason in mine.missing.items() if name != "total_ios"}
            sources = {**mine.sources, "total_ios": direction.sources.get("total_ios", "")}
            yield replace(mine, total_ios=direction.total_ios, missing=missing, sources=sources)
        else:
            yield mine
    yield from by_name.values()


# 2.1.3 prints the run time of snapshots in µs, and in ms at the end; 2.1.14 does not.
SNAPSHOTS_IN_MS: Final[Version] = (2, 1, 14)
# The shortest --status-interval is a second, of which setting up takes a part.
SHORTEST_SNAPSHOT_US: Final = 500_000
# Between 1 (µs, for the same rate) and 1000 (ms, for the same rate).
_MUCH_FASTER: Final = 30


def measure_growth_ms(before: tuple[float, int], after: tuple[float, int], version: Version) -> float:
    """Return the growth of the run time, negative if it shrank; both are (bytes, run time as printed, in ms).

    A longer time before, of an old or unknown version, is µs if the rate would else have grown out of proportion.
    """
    bytes_before, time_before = before
    bytes_after, time_after = after
    if (
        version < SNAPSHOTS_IN_MS
        and time_before > time_after
        and time_before >= SHORTEST_SNAPSHOT_US
        and time_before * bytes_after > _MUCH_FASTER * time_after * bytes_before
    ):
        return time_after - time_before / 1000
    return time_after - time_before


# Least share of its depth that a benchmark uses; and more ns of CPU time than an I/O of a benchmark takes.
_BUSY: Final = 0.2
_PROCESSOR_NS_MINIMUM: Final = 2_000_000
# Shorter than this there are no samples, as of a run in ms.
_SHORT_RUN_S: Final = 2.0
_SECTOR: Final = 512
RUNTIME_IN_US: Final = "the run time is in µs, as fio before 2.1.14 prints it in snapshots"


def correct_runtime(job: Job, version: Version) -> Job | None:
    """Return the job with its run time, IOPS and bandwidth from µs; None where what fio calls msec is ms."""
    if version >= SNAPSHOTS_IN_MS or not _has_runtime_in_us(job):
        return None
    return replace(job, directions=tuple(map(_correct_direction, job.directions)))


def _has_runtime_in_us(job: Job) -> bool:
    """Return whether the run time must be µs.

    By its latencies, a job was then busy for a thousandth of its run; in µs it is all of the run at the printed
    depth. And each I/O took more CPU time than possible.
    """
    depths = [int(level.removeprefix(">=")) for level, share in job.depth.items() if share >= 1]
    user, system = job.cpu_user_percent, job.cpu_system_percent
    if not depths or user is None or system is None:
        return False
    runtime_s, waited_ns, ios = 0.0, 0.0, 0.0
    for direction in job.directions:
        count = _count_ios(direction)
        if not count or direction.runtime_s is None:
            continue
        if direction.completion is None or direction.completion.mean_ns is None:
            return False
        runtime_s = max(runtime_s, direction.runtime_s)
        waited_ns += direction.completion.mean_ns * count
        ios += count
    if runtime_s * 1000 < SHORTEST_SNAPSHOT_US or not ios:
        return False
    depth_in_us = waited_ns / (runtime_s * 1e6)
    processor_ns = (user + system) / 100 * runtime_s * 1e9 / ios
    return min(depths) * _BUSY <= depth_in_us <= 2 * max(depths) and processor_ns >= _PROCESSOR_NS_MINIMUM


def _count_ios(direction: Direction) -> float | None:
    """Return the count of I/Os: as printed, else by the one block size that fits the whole IOPS, else by IOPS."""
    if direction.total_ios is not None:
        return direction.total_ios
    iops, runtime_s, io_bytes = direction.iops, direction.runtime_s, direction.io_bytes
    if not (iops and runtime_s and io_bytes):
        return None
    smallest, largest = io_bytes / ((iops + 1) * runtime_s), io_bytes / (iops * runtime_s)
    block_size = int(largest / _SECTOR) * _SECTOR
    is_unique = block_size > smallest >= block_size - _SECTOR
    return io_bytes // block_size if is_unique else iops * runtime_s


def _correct_direction(direction: Direction) -> Direction:
    runtime_s, count = direction.runtime_s, _count_ios(direction)
    if not runtime_s:
        return direction
    runtime_s = round(runtime_s * 1000) / 1_000_000
    sources = {
        **direction.sources,
        "iops": "total_ios / run time"
        if direction.total_ios is not None
        else "io_bytes / block size / run time",
        "bandwidth_bytes_per_s": "io_bytes / run time",
        "runtime_s": "msec / 1 000 000, as it is in µs",
    }
    missing = dict(direction.missing)
    for name in ("bandwidth_samples", "iops_samples"):
        if missing.get(name) == "not-measured" and runtime_s < _SHORT_RUN_S:
            missing[name] = "short-run"
    return replace(
        direction,
        runtime_s=runtime_s,
        iops=None if count is None else read_amount(count / runtime_s),
        bandwidth_bytes_per_s=None
        if direction.io_bytes is None
        else read_amount(direction.io_bytes / runtime_s),
        sources=sources,
        missing=missing,
    )


_ADDED: Final = ("read", "write", "trim")


def add_totals(report: Report) -> Report:
    """Return the report with the totals of each document."""
    return replace(
        report,
        documents=tuple(replace(document, totals=total_up(document.groups)) for document in report.documents),
    )


def total_up(groups: Sequence[Group]) -> tuple[Total, ...]:
    """Return the total of each group of fio, over all its jobs and servers, in order of appearance.

    By the rules of roll_up, with "groups-without-bins" where percentiles cannot be known. "mixed", which fio prints
    beside read and write if asked for both, is added to nothing; fio's "All clients" is in no group.
    """
    if len(groups) == 1:
        return (Total(groups[0].groupid, _add_total(groups[0].directions), (0,)),)
    of_group: dict[int, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        of_group[group.groupid].append(place)
    return tuple(
        Total(groupid, _add_total(_merge([groups[place] for place in places])), tuple(places))
        for groupid, places in of_group.items()
    )


def _merge(groups: Sequence[Group]) -> tuple[Direction, ...]:
    if len(groups) == 1:
        return groups[0].directions
    return merge_directions([group.directions for group in groups], GROUPS)


def _add_total(directions: tuple[Direction, ...]) -> tuple[Direction, ...]:
    """Add the total of read, write and trim if there is more than one of them."""
    if len(directions) < 2:
        return directions
    added = [
        direction
        for direction in directions
        # A timing of a whole has no rates to add up.
        if direction.name in _ADDED and direction.elapsed_s is None and did_io(direction)
    ]
    return directions if len(added) < 2 else (*directions, merge_alike("total", added, DIRECTIONS))
