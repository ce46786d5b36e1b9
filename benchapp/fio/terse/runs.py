"""Which terse lines are one execution: its jobs, its snapshots (--status-interval), or another execution.

A line has no time of printing. The decision uses the order of groups, repeated jobs, the counters of the disks
(which all lines of one report share), and whether cumulative values have increased.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.notes import Notes
from benchapp.fio.report import Direction, Job, Latency
from benchapp.fio.terse.line import TerseLine
from benchapp.fio.workload.options import AGGREGATE

# The shortest --status-interval is one second; clones end within milliseconds of each other.
_SNAPSHOT_GROWTH_S: Final = 0.5

# More than clones of one device differ, and less than two executions that are worth comparing.
_SHARES_WITHIN: Final = 1.5

_Key = tuple[str | None, str, int]


class TerseReport(Struct, frozen=True, gc=False):
    """The lines of one execution, in order, at least one; is_partial: the text ended before the report did."""

    lines: tuple[TerseLine, ...]
    is_partial: bool = False


def find_reports(lines: Sequence[TerseLine], *, is_cut: bool, notes: Notes) -> list[TerseReport]:
    """Return the last complete report of each execution. is_cut: the text ended within a report."""
    is_client = any(line.client_disks or _is_sum(line) for line in lines)
    reports = [TerseReport(tuple(members)) for members in _split(lines, is_client=is_client)]
    if is_cut:
        reports[-1] = replace(reports[-1], is_partial=True)
    reports = _drop_snapshots(reports, notes)
    if not is_client:
        for report in reports:
            _note_clones(report, notes)
    return reports


def _is_sum(line: TerseLine) -> bool:
    return line.job.name == AGGREGATE and not line.disks


def _identify(line: TerseLine) -> _Key:
    return line.job.hostname, line.job.name, line.job.groupid


def _split(lines: Sequence[TerseLine], *, is_client: bool) -> Iterator[list[TerseLine]]:
    """Split the lines where another report begins: a snapshot, or another execution."""
    report = [lines[0]]
    first_of: dict[_Key, TerseLine] = {_identify(lines[0]): lines[0]}
    length_before = 0
    for line in lines[1:]:
        same = first_of.get(_identify(line))
        if _begins_report(line, report[-1], same, is_client=is_client) or (
            same is not None and len(report) == length_before and has_line_grown(same.job, line.job)
        ):
            # After one snapshot, the next may come at once: the final report does.
            length_before = len(report) if same is not None and _is_later(same.job, line.job) else 0
            yield report
            report, first_of = [], {}
        report.append(line)
        first_of.setdefault(_identify(line), line)
    yield report


def _begins_report(line: TerseLine, before: TerseLine, same: TerseLine | None, *, is_client: bool) -> bool:
    """Return whether a line is not of the report of the line before; same: the first line there of the same job."""
    if (line.version, line.fio_version) != (before.version, before.fio_version):
        return True
    if _is_sum(line) and is_client:
        return same is not None
    if same is not None and (_is_later(same.job, line.job) or _is_copy(same, line)):
        return True
    if is_client:
        # Servers answer in any order, without a name.
        return _is_sum(before)
    if line.job.groupid < before.job.groupid:
        return True
    if same is None:
        return not line.is_cut and _has_active_disks(line) and _has_other_disks(line, before)
    if _identify(line) != _identify(before) or line.disks != before.disks:
        return True
    return not _has_active_disks(line) and not _may_be_clone(same.job, line.job)


def _has_active_disks(line: TerseLine) -> bool:
    return any(disk.read_ios or disk.write_ios for disk in line.disks)


def _has_other_disks(line: TerseLine, before: TerseLine) -> bool:
    return {disk.name for disk in line.disks} == {
        disk.name for disk in before.disks
    } and line.disks != before.disks


def _may_be_clone(before: Job, after: Job) -> bool:
    """Return whether two jobs may have run at once: clones end together, with an equal share of the rate.

    Jobs of different block sizes may, too, but are not clones (`roll_up`).
    """
    is_slower = _measure_growth_s(before, after) >= _SNAPSHOT_GROWTH_S
    if is_slower and all(one.io_bytes == other.io_bytes for one, other in _pair_directions(before, after)):
        return False
    for one, other in _pair_directions(before, after):
        sizes = [
            (one.bandwidth_bytes_per_s or 0) * (other.iops or 0),
            (other.bandwidth_bytes_per_s or 0) * (one.iops or 0),
        ]
        rates = [one.iops or 0, other.iops or 0]
        has_one_size = max(sizes) <= min(sizes) * _SHARES_WITHIN
        if has_one_size and max(rates) > min(rates) * _SHARES_WITHIN:
            return False
    return True


def _pair_directions(before: Job, after: Job) -> Iterator[tuple[Direction, Direction]]:
    directions = {direction.name: direction for direction in after.directions}
    for direction in before.directions:
        if direction.name in directions:
            yield direction, directions[direction.name]


def _drop_snapshots(reports: Sequence[TerseReport], notes: Notes) -> list[TerseReport]:
    kept: list[TerseReport] = []
    dropped: list[int] = []
    is_chain = False
    for report in reports:
        is_chain = bool(kept) and _continues(kept[-1], report, is_chain=is_chain)
        if is_chain:
            if report.is_partial and len(report.lines) < len(kept[-1].lines):
                dropped.append(report.lines[0].number)
                continue
            dropped.append(kept.pop().lines[0].number)
        kept.append(report)
    notes.add_snapshots(dropped, kind="terse reports", place="at lines ")
    return kept


def _continues(earlier: TerseReport, later: TerseReport, *, is_chain: bool) -> bool:
    """Return whether a report is a later one of the same execution; is_chain: the earlier one was such itself."""
    count = len(later.lines)
    if count != len(earlier.lines) and not (later.is_partial and count < len(earlier.lines)):
        return False
    pairs = list(zip(earlier.lines, later.lines, strict=False))
    for before, after in pairs:
        if (before.version, before.fio_version) != (after.version, after.fio_version):
            return False
        if _identify(before) != _identify(after) or not has_line_grown(before.job, after.job):
            return False
    if is_chain or any(_is_later(before.job, after.job) for before, after in pairs):
        return True
    # The same text twice.
    return all(before.job == after.job and before.disks == after.disks for before, after in pairs)


def _is_copy(before: TerseLine, after: TerseLine) -> bool:
    """Return whether the same line was repeated: clones with any I/O never have equal digits throughout."""
    return bool(before.job.directions) and before.job == after.job and before.disks == after.disks


def _is_later(before: Job, after: Job) -> bool:
    """Return whether one can be a snapshot of the other's job from at least half a second later."""
    return _measure_growth_s(before, after) >= _SNAPSHOT_GROWTH_S and has_line_grown(before, after)


def _measure_growth_s(before: Job, after: Job) -> float:
    longest_before, longest_after = (
        max((direction.runtime_s or 0 for direction in job.directions), default=0.0)
        for job in (before, after)
    )
    return longest_after - longest_before


def has_line_grown(before: Job, after: Job) -> bool:
    """Return whether no cumulative value has decreased: bytes, time, extremes of latency, switches, faults."""
    counters = (
        (before.context_switches, after.context_switches),
        (before.major_faults, after.major_faults),
        (before.minor_faults, after.minor_faults),
    )
    if any((earlier or 0) > (later or 0) for earlier, later in counters):
        return False
    directions = {direction.name: direction for direction in after.directions}
    return all(
        direction.name in directions and _has_direction_grown(direction, directions[direction.name])
        for direction in before.directions
    )


def _has_direction_grown(before: Direction, after: Direction) -> bool:
    bytes_before, bytes_after = before.io_bytes or 0, after.io_bytes or 0
    time_before, time_after = before.runtime_s or 0, after.runtime_s or 0
    if bytes_before > bytes_after or time_before > time_after:
        return False
    # Two executions of one size move the same bytes; unless it has ended, a direction moves more in more time.
    if bytes_before == bytes_after and time_before < time_after:
        return False
    return all(
        _has_widened(earlier, later)
        for earlier, later in (
            (before.submission, after.submission),
            (before.completion, after.completion),
            (before.total, after.total),
        )
    )


def _has_widened(before: Latency | None, after: Latency | None) -> bool:
    if before is None or after is None:
        return before is None
    return (before.minimum_ns or 0) >= (after.minimum_ns or 0) and (before.maximum_ns or 0) <= (
        after.maximum_ns or 0
    )


def _note_clones(report: TerseReport, notes: Notes) -> None:
    """Add a note if lines of one job may be clones or appended executions: only active disks distinguish them."""
    assumed = [
        after.number
        for before, after in zip(report.lines, report.lines[1:], strict=False)
        if _identify(before) == _identify(after) and not _has_active_disks(after)
    ]
    if assumed:
        notes.add(
            "clones-assumed",
            f"line {assumed[0]}",
            f"{len(assumed)} lines repeat the job of the line before, without active disks to distinguish them: read as"
            " clones that ran at the same time",
        )
