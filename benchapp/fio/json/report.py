"""fio's JSON and JSON+, 2.0.10 to today: from the report as printed to a Document."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from benchapp.fio.json.entries import (
    NUMJOBS_LISTED,
    OPTIONS_LISTED,
    Entry,
    count_clones,
    drop_snapshot_entries,
    find_single,
    list_entries,
)
from benchapp.fio.json.job import read_job
from benchapp.fio.json.shape import PrintedDisk, PrintedReport
from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.merging.runtime import RUNTIME_IN_US, correct_runtime
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_moment
from benchapp.fio.report import Disk, Document, Job, make_disk
from benchapp.fio.version import Version, parse_version
from benchapp.fio.workload.options import is_set

_YEAR_S: Final = 366 * 86400
# Jobs hidden in a group add their run times: well above 1, well below 2.
_HIDDEN_RATIO: Final = 1.5


def read_document(content: PrintedReport, *, where: str, is_partial: bool, notes: Notes) -> Document:
    """Return one report of fio; a document without usable jobs has none."""
    fio_version = content.version or ""
    version = parse_version(fio_version)
    is_client = content.jobs is None
    entries: Sequence[Entry] = list_entries(content, where, notes)
    if is_client:
        entries = drop_snapshot_entries(entries, version, where=where, notes=notes)
    clones = count_clones(entries, is_partial=is_partial)
    jobs = tuple(
        [
            read_job(entry, clones=clones[entry.identity], version=version, is_client=is_client)
            for entry in entries
        ]
    )
    jobs = tuple([_correct_runtime(job, version, where, notes) for job in jobs])
    jobs = _mark_hidden_jobs(jobs, entries, version, where=where, notes=notes)
    finished_at = read_moment(content.timestamp, milliseconds=content.timestamp_ms)
    return Document(
        format="json+" if _has_bins(jobs) else "json",
        fio_version=fio_version,
        started_at=_find_start(jobs, entries, finished_at),
        finished_at=finished_at,
        jobs=jobs,
        groups=roll_up(
            jobs,
            where=where,
            is_partial=is_partial,
            notes=notes,
            may_lack_clones=version < NUMJOBS_LISTED,
        ),
        disks=tuple(_read_disks(content.disk_util or ())),
        is_partial=is_partial,
    )


def _correct_runtime(job: Job, version: Version, where: str, notes: Notes) -> Job:
    corrected = correct_runtime(job, version)
    if corrected is not None:
        notes.add("runtime-in-us", f"{where}, job {job.index} ({job.name})", RUNTIME_IN_US)
    return corrected or job


def _mark_hidden_jobs(
    jobs: tuple[Job, ...], entries: Sequence[Entry], version: Version, *, where: str, notes: Notes
) -> tuple[Job, ...]:
    """Mark the entries into which other jobs were summed, with a warning, or may have been."""
    hiding = {
        job.index
        for job, entry in zip(jobs, entries, strict=True)
        if entry.printed.job_runtime and _hides_jobs(job, entry.printed.job_runtime, where, notes)
    }
    # Without options, before 2.3, an entry has no properties that hidden jobs could falsify.
    if OPTIONS_LISTED <= version < NUMJOBS_LISTED:
        hiding.update(find_single(entries))
    if not hiding:
        return jobs
    return tuple([replace(job, may_hide_jobs=True) if job.index in hiding else job for job in jobs])


def _hides_jobs(job: Job, job_runtime_ms: int, where: str, notes: Notes) -> bool:
    """Return whether more jobs were summed into an entry than its options list, with a warning.

    job_runtime is the sum over all jobs.
    """
    longest_s = 0.0
    for direction in job.directions:
        if direction.runtime_s is not None and direction.runtime_s > longest_s:
            longest_s = direction.runtime_s
    if longest_s < 0.1 or job_runtime_ms / 1000 <= longest_s * job.clones * _HIDDEN_RATIO:
        return False
    if job.is_aggregate or is_set(job.options, "verify"):
        return False
    notes.add(
        "group-of-different-jobs",
        f"{where}, job {job.index} ({job.name})",
        "group_reporting summed more jobs into this entry than its options list; it has the name of the first one",
    )
    return True


def _has_bins(jobs: Sequence[Job]) -> bool:
    for job in jobs:
        for direction in job.directions:
            completion, total = direction.completion, direction.total
            if (completion and completion.bins is not None) or (total and total.bins is not None):
                return True
    return False


def _find_start(
    jobs: Sequence[Job], entries: Sequence[Entry], finished_at: datetime | None
) -> datetime | None:
    """Prefer job_start (3.36) to the moment of printing less the seconds that passed."""
    starts = [job.started_at for job in jobs if job.started_at]
    if starts:
        return min(starts)
    elapsed_s = max([entry.printed.elapsed or 0 for entry in entries], default=0)
    if finished_at is None or not 0 < elapsed_s < _YEAR_S or finished_at.year < 1980:
        return None
    return finished_at - timedelta(seconds=elapsed_s)


def _read_disks(printed: Sequence[PrintedDisk | None]) -> Iterator[Disk]:
    is_member = False
    for disk in printed:
        if disk is None:
            continue
        is_composed = disk.aggr_util is not None
        ios, merges = (disk.read_ios, disk.write_ios), (disk.read_merges, disk.write_merges)
        counts = (*ios, *merges, disk.read_ticks, disk.write_ticks, disk.in_queue)
        yield make_disk(disk.name, counts, disk.util, is_member=is_member and not is_composed)
        is_member = is_member or is_composed
