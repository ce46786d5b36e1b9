"""Several formats in one text (--output-format=json,normal, --append-terse): each execution is read once."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.notes import Notes
from benchapp.fio.report import Direction, Document, Job

# Terse and text round bytes, to KiB and to four digits: a tenth is the most that the carry lost before 3.26 takes.
_BYTES_WITHIN: Final = 0.1
# Reports of one moment with the same rates; more are not compared.
_ALIKE_MAXIMUM: Final = 8
_NAMES: Final = {"json": "JSON", "json+": "JSON+", "terse": "terse", "normal": "text", "time": "timing"}


def choose_documents(
    preferred: Sequence[Document], others: Sequence[Document], notes: Notes
) -> list[Document]:
    """Return the preferred documents and, behind them, the others that are not the same execution as one of them.

    A terse document gets the options and the number of clones of the text. A complete report is preferred to a
    truncated one.
    """
    chosen = list(preferred)
    unmatched = []
    for other in others:
        place = next((place for place, one in enumerate(chosen) if is_same_run(one, other)), None)
        if place is None:
            unmatched.append(other)
            continue
        kept, left = chosen[place], other
        if kept.is_partial and not left.is_partial:
            kept, left = left, kept
        notes.add(
            "same-run-other-format",
            "",
            f"the output has one execution in two formats: {_NAMES[kept.format]} was read,"
            f" {_NAMES[left.format]} was skipped",
        )
        chosen[place] = _borrow(kept, left, notes) if kept.format == "terse" else kept
    return [*chosen, *unmatched]


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


def is_same_run(one: Document, other: Document) -> bool:
    """Return whether two documents of different formats are of one execution: the same jobs with the same I/O."""
    if one.format == other.format or "time" in (one.format, other.format):
        return False
    jobs, theirs = _sort_jobs(one), _sort_jobs(other)
    # The jobs in a truncated text must be the same.
    shared = (
        min(len(jobs), len(theirs)) if one.is_partial or other.is_partial else max(len(jobs), len(theirs))
    )
    pairs = list(zip_longest(jobs, theirs))[:shared]
    return bool(pairs) and all(
        job is not None and their is not None and _did_the_same(job, their) for job, their in pairs
    )


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
    if (job.name, job.groupid) != (their.name, their.groupid):
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
    """Give the jobs of a terse document what only the text has: options, number of clones, counts, trims."""
    lenders = _find_lenders(text)
    names = Counter((job.name, job.groupid) for job in text.jobs)
    jobs = tuple(
        _lend(job, lenders.get(key), is_alone=names[key] == 1)
        for job in terse.jobs
        for key in [(job.name, job.groupid)]
    )
    return replace(
        terse,
        jobs=jobs,
        groups=roll_up(
            jobs, where="document 0", is_partial=terse.is_partial, notes=notes, may_lack_clones=True
        ),
        disks=terse.disks or text.disks,
    )


def _find_lenders(text: Document) -> dict[tuple[str, int], Job]:
    """Return the one job of each name and group; of clones printed one by one, any: their options are the same."""
    return {(job.name, job.groupid): job for job in text.jobs if not job.is_aggregate}


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
