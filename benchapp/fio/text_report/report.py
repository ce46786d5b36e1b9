"""One report of fio's text as a Document."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_amount, read_count
from benchapp.fio.report import Disk, Document, Job, make_disk
from benchapp.fio.text_report.draft import JobDraft, ReportDraft
from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, read_figure
from benchapp.fio.text_report.header import Header
from benchapp.fio.text_report.job import build_job
from benchapp.fio.version import Version, parse_version
from benchapp.fio.workload.options import AGGREGATE, list_directions_asked

_DISK: Final = re.compile(
    r"\s*+(\S{1,255}): ios=(\d{1,20})/(\d{1,20}), (?:sectors=[^,]{1,50}, )?merge=(\d{1,20})/(\d{1,20}), "
    r"ticks=(\d{1,20})/(\d{1,20}), in_queue=(\d{1,20}), util= *+([\d.]{1,12}|-?nan)%(, aggrios=)?",
    re.ASCII,
)
_SEPARATOR: Final = re.compile(r"[^\w.-]")
_STATUS: Final = re.compile(r"\s*+Run status group (\d{1,10})")
_TOTAL: Final = re.compile(r"\s*+(READ|WRITE|TRIM): (?:[^ ]{1,100} ){0,8}?io= *+([^, ]{1,30}+)(?:,| \()")
# Four digits each; before 3.26 figures lose a carry, or have junk for decimals.
_TOTAL_EXACT_SINCE: Final[Version] = (3, 26, 0)
_TOTAL_WITHIN: Final = 0.01
_TOTAL_WITHIN_BEFORE: Final = 0.1
_NONE: Final[Mapping[str, str]] = {}
_NAMES_LENGTH_MAXIMUM: Final = 200


def build_document(draft: ReportDraft, *, where: str, notes: Notes) -> Document | None:
    """Return one report with the jobs that have results, even if some of their lines are missing; None without any."""
    draft.jobs = _list_once(draft.jobs)
    jobs_read = [job for job in draft.jobs if job.is_readable]
    is_partial = not draft.has_end or not all(job.is_complete for job in draft.jobs)
    if is_partial:
        _warn_of_missing_lines(draft, where, notes)
    if not jobs_read:
        return None
    notes.add("text-precision", where, "fio rounds values in its text output, to about four digits")
    version = parse_version(draft.fio_version)
    _rename_headers(draft)
    _drop_headers_of_others(draft)
    headers = _match_headers(draft, jobs_read)
    jobs = tuple(
        build_job(
            job,
            header,
            index=index,
            options=_find_options(draft, job, header),
            version=version,
            where=where,
            notes=notes,
        )
        for index, (job, header) in enumerate(zip(jobs_read, headers, strict=True))
    )
    denied = "" if draft.is_client else _find_denied_total(draft, jobs)
    if denied:
        is_partial = True
        notes.add("total-contradicts-jobs", where, f"{denied}: jobs are missing, or a figure is wrong")
    if any(not (job.options or job.is_aggregate) for job in jobs):
        notes.add("options-not-reported", where, "the lines with rw, bs and ioengine of a job are missing")
    hiding = _warn_of_unprinted_jobs(draft, where, notes)
    if hiding:
        jobs = tuple(
            replace(job, may_hide_jobs=True) if job.clones > 1 and job.groupid in hiding else job
            for job in jobs
        )
    return Document(
        format="normal",
        fio_version=draft.fio_version,
        started_at=None,
        # By the clock of the host, of a zone that fio does not name; output.py knows it.
        finished_at=max((job.printed_at for job in jobs_read if job.printed_at), default=None),
        jobs=jobs,
        groups=roll_up(
            jobs,
            where=where,
            is_partial=is_partial,
            notes=notes,
            may_lack_clones=_may_lack_clones(draft, jobs_read, headers),
        ),
        disks=tuple(_read_disks(draft.disks)),
        is_partial=is_partial,
        has_precise_values=False,
    )


def _find_denied_total(draft: ReportDraft, jobs: Sequence[Job]) -> str:
    """Describe a total of a group that is not the sum of its jobs; empty if there is none."""
    sums: defaultdict[tuple[int, str], float] = defaultdict(float)
    for job in jobs:
        for direction in () if job.is_aggregate else job.directions:
            sums[job.groupid, direction.name] += (
                math.nan if direction.io_bytes is None else direction.io_bytes
            )
    within = _TOTAL_WITHIN if parse_version(draft.fio_version) >= _TOTAL_EXACT_SINCE else _TOTAL_WITHIN_BEFORE
    groupid = 0
    for line in draft.totals:
        if status := _STATUS.match(line):
            groupid = int(status[1])
        total = _TOTAL.match(line)
        figure = (
            read_figure(total[2], MODERN if "iB" in total[2] or "bw=" in line else OLD_BYTES)
            if total
            else None
        )
        if total is None or figure is None:
            continue
        bytes_of_jobs = sums[groupid, total[1].lower()]
        if abs(figure.value - bytes_of_jobs) > max(figure.value, bytes_of_jobs) * within + figure.unit:
            return f"{total[1]} of group {groupid} has io={total[2]}, but its jobs {bytes_of_jobs / 1024:.0f} KiB"
    return ""


def _list_once(jobs: list[JobDraft]) -> list[JobDraft]:
    """Return the jobs without repetitions: of the same process, printed at the same time with the same digits."""
    first_of: dict[object, JobDraft] = {}
    return [
        job for job in jobs if first_of.setdefault(job.identity, job) is job or first_of[job.identity] != job
    ]


def _warn_of_missing_lines(draft: ReportDraft, where: str, notes: Notes) -> None:
    """Add notes that name the jobs with missing lines: the output was truncated or edited."""
    incomplete = [job for job in draft.jobs if job.is_readable and not job.is_complete]
    unreadable = [job for job in draft.jobs if not job.is_readable]
    if len(unreadable) == len(draft.jobs):
        notes.add("truncated-report", where, "no job of this report has a result; the report was skipped")
        return
    if not draft.has_end:
        count = len(draft.jobs) - len(incomplete) - len(unreadable)
        message = f"this report ends early: {count} {'job is' if count == 1 else 'jobs are'} complete"
        notes.add("truncated-report", where, message)
    if incomplete:
        message = f"lines of these jobs are missing, or cannot be read: {_list_names(incomplete)}"
        notes.add("incomplete-job", where, f"{message}; their other lines were read")
    if unreadable:
        message = f"these jobs have no line of results and were skipped: {_list_names(unreadable)}"
        notes.add("unreadable-job", where, message)


def _list_names(jobs: Sequence[JobDraft]) -> str:
    return ", ".join(dict.fromkeys(job.name for job in jobs))[:_NAMES_LENGTH_MAXIMUM]


def _rename_headers(draft: ReportDraft) -> None:
    """Give a header the name of a job that its own ends with: a tag may precede the first line of a text."""
    names = {(job.name, job.groupid) for job in draft.jobs}
    for place, header in enumerate(draft.headers):
        if (header.name, header.groupid) in names:
            continue
        for separator in _SEPARATOR.finditer(header.name):
            name = header.name[separator.end() :]
            if (name, header.groupid) in names:
                draft.headers[place] = replace(header, name=name)
                break


def _drop_headers_of_others(draft: ReportDraft) -> None:
    """Keep the last headers where there are more than jobs: the first are of an execution whose results are missing.

    The nth of several with one name belongs to the nth job; with "..." after one of them, or group_reporting, their
    number is not known.
    """
    if draft.is_client or len(draft.headers) < 2:
        return
    listed = Counter((header.name, header.groupid) for header in draft.headers)
    printed = Counter[tuple[str, int]]()
    for job in draft.jobs:
        printed[job.name, job.groupid] += job.clones
    surplus = 0
    for place, header in enumerate(draft.headers):
        key = (header.name, header.groupid)
        is_surplus = listed[key] > printed[key] > 0
        if draft.started is not None:
            is_surplus = len(draft.headers) - place > draft.started
        # Each job keeps a header of its name.
        if not is_surplus or (key in printed and listed[key] < 2):
            break
        listed[key] -= 1
        surplus = place + 1
    draft.headers = draft.headers[surplus:]
    draft.repeated = {place - surplus for place in draft.repeated if place >= surplus}


def _match_headers(draft: ReportDraft, jobs: Sequence[JobDraft]) -> list[Header | None]:
    """Return the header of each job: of its name and group, the nth for the nth where several have one name.

    A header that asks for other directions than those that a job printed is of another execution.
    """
    by_name: dict[tuple[str | None, str, int], list[Header]] = defaultdict(list)
    for header in draft.headers:
        by_name[None, header.name, header.groupid].append(header)
        if header.hostname is not None:
            by_name[header.hostname, header.name, header.groupid].append(header)
    seen: defaultdict[object, int] = defaultdict(int)
    matched: list[Header | None] = []
    for job in jobs:
        key = (job.hostname, job.name, job.groupid)
        candidates = by_name.get(key) or by_name.get((None, job.name, job.groupid))
        match = candidates[min(seen[key], len(candidates) - 1)] if candidates else None
        matched.append(None if match is not None and _contradicts(match, job) else match)
        seen[key] += 1
    return matched


def _contradicts(header: Header, job: JobDraft) -> bool:
    """Return whether a job has only directions that its header does not ask for; never for groups."""
    printed = {direction.label for direction in job.directions} - {"sync"}
    asked = list_directions_asked(header.options)
    return job.clones == 1 and bool(asked) and bool(printed) and printed.isdisjoint((*asked, "mixed"))


def _find_options(draft: ReportDraft, job: JobDraft, header: Header | None) -> Mapping[str, str]:
    if header is None:
        return _NONE
    clones = job.clones
    if clones == 1:
        clones = _count_clones(draft, header)
    return {**header.options, "numjobs": str(clones)} if clones > 1 else header.options


def _count_clones(draft: ReportDraft, header: Header) -> int:
    """Return the number of jobs of a header: 1, except for the only one that "..." follows, if a total is printed."""
    if draft.is_client or draft.started is None or len(draft.repeated) != 1:
        return 1
    if draft.headers[next(iter(draft.repeated))] is not header:
        return 1
    return max(draft.started - len(draft.headers) + 1, 1)


def _may_lack_clones(
    draft: ReportDraft, jobs_read: Sequence[JobDraft], headers: Sequence[Header | None]
) -> bool:
    """Return whether other blocks of the last job are missing or truncated, or announced by "..." after its header."""
    last, header = jobs_read[-1], headers[-1]
    alike = [job for job in draft.jobs if (job.name, job.groupid) == (last.name, last.groupid)]
    if not all(job.is_readable for job in alike):
        return True
    if draft.has_end:
        return False
    if len(alike) > 1 and not last.is_whole:
        return True
    return header is not None and any(draft.headers[place] is header for place in draft.repeated)


def _warn_of_unprinted_jobs(draft: ReportDraft, where: str, notes: Notes) -> set[int]:
    """Add notes that name jobs with a header but no block: summed into another job, or without any I/O.

    Return the groups into which jobs were summed.
    """
    hiding = set()
    hosts = {job.hostname for job in draft.jobs}
    if draft.is_client and draft.has_end:
        named = (header.hostname for header in draft.headers if header.hostname not in hosts)
        notes.add_missing_clients(filter(None, named), where)
    printed = {(job.name, job.groupid) for job in draft.jobs}
    grouped = {job.groupid: job.name for job in draft.jobs if job.clones > 1 and job.name != AGGREGATE}
    for header in draft.headers:
        if (header.name, header.groupid) in printed:
            continue
        if header.groupid in grouped:
            hiding.add(header.groupid)
            notes.add(
                "group-of-different-jobs",
                where,
                f"group_reporting summed {header.name} into {grouped[header.groupid]}, whose options were read",
            )
        elif draft.has_end:
            notes.add(
                "job-not-printed",
                where,
                f"fio did not print {header.name}, as usual for jobs without any I/O",
            )
    return hiding


def _read_disks(lines: Sequence[str]) -> Iterator[Disk]:
    is_member = False
    for line in lines:
        match = _DISK.match(line)
        if match is None:
            continue
        name, *counts, utilisation, aggregate = match.groups()
        # Members follow the md or dm device that is made of them.
        is_member = is_member and aggregate is None
        numbers = [read_count(int(count)) for count in counts]
        yield make_disk(name, numbers, _measure(utilisation), is_member=is_member)
        is_member = is_member or aggregate is not None


def _measure(text: str) -> float | None:
    try:
        return read_amount(float(text))
    except ValueError:
        return None
