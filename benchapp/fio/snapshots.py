"""Tell the snapshots of one execution (--status-interval, SIGUSR1) from reports of several executions."""

from collections.abc import Sequence
from typing import Final

from benchapp.fio.documents import Found
from benchapp.fio.json_shape import PrintedJob, PrintedReport
from benchapp.fio.notes import Notes

# `elapsed` is rounded up and `timestamp` down, so that their difference may be one second off.
_ROUNDING_S: Final = 1


def drop_snapshots(reports: Sequence[Found], notes: Notes) -> list[tuple[int, Found]]:
    """Keep the last complete report of each execution, with its place in the text.

    Snapshots are cumulative: the last one holds all that the earlier ones said.
    """
    kept: list[tuple[int, Found]] = []
    dropped: list[int] = []
    for number, report in enumerate(reports):
        if kept and continues(kept[-1][1], report):
            if report.is_partial and not kept[-1][1].is_partial:
                dropped.append(number)
                continue
            dropped.append(kept.pop()[0])
        kept.append((number, report))
    if dropped:
        numbers = ", ".join(str(number) for number in dropped[:20]) + (", …" if len(dropped) > 20 else "")
        notes.add(
            "cumulative-snapshots",
            "",
            f"{len(dropped)} reports ({numbers}) are snapshots of an execution whose last complete report counts",
        )
    return kept


def continues(earlier: Found, later: Found) -> bool:
    """Say whether the later report is of the same execution as the one before it."""
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
    starts = [(a.job_start, b.job_start) for a, b in pairs if a.job_start and b.job_start]
    if starts:
        return all(a == b for a, b in starts)
    return _clock_agrees(before, after) and all(has_grown(a, b) for a, b in pairs)


def _list_entries(content: PrintedReport) -> list[PrintedJob]:
    return [entry for entry in content.entries or () if entry]


def _identify(entry: PrintedJob) -> tuple[object, ...]:
    return entry.jobname, entry.groupid, entry.hostname, entry.port, entry.options


def _clock_agrees(before: PrintedReport, after: PrintedReport) -> bool:
    """Say whether both were printed as long after one common start as they claim; old versions claim nothing."""
    elapsed = [
        max((entry.elapsed or 0 for entry in _list_entries(content)), default=0)
        for content in (before, after)
    ]
    if before.timestamp is None or after.timestamp is None or not all(elapsed):
        return True
    passed_s, counted_s = after.timestamp - before.timestamp, elapsed[1] - elapsed[0]
    if counted_s < 0 or abs(passed_s - counted_s) > _ROUNDING_S:
        return False
    if before.timestamp_ms is not None and after.timestamp_ms is not None:
        return counted_s >= (after.timestamp_ms - before.timestamp_ms) // 1000
    return True


def has_grown(before: PrintedJob, after: PrintedJob) -> bool:
    """Say whether one entry can go on from another: no direction has fewer bytes than before."""
    return all(
        (new.io_bytes or 0) >= (old.io_bytes or 0)
        for old, new in (
            (before.read, after.read),
            (before.write, after.write),
            (before.trim, after.trim),
            (before.mixed, after.mixed),
        )
        if old and new
    )
