"""fio's JSON and JSON+, 2.0.10 to today: from the parsed value to a Document."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from benchapp.fio.json_direction import read_direction
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_amount, read_count, read_errno, read_moment
from benchapp.fio.options import AGGREGATE, count_jobs_asked, find_options, is_set, list_directions_asked
from benchapp.fio.report import Direction, DirectionName, Disk, Document, Job
from benchapp.fio.rollup import roll_up
from benchapp.fio.snapshots import has_grown
from benchapp.fio.version import Version, parse_version

Raw = Mapping[str, Any]

_DIRECTIONS: Final[tuple[DirectionName, ...]] = ("read", "write", "trim", "mixed", "sync")
# groupid -1 as unsigned: a job with stats=0, of which fio prints zeros.
_NO_GROUP: Final = 2**32 - 1
_YEAR_S: Final = 366 * 86400
# Before it, numjobs of the global section is not in the options.
_NUMJOBS_LISTED: Final[Version] = (3, 4, 0)
# In these two, lat_percentiles=1 printed percentiles of lat under clat_ns.
_MISLABELLED: Final[tuple[Version, Version]] = ((3, 11, 0), (3, 13, 0))
# Jobs hidden in a group add their run times: well above 1, well below 2.
_HIDDEN_RATIO: Final = 1.5


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of the report's list with what only the whole list tells: effective options and server."""

    index: int
    raw: Raw
    options: Mapping[str, str]
    hostname: str | None

    @property
    def identity(self) -> tuple[str, str, str | None]:
        return str(self.raw.get("jobname")), str(self.raw.get("groupid")), self.hostname


def read_document(content: Raw, *, where: str, is_partial: bool, notes: Notes) -> Document:
    """Return one report of fio; a document without usable jobs has none."""
    printed_version = content.get("fio version")
    fio_version = printed_version if isinstance(printed_version, str) else ""
    version = parse_version(fio_version)
    is_client = "jobs" not in content
    entries = _list_entries(content, "client_stats" if is_client else "jobs", where, notes)
    if is_client:
        entries = _drop_snapshots(entries, version, where=where, notes=notes)
    clones = _count_clones(entries, is_partial=is_partial)
    jobs = tuple(
        _read_job(entry, clones=clones[entry.identity], version=version, is_client=is_client)
        for entry in entries
    )
    for job, entry in zip(jobs, entries, strict=True):
        _check_hidden_jobs(job, entry.raw, where, notes)
    finished_at = read_moment(content.get("timestamp"), milliseconds=content.get("timestamp_ms"))
    return Document(
        format="json+" if _has_bins(jobs) else "json",
        fio_version=fio_version,
        started_at=_find_start(jobs, entries, finished_at),
        finished_at=finished_at,
        jobs=jobs,
        groups=roll_up(jobs, where=where, is_partial=is_partial, notes=notes),
        disks=_read_disks(content.get("disk_util")),
        is_partial=is_partial,
    )


def _list_entries(content: Raw, key: str, where: str, notes: Notes) -> list[_Entry]:
    usable = [
        (index, raw)
        for index, raw in enumerate(content.get(key) or ())
        if _is_usable(raw, f"{where}, job {index}", notes)
    ]
    raws = [raw for _, raw in usable]
    options = find_options(content, raws, where=where, notes=notes)
    hosts = _name_hosts(raws)
    return [
        _Entry(index, raw, own, host) for (index, raw), own, host in zip(usable, options, hosts, strict=True)
    ]


def _is_usable(entry: object, where: str, notes: Notes) -> bool:
    if not isinstance(entry, dict):
        notes.add("unreadable-job", where, "this entry is no job; it was left out")
        return False
    if entry.get("groupid") == _NO_GROUP and not entry.get("jobname"):
        notes.add("stats-disabled", where, "this job ran with stats=0: fio reports nothing of it")
        return False
    return True


def _name_hosts(raws: Sequence[Raw]) -> list[str | None]:
    """Name the server of each entry, with its port only where one host has several servers."""
    ports: dict[object, set[str]] = defaultdict(set)
    for raw in raws:
        ports[str(raw.get("hostname"))].add(str(raw.get("port")))
    names: list[str | None] = []
    for raw in raws:
        hostname = raw.get("hostname")
        if not isinstance(hostname, str):
            names.append(None)
        else:
            names.append(f"{hostname}:{raw.get('port')}" if len(ports[hostname]) > 1 else hostname)
    return names


def _drop_snapshots(entries: Sequence[_Entry], version: Version, *, where: str, notes: Notes) -> list[_Entry]:
    """Keep the last entries of each job: with --status-interval a client lists every snapshot in one report."""
    of_job: dict[object, list[_Entry]] = defaultdict(list)
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
            f"{len(dropped)} entries are snapshots of jobs whose last entries count; they were left out",
        )
    return [entry for entry in entries if entry.index not in dropped]


def _count_expected(options: Mapping[str, str], version: Version) -> int | None:
    """Return how many entries a job has in one snapshot; None where fio may have left numjobs out."""
    return count_jobs_asked(options) or (1 if options and version >= _NUMJOBS_LISTED else None)


def _find_superseded(members: Sequence[_Entry], clones: int | None) -> Sequence[_Entry]:
    """Return the entries before the last full set of clones, if each set goes on from the one before."""
    if not clones or len(members) <= clones or len(members) % clones:
        return ()
    is_growing = all(
        has_grown(members[place].raw, members[place + clones].raw) for place in range(len(members) - clones)
    )
    return members[:-clones] if is_growing else ()


def _count_clones(entries: Sequence[_Entry], *, is_partial: bool) -> dict[object, int]:
    """Return how many jobs fio summed into an entry: all clones, if they share the one entry there is."""
    seen = Counter(entry.identity for entry in entries)
    clones: dict[object, int] = {}
    for entry in entries:
        # In a text that was cut, the other clones may be what is missing.
        is_grouped = seen[entry.identity] == 1 and (
            not is_partial or is_set(entry.options, "group_reporting")
        )
        clones[entry.identity] = (count_jobs_asked(entry.options) or 1) if is_grouped else 1
    return clones


def _read_job(entry: _Entry, *, clones: int, version: Version, is_client: bool) -> Job:
    raw = entry.raw
    name = raw.get("jobname")
    asked = list_directions_asked(entry.options)
    directions = tuple(
        direction
        for key in _DIRECTIONS
        if isinstance(part := raw.get(key), dict)
        and (direction := read_direction(key, part, version=version, clones=clones, is_asked=key in asked))
    )
    if _MISLABELLED[0] <= version < _MISLABELLED[1] and is_set(entry.options, "lat_percentiles"):
        directions = tuple(_relabel_percentiles(direction) for direction in directions)
    description = raw.get("desc")
    return Job(
        index=entry.index,
        name=name if isinstance(name, str) else "",
        groupid=read_count(raw.get("groupid")) or 0,
        hostname=entry.hostname,
        error=read_errno(raw.get("error", 0)),
        clones=clones,
        options=entry.options,
        directions=directions,
        started_at=read_moment(None, milliseconds=raw.get("job_start")),
        description=description if isinstance(description, str) else None,
        cpu_user_percent=read_amount(raw.get("usr_cpu")),
        cpu_system_percent=read_amount(raw.get("sys_cpu")),
        context_switches=read_count(raw.get("ctx")),
        depth=_read_depth(raw.get("iodepth_level")),
        iodepth=read_count(raw.get("latency_depth")) or None,
        is_aggregate=is_client and name == AGGREGATE and not raw.get("job options"),
    )


def _read_depth(raw: object) -> Mapping[str, float]:
    if not isinstance(raw, dict):
        return {}
    shares = {level: read_amount(share) for level, share in raw.items()}
    return {level: share for level, share in shares.items() if share is not None}


def _relabel_percentiles(direction: Direction) -> Direction:
    completion, total = direction.completion, direction.total
    if completion is None or total is None:
        return direction
    return replace(
        direction,
        completion=replace(completion, percentiles=(), bins=None),
        total=replace(total, percentiles=completion.percentiles, bins=completion.bins),
    )


def _check_hidden_jobs(job: Job, raw: Raw, where: str, notes: Notes) -> None:
    """Warn if more jobs were summed into an entry than its options tell: job_runtime adds up over jobs."""
    if job.is_aggregate or is_set(job.options, "verify"):
        return
    job_runtime_ms = read_count(raw.get("job_runtime"))
    longest_s = max((direction.runtime_s or 0 for direction in job.directions), default=0)
    if not job_runtime_ms or longest_s < 0.1:
        return
    if job_runtime_ms / 1000 > longest_s * job.clones * _HIDDEN_RATIO:
        notes.add(
            "group-of-different-jobs",
            f"{where}, job {job.index} ({job.name})",
            "group_reporting summed more jobs into this entry than its options tell; it is named after the first",
        )


def _has_bins(jobs: Sequence[Job]) -> bool:
    return any(
        latency.bins is not None
        for job in jobs
        for direction in job.directions
        for latency in (direction.completion, direction.total)
        if latency
    )


def _find_start(
    jobs: Sequence[Job], entries: Sequence[_Entry], finished_at: datetime | None
) -> datetime | None:
    """Prefer job_start (3.36) to the moment of printing less the seconds that passed."""
    starts = [job.started_at for job in jobs if job.started_at]
    if starts:
        return min(starts)
    elapsed_s = max((read_count(entry.raw.get("elapsed")) or 0 for entry in entries), default=0)
    if finished_at is None or not 0 < elapsed_s < _YEAR_S or finished_at.year < 1980:
        return None
    return finished_at - timedelta(seconds=elapsed_s)


def _read_disks(raw: object) -> tuple[Disk, ...]:
    if not isinstance(raw, list):
        return ()
    return tuple(
        Disk(
            str(entry.get("name", "")),
            read_count(entry.get("read_ios")),
            read_count(entry.get("write_ios")),
            read_amount(entry.get("util")),
        )
        for entry in raw
        if isinstance(entry, dict)
    )
