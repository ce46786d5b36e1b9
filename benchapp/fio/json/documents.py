"""Find the JSON reports of fio in a text that may contain anything else; always in one pass.

Of JSON that the strict decoder rejected, every value that is valid is read, and no other. A damaged value is dropped
alone, or with its histogram. The result has the type that the decoder returns.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, get_args

import msgspec
import orjson
from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from benchapp.fio.json.shape import (
    Amount,
    Bins,
    Count,
    Depths,
    Errno,
    GlobalOptions,
    OddDirection,
    Options,
    Percentiles,
    PrintedDirection,
    PrintedDisk,
    PrintedJob,
    PrintedLatency,
    PrintedLongShares,
    PrintedReport,
    PrintedShares,
    PrintedSteadyData,
    PrintedSteadyState,
)
from benchapp.fio.merging.directions import read_bucket
from benchapp.fio.numbers import BIGINT_MAXIMUM, read_amount, read_count, read_errno
from benchapp.fio.report import Notes, UnreadableOutput

# Only behind a key, as "desc" : "a : nan" is text.
_NOT_A_NUMBER: Final = re.compile(
    r'("\s{0,8}:\s{0,8})[-+]?(?:nan|inf|infinity)(?=\s{0,64}[,}])', re.IGNORECASE
)
# fio before 2.21 cut strings at 1024 bytes, with the closing quote; it prints each pair on a separate line.
_LOST_QUOTE: Final = re.compile(r'^[ \t]*+"[^"\n]*+" : "[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*\\?$', re.MULTILINE)
_LIST: Final = re.compile(r'"(jobs|client_stats)"\s{0,64}:\s{0,64}\[')
_SEPARATOR: Final = re.compile(r"[\s,]*+")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was printed whole of a report: head without its list, the list's key and entries."""

    head: Mapping[str, Any]
    key: str
    entries: tuple[Any, ...]

    def as_content(self) -> dict[str, Any]:
        """Return the report as if it had ended behind its last whole job."""
        return {**self.head, self.key: list(self.entries)}


def repair_report(text: str) -> str:
    """Write NaN for nan and inf, as Python's decoder reads it, and close strings that an old fio truncated."""
    return _LOST_QUOTE.sub(_close_string, _NOT_A_NUMBER.sub(r"\1NaN", text))


def _close_string(match: re.Match[str]) -> str:
    line = match[0].rstrip()
    comma = "," if line.endswith(",") else ""
    line = line.removesuffix(",")
    # The string may end within an escape.
    slashes = len(line) - len(line.rstrip("\\"))
    return f'{line[:-1] if slashes % 2 else line}"{comma}'


def recover_jobs(text: str, decoder: json.JSONDecoder, *, maximum: int) -> Recovered | None:
    """Return the first complete jobs of a report whose end is missing or damaged; None without any."""
    listed = _LIST.search(text)
    if listed is None:
        return None
    try:
        head, _ = decoder.raw_decode(text[: listed.end()] + "]}")
    except (ValueError, RecursionError):
        return None
    entries: list[Any] = []
    position = listed.end()
    while len(entries) < maximum:
        separator = _SEPARATOR.match(text, position)
        position = separator.end() if separator else position
        try:
            entry, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        entries.append(entry)
    return Recovered(head, listed[1], tuple(entries)) if entries else None


Read = Callable[[Any], Any]

# stat.h of 2.x: 19 groups of 64 buckets.
_BUCKETS: Final = 1216


def read_report(content: object) -> PrintedReport:
    """Return the usable part of a JSON value; an empty report if it is not a report."""
    return _read_struct(PrintedReport, content) or PrintedReport()


def _read_struct(kind: type[Struct], value: object) -> Any:
    """Convert valid values at once, others key by key; at most as deep as a report is."""
    try:
        return convert(value, kind, str_keys=True)
    except ValidationError:
        if not isinstance(value, dict):
            return None
    usable: dict[str, Any] = {}
    odd: dict[str, str] = {}
    for key, name, read in _FIELDS[kind]:
        if (part := value.get(key)) is not None:
            usable[name] = read(part)
            if usable[name] is None:
                del usable[name]
                odd[key] = _explain(part)
    if kind is PrintedDirection:
        return OddDirection(**usable, odd=odd)
    try:
        return kind(**usable)
    except TypeError:
        # Shares are all there, or none are of use.
        return None


def _explain(value: object) -> str:
    """Return the reason code of a dropped value: "not-reported" if it is not a number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "not-a-number"
    return "out-of-range" if type(value) in (int, float) else "not-reported"


def _read_list(kind: type[Struct], value: object) -> list[Any] | None:
    return [_read_struct(kind, part) for part in value] if isinstance(value, list) else None


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_port(value: object) -> int | str:
    return value if type(value) is int else str(value)


def _read_depths(value: object) -> Depths | None:
    if not isinstance(value, dict):
        return None
    amounts = {key: read_amount(amount) for key, amount in value.items()}
    return {key: amount for key, amount in amounts.items() if amount is not None}


def _read_options(value: object) -> Options | None:
    """Read options as text by name; other values, as tools rewrite them, become what fio would print."""
    if not isinstance(value, dict):
        return None
    return {name: _write_value(part) for name, part in value.items() if not isinstance(part, dict | list)}


def _write_value(value: object) -> str:
    if value is None or value is True:
        return ""
    return "0" if value is False else str(value)


def _read_global_options(value: object) -> GlobalOptions | None:
    if isinstance(value, list):
        return [
            {name: part if name == "port" else _write_value(part) for name, part in server.items()}
            for server in value
            if isinstance(server, dict)
        ]
    return _read_options(value)


def _read_percentiles(value: object) -> Percentiles | None:
    if not isinstance(value, dict):
        return None
    found: Percentiles = {}
    for key, part in value.items():
        amount = read_amount(part)
        percent = _read_percent(key)
        if amount is not None and percent is not None:
            found[percent] = amount
    return found


def _read_percent(text: str) -> float | None:
    try:
        percent = float(text)
    except ValueError:
        return None
    return percent if 0 <= percent <= 100 else None


def _read_bins(value: object) -> Bins | None:
    """Read a histogram; None if it holds anything but counts."""
    if not isinstance(value, dict) or not _are_counts(value.values()):
        return None
    if "FIO_IO_U_PLAT_BITS" in value:
        return _read_buckets(value)
    try:
        bins = {int(key): count for key, count in value.items() if count}
    except ValueError:
        return None
    return bins if _are_counts(bins) else None


def _are_counts(values: Any) -> bool:
    """Return whether all are whole numbers within range, and there are some."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) <= BIGINT_MAXIMUM


def _read_buckets(value: Mapping[str, int]) -> Bins | None:
    """Read what 2.2.12 to 2.19 print: all buckets by index, and three keys with their numbers of bits."""
    filled = {int(key): count for key, count in value.items() if count and key.isdecimal() and len(key) < 10}
    return {read_bucket(index): filled[index] for index in sorted(filled) if index < _BUCKETS} or None


def _choose_reader(kind: Any) -> Read:
    """Return the function that reads a value of an annotated type; for optional types too."""
    if kind in _READERS:
        return _READERS[kind]
    (inner,) = (part for part in get_args(kind) if part is not type(None))
    if inner in _STRUCTS:
        return partial(_read_struct, inner)
    (entry,) = (part for part in get_args(get_args(inner)[0]) if part is not type(None))
    return partial(_read_list, entry)


_READERS: Final[Mapping[Any, Read]] = {
    Errno: read_errno,
    Amount: read_amount,
    str: _read_text,
    str | None: _read_text,
    Count | None: read_count,
    Amount | None: read_amount,
    Depths | None: _read_depths,
    Options | None: _read_options,
    GlobalOptions | None: _read_global_options,
    Percentiles | None: _read_percentiles,
    Bins | None: _read_bins,
    int | str | None: _read_port,
}
_STRUCTS: Final = (
    PrintedLatency,
    PrintedDirection,
    PrintedShares,
    PrintedLongShares,
    PrintedSteadyData,
    PrintedSteadyState,
    PrintedJob,
    PrintedDisk,
    PrintedReport,
)
# Of each structure: key as printed, name, and what reads its value.
_FIELDS: Final[Mapping[type[Struct], tuple[tuple[str, str, Read], ...]]] = {
    kind: tuple((field.encode_name, field.name, _choose_reader(field.type)) for field in fields(kind))
    for kind in _STRUCTS
}


# fio prints its version first; tools that sort keys put one of the others there. All are keys of the top only, and
# in a string the quotes would be escaped: between two such positions is exactly one report.
_BEGINNING: Final = re.compile(r'\{\s*"(?:fio version|disk_util|client_stats|cpu_idleness)"\s*:')
# What begins so is not JSON alone, and need not be tried.
_OTHER: Final = re.compile(rb"\s*+[^\s{\[]")
# One report per second for three hours; each takes some time even if it is damaged.
DOCUMENTS_MAXIMUM: Final = 10_000
# fio's own limit is 4096, unless --max-jobs raises it.
JOBS_MAXIMUM: Final = 20_000
MESSAGES_MAXIMUM: Final = 200
_MESSAGE_LENGTH_MAXIMUM: Final = 1000
_STATUS_LINE: Final = re.compile(r"(?:<[^>]{1,255}> )?Jobs: \d+ \(f=")
# strict=False: fio does not escape control characters. fio prints nan for values that it cannot calculate.
# Lines that only a damaged report has; any other line between is of another program.
_OF_JSON: Final = re.compile(r"\s*+[\"{}\[\]\d-]")
_REPAIRS_MAXIMUM: Final = 10
# What follows the position of an error where a text ends within a value.
_CUT_TOKEN: Final = re.compile(r"[\w.+-]*+\s*+")
_FAULT_LENGTH: Final = 40
_DECODER: Final = json.JSONDecoder(strict=False)
# Straight into the shape, which is most of the speed; refuses all that fio, as it is today, would not print.
_STRICT: Final = msgspec.json.Decoder(PrintedReport)


class FoundDocument(Struct, frozen=True, gc=False):
    """One report as printed, not yet understood; is_partial: its end is missing.

    number: its index in the text, from 0, including reports that were dropped.
    """

    content: PrintedReport
    is_partial: bool
    number: int = 0


class Findings(Struct, frozen=True, gc=False):
    """All reports of a text in order, and the text around and between them."""

    reports: tuple[FoundDocument, ...]
    rest: str


def find_whole(output: bytes) -> Findings | None:
    """Return the report that is all of an output, as nearly every one; None for anything else."""
    # One byte is found much faster than six.
    if _OTHER.match(output) or (b"\\" in output and b"\\u0000" in output):
        return None
    content = load_report(output)
    return (
        Findings((FoundDocument(content, is_partial=False),), "") if content and is_report(content) else None
    )


def load_report(text: bytes | str) -> PrintedReport | None:
    """Parse a text that is a single JSON value; None if it is not JSON, an empty report if it is not a report."""
    try:
        return _STRICT.decode(text)
    except msgspec.ValidationError:
        # JSON so far, with a value that does not fit.
        pass
    except (ValueError, RecursionError):
        return None
    try:
        return read_report(orjson.loads(text))
    except ValueError:
        return None


def is_report(content: PrintedReport) -> bool:
    """Return whether a JSON value is a report of fio; raises UnreadableOutput where it has too many jobs."""
    if content.entries is None:
        return False
    check_job_count(len(content.entries))
    return True


def check_job_count(count: int) -> None:
    """Raise UnreadableOutput above the most jobs that are read."""
    if count > JOBS_MAXIMUM:
        raise UnreadableOutput(
            "too-many-jobs",
            f"the fio report lists {count} jobs or more; the maximum is {JOBS_MAXIMUM}",
        )


def find_documents(text: str, notes: Notes) -> Findings:
    """Return every JSON report of a text, complete or cut off.

    Raises UnreadableOutput where there are too many.
    """
    if "{" not in text:
        return Findings((), text)
    starts = [match.start() for match in _BEGINNING.finditer(text)]
    if len(starts) > DOCUMENTS_MAXIMUM:
        raise UnreadableOutput(
            "too-many-reports",
            f"the text contains {len(starts)} reports of fio; the maximum is {DOCUMENTS_MAXIMUM}",
        )
    if not starts:
        # A report without its usual first key, among other lines, is still whole JSON.
        found = _load_any(text, notes)
        return Findings((found,), "") if found else Findings((), text)
    reports: list[FoundDocument] = []
    between = [text[: starts[0]]]
    line = 1 + between[0].count("\n")
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(text)], strict=True)):
        segment = text[start:end]
        between.append(_read_segment(segment, number, reports, notes, line=line))
        line += segment.count("\n")
    return Findings(tuple(reports), "\n".join(between))


def _load_any(text: str, notes: Notes) -> FoundDocument | None:
    """Return a report without its usual first key, or the list of jobs that was taken out of one."""
    try:
        content = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None
    jobs = content if isinstance(content, list) else [content]
    if jobs and all(isinstance(job, dict) and "jobname" in job for job in jobs):
        notes.add(
            "jobs-only", "", "the text has the jobs of a report alone: version, time and disks are not known"
        )
        content = {"jobs": jobs}
    report = read_report(content)
    return FoundDocument(report, is_partial=False) if is_report(report) else None


def _read_segment(segment: str, number: int, reports: list[FoundDocument], notes: Notes, *, line: int) -> str:
    """Add the report at the beginning of a segment, repaired if necessary; return the text after it.

    line: number of the first line of the segment in the text.
    """
    closing = segment.rfind("\n}") + 2
    # The closing brace may be elsewhere; after the usual one only blanks or lines of text follow.
    for end in (closing, len(segment)) if segment[closing:].strip() else (len(segment),):
        content = load_report(segment[:end])
        if content is not None:
            _keep(content, number, reports, notes)
            return segment[end:]
    rest = _read_odd_segment(segment, number, reports, notes)
    if rest is None:
        _read_whole_jobs(segment, number, reports, notes, line=line)
    return rest or ""


def _read_odd_segment(segment: str, number: int, reports: list[FoundDocument], notes: Notes) -> str | None:
    text, foreign = segment, ""
    for attempt in range(_REPAIRS_MAXIMUM):
        try:
            content, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError) as error:
            if attempt == 0:
                text = repair_report(segment)
                continue
            if not isinstance(error, json.JSONDecodeError):
                break
            line_at = text.rfind("\n", 0, error.pos) + 1
            line_end = text.find("\n", error.pos) + 1
            line = text[line_at:line_end]
            if line_at == 0 or line_end == 0 or _OF_JSON.match(line):
                break
            foreign += line
            text = text[:line_at] + text[line_end:]
            continue
        _keep(read_report(content), number, reports, notes)
        if attempt:
            message = "this report was not valid JSON and was repaired"
            notes.add(
                "repaired-json",
                name_place(number),
                f"{message}, without lines of others" if foreign else message,
            )
        return foreign + text[end:]
    return None


def _keep(content: PrintedReport, number: int, reports: list[FoundDocument], notes: Notes) -> None:
    if is_report(content):
        reports.append(FoundDocument(content, is_partial=False, number=number))
    else:
        notes.add("no-jobs", name_place(number), "this report has an empty job list and was skipped")


def _read_whole_jobs(
    segment: str, number: int, reports: list[FoundDocument], notes: Notes, *, line: int
) -> None:
    """Add the jobs that are whole of a report that ends early or is invalid JSON."""
    where = name_place(number)
    text = repair_report(segment)
    code, fault = _find_fault(text, line)
    recovered = recover_jobs(text, _DECODER, maximum=JOBS_MAXIMUM + 1)
    if recovered is None:
        notes.add(code, where, f"{fault} before its first job is complete")
        return
    count = len(recovered.entries)
    check_job_count(count)
    read = f"{count} complete {'job was' if count == 1 else 'jobs were'} read, the rest was skipped"
    notes.add(code, where, f"{fault}: {read}")
    reports.append(FoundDocument(read_report(recovered.as_content()), is_partial=True, number=number))


def _find_fault(text: str, first_line: int) -> tuple[str, str]:
    """Return code and description of why a report cannot be read to its end: cut off, or invalid JSON."""
    try:
        _DECODER.raw_decode(text)
    except json.JSONDecodeError as error:
        if not error.msg.startswith("Unterminated") and not _CUT_TOKEN.fullmatch(text, error.pos):
            found = " ".join(text[error.pos : error.pos + _FAULT_LENGTH].split())
            place = f"line {first_line + error.lineno - 1}, column {error.colno}"
            return "invalid-json", f"this report has invalid JSON at {place} ({error.msg}, found: {found})"
    except (ValueError, RecursionError):
        pass
    return "truncated-report", "this report ends early"


def name_place(number: int) -> str:
    """Return the name of a report in warnings: its place in the text."""
    return f"document {number}"


def list_messages(lines: Iterable[str], notes: Notes) -> tuple[str, ...]:
    """Return the lines outside of reports, limited; a note gives the number of those omitted."""
    messages: list[str] = []
    left_out = 0
    for line in map(str.strip, lines):
        # Brackets and commas between reports in an array are not messages.
        if not line.strip("[],{}") or _STATUS_LINE.match(line):
            continue
        if len(messages) < MESSAGES_MAXIMUM:
            messages.append(line[:_MESSAGE_LENGTH_MAXIMUM])
        else:
            left_out += 1
    if left_out:
        notes.add("more-messages", "", f"{left_out} more lines around the reports were omitted")
    return tuple(messages)
