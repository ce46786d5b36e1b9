"""One report of fio's text as a Document."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.jobs import RUNTIME_IN_US, correct_runtime, roll_up
from benchapp.fio.numbers import INTEGER_MAXIMUM, Version, parse_version, read_amount, read_count, read_errno
from benchapp.fio.report import (
    IDLE,
    PRINTED_DIRECTIONS,
    Direction,
    DirectionName,
    Disk,
    Document,
    Job,
    Notes,
    SteadyState,
    make_disk,
)
from benchapp.fio.text_report.direction import (
    Issued,
    JobFacts,
    build_direction,
    count_issued,
    read_issued,
    read_text_shares,
)
from benchapp.fio.text_report.draft import Header, JobDraft, ReportDraft
from benchapp.fio.text_report.figures import MODERN, OLD_BYTES, read_figure
from benchapp.fio.workload import AGGREGATE, list_directions_asked

_DEPTH_LENGTH_MAXIMUM: Final = 1000
_PERCENT: Final = r"(\d{1,12}+(?:\.\d{1,9}+)?)%"
_CPU: Final = re.compile(
    rf": usr= *+{_PERCENT}, sys= *+{_PERCENT}, ctx=(\d{{1,20}}+), majf=(\d{{1,20}}+), minf=(\d{{1,20}}+)",
    re.ASCII,
)
_DEPTH: Final = re.compile(r"((?:>=)?[0-9]{1,3}+)= *+([0-9]{1,9}+(?:\.[0-9]{1,9}+)?)%")
_LATENCY_GOAL: Final = re.compile(
    r": target=([\d.]{1,19}+)([num]?s|), window=([\d.]{1,19}+)([num]?s|), percentile=([\d.]{1,12}+)%, "
    r"depth=(\d{1,10}+)",
    re.ASCII,
)
_UNITS_US: Final = {"ns": 1e-3, "us": 1, "ms": 1e3, "s": 1e6}
_STEADY_STATE: Final = re.compile(
    r": attained=(yes|no), bw=([^ ,(]{1,30}+)[^=]{0,40}, iops=([^,]{1,30}+),(?: lat=[^,]{1,40},)? "
    r"(bw|iops|lat) {1,2}(slope|mean dev)=([^\s,]{1,30})"
)
_DESCRIPTION: Final = re.compile(r": \[(.*)\]\s*+$", re.DOTALL)
_RW: Final[tuple[DirectionName, ...]] = ("read", "write", "trim")
# From here latency_target is printed in ns.
_TARGET_IN_NS: Final[Version] = (3, 3, 0)
_NO_SIZES: Final = (None, None, None)


def build_job(
    draft: JobDraft,
    header: Header | None,
    *,
    index: int,
    options: Mapping[str, str],
    version: Version,
    where: str,
    notes: Notes,
) -> Job:
    """Return a job; its options are those that the header prints."""
    where = f"{where}, job {index} ({draft.name})"
    facts = _collect_facts(draft, header, version, where=where)
    if draft.complaint:
        notes.add("job-error", where, f"this job failed with error {draft.error}: {draft.complaint}")
    lines = draft.lines
    goal = _LATENCY_GOAL.match(lines.get("latency", ""))
    user, system, switches, major_faults, minor_faults = _read_processor(lines.get("cpu", ""))
    description = _DESCRIPTION.match(lines.get("Description", ""))
    job = Job(
        index=index,
        name=draft.name,
        groupid=draft.groupid,
        hostname=draft.hostname,
        error=read_errno(draft.error),
        clones=min(draft.clones, INTEGER_MAXIMUM),
        options={**options, **_read_goal(goal, version)} if goal and options else options,
        directions=_build_directions(draft, facts, options, notes),
        description=description[1] if description else None,
        cpu_user_percent=user,
        cpu_system_percent=system,
        context_switches=switches,
        major_faults=major_faults,
        minor_faults=minor_faults,
        depth=_read_depth(lines.get("IO", "")[:_DEPTH_LENGTH_MAXIMUM]),
        depth_submitted=_read_depth(lines.get("submit", "")[:_DEPTH_LENGTH_MAXIMUM]),
        depth_completed=_read_depth(lines.get("complete", "")[:_DEPTH_LENGTH_MAXIMUM]),
        latency_shares=read_text_shares(draft.shares),
        iodepth=min(int(goal[6]), INTEGER_MAXIMUM) or None if goal else None,
        steady_state=_read_steady_state(lines.get("steadystate", "")),
        is_aggregate=draft.name == AGGREGATE,
        has_all_options=False,
    )
    corrected = correct_runtime(job, version)
    if corrected is not None:
        notes.add("runtime-in-us", where, RUNTIME_IN_US)
    return corrected or job


def _collect_facts(draft: JobDraft, header: Header | None, version: Version, *, where: str) -> JobFacts:
    return JobFacts(
        version=version,
        clones=draft.clones,
        # A count that was cut off is another number.
        issued=read_issued(draft.lines["issued"]) if draft.is_whole else Issued(),
        block_sizes=header.block_sizes if header else _NO_SIZES,
        is_whole=draft.is_whole,
        where=where,
    )


def _read_processor(text: str) -> tuple[float | None, float | None, int | None, int | None, int | None]:
    """Read "usr=2.04%, sys=3.25%, ctx=120561, majf=0, minf=58"."""
    match = _CPU.match(text)
    if match is None:
        return (None,) * 5
    switches, major, minor = (read_count(int(count)) for count in match.groups()[2:])
    return float(match[1]), float(match[2]), switches, major, minor


def _build_directions(
    draft: JobDraft, facts: JobFacts, options: Mapping[str, str], notes: Notes
) -> tuple[Direction, ...]:
    """Return the printed directions, and those that were requested or issued but not printed."""
    built: dict[DirectionName, Direction] = {}
    for lines in draft.directions:
        direction = build_direction(lines, facts, notes)
        if direction is not None:
            # Of another job, whose first line is missing.
            built.setdefault(direction.name, direction)
    if "mixed" not in built:
        asked = list_directions_asked(options)
        for name in _RW:
            if name in built:
                continue
            issued = count_issued(facts.issued.total, name)
            if issued or name in asked:
                built[name] = _make_unprinted(name, issued, is_whole=facts.is_whole)
    elif "read" in built or "write" in built or "trim" in built:
        built["mixed"] = _fix_mixed(built["mixed"], [built[name] for name in _RW if name in built])
    return tuple(built[name] for name in PRINTED_DIRECTIONS if name in built)


def _make_unprinted(name: DirectionName, issued: int | None, *, is_whole: bool) -> Direction:
    """Return a direction that fio does not print, as it has no I/O, or whose lines are missing."""
    reason = "not-reported" if issued or not is_whole else "no-io"
    missing = dict.fromkeys(IDLE, reason)
    if not is_whole:
        missing["total_ios"] = reason
    if reason == "not-reported":
        missing |= dict.fromkeys(("io_bytes", "runtime_s"), reason)
        return Direction(name, None, issued, None, None, None, missing=missing)
    return Direction(name, 0, 0, None, None, None, missing=missing)


def _fix_mixed(mixed: Direction, parts: Sequence[Direction]) -> Direction:
    """Add up the values that fio before 3.39 prints as IOPS=0, BW=0 under unified_rw_reporting=both."""
    sizes = [part.io_bytes for part in parts]
    if mixed.io_bytes or not mixed.total_ios or not mixed.runtime_s or None in sizes:
        return mixed
    io_bytes = sum(size or 0 for size in sizes)
    source = "sum of read, write and trim; fio before 3.39 prints 0"
    sources = dict.fromkeys(("io_bytes", "iops", "bandwidth_bytes_per_s"), source)
    return replace(
        mixed,
        io_bytes=read_count(io_bytes),
        iops=read_amount(mixed.total_ios / mixed.runtime_s),
        bandwidth_bytes_per_s=read_amount(io_bytes / mixed.runtime_s),
        sources={**mixed.sources, **sources},
    )


# Most jobs keep one depth all along, so that few of these lines differ.
@lru_cache(maxsize=1024)
def _read_depth(text: str) -> Mapping[str, float]:
    return {level: float(share) for level, share in _DEPTH.findall(text)}


def _read_goal(goal: re.Match[str], version: Version) -> Mapping[str, str]:
    """Return the options of latency_target, which fio prints for every job, with a target of 0 where unused."""
    # fio names units since 3.42.
    target_us = _read_goal_us(goal[1], goal[2] or ("ns" if version >= _TARGET_IN_NS else "us"))
    window_us = _read_goal_us(goal[3], goal[4] or "us")
    if not target_us or window_us is None:
        return {}
    return {
        "latency_target": f"{target_us}us",
        "latency_window": f"{window_us}us",
        "latency_percentile": goal[5].rstrip("0").rstrip("."),
    }


def _read_goal_us(text: str, unit: str) -> int | None:
    try:
        return int(round(float(text) * _UNITS_US[unit], 3))
    except ValueError:
        return None


def _read_steady_state(text: str) -> SteadyState | None:
    """Read "attained=yes, bw=105MiB/s (107MB/s), iops=26.9k, bw mean dev=5.712%"; the figure in brackets is wrong."""
    match = _STEADY_STATE.match(text)
    if match is None:
        return None
    attained, bandwidth, iops, what, how, deviation = match.groups()
    rate, count = read_figure(bandwidth, MODERN), read_figure(iops, MODERN)
    return SteadyState(
        criterion=f"{what}_slope" if how == "slope" else what,
        is_attained=attained == "yes",
        deviation=deviation,
        iops=None if count is None else float(count.value),
        bandwidth_bytes_per_s=None if rate is None else float(rate.value),
    )


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
    jobs = _number_servers(jobs, jobs_read)
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


def _number_servers(jobs: tuple[Job, ...], drafts: Sequence[JobDraft]) -> tuple[Job, ...]:
    """Number the servers that have one hostname."""
    servers: dict[str | None, dict[int, None]] = defaultdict(dict)
    for draft in drafts:
        if draft.server:
            servers[draft.hostname].setdefault(draft.server)
    numbered = {
        (hostname, server): number
        for hostname, found in servers.items()
        if len(found) > 1
        for number, server in enumerate(found, 1)
    }
    if not numbered:
        return jobs
    return tuple(
        replace(job, server_number=numbered.get((draft.hostname, draft.server), 0))
        for job, draft in zip(jobs, drafts, strict=True)
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
        candidates = by_name.get(key) or by_name.get((None, job.name, job.groupid), [])
        match = candidates[min(seen[key], len(candidates) - 1)] if candidates else None
        if (
            job.hostname
            and match
            and key not in by_name
            and any(each.options != match.options for each in candidates)
        ):
            # Of one of several servers.
            match = None
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
    hosts = {host for job in draft.jobs if job.hostname for host in job.hostname.split(", ")}
    if draft.is_client and draft.has_end:
        named = {header.hostname: None for header in draft.headers if header.hostname not in hosts}
        if not named and draft.servers < draft.clients:
            named[
                f"{', '.join(sorted(hosts))} ({draft.clients - draft.servers} of {draft.clients} servers)"
            ] = None
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
