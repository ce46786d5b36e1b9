"""Check whether a text is fio output, before the response is sent."""

import re
from dataclasses import dataclass
from typing import Any, Final

import orjson
import structlog

from benchapp.fio import UnreadableOutput, read_output

log = structlog.get_logger(__name__)

# The beginning of a longer text is parsed first, at 20 MB/s; usually it is sufficient.
_BEGINNING_BYTES: Final = 256 * 1024
# Up to this size the whole text is parsed while the sender waits: 0.5 s in the worst case.
_WHOLE_BYTES: Final = 1024 * 1024
# Every report has one of these: a JSON key, a job of a text, a terse percentile, a line of the shell's time.
_MARKERS: Final = tuple(
    marker.encode(encoding)
    for marker in ('"jobs"', '"client_stats"', "groupid=", "%=", "real")
    for encoding in ("ascii", "utf-16-le", "utf-16-be")
)
# Errors that no further text can fix.
_FINAL_CODES: Final = frozenset({"too-many-reports", "too-many-jobs", "too-many-timings"})
_ERROR_OUTPUT: Final = "fio printed: "
_DIRECTIONS: Final = ("read", "write", "trim", "mixed")
# No fio output at all, as opposed to a damaged report.
_FOREIGN_CODES: Final = frozenset({"no-report", "empty-output"})
_TITLES: Final = {
    "invalid-json": "Invalid JSON",
    "truncated-report": "Incomplete output",
    "document": "Not fio output",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a text cannot be parsed. code: stable; detail: a sentence for the operator."""

    code: str
    detail: str

    @property
    def is_foreign(self) -> bool:
        """Return whether the text has no fio report at all."""
        return self.code in _FOREIGN_CODES

    @property
    def title(self) -> str:
        """Return the kind of fault, for the title of an answer."""
        return "No fio output" if self.is_foreign else _TITLES.get(self.code, "Unreadable fio output")


_SCHEMA: Final = re.compile(rb'"schema"\s*:\s*"benchapp-')
_DOCUMENT: Final = Fault(
    "document",
    "this is a document of an agent or of published numbers, with its own layout, not fio output alone:"
    " post it to /api/v1/submissions",
)


def check_format(output: bytes) -> Fault | None:
    """Return why this text cannot be parsed; None if it can, or if the parser crashed.

    All supported formats. A crash of the parser must not lose a result: it is stored, and rejected by the worker.
    """
    if is_document(output):
        return _DOCUMENT
    if _is_clean_report(output):
        return None
    if len(output) > _BEGINNING_BYTES and _read(output[:_BEGINNING_BYTES]) is None:
        return None
    return _read(output)


def check_format_quickly(output: bytes) -> Fault | None:
    """Return the result of `check_format`, within about 0.5 s; None if that is not sufficient.

    Only the beginning is parsed of more than 1 MiB, and of more than 256 KiB if it has no fio report. The worker checks
    the rest, if that has a marker of fio output.
    """
    if len(output) <= _BEGINNING_BYTES:
        return check_format(output)
    if is_document(output):
        return _DOCUMENT
    if _is_clean_report(output):
        return None
    fault = _read(output[:_BEGINNING_BYTES])
    if fault is None or fault.code in _FINAL_CODES:
        return fault
    if not any(marker in output for marker in _MARKERS):
        return fault
    has_no_report = fault.is_foreign and _ERROR_OUTPUT not in fault.detail
    return None if has_no_report or len(output) > _WHOLE_BYTES else _read(output)


def is_document(output: bytes) -> bool:
    """Return whether this is, or contains, what POST /submissions takes, valid or not.

    fio's output is in it, but read alone it has no layout. Quotes in a string of fio's output have a backslash.
    """
    return _SCHEMA.search(output) is not None


def _read(output: bytes) -> Fault | None:
    try:
        read_output(output)
    except UnreadableOutput as error:
        return Fault(error.code, error.detail)
    except Exception:
        log.exception("format_check.parser_failed", size=len(output))
    return None


def _is_clean_report(output: bytes) -> bool:
    """Return whether this is one JSON report with results: nearly every post, at a seventh of the cost of parsing."""
    try:
        content = orjson.loads(output)
    except orjson.JSONDecodeError:
        return False
    jobs = content.get("jobs") if isinstance(content, dict) else None
    return isinstance(jobs, list) and bool(jobs) and _has_results(jobs[0])


def _has_results(job: Any) -> bool:
    return isinstance(job, dict) and any(
        isinstance(values := job.get(name), dict) and "io_bytes" in values for name in _DIRECTIONS
    )
