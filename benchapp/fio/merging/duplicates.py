"""Several formats in one text (--output-format=json,normal, --append-terse): each execution is read once."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.notes import Notes
from benchapp.fio.report import Direction, Document, Job

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
