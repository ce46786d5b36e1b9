"""Parse the output of fio, as bytes, into a Report."""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, timedelta, tzinfo
from typing import Final

from msgspec.structs import replace

from benchapp.fio.json.documents import Findings, find_documents, find_whole, list_messages, name_place
from benchapp.fio.json.report import drop_snapshots, read_document
from benchapp.fio.merging.jobs import Executions, list_once
from benchapp.fio.report import (
    Direction,
    Document,
    Group,
    Job,
    Notes,
    Reading,
    Report,
    UnreadableOutput,
    list_missing_clients,
)
from benchapp.fio.shell_time import read_timing
from benchapp.fio.terse.reader import read_terse
from benchapp.fio.text import decode_output, name_foreign
from benchapp.fio.text_report.reader import read_normal
from benchapp.fio.workload import parse_duration_s, parse_size
from benchapp.fio.wrappers import Stream, separate_streams, unwrap_output

# Little's law: on average IOPS × latency I/Os are in flight, at most the queue depth of all jobs. Latency counts from
# before the submission, and a wrong unit is off by a thousand.
_IN_FLIGHT_MAXIMUM: Final = 4
# Text rounds to three digits, and 2.x averages over another time than the run time.
_RATE_WITHIN: Final = 1.5
# Below this a run is too short for its rates.
_RUNTIME_MINIMUM_S: Final = 0.1


def check_document(document: Document, *, where: str, notes: Notes) -> Document:
    """Return the document, marked as partial if a value of it contradicts others, with a warning for each."""
    if document.format == "time":
        return document
    _note_hints(document, where, notes)
    faults = [
        (code, f"{where}, {group.name}", message)
        for group in document.groups
        if not group.error
        for code, message in _list_faults(
            group, is_partial=document.is_partial, is_text=not document.has_precise_values
        )
    ]
    for code, place, message in faults:
        notes.add(code, place, message)
    return replace(document, is_partial=True, has_faults=not document.is_partial) if faults else document


def _note_hints(document: Document, where: str, notes: Notes) -> None:
    """Warn of jobs that did nothing beside others, and of options that fio reads otherwise than meant."""
    jobs = {job.index: job for job in document.jobs}
    for group in document.groups:
        clones = [jobs[index] for index in group.jobs if index in jobs]
        idle = [job for job in clones if not job.error and _is_idle(job)]
        place = f"{where}, {group.name}"
        if 0 < len(idle) < len(clones) and not document.is_partial:
            message = f"{len(idle)} of {len(clones)} entries of this job did no I/O"
            notes.add("idle-jobs", place, f"{message}: was the job given several times on the command line?")
        ramp_s = parse_duration_s(group.options.get("ramp_time", "")) or 0
        runtime_s = parse_duration_s(group.options.get("runtime", "")) or 0
        if 0 < runtime_s < ramp_s:
            message = f"ramp_time ({ramp_s:g} s) is longer than runtime ({runtime_s:g} s)"
            notes.add("ramp-exceeds-runtime", place, f"{message}: fio may measure a moment only")


def _is_idle(job: Job) -> bool:
    return all(direction.total_ios == 0 and not direction.io_bytes for direction in job.directions)


def _list_faults(group: Group, *, is_partial: bool, is_text: bool) -> list[tuple[str, str]]:
    faults = (
        [] if group.directions or is_partial else [("values-missing", "no values of this job could be read")]
    )
    in_flight = 0.0
    for direction in group.directions:
        faults += _list_faults_of_direction(direction, is_partial=is_partial, is_text=is_text)
        if direction.name != "mixed":
            in_flight += _count_in_flight(direction)
    depth = parse_size(group.options.get("iodepth", "1")) or 1
    if "rw" in group.options and group.numjobs and in_flight > depth * group.numjobs * _IN_FLIGHT_MAXIMUM:
        message = f"IOPS × latency is {in_flight:.0f} I/Os in flight, but the queue depth is {depth * group.numjobs}"
        faults.append(("latency-contradicts-depth", f"{message}: one of them has another unit"))
    return faults


def _list_faults_of_direction(
    direction: Direction, *, is_partial: bool, is_text: bool
) -> list[tuple[str, str]]:
    faults = []
    runtime_s = direction.runtime_s or 0
    is_unread = direction.iops is None and direction.missing.get("iops") == "not-reported"
    if direction.total_ios and is_unread and direction.name != "sync" and not is_partial:
        message = f"{direction.name}: {direction.total_ios} I/Os were counted, but their rates are missing"
        faults.append(("values-missing", message))
    unreadable = [name for name, reason in direction.missing.items() if reason == "out-of-range"]
    if unreadable and is_text:
        faults.append(("values-missing", f"{direction.name}: {', '.join(unreadable)} cannot be read"))
    if direction.total_ios and direction.iops is not None and runtime_s >= _RUNTIME_MINIMUM_S:
        expected = direction.total_ios / runtime_s
        if abs(direction.iops - expected) > (_RATE_WITHIN - 1) * expected + 1:
            message = f"{direction.iops:.4g} IOPS, but I/Os / run time {expected:.4g}"
            faults.append(("rate-contradicts-counts", f"{direction.name}: {message}"))
    if direction.io_bytes and direction.bandwidth_bytes_per_s and runtime_s >= _RUNTIME_MINIMUM_S:
        expected = direction.io_bytes / runtime_s
        if not 1 / _RATE_WITHIN <= direction.bandwidth_bytes_per_s / expected <= _RATE_WITHIN:
            message = f"bandwidth {direction.bandwidth_bytes_per_s:.4g} B/s, but bytes / run time {expected:.4g} B/s"
            faults.append(("rate-contradicts-bytes", f"{direction.name}: {message}"))
    return faults


def _count_in_flight(direction: Direction) -> float:
    latency = direction.total or direction.completion
    if latency is None or latency.mean_ns is None or direction.iops is None:
        return 0.0
    return direction.iops * latency.mean_ns / 1e9


# Stored with every run; runs of a lower version are parsed again.
PARSER_VERSION: Final = 10

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
