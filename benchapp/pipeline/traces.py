"""Combine fio's logs of a run into traces, and judge by them how steady each of its jobs was: pure."""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchapp.analysis.evidence import Steadiness
from benchapp.analysis.trace import TraceLog, judge_steady, make_trace
from benchapp.fio.logs import Log, LogDirection, LogKind, LogValues, UnreadableLog, read_log
from benchapp.fio.report import Document, Group, Note, Report
from benchapp.fio.version import parse_version

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
class Course:
    """What the logs of one run say. steadiness: (indices of a group's entries, direction) → how steady it was."""

    traces: tuple[PlannedTrace, ...] = ()
    warnings: tuple[Note, ...] = ()
    steadiness: Mapping[tuple[tuple[int, ...], str], Steadiness] = field(default_factory=dict)

    def find_steadiness(self, group: Group, direction: str) -> Steadiness | None:
        """Return how steady a direction of a group was; None where no log tells."""
        return self.steadiness.get((group.jobs, direction))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A log and how many seconds after the start of the run its own time begins."""

    log: Log
    offset_s: float


def follow_course(logs: Mapping[str, str], report: Report) -> Course:
    """Read a submission's logs, by file name, and return what they say of its one run.

    What cannot be read or told apart becomes a warning and refuses nothing. Linear in the text of the logs.
    """
    if not logs:
        return Course()
    if len(report.documents) != 1:
        message = (
            f"{len(logs)} logs came with {len(report.documents)} reports; of which one each tells is not known,"
            " so that none was read"
        )
        return Course(warnings=(Note("logs-of-several-reports", "", message),))
    document = report.documents[0]
    warnings: list[Note] = []
    found = list(_read_logs(logs, document.fio_version, warnings))
    groups = _find_groups(found, document)
    placed = _place(found, document, groups, warnings)
    return Course(
        traces=tuple(_make_traces(placed)),
        warnings=tuple(warnings),
        steadiness=dict(_judge_groups(found, document, groups)),
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
    logs: Sequence[Log], document: Document, groups: Mapping[int, Group], warnings: list[Note]
) -> list[_Placed]:
    """Give each log its place in the run: by the clock, else by the start of its job, else all at once.

    Jobs of several groups of fio may have run one after the other; where neither is known, they are not combined:
    a sum of rates that were never there together would be wrong.
    """
    used = [log for log in logs if log.directions]
    starts = [_find_start(log) for log in used]
    known = [start for start in starts if start is not None]
    if known and len(known) == len(used):
        began_s = min(known)
        return [
            _Placed(log, start + _find_window(log) - began_s) for log, start in zip(used, known, strict=True)
        ]
    if len({job.groupid for job in document.jobs if not job.is_aggregate}) <= 1:
        return [_Placed(log, 0.0) for log in used]
    began_at = {job.index: job.started_at for job in document.jobs}
    owners = [_find_group(log, groups) for log in used]
    moments = [began_at[owner.jobs[0]] if owner else None for owner in owners]
    told = [moment for moment in moments if moment is not None]
    if told and len(told) == len(used):
        first = min(told)
        return [
            _Placed(log, (moment - first).total_seconds()) for log, moment in zip(used, told, strict=True)
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


def _find_start(log: Log) -> float | None:
    """Return when a log's first window began, in seconds by the clock; None for a log that counts from its job."""
    return None if log.began_at_ms is None else log.began_at_ms / _MS_PER_S - _find_window(log)


def _find_window(log: Log) -> float:
    """Return the length of a log's windows, s: the median distance between entries; 0 for single I/Os."""
    if not log.is_windowed:
        return 0.0
    distances = sorted(
        later - earlier
        for values in log.directions.values()
        for earlier, later in zip(values.at_s, values.at_s[1:], strict=False)
        if later > earlier
    )
    return distances[len(distances) // 2] if distances else 0.0


def _make_traces(placed: Sequence[_Placed]) -> Iterator[PlannedTrace]:
    for kind in _KINDS:
        for direction in _DIRECTIONS:
            buckets = make_trace(_list_trace_logs(placed, kind, direction), is_rate=kind in _RATES)
            if buckets is None:
                continue
            yield PlannedTrace(
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
    return TraceLog(at_s, values.values, sizes, log.is_windowed)


def _judge_groups(
    logs: Sequence[Log], document: Document, groups: Mapping[int, Group]
) -> Iterator[tuple[tuple[tuple[int, ...], str], Steadiness]]:
    """Judge each group by its own logs: of IOPS, else of bandwidth."""
    of_group: dict[tuple[int, ...], list[_Placed]] = defaultdict(list)
    only = document.groups[0] if len(document.groups) == 1 else None
    for log in logs:
        group = _find_group(log, groups) or only
        if group is not None:
            of_group[group.jobs].append(_Placed(log, 0.0))
    for jobs, members in of_group.items():
        for direction in _DIRECTIONS:
            for kind in _RATES:
                buckets = make_trace(_list_trace_logs(members, kind, direction), is_rate=True)
                if buckets is None:
                    continue
                found = judge_steady(buckets.mean)
                if found is not None:
                    yield (jobs, direction), found
                break


def _round_all(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.{_DIGITS}g}") for value in values]
