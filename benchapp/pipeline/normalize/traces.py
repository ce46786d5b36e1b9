"""Combine fio logs of a run into traces, and assess the steadiness of each job: pure.

How much of a submission's logs is read: what is too much is left out by name and refuses nothing; pure.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from benchapp.analysis.validity.inputs import Steadiness
from benchapp.analysis.validity.trace import TraceBuckets, TraceLog, find_window, judge_steady, make_trace
from benchapp.fio.logs import (
    Log,
    LogDirection,
    LogKind,
    LogValues,
    UnreadableLog,
    read_log,
    split_log_name,
)
from benchapp.fio.report import Document, Group, Note, Report
from benchapp.fio.version import parse_version

# A task has 90 s; a million lines take 3 s as fio writes them, and 6 s as nobody does (measured).
LOGS_BYTES_MAXIMUM: Final = 16 * 2**20
LOGS_LINES_MAXIMUM: Final = 1_000_000
# The first of these that fit are read: rates judge how steady a run was.
_ORDER: Final = ("iops", "bw", "lat", "clat", "slat")
_NAMES_TOLD: Final = 8


def keep_to_budget(logs: Mapping[str, str], warnings: list[Note]) -> dict[str, str]:
    """Return the logs that are read, by file name, and add a warning that names the others.

    At most LOGS_BYTES_MAXIMUM characters and LOGS_LINES_MAXIMUM lines; of each kind all or none, as a sum over some
    of the jobs would be wrong.
    """
    of_kind: dict[str, list[str]] = defaultdict(list)
    for name in sorted(logs):
        known = split_log_name(name)
        of_kind[known.kind if known else ""].append(name)
    kept: dict[str, str] = {}
    left_out: list[str] = []
    room_bytes, room_lines = LOGS_BYTES_MAXIMUM, LOGS_LINES_MAXIMUM
    for kind in sorted(of_kind, key=lambda kind: _ORDER.index(kind) if kind in _ORDER else len(_ORDER)):
        names = of_kind[kind]
        size = sum(len(logs[name]) for name in names)
        lines = sum(logs[name].count("\n") for name in names) if size <= room_bytes else 0
        if size > room_bytes or lines > room_lines:
            left_out += names
            continue
        room_bytes, room_lines = room_bytes - size, room_lines - lines
        kept |= {name: logs[name] for name in names}
    if left_out:
        warnings.append(Note("logs-too-big", "", _say_left_out(left_out)))
    return kept


def _say_left_out(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_TOLD} others" if len(names) > _NAMES_TOLD else ""
    return (
        f"not read: {', '.join(names[:_NAMES_TOLD])}{more}; of a run's logs {LOGS_BYTES_MAXIMUM // 2**20} MiB and"
        f" {LOGS_LINES_MAXIMUM} lines are read, and of each kind all or none: fio averages with --log_avg_msec=1000"
    )


_RATES: Final[tuple[LogKind, ...]] = ("iops", "bw")
_KINDS: Final[tuple[LogKind, ...]] = ("iops", "bw", "slat", "clat", "lat")
_DIRECTIONS: Final[tuple[LogDirection, ...]] = ("read", "write", "trim")
# Digits of the values kept: a mean over a bucket is known to no more, and 600 of them stay below 50 KB.
_DIGITS: Final = 7
_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class PlannedTrace:
    """One row of Trace; buckets: {at_s, mean, minimum, maximum, count}, lists of one length, in base units."""

    kind: LogKind
    direction: LogDirection
    jobs: int
    entries: int
    bucket_s: float
    buckets: Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class RunTraces:
    """What the logs of one run say. steadiness: (indices of a group's entries, direction) → how steady it was."""

    traces: tuple[PlannedTrace, ...] = ()
    warnings: tuple[Note, ...] = ()
    steadiness: Mapping[tuple[tuple[int, ...], str], Steadiness] = field(default_factory=dict)

    def find_steadiness(self, group: Group, direction: str) -> Steadiness | None:
        """Return how steady a direction of a group was; None where no log tells."""
        return self.steadiness.get((group.jobs, direction))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A log, how many seconds after the start of the run its own time begins, and the length of its windows, s.

    window_s: 0 for single I/Os.
    """

    log: Log
    offset_s: float
    window_s: float


def parse_traces(logs: Mapping[str, str], report: Report) -> RunTraces:
    """Read a submission's logs, by file name, and return what they say of its one run.

    What cannot be read or told apart, or is too much, becomes a warning and refuses nothing. Linear in the text of
    the logs, of which at most 16 MiB and a million lines are read.
    """
    if not logs:
        return RunTraces()
    if len(report.documents) != 1:
        message = (
            f"{len(logs)} logs came with {len(report.documents)} reports; of which one each tells is not known,"
            " so that none was read"
        )
        return RunTraces(warnings=(Note("logs-of-several-reports", "", message),))
    document = report.documents[0]
    warnings: list[Note] = []
    kept = keep_to_budget(logs, warnings)
    found = list(_read_logs(kept, document.fio_version, warnings))
    groups = _find_groups(found, document)
    used = [_put(log) for log in found if log.directions]
    placed = _place(used, document, groups, warnings)
    combined = _combine(placed, _KINDS)
    members = _group_logs(used, document, groups)
    # Of the only group, whose logs all have their place, the traces are those of the run.
    is_whole = len(members) == 1 and len(placed) == len(next(iter(members.values())))
    return RunTraces(
        traces=tuple(
            _plan_trace(kind, direction, buckets) for (kind, direction), buckets in combined.items()
        ),
        warnings=tuple(warnings),
        steadiness={
            (jobs, direction): steadiness
            for jobs, own in members.items()
            for direction, steadiness in _judge(combined if is_whole else _combine(own, _RATES)).items()
        },
    )


def _read_logs(logs: Mapping[str, str], fio_version: str, warnings: list[Note]) -> Iterator[Log]:
    version = parse_version(fio_version)
    for name, text in sorted(logs.items()):
        where = f"log {name}"
        try:
            log = read_log(name, text.encode(), version=version)
        except UnreadableLog as error:
            warnings.append(Note(error.code, where, error.detail.replace("\x00", "\ufffd")))
            continue
        if log.is_cut:
            warnings.append(Note("log-cut", where, "the last line was not whole and was left out"))
        yield log


def _find_groups(logs: Sequence[Log], document: Document) -> dict[int, Group]:
    """Return the group that each number in the names of logs belongs to: fio counts jobs from 1 through all entries.

    Empty where the numbers do not fit the report: servers that each count by themselves, jobs that fio left out.
    """
    jobs = [job for job in document.jobs if not job.is_aggregate]
    numbers = [log.job for log in logs]
    known = [number for number in numbers if number is not None]
    is_countable = not any(job.hostname for job in jobs) and not document.is_partial
    if (
        not is_countable
        or len(known) < len(numbers)
        or max(known, default=0) != sum(job.clones for job in jobs)
    ):
        return {}
    of_entry = {index: group for group in document.groups for index in group.jobs}
    groups: dict[int, Group] = {}
    number = 0
    for job in jobs:
        for _ in range(job.clones):
            number += 1
            groups[number] = of_entry[job.index]
    return groups


def _place(
    used: list[_Placed], document: Document, groups: Mapping[int, Group], warnings: list[Note]
) -> list[_Placed]:
    """Give each log its place in the run: by the clock, else by the start of its job, else all at once.

    Jobs of several groups of fio may have run one after the other; where neither is known, they are not combined:
    a sum of rates that were never there together would be wrong.
    """
    starts = [_find_start(each) for each in used]
    known = [start for start in starts if start is not None]
    if known and len(known) == len(used):
        began_s = min(known)
        return [
            replace(each, offset_s=start + each.window_s - began_s)
            for each, start in zip(used, known, strict=True)
        ]
    if len({job.groupid for job in document.jobs if not job.is_aggregate}) <= 1:
        return used
    began_at = {job.index: job.started_at for job in document.jobs}
    owners = [_find_group(each.log, groups) for each in used]
    moments = [began_at[owner.jobs[0]] if owner else None for owner in owners]
    told = [moment for moment in moments if moment is not None]
    if told and len(told) == len(used):
        first = min(told)
        return [
            replace(each, offset_s=(moment - first).total_seconds())
            for each, moment in zip(used, told, strict=True)
        ]
    if used:
        warnings.append(
            Note(
                "logs-without-clock",
                "",
                "the jobs ran in several groups, and their logs do not say when each began, so that they cannot be"
                " laid over each other; run fio with --log_unix_epoch=1",
            )
        )
    return []


def _find_group(log: Log, groups: Mapping[int, Group]) -> Group | None:
    return None if log.job is None else groups.get(log.job)


def _put(log: Log) -> _Placed:
    """Place a log at the start of the run."""
    ends = (
        [moment_s for values in log.directions.values() for moment_s in values.at_s]
        if log.is_windowed
        else []
    )
    return _Placed(log, 0.0, find_window(ends) if ends else 0.0)


def _find_start(placed: _Placed) -> float | None:
    """Return when a log's first window began, in seconds by the clock; None for a log that counts from its job."""
    began_at_ms = placed.log.began_at_ms
    return None if began_at_ms is None else began_at_ms / _MS_PER_S - placed.window_s


def _combine(
    placed: Sequence[_Placed], kinds: Sequence[LogKind]
) -> dict[tuple[LogKind, LogDirection], TraceBuckets]:
    """Return the trace of each kind and direction that there are logs of."""
    traces = {
        (kind, direction): make_trace(_list_trace_logs(placed, kind, direction), is_rate=kind in _RATES)
        for kind in kinds
        for direction in _DIRECTIONS
    }
    return {place: trace for place, trace in traces.items() if trace is not None}


def _plan_trace(kind: LogKind, direction: LogDirection, buckets: TraceBuckets) -> PlannedTrace:
    return PlannedTrace(
        kind=kind,
        direction=direction,
        jobs=buckets.jobs,
        entries=buckets.entries,
        bucket_s=buckets.bucket_s,
        buckets={
            "at_s": list(buckets.at_s),
            "mean": _round_all(buckets.mean),
            "minimum": _round_all(buckets.minimum),
            "maximum": _round_all(buckets.maximum),
            "count": list(buckets.count),
        },
    )


def _list_trace_logs(placed: Iterable[_Placed], kind: LogKind, direction: LogDirection) -> list[TraceLog]:
    return [
        _make_trace_log(each, each.log.directions[direction])
        for each in placed
        if each.log.kind == kind and direction in each.log.directions
    ]


def _make_trace_log(placed: _Placed, values: LogValues) -> TraceLog:
    log = placed.log
    # The bandwidth of a single I/O is that of an instant: what counts is how much it moved.
    sizes = values.block_bytes if log.kind == "bw" and not log.is_windowed else ()
    at_s: Sequence[float] = values.at_s
    if placed.offset_s:
        at_s = array("d", (moment_s + placed.offset_s for moment_s in values.at_s))
    return TraceLog(at_s, values.values, sizes, log.is_windowed, placed.window_s or None)


def _group_logs(
    placed: Sequence[_Placed], document: Document, groups: Mapping[int, Group]
) -> dict[tuple[int, ...], list[_Placed]]:
    """Return the logs of each group, by the indices of its entries; each log from the start of its own job."""
    of_group: dict[tuple[int, ...], list[_Placed]] = defaultdict(list)
    only = document.groups[0] if len(document.groups) == 1 else None
    for each in placed:
        group = _find_group(each.log, groups) or only
        if group is not None:
            of_group[group.jobs].append(each)
    return of_group


def _judge(traces: Mapping[tuple[LogKind, LogDirection], TraceBuckets]) -> dict[LogDirection, Steadiness]:
    """Judge each direction by its IOPS, else by its bandwidth."""
    judged: dict[LogDirection, Steadiness] = {}
    for direction in _DIRECTIONS:
        buckets = traces.get(("iops", direction)) or traces.get(("bw", direction))
        found = judge_steady(buckets.mean) if buckets else None
        if found is not None:
            judged[direction] = found
    return judged


def _round_all(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]
