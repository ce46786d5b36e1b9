"""Distinguish snapshots of one execution (--status-interval, SIGUSR1) from reports of several executions."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from benchapp.fio.json.documents import FoundDocument
from benchapp.fio.json.shape import PrintedDirection, PrintedJob, PrintedLatency, PrintedReport
from benchapp.fio.merging.growth import measure_growth_ms
from benchapp.fio.notes import Notes
from benchapp.fio.version import Version, parse_version

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
