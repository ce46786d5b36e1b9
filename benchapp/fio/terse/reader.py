"""fio's terse format (--minimal, --output-format=terse), versions 2 to 5: from lines to documents.

A line is of the same execution (a job, a snapshot of --status-interval) or of another one. A line has no
time of printing. The decision uses the order of groups, repeated jobs, the counters of the disks (which all lines of
one report share), and whether cumulative values have increased.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from benchapp.fio.merging.jobs import roll_up
from benchapp.fio.report import Direction, Disk, Document, Job, Latency, Notes, Reading
from benchapp.fio.terse.line import (
    FIELDS_EXPECTED,
    LINE_LENGTH_MAXIMUM,
    TerseLine,
    UnreadableTerse,
    read_disk_line,
    read_line,
)
from benchapp.fio.workload import AGGREGATE

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


_LINE: Final = re.compile(r"[^\r\n]++")
_SEMICOLON: Final = re.compile(";")
# As in Markdown: the code ends at as many backticks as it began with.
_IN_BACKTICKS: Final = re.compile(r"(?<!`)(`++)( ?[2-5];[^`]*+)(`*+)")
_HEAD: Final = re.compile(r"(?<![A-Za-z0-9\"'])[345];fio-\d")
_HEAD_WITHIN: Final = 200
_TABS: Final = re.compile(r"^[2-5]\tfio-\d[^\n]*+", re.MULTILINE)
_VERSIONS: Final = frozenset("2345")
# Any text may precede the version, but for these, and the quotation marks of a string that wrappers.py opens.
_PARTS: Final = frozenset("_.;\"'")
_ETA_LENGTH: Final = 12
_HOST: Final = re.compile(r"[ \t]*+<([^<>]{1,255})> ")
# What follows the version: that of fio, or, in version 2, the job, its group, and how it did.
_AFTER_VERSION: Final = re.compile(r"(?:fio-)?\d{1,4}\.\d", re.ASCII)
_AFTER_VERSION_2: Final = re.compile(r"[^;]{1,1000}+;\d{1,10}+;\d{1,10}+(?:;\d{1,20}+){4};", re.ASCII)
# Fewer fields than any version has, more than in other lists.
_FIELDS_OF_ANCHOR: Final = 40


@dataclass(slots=True)
class _Sorted:
    """Lines that are terse, and what else there is, as spans of the text.

    cut_at: where a report was cut off; cut_line: what is left of a line that could not be read for it.
    """

    lines: list[TerseLine] = field(default_factory=list)
    foreign: list[tuple[int, int]] = field(default_factory=list)
    cut_at: int | None = None
    cut_line: str = ""


def read_terse(text: str, notes: Notes) -> Reading:
    """Return the reports in a text and the lines that are not of them.

    Lines of one execution are the jobs of one document; snapshots (--status-interval) are dropped but for the
    last; reports appended to each other are a document each. A line that cannot be read is left in the rest, and
    a note names it.
    """
    if "\tfio-" in text:
        text = _TABS.sub(lambda match: match[0].replace("\t", ";"), text)
    # Most texts hold neither: looking behind every semicolon costs a quarter of going through the lines.
    if ";" not in text or not any(
        text[match.start() - 1] in _VERSIONS for match in _SEMICOLON.finditer(text)
    ):
        return Reading((), text)
    if "%=" not in text and not any(True for _ in _find_heads(text)):
        return Reading((), text)
    given, text = text, _IN_BACKTICKS.sub(_open_code, text) if "`" in text else text
    sorted_lines = _sort_lines(text, notes)
    if not sorted_lines.lines:
        return Reading((), given)
    reports = find_reports(sorted_lines.lines, is_cut=sorted_lines.cut_at is not None, notes=notes)
    documents = tuple(_make_document(report, sorted_lines.cut_line, notes) for report in reports)
    return Reading(documents, "".join(text[start:end] for start, end in sorted_lines.foreign))


def _open_code(match: re.Match[str]) -> str:
    """Return a line without the backticks around it, of the same length; a "\\r" ends it, and no count has it."""
    opening, content, closing = match.groups()
    if closing != opening:
        return " " * len(opening) + content + closing
    bare = content.rstrip(" ")
    return " " * len(opening) + bare + "\r" * (len(content) - len(bare) + len(closing))


def _find_heads(text: str) -> Iterator[int]:
    """Yield the offsets of possible lines that were truncated before their first percentile."""
    for at, line in _find_lines(text):
        start = _find_start(line)
        if start is not None and _is_terse(line[start:]):
            yield at + start


def _find_lines(text: str) -> Iterator[tuple[int, str]]:
    """Give the lines that are not empty, and where they begin."""
    if "\r" in text:
        for match in _LINE.finditer(text):
            yield match.start(), match[0]
        return
    at = 0
    for line in text.split("\n"):
        if line:
            yield at, line
        at += len(line) + 1


def _sort_lines(text: str, notes: Notes) -> _Sorted:
    result = _Sorted()
    number, counted_to, done_to = 1, 0, 0
    may_describe = False
    for at, line in _find_lines(text):
        start = _find_start(line)
        if start is None and not line.startswith(";"):
            may_describe = False
            if "%=" in line and line.count(";") >= _FIELDS_OF_ANCHOR:
                notes.add("unreadable-terse", "", "a line of terse was skipped, as its version is missing")
            continue
        number += text.count("\n", counted_to, at)
        counted_to = at
        if start is None:
            is_taken = _take_further(line, result, may_describe=may_describe)
            may_describe = False
        else:
            is_taken = _take_line(
                line, start, at=at, number=number, text_length=len(text), notes=notes, result=result
            )
            may_describe = is_taken and line[start] == "2"
        if is_taken:
            foreign_to = at + (start or 0)
            if start and _HOST.fullmatch(line[:start]):
                foreign_to = at
            result.foreign.append((done_to, foreign_to))
            done_to = at + len(line)
    result.foreign.append((done_to, len(text)))
    return result


def _find_start(line: str) -> int | None:
    """Return the place of the version number of the format; None if the line has none."""
    start = line.find(";", 1) - 1
    if start < 0:
        return None
    before = line[start - 1] if start else " "
    if line[start] in _VERSIONS and not (before.isalnum() or before in _PARTS):
        return start
    if head := _HEAD.search(line, 0, _HEAD_WITHIN):
        return head.start()
    # Copied from a terminal, a status line may end within its time: "[eta 043;fio-3.28;…".
    return start if "[eta " in line[max(start - _ETA_LENGTH, 0) : start] else None


def _is_terse(line: str) -> bool:
    pattern = _AFTER_VERSION_2 if line[0] == "2" else _AFTER_VERSION
    if pattern.match(line, 2) is not None:
        return True
    # Counting takes longer.
    return "%=" in line and line.count(";") >= _FIELDS_OF_ANCHOR


def _take_line(
    line: str, start: int, *, at: int, number: int, text_length: int, notes: Notes, result: _Sorted
) -> bool:
    """Read a line, or add a note; False if it stays in the rest."""
    content = line[start:]
    if not _is_terse(content):
        return False
    host = _HOST.fullmatch(line, 0, start) if start else None
    is_last = at + len(line) == text_length
    try:
        if len(content) > LINE_LENGTH_MAXIMUM:
            raise UnreadableTerse(
                f"it is longer than {LINE_LENGTH_MAXIMUM} characters", content.count(";") + 1
            )
        read = read_line(content, number=number, hostname=host[1] if host else None, is_last=is_last)
    except UnreadableTerse as error:
        if is_last:
            result.cut_at, result.cut_line = at, content
        _note_unreadable(error, int(content[0]), number, is_last=is_last, notes=notes)
        return False
    if is_last and result.lines and len(read.disks) < len(result.lines[-1].disks):
        # The remainder of a disk's name is not a description.
        read = replace(read, is_cut=True, job=replace(read.job, description=None))
    if read.is_cut:
        result.cut_at = at
        notes.add("truncated-report", f"line {number}", "the text ends within the disks of this terse line")
    result.lines.append(read)
    return True


def _note_unreadable(
    error: UnreadableTerse, version: int, number: int, *, is_last: bool, notes: Notes
) -> None:
    found = f"terse version {version} with {error.fields} fields, {FIELDS_EXPECTED[version]} or more expected"
    if is_last:
        notes.add("truncated-report", f"line {number}", f"the text ends within this line: {found}")
        return
    notes.add("unreadable-terse", f"line {number}", f"this line was skipped, {error}: {found}")


def _take_further(line: str, result: _Sorted, *, may_describe: bool) -> bool:
    """Read a line that belongs to the one before: the description of version 2, or the disks of client mode."""
    if not result.lines:
        return False
    last = result.lines[-1]
    if may_describe:
        if line[1:]:
            result.lines[-1] = replace(last, job=replace(last.job, description=line[1:]))
        return True
    disks = read_disk_line(line)
    last.client_disks.extend(disks)
    return bool(disks)


def _make_document(report: TerseReport, cut_line: str, notes: Notes) -> Document:
    first = report.lines[0]
    numbers = _number_servers(report.lines)
    identities = [(*_identify(line), number) for line, number in zip(report.lines, numbers, strict=True)]
    counts = Counter(identities)
    jobs = tuple(
        replace(
            line.job,
            index=index,
            server_number=number,
            is_aggregate=_is_aggregate(line, report.lines),
            # Terse has no numjobs, and group_reporting sums jobs into one line.
            may_hide_jobs=counts[identity] == 1,
        )
        for index, (line, number, identity) in enumerate(zip(report.lines, numbers, identities, strict=True))
    )
    where = f"terse report at line {first.number}"
    return Document(
        format="terse",
        fio_version=first.fio_version,
        started_at=None,
        finished_at=None,
        jobs=jobs,
        groups=roll_up(
            jobs,
            where=where,
            is_partial=report.is_partial,
            notes=notes,
            may_lack_clones=bool(cut_line) and _may_lack_clone(cut_line, report.lines[-1]),
        ),
        disks=_list_disks(report.lines),
        is_partial=report.is_partial,
        format_version=first.version,
    )


def _number_servers(lines: Sequence[TerseLine]) -> list[int]:
    """Number the servers of each line if there are several: the disks of a server follow its last line."""
    if sum(bool(line.client_disks) for line in lines) < 2:
        return [0] * len(lines)
    numbers = []
    number = 1
    for line in lines:
        numbers.append(number)
        number += bool(line.client_disks)
    return numbers


def _may_lack_clone(cut_line: str, last: TerseLine) -> bool:
    """Return whether a truncated line may be of the same job as the last whole one: terse has no numjobs."""
    fields = [str(last.version), *([last.fio_version] if last.version > 2 else []), last.job.name]
    head = ";".join((*fields, str(last.job.groupid), ""))
    return cut_line.startswith(head) or head.startswith(cut_line)


def _is_aggregate(line: TerseLine, lines: Sequence[TerseLine]) -> bool:
    """Return whether this is the sum of all clients: the last line of several, without disks."""
    job: Job = line.job
    return job.name == AGGREGATE and len(lines) > 1 and line is lines[-1] and not line.disks


def _list_disks(lines: Sequence[TerseLine]) -> tuple[Disk, ...]:
    """Return the disks, which every line repeats; those of several clients are another's."""
    of_lines = {disk.name: disk for line in lines for disk in line.disks}
    return (*of_lines.values(), *(disk for line in lines for disk in line.client_disks))
