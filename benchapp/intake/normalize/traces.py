"""Combine the fio logs of a run into traces, and assess the steadiness of each job. Pure.

The logs that are read are bounded; others are named in a warning, and never reject a submission.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from benchapp.fio.logs import (
    Log,
    LogDirection,
    LogKind,
    LogValues,
    UnreadableLog,
    read_log,
    split_log_name,
)
from benchapp.fio.numbers import parse_version
from benchapp.fio.report import Document, Group, Note, Report
from benchapp.series.validity.rules import Steadiness
from benchapp.series.validity.trace import TraceBuckets, TraceLog, find_window, judge_steady, make_trace

# The soft time limit of a task is 90 s; a million lines as fio writes them take 3 s, at most 6 s (measured).
LOGS_BYTES_MAXIMUM: Final = 16 * 2**20
LOGS_LINES_MAXIMUM: Final = 1_000_000
# Log kinds in the order in which they are selected: rates first, since they show the steadiness of a run.
_SELECTION_ORDER: Final = ("iops", "bw", "lat", "clat", "slat")
_NAMES_MAXIMUM: Final = 8
_RATES: Final[tuple[LogKind, ...]] = ("iops", "bw")
_KINDS: Final[tuple[LogKind, ...]] = ("iops", "bw", "slat", "clat", "lat")
_DIRECTIONS: Final[tuple[LogDirection, ...]] = ("read", "write", "trim")
# Significant digits of stored values: more than the precision of a mean over a bucket; 600 buckets stay below 50 KB.
_DIGITS: Final = 7
_MS_PER_S: Final = 1000


@dataclass(frozen=True, slots=True)
class RunTraces:
    """Results from the logs of one run. traces: the columns of rows of Trace.

    steadiness: by the indices of a group's entries, and direction.
    """

    traces: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[Note, ...] = ()
    steadiness: Mapping[tuple[tuple[int, ...], str], Steadiness] = field(default_factory=dict)

    def find_steadiness(self, group: Group, direction: str) -> Steadiness | None:
        """Return the steadiness of a direction of a group; None without logs of it."""
        return self.steadiness.get((group.jobs, direction))


@dataclass(frozen=True, slots=True)
class _TimedLog:
    """A log on the time axis of its run. offset_s: from the start of the run to time 0 of the log.

    window_s: length of the log's averaging windows, 0 for single I/Os.
    """

    log: Log
    offset_s: float
    window_s: float


def parse_traces(logs: Mapping[str, str], report: Report) -> RunTraces:
    """Parse the logs of a submission (file name → text) and combine them into the traces of its only run.

    Unreadable, ambiguous and too many logs become warnings, and never reject the submission. Time and memory are linear
    in the text that is read: at most 16 MiB and a million lines.
    """
    if not logs:
        return RunTraces()
    if len(report.documents) != 1:
        message = (
            f"{len(logs)} logs came with {len(report.documents)} reports: none was read, because it is not known which"
            " report each log belongs to"
        )
        return RunTraces(warnings=(Note("logs-of-several-reports", "", message),))
    document = report.documents[0]
    warnings: list[Note] = []
    parsed = list(_read_logs(select_logs(logs, warnings), document.fio_version, warnings))
    groups = _find_groups(parsed, document)
    from_job_start = [_measure_window(log) for log in parsed if log.directions]
    from_run_start = _align(from_job_start, document, groups, warnings)
    combined = _combine(from_run_start, _KINDS)
    logs_by_group = _group_logs(from_job_start, document, groups)
    # With a single group whose logs are all aligned, its traces are those of the run.
    is_single = len(logs_by_group) == 1 and len(from_run_start) == len(next(iter(logs_by_group.values())))
    return RunTraces(
        traces=tuple(
            _plan_trace(kind, direction, buckets) for (kind, direction), buckets in combined.items()
        ),
        warnings=tuple(warnings),
        steadiness={
            (jobs, direction): steadiness
            for jobs, group_logs in logs_by_group.items()
            for direction, steadiness in _judge(
                combined if is_single else _combine(group_logs, _RATES)
            ).items()
        },
    )


def select_logs(logs: Mapping[str, str], warnings: list[Note]) -> dict[str, str]:
    """Return the logs that are read, by file name; add a warning that names the others.

    At most LOGS_BYTES_MAXIMUM characters and LOGS_LINES_MAXIMUM lines. Of each kind all or none, because a sum over
    some of the jobs would be wrong.
    """
    names_by_kind: dict[str, list[str]] = defaultdict(list)
    for name in sorted(logs):
        parsed = split_log_name(name)
        names_by_kind[parsed.kind if parsed else ""].append(name)
    selected: dict[str, str] = {}
    skipped: list[str] = []
    bytes_left, lines_left = LOGS_BYTES_MAXIMUM, LOGS_LINES_MAXIMUM
    ranks = {kind: rank for rank, kind in enumerate(_SELECTION_ORDER)}
    for _, names in sorted(names_by_kind.items(), key=lambda item: ranks.get(item[0], len(ranks))):
        size = sum(len(logs[name]) for name in names)
        lines = sum(logs[name].count("\n") for name in names) if size <= bytes_left else 0
        if size > bytes_left or lines > lines_left:
            skipped += names
            continue
        bytes_left, lines_left = bytes_left - size, lines_left - lines
        selected |= {name: logs[name] for name in names}
    if skipped:
        warnings.append(Note("logs-too-big", "", _describe_skipped(skipped)))
    return selected


def _describe_skipped(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_MAXIMUM} others" if len(names) > _NAMES_MAXIMUM else ""
    return (
        f"not read: {', '.join(names[:_NAMES_MAXIMUM])}{more}. The logs of a run are read up to"
        f" {LOGS_BYTES_MAXIMUM // 2**20} MiB and {LOGS_LINES_MAXIMUM} lines, all logs of a kind or none."
        " --log_avg_msec=1000 makes fio average them"
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
            warnings.append(Note("log-cut", where, "the last line was incomplete and was skipped"))
        yield log


def _find_groups(logs: Sequence[Log], document: Document) -> dict[int, Group]:
    """Return the group of each job number in the names of logs: fio numbers jobs from 1 over all entries.

    Empty if the numbers do not match the report: servers number their jobs separately, fio may have omitted jobs.
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


def _align(
    logs: list[_TimedLog], document: Document, groups: Mapping[int, Group], warnings: list[Note]
) -> list[_TimedLog]:
    """Return the logs from the start of the run: by the clock in the logs, else by the start of their jobs.

    Jobs of one groupid start together. Jobs of several may have run one after the other: with neither clock nor start
    times they are not combined, because the sum of rates at different times would be wrong. Then there are no traces.
    """
    clock_starts = [_find_start(each) for each in logs]
    known_clock_starts = [start_s for start_s in clock_starts if start_s is not None]
    if known_clock_starts and len(known_clock_starts) == len(logs):
        first_s = min(known_clock_starts)
        return [
            replace(each, offset_s=start_s + each.window_s - first_s)
            for each, start_s in zip(logs, known_clock_starts, strict=True)
        ]
    if len({job.groupid for job in document.jobs if not job.is_aggregate}) <= 1:
        return logs
    started_at = {job.index: job.started_at for job in document.jobs}
    owners = [_find_group(each.log, groups) for each in logs]
    job_starts = [started_at[owner.jobs[0]] if owner else None for owner in owners]
    known_job_starts = [start for start in job_starts if start is not None]
    if known_job_starts and len(known_job_starts) == len(logs):
        first = min(known_job_starts)
        return [
            replace(each, offset_s=(start - first).total_seconds())
            for each, start in zip(logs, known_job_starts, strict=True)
        ]
    if logs:
        warnings.append(
            Note(
                "logs-without-clock",
                "",
                "the jobs ran in several groups, and their logs do not contain their start times, so that they cannot"
                " be combined; run fio with --log_unix_epoch=1",
            )
        )
    return []


def _find_group(log: Log, groups: Mapping[int, Group]) -> Group | None:
    return None if log.job is None else groups.get(log.job)


def _measure_window(log: Log) -> _TimedLog:
    """Return a log from the start of its job, with the length of its windows."""
    if not log.is_windowed:
        return _TimedLog(log, 0.0, 0.0)
    ends_s = [end_s for values in log.directions.values() for end_s in values.at_s]
    return _TimedLog(log, 0.0, find_window(ends_s) if ends_s else 0.0)


def _find_start(timed: _TimedLog) -> float | None:
    """Return the start of a log's first window, in Unix time (s); None if the log counts from the start of its job."""
    began_at_ms = timed.log.began_at_ms
    return None if began_at_ms is None else began_at_ms / _MS_PER_S - timed.window_s


def _combine(
    timed: Sequence[_TimedLog], kinds: Sequence[LogKind]
) -> dict[tuple[LogKind, LogDirection], TraceBuckets]:
    """Return the traces by kind and direction, without those that have no logs."""
    traces = {
        (kind, direction): make_trace(_list_trace_logs(timed, kind, direction), is_rate=kind in _RATES)
        for kind in kinds
        for direction in _DIRECTIONS
    }
    return {key: trace for key, trace in traces.items() if trace is not None}


def _plan_trace(kind: LogKind, direction: LogDirection, buckets: TraceBuckets) -> dict[str, Any]:
    """Return the columns of a row; buckets: lists of one length, in base units."""
    return {
        "kind": kind,
        "direction": direction,
        "jobs": buckets.jobs,
        "entries": buckets.entries,
        "bucket_s": buckets.bucket_s,
        "buckets": {
            "at_s": list(buckets.at_s),
            "mean": _round_all(buckets.mean),
            "minimum": _round_all(buckets.minimum),
            "maximum": _round_all(buckets.maximum),
            "count": list(buckets.count),
        },
    }


def _list_trace_logs(timed: Iterable[_TimedLog], kind: LogKind, direction: LogDirection) -> list[TraceLog]:
    return [
        _make_trace_log(each, each.log.directions[direction])
        for each in timed
        if each.log.kind == kind and direction in each.log.directions
    ]


def _make_trace_log(timed: _TimedLog, values: LogValues) -> TraceLog:
    log = timed.log
    # The bandwidth of a single I/O is instantaneous: its size is used instead.
    sizes = values.block_bytes if log.kind == "bw" and not log.is_windowed else ()
    at_s: Sequence[float] = values.at_s
    if timed.offset_s:
        at_s = array("d", (moment_s + timed.offset_s for moment_s in values.at_s))
    return TraceLog(at_s, values.values, sizes, log.is_windowed, timed.window_s or None)


def _group_logs(
    timed: Sequence[_TimedLog], document: Document, groups: Mapping[int, Group]
) -> dict[tuple[int, ...], list[_TimedLog]]:
    """Return the logs of each group by the indices of its entries; each from the start of its job."""
    of_group: dict[tuple[int, ...], list[_TimedLog]] = defaultdict(list)
    only = document.groups[0] if len(document.groups) == 1 else None
    for each in timed:
        group = _find_group(each.log, groups) or only
        if group is not None:
            of_group[group.jobs].append(each)
    return of_group


def _judge(traces: Mapping[tuple[LogKind, LogDirection], TraceBuckets]) -> dict[LogDirection, Steadiness]:
    """Judge each direction by its IOPS, else by its bandwidth."""
    judged: dict[LogDirection, Steadiness] = {}
    for direction in _DIRECTIONS:
        kind: LogKind = "iops" if ("iops", direction) in traces else "bw"
        buckets = traces.get((kind, direction))
        found = judge_steady(buckets.mean) if buckets else None
        if buckets and found:
            judged[direction] = replace(found, is_iops=kind == "iops", logs=buckets.jobs)
    return judged


def _round_all(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]
