"""fio's terse format (--minimal, --output-format=terse), versions 2 to 5: from lines to documents."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from benchapp.fio.merging.rollup import roll_up
from benchapp.fio.notes import Notes
from benchapp.fio.report import Disk, Document, Job, Reading
from benchapp.fio.terse.disks import LINE_LENGTH_MAXIMUM, read_disk_line
from benchapp.fio.terse.line import (
    FIELDS_EXPECTED,
    TerseLine,
    UnreadableTerse,
    read_line,
)
from benchapp.fio.terse.runs import TerseReport, find_reports
from benchapp.fio.workload.options import AGGREGATE

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
    jobs = tuple(
        replace(line.job, index=index, is_aggregate=True)
        if _is_aggregate(line, report.lines)
        else replace(line.job, index=index)
        if index
        else line.job
        for index, line in enumerate(report.lines)
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
            may_lack_clones=bool(cut_line) and _may_be_clone(cut_line, report.lines[-1]),
        ),
        disks=_list_disks(report.lines),
        is_partial=report.is_partial,
        format_version=first.version,
    )


def _may_be_clone(cut_line: str, last: TerseLine) -> bool:
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
