"""fio's JSON and JSON+, 2.0.10 to today: from the report as printed to a Document."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.catalog.metrics import cut_text
from benchapp.fio.json.direction import (
    Printing,
    describe_idle,
    is_idle,
    read_json_direction,
    read_json_shares,
    read_sync,
)
from benchapp.fio.json.documents import FoundDocument
from benchapp.fio.json.shape import (
    GlobalOptions,
    PrintedDirection,
    PrintedDisk,
    PrintedJob,
    PrintedLatency,
    PrintedReport,
    PrintedSteadyData,
    PrintedSteadyState,
)
from benchapp.fio.merging.jobs import RUNTIME_IN_US, correct_runtime, measure_growth_ms, roll_up
from benchapp.fio.numbers import Version, parse_version, read_moment
from benchapp.fio.report import (
    Direction,
    DirectionName,
    Disk,
    Document,
    Job,
    Notes,
    SteadyState,
    make_disk,
    name_server,
)
from benchapp.fio.workload import AGGREGATE, count_jobs_asked, is_set, list_directions_asked, overlay_options


class Effective(Struct, frozen=True, gc=False):
    """The options in effect for one entry; has_own: fio printed those of the job itself."""

    options: Mapping[str, str]
    has_own: bool


class GlobalOptionsOf:
    """The global options of each server; from fio 3.39 they are a list where there are several servers."""

    def __init__(self, of_all: GlobalOptions | None) -> None:
        self._of_all = None if isinstance(of_all, list) else of_all or {}
        self._of: dict[tuple[object, ...], Mapping[str, str]] = {}
        servers = of_all if isinstance(of_all, list) else []
        for server in servers:
            options = {key: str(value) for key, value in server.items() if key not in ("hostname", "port")}
            hostname, port = str(server.get("hostname")), str(server.get("port"))
            self._of.setdefault((hostname, port), options)
            self._of.setdefault((hostname,), options)
            if len(servers) == 1:
                self._of_all = options

    def choose(self, hostname: str | None, port: int | str | None) -> Mapping[str, str]:
        """Return those of a server: of its host and port, else of its host."""
        keys = ((str(hostname), str(port)), (str(hostname),))
        return next((self._of[key] for key in keys if key in self._of), self._of_all or {})


def find_options(
    content: PrintedReport, entries: Sequence[PrintedJob], *, where: str, notes: Notes
) -> list[Effective]:
    """Return the effective options of each entry."""
    own: list[Mapping[str, str]] = [entry.options or {} for entry in entries]
    is_client = content.jobs is None
    if is_client and any(own) and not all(own):
        own = _lend_options(entries, own, where, notes)
    of_all = content.global_options
    of_servers = GlobalOptionsOf(of_all)
    if isinstance(of_all, list):
        answered = {name_server(entry.hostname, entry.port) for entry in entries if entry.hostname}
        asked = [
            name_server(str(server["hostname"]), server.get("port"))
            for server in of_all
            if server.get("hostname")
        ]
        notes.add_missing_clients([name for name in asked if name not in answered], where)
    is_listed = of_all is not None
    if of_all is None and entries and not any(own):
        notes.add(
            "options-not-reported",
            where,
            "this report has no options: the requested workload is not known",
        )
    return [
        Effective(
            overlay_options(of_servers.choose(entry.hostname, entry.port), options) if of_all else options,
            # fio omits an empty list: the options of a job without own ones are those of [global]. Servers also
            # omit the options of some entries.
            bool(options) or (is_listed and not (is_client and any(own))) or entry.options is not None,
        )
        for entry, options in zip(entries, own, strict=True)
    ]


def _lend_options(
    entries: Sequence[PrintedJob], own: list[Mapping[str, str]], where: str, notes: Notes
) -> list[Mapping[str, str]]:
    """Give the options of a job to its clones: in client mode fio leaves out those of most entries."""
    of_name: dict[str | None, Mapping[str, str]] = {}
    for entry, options in zip(entries, own, strict=True):
        if options:
            of_name.setdefault(entry.jobname, options)
    lent = [options or of_name.get(entry.jobname, {}) for entry, options in zip(entries, own, strict=True)]
    if any(
        after and not before and entry.jobname != AGGREGATE
        for entry, before, after in zip(entries, own, lent, strict=True)
    ):
        notes.add(
            "options-borrowed",
            where,
            "fio omitted the options of some entries; those of the same job name were used",
        )
    return lent


# `elapsed` is rounded up and `timestamp` down, so that their difference may be one second off.
_ROUNDING_S: Final = 1

_Entries = Sequence[tuple[PrintedJob, PrintedJob]]
_Directions = tuple[PrintedDirection, PrintedDirection]


def drop_snapshots(reports: Sequence[FoundDocument], notes: Notes) -> list[FoundDocument]:
    """Keep the last complete report of each execution.

    Snapshots are cumulative: the last one includes all earlier ones.
    """
    kept: list[FoundDocument] = []
    dropped: list[int] = []
    for report in reports:
        if kept and continues(kept[-1], report):
            if report.is_partial and not kept[-1].is_partial:
                dropped.append(report.number)
                continue
            dropped.append(kept.pop().number)
        kept.append(report)
    notes.add_snapshots(dropped)
    return kept


def continues(earlier: FoundDocument, later: FoundDocument) -> bool:
    """Return whether the later report is of the same execution as the one before it.

    The same report twice is one execution; a client prints one report of an execution, and no more.
    """
    before, after = earlier.content, later.content
    if before.version != after.version:
        return False
    entries_before, entries_after = _list_entries(before), _list_entries(after)
    if later.is_partial or earlier.is_partial:
        shared = min(len(entries_before), len(entries_after))
        entries_before, entries_after = entries_before[:shared], entries_after[:shared]
    if [_identify(entry) for entry in entries_before] != [_identify(entry) for entry in entries_after]:
        return False
    pairs = list(zip(entries_before, entries_after, strict=True))
    if not pairs:
        return before == after
    if before.timestamp == after.timestamp and all(a == b for a, b in pairs):
        return True
    if before.jobs is None or after.jobs is None:
        return False
    starts = [(a.job_start, b.job_start) for a, b in pairs if a.job_start and b.job_start]
    if starts:
        return all(a == b for a, b in starts)
    return all(has_document_grown(a, b) for a, b in pairs) and _has_gone_on(before, after, pairs)


def _list_entries(content: PrintedReport) -> list[PrintedJob]:
    return [entry for entry in content.entries or () if entry]


def _identify(entry: PrintedJob) -> tuple[object, ...]:
    return entry.jobname, entry.groupid, entry.hostname, entry.port, entry.options


def has_document_grown(before: PrintedJob, after: PrintedJob) -> bool:
    """Return whether one entry can continue another: no counter decreased, and without I/O latencies are equal."""
    return all(
        not _has_shrunk(old, new) and (_did_more(old, new) or _list_latencies(old) == _list_latencies(new))
        for old, new in _pair_directions(before, after)
    )


def _pair_directions(before: PrintedJob, after: PrintedJob) -> Iterator[_Directions]:
    for old, new in (
        (before.read, after.read),
        (before.write, after.write),
        (before.trim, after.trim),
        (before.mixed, after.mixed),
    ):
        if old and new:
            yield old, new


def _has_shrunk(old: PrintedDirection, new: PrintedDirection) -> bool:
    return (new.io_bytes or 0) < (old.io_bytes or 0) or (new.total_ios or 0) < (old.total_ios or 0)


def _did_more(old: PrintedDirection, new: PrintedDirection) -> bool:
    return (new.io_bytes or 0) > (old.io_bytes or 0) or (new.total_ios or 0) > (old.total_ios or 0)


def _list_latencies(direction: PrintedDirection) -> list[PrintedLatency | None]:
    return [
        direction.slat,
        direction.clat,
        direction.lat,
        direction.slat_ns,
        direction.clat_ns,
        direction.lat_ns,
    ]


def _has_gone_on(before: PrintedReport, after: PrintedReport, pairs: _Entries) -> bool:
    """Return whether the times of two reports are those of one execution."""
    version = parse_version(before.version or "")
    elapsed = [
        max((entry.elapsed or 0 for entry in _list_entries(content)), default=0)
        for content in (before, after)
    ]
    if before.timestamp is None or after.timestamp is None or not all(elapsed):
        return _has_run_on(before, after, pairs, version)
    # Between its last snapshot and its end a job may lose time, if it did nothing more: fio 3.19 counts to the
    # moment of printing until the job is reaped.
    return _clock_agrees(before, after, elapsed[1] - elapsed[0]) and all(
        _measure_growth_ms(directions, version) >= 0 or not _did_more(*directions)
        for directions in _pair_all(pairs)
    )


def _clock_agrees(before: PrintedReport, after: PrintedReport, counted_s: int) -> bool:
    """Return whether the elapsed times of both fit the times of printing."""
    passed_s = (after.timestamp or 0) - (before.timestamp or 0)
    if counted_s < 0 or abs(passed_s - counted_s) > _ROUNDING_S:
        return False
    if before.timestamp_ms is not None and after.timestamp_ms is not None:
        return counted_s >= (after.timestamp_ms - before.timestamp_ms) // 1000
    return True


def _pair_all(pairs: _Entries) -> Iterator[_Directions]:
    for before, after in pairs:
        yield from _pair_directions(before, after)


def _measure_growth_ms(directions: _Directions, version: Version) -> float:
    old, new = directions
    return measure_growth_ms(
        (old.io_bytes or 0, old.runtime or 0), (new.io_bytes or 0, new.runtime or 0), version
    )


def _has_run_on(before: PrintedReport, after: PrintedReport, pairs: _Entries, version: Version) -> bool:
    """Decide by the run times alone, where fio (before 2.2.9) does not print the elapsed time.

    They only grow, and so do the extremes of latency; a direction that ran longer did more.
    """
    growth_of_group: dict[int, float] = defaultdict(float)
    for a, b in pairs:
        for directions in _pair_directions(a, b):
            growth_ms = _measure_growth_ms(directions, version)
            if growth_ms < 0 or (growth_ms > 0 and not _did_more(*directions)):
                return False
            if not all(map(_has_widened, *map(_list_latencies, directions))):
                return False
            # Groups run one after the other.
            group = a.groupid or 0
            growth_of_group[group] = max(growth_of_group[group], growth_ms)
    grown_s = sum(growth_of_group.values()) / 1000
    if not grown_s or before.timestamp is None or after.timestamp is None:
        return grown_s > 0
    return abs(after.timestamp - before.timestamp - round(grown_s)) <= _ROUNDING_S


def _has_widened(old: PrintedLatency | None, new: PrintedLatency | None) -> bool:
    # All zeros: nothing was measured yet.
    if old is None or new is None or not old.max:
        return True
    return (new.min or 0) <= (old.min or 0) and (new.max or 0) >= old.max


# groupid -1 as unsigned: a job with stats=0. fio prints zeros for it.
_NO_GROUP: Final = 2**32 - 1
# Before it, numjobs of the global section is not in the options.
NUMJOBS_LISTED: Final[Version] = (3, 4, 0)

Identity = tuple[str | None, int | None, str | None]


class Entry(Struct, frozen=True, gc=False):
    """An entry with its effective options (has_all_options: those of the job itself were printed) and host.

    identity: name, group and server, which the clones of one server share.
    """

    index: int
    printed: PrintedJob
    options: Mapping[str, str]
    has_all_options: bool
    hostname: str | None
    identity: Identity


def list_entries(content: PrintedReport, where: str, notes: Notes) -> list[Entry]:
    """Return the entries that have results; a note names each other one."""
    listed = content.entries or ()
    usable = [printed for printed in listed if printed is not None and not _is_without_stats(printed)]
    places: Sequence[int] = range(len(listed))
    if len(usable) < len(listed):
        places = _find_usable(listed, where, notes)
    options = find_options(content, usable, where=where, notes=notes)
    return [
        Entry(
            place,
            printed,
            effective.options,
            effective.has_own,
            server,
            (printed.jobname, printed.groupid, server),
        )
        for place, printed, effective, server in zip(
            places, usable, options, map(_name_server, usable), strict=True
        )
    ]


def _name_server(printed: PrintedJob) -> str | None:
    return printed.hostname and name_server(printed.hostname, printed.port)


def _is_without_stats(printed: PrintedJob) -> bool:
    return printed.groupid == _NO_GROUP and not printed.jobname


def _find_usable(listed: Sequence[PrintedJob | None], where: str, notes: Notes) -> list[int]:
    places = []
    for place, printed in enumerate(listed):
        if printed is None:
            notes.add(
                "unreadable-job", f"{where}, job {place}", "this entry is not a valid job and was skipped"
            )
        elif _is_without_stats(printed):
            notes.add(
                "stats-disabled",
                f"{where}, job {place}",
                "this job ran with stats=0: fio does not report its results",
            )
        else:
            places.append(place)
    return places


def drop_snapshot_entries(
    entries: Sequence[Entry], version: Version, *, where: str, notes: Notes
) -> list[Entry]:
    """Keep the last entries of each job: with --status-interval a client lists every snapshot in one report."""
    of_job: dict[object, list[Entry]] = defaultdict(list)
    for entry in entries:
        of_job[entry.identity].append(entry)
    dropped = {
        entry.index
        for members in of_job.values()
        for entry in _find_superseded(members, _count_expected(members[-1].options, version))
    }
    if dropped:
        notes.add(
            "cumulative-snapshots",
            where,
            f"{len(dropped)} entries are snapshots of running jobs and were skipped; the last of each job was read",
        )
    return [entry for entry in entries if entry.index not in dropped]


def _count_expected(options: Mapping[str, str], version: Version) -> int | None:
    """Return the number of entries of a job in one snapshot; None if fio may have omitted numjobs."""
    return count_jobs_asked(options) or (1 if options and version >= NUMJOBS_LISTED else None)


def _find_superseded(members: Sequence[Entry], clones: int | None) -> Sequence[Entry]:
    """Return the entries before the last full set of clones, if each set continues the one before."""
    if not clones or len(members) <= clones or len(members) % clones:
        return ()
    is_growing = all(
        has_document_grown(members[place].printed, members[place + clones].printed)
        for place in range(len(members) - clones)
    )
    return members[:-clones] if is_growing else ()


def count_clones(entries: Sequence[Entry], *, is_partial: bool) -> dict[Identity, int]:
    """Return how many jobs fio summed into an entry: all clones, if there is only one entry."""
    clones: dict[Identity, int] = {}
    for entry in entries:
        if entry.identity in clones or (is_partial and not is_set(entry.options, "group_reporting")):
            clones[entry.identity] = 1
        else:
            clones[entry.identity] = count_jobs_asked(entry.options) or 1
    return clones


def find_single(entries: Sequence[Entry], version: Version) -> set[int]:
    """Return the indices of single entries of unknown numjobs: group_reporting may have summed several jobs."""
    counts = Counter(entry.identity for entry in entries)
    return {
        entry.index
        for entry in entries
        if counts[entry.identity] == 1 and not _states_numjobs(entry, version)
    }


def _states_numjobs(entry: Entry, version: Version) -> bool:
    """Return whether the options tell numjobs: by it, or as all are listed and it is not among them."""
    if "numjobs" in entry.options:
        return count_jobs_asked(entry.options) is not None
    return entry.has_all_options and version >= NUMJOBS_LISTED


# Criterion and deviation of a steady state, as "iops_slope:0.3%".
_STEADY_LENGTH: Final = 100
# Until 3.12, lat_percentiles=1, which clat_percentiles=0 implied, printed percentiles of lat under clat_ns: init.c
# and stat.c of fio.
_MISLABELED: Final[tuple[Version, Version]] = ((3, 1, 0), (3, 13, 0))


def read_job(entry: Entry, *, clones: int, version: Version, is_client: bool) -> Job:
    """Return one entry; clones: how many jobs fio summed into it."""
    printed = entry.printed
    options = entry.options
    name = printed.jobname or ""
    printing = Printing(
        version,
        clones,
        is_mislabeled=_MISLABELED[0] <= version < _MISLABELED[1] and _wants_total(options),
    )
    return Job(
        index=entry.index,
        name=name,
        groupid=printed.groupid or 0,
        hostname=entry.hostname,
        error=printed.error,
        clones=clones,
        options=options,
        directions=tuple(_read_directions(printed, printing, list_directions_asked(options))),
        started_at=read_moment(None, milliseconds=printed.job_start) if printed.job_start else None,
        description=printed.desc,
        cpu_user_percent=printed.usr_cpu,
        cpu_system_percent=printed.sys_cpu,
        context_switches=printed.ctx,
        depth=printed.iodepth_level or {},
        iodepth=printed.latency_depth or None,
        is_aggregate=is_client and name == AGGREGATE and not printed.options,
        depth_submitted=printed.iodepth_submit or {},
        depth_completed=printed.iodepth_complete or {},
        latency_shares=read_json_shares(printed),
        major_faults=printed.majf,
        minor_faults=printed.minf,
        steady_state=_read_steady_state(printed.steadystate),
        has_all_options=entry.has_all_options,
    )


def _wants_total(options: Mapping[str, str]) -> bool:
    if "lat_percentiles" in options:
        return is_set(options, "lat_percentiles")
    return "clat_percentiles" in options and not is_set(options, "clat_percentiles")


def _read_directions(printed: PrintedJob, printing: Printing, asked: Sequence[str]) -> Iterator[Direction]:
    parts: tuple[tuple[DirectionName, PrintedDirection | None], ...] = (
        ("read", printed.read),
        ("write", printed.write),
        ("trim", printed.trim),
        ("mixed", printed.mixed),
    )
    for name, part in parts:
        if part is None:
            continue
        if not is_idle(part):
            yield read_json_direction(name, part, printing)
        elif name in asked:
            yield describe_idle(name)
    if printed.sync is not None and printed.sync.total_ios:
        yield read_sync(printed.sync)


def _read_steady_state(printed: PrintedSteadyState | None) -> SteadyState | None:
    if printed is None or not printed.ss:
        return None
    means = printed.data or PrintedSteadyData()
    return SteadyState(
        criterion=cut_text(printed.ss, _STEADY_LENGTH),
        is_attained=bool(printed.attained),
        duration_s=None if printed.duration is None else float(printed.duration),
        deviation=cut_text(printed.criterion or "", _STEADY_LENGTH),
        iops=means.iops_mean,
        bandwidth_bytes_per_s=means.bw_mean,
    )


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
    hiding.update(find_single(entries, version))
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
