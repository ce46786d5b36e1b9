"""Tell the snapshots of one execution (--status-interval, SIGUSR1) from reports of several executions."""

from collections.abc import Sequence
from typing import Any, Final

from benchapp.fio.documents import Content, Found
from benchapp.fio.notes import Notes
from benchapp.fio.numbers import read_count

_DIRECTIONS: Final = ("read", "write", "trim", "mixed")
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
    if before.get("fio version") != after.get("fio version"):
        return False
    entries_before, entries_after = _list_entries(before), _list_entries(after)
    if later.is_partial or earlier.is_partial:
        shared = min(len(entries_before), len(entries_after))
        entries_before, entries_after = entries_before[:shared], entries_after[:shared]
    if [_identify(entry) for entry in entries_before] != [_identify(entry) for entry in entries_after]:
        return False
    starts = [
        (a.get("job_start"), b.get("job_start")) for a, b in zip(entries_before, entries_after, strict=True)
    ]
    known = [(a, b) for a, b in starts if a and b]
    if known:
        return all(a == b for a, b in known)
    return _clock_agrees(before, after) and all(
        has_grown(a, b) for a, b in zip(entries_before, entries_after, strict=True)
    )


def _list_entries(content: Content) -> list[Content]:
    entries = content.get("jobs") or content.get("client_stats") or ()
    return [entry for entry in entries if isinstance(entry, dict)]


def _identify(entry: Content) -> tuple[Any, ...]:
    return tuple(entry.get(key) for key in ("jobname", "groupid", "hostname", "port", "job options"))


def _clock_agrees(before: Content, after: Content) -> bool:
    """Say whether both were printed as long after one common start as they claim; old versions claim nothing."""
    elapsed = [
        max((read_count(entry.get("elapsed")) or 0 for entry in _list_entries(content)), default=0)
        for content in (before, after)
    ]
    times = [read_count(content.get("timestamp")) for content in (before, after)]
    fine = [read_count(content.get("timestamp_ms")) for content in (before, after)]
    if times[0] is None or times[1] is None or not all(elapsed):
        return True
    passed_s, counted_s = times[1] - times[0], elapsed[1] - elapsed[0]
    if counted_s < 0 or abs(passed_s - counted_s) > _ROUNDING_S:
        return False
    if fine[0] is not None and fine[1] is not None:
        return counted_s >= (fine[1] - fine[0]) // 1000
    return True


def has_grown(before: Content, after: Content) -> bool:
    """Say whether one entry can go on from another: no direction has fewer bytes than before."""
    return all(
        (read_count(after[name].get("io_bytes")) or 0) >= (read_count(before[name].get("io_bytes")) or 0)
        for name in _DIRECTIONS
        if isinstance(before.get(name), dict) and isinstance(after.get(name), dict)
    )
