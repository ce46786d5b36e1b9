"""Parse the output of fio, as bytes, into a Report."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, tzinfo
from typing import Final

from msgspec.structs import replace

from benchapp.fio.foreign import name_foreign
from benchapp.fio.invariants import check_document
from benchapp.fio.json.documents import Findings, find_documents, find_whole, list_messages, name_place
from benchapp.fio.json.report import read_document
from benchapp.fio.json.snapshots import drop_snapshots
from benchapp.fio.merging.duplicates import Executions, list_once
from benchapp.fio.notes import Notes, list_missing_clients
from benchapp.fio.report import Document, Reading, Report
from benchapp.fio.shell_time.reader import read_timing
from benchapp.fio.streams import Stream, separate_streams
from benchapp.fio.terse.reader import read_terse
from benchapp.fio.text import decode_output
from benchapp.fio.text_report.reader import read_normal
from benchapp.fio.unreadable import UnreadableOutput
from benchapp.fio.wrappers import unwrap_output

# Stored with every run; runs of a lower version are parsed again.
PARSER_VERSION: Final = 9

# In order of precision: of one execution in two formats, the earlier one has more digits.
_READERS: Final[tuple[Callable[[str, Notes], Reading], ...]] = (read_terse, read_normal, read_timing)
_TERSE: Final = re.compile(
    r"^(?:<[^>\n]{1,255}> |`{1,8} ?)?(?:2;[^;\n]++;\d++;\d++;|[345];(?:fio-)?\d{1,9}\.\d)", re.MULTILINE
)
_NORMAL: Final = re.compile(r"\(groupid=\d{1,10}, jobs=\d{1,10}\): err=")
_HEADER: Final = re.compile(r": \(g=\d{1,10}\): rw=\w")
_JSON: Final = '"fio version"'
_EXCERPT_LENGTH: Final = 200
_STREAMS_LISTED: Final = 10
_YEAR_S: Final = 366 * 86400
# Errors that reading the text in another way cannot fix.
_TOO_MANY: Final = frozenset({"too-many-reports", "too-many-jobs", "too-many-timings"})


def read_output(output: bytes, *, time_zone: tzinfo | None = None) -> Report:
    """Return all reports in an output of fio: any format, with other text around them, complete or truncated.

    UTF-8 or UTF-16. time_zone: of the dates that text has without one; None for UTC, with a warning. Totals over jobs
    are calculated separately (totals.add_totals), as few callers need them. Raises UnreadableOutput, and no other
    exception, for an output without a report.
    """
    try:
        report = _read(output, Notes(), time_zone)
    except UnreadableOutput as error:
        return _read_wrapped(output, error, time_zone)
    if b"&gt;=64=" not in output and not any(note.code == "incomplete-job" for note in report.warnings):
        return report
    # A text in the strings of another format looks like one with lines missing, and one in HTML has no "<host> ".
    try:
        return _read_wrapped(output, UnreadableOutput("cut-off", ""), time_zone)
    except UnreadableOutput:
        return report


def _read_wrapped(output: bytes, refusal: UnreadableOutput, time_zone: tzinfo | None) -> Report:
    """Read a report inside a string of another format; raises the given error if there is none."""
    unwrapped = unwrap_output(output) if refusal.code not in _TOO_MANY else None
    if unwrapped is None:
        raise refusal
    names = " within ".join(reversed(unwrapped.names))
    if unwrapped.output is None:
        detail = f"{refusal.detail}; {names} found, but it cannot be decoded: send the output of fio itself"
        raise UnreadableOutput(refusal.code, detail, seen=refusal.seen)
    notes = Notes()
    notes.add("unwrapped-output", "", f"the report was extracted from {names}")
    try:
        return _read(unwrapped.output, notes, time_zone)
    except UnreadableOutput as error:
        if not error.seen or error.seen == refusal.seen:
            raise refusal from error
        raise UnreadableOutput(error.code, f"{names}: {error.detail}", seen=error.seen) from error


def _read(output: bytes, notes: Notes, time_zone: tzinfo | None) -> Report:
    whole = find_whole(output)
    text = "" if whole else decode_output(output, notes)
    streams = [Stream("", "")] if whole else separate_streams(text)
    executions = Executions(notes)
    lines: list[str] = []
    prefixes: list[str] = []
    has_reports = False
    for stream in streams:
        findings = whole or find_documents(stream.text, notes)
        has_reports |= bool(findings.reports)
        found = _read_stream(findings, notes, lines)
        executions.add(found)
        if found:
            prefixes.append(stream.prefix)
    documents = [
        check_document(_place_in_zone(document, time_zone, notes), where=name_place(number), notes=notes)
        for number, document in enumerate(list_once(executions.documents, notes))
    ]
    messages = list_messages(lines, notes)
    notes.add_missing_clients(list_missing_clients("\n".join(messages)))
    if not documents:
        raise _explain(text, messages, notes, has_reports=has_reports)
    if len(prefixes) > 1:
        _note_streams(prefixes, notes)
    return Report(tuple(documents), notes.list_all(), messages, PARSER_VERSION)


def _place_in_zone(document: Document, time_zone: tzinfo | None, notes: Notes) -> Document:
    """Return a document with aware times: fio prints dates in text by the clock of the host, without its zone."""
    finished_at = document.finished_at
    if finished_at is None or finished_at.tzinfo is not None:
        return document
    if time_zone is None:
        notes.add(
            "time-zone-assumed",
            "",
            "the dates in the text have no time zone: read as UTC; name it by time_zone",
        )
        return replace(document, finished_at=finished_at.replace(tzinfo=UTC))
    finished_at = finished_at.replace(tzinfo=time_zone).astimezone(UTC)
    return replace(document, finished_at=finished_at, started_at=finished_at - measure_length(document))


def measure_length(document: Document) -> timedelta:
    """Return the run time of the groups, which run one after the other; without setting up."""
    lengths: defaultdict[int, float] = defaultdict(float)
    for group in document.groups:
        longest = max((direction.runtime_s or 0 for direction in group.directions), default=0)
        lengths[group.groupid] = max(lengths[group.groupid], longest)
    return timedelta(seconds=min(sum(lengths.values()), _YEAR_S))


def _note_streams(prefixes: Sequence[str], notes: Notes) -> None:
    names = ", ".join(f"“{prefix}”" if prefix else "nothing" for prefix in prefixes[:_STREAMS_LISTED])
    more = ", …" if len(prefixes) > _STREAMS_LISTED else ""
    notes.add("separate-streams", "", f"lines were read separately by what precedes them: {names}{more}")


def _read_stream(findings: Findings, notes: Notes, lines: list[str]) -> list[Document]:
    """Return the reports of one stream in all formats, and add the other lines."""
    executions = Executions(notes)
    executions.add(_read_json(findings, notes))
    rest = findings.rest
    for read in _READERS:
        # A script that times fio itself does not measure small files.
        is_due = not executions.documents if read is read_timing else True
        if is_due and rest and not rest.isspace():
            remarks = Notes()
            reading = read(rest, remarks)
            # Warnings about a report that was dropped are not useful.
            if executions.add(reading.documents):
                notes.add_all(remarks)
            rest = reading.rest
    lines += rest.splitlines()
    return executions.documents


def _read_json(findings: Findings, notes: Notes) -> list[Document]:
    documents = []
    for found in drop_snapshots(findings.reports, notes):
        where = name_place(found.number)
        document = read_document(found.content, where=where, is_partial=found.is_partial, notes=notes)
        if document.jobs:
            documents.append(document)
        elif len(findings.reports) > 1:
            notes.add("no-jobs", where, "this report has an empty job list and was skipped")
    return documents


def _explain(text: str, messages: tuple[str, ...], notes: Notes, *, has_reports: bool) -> UnreadableOutput:
    """Return the reason why there is no report, for the operator of the host."""
    codes = {note.code: note.message for note in notes.list_all()}
    seen = (
        "JSON"
        if _JSON in text
        else "text"
        if _NORMAL.search(text)
        else "terse"
        if _TERSE.search(text)
        else ""
    )
    if "invalid-json" in codes:
        detail = codes["invalid-json"].replace("this report", "the fio report", 1)
        return UnreadableOutput("invalid-json", detail, seen="JSON")
    if "truncated-report" in codes or seen == "text":
        return UnreadableOutput(
            "truncated-report",
            "the text names fio jobs, but none of their result lines can be read: the output was cut off, or lines"
            " were removed"
            if seen == "text"
            else "the fio report ends before its first job is complete: the output was cut off"
            " (full disk, broken pipe, or fio killed before or while it printed)",
            seen=seen,
        )
    if seen == "terse":
        detail = codes.get("unreadable-terse", "no line has the number of fields of its terse version")
        return UnreadableOutput("unreadable-terse", f"this is fio's terse format, but {detail}", seen=seen)
    if has_reports or "no-jobs" in codes:
        reason = "its jobs ran with stats=0" if "stats-disabled" in codes else "its list of jobs is empty"
        return UnreadableOutput("no-jobs", f"the fio report has no results: {reason}", seen="JSON")
    if not text.strip(" \t\r\n\x00\ufeff\ufffd"):
        return UnreadableOutput("empty-output", "no fio report found: the output is empty; was fio killed?")
    if "unreadable-timing" in codes:
        return UnreadableOutput("no-report", f"no fio report found; {codes['unreadable-timing']}")
    return _describe_foreign(text, messages)


def _describe_foreign(text: str, messages: tuple[str, ...]) -> UnreadableOutput:
    complaint = next((line for line in messages if line.startswith("fio: ")), None)
    if complaint:
        return UnreadableOutput(
            "no-report", f"no fio report found; fio printed: {complaint[:_EXCERPT_LENGTH]}"
        )
    if _HEADER.search(text):
        return UnreadableOutput(
            "truncated-report",
            "the text names fio jobs and ends before their results: was fio killed?",
            seen="text",
        )
    foreign = name_foreign(text)
    if foreign:
        return UnreadableOutput("no-report", f"no fio report found; {foreign}")
    beginning = " ".join(text[:_EXCERPT_LENGTH].split())
    return UnreadableOutput("no-report", f"no fio report found; the output begins: {beginning}")
