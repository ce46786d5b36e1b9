"""From the bytes that fio printed to a Report."""

import re
from typing import Final

from benchapp.fio.documents import Findings, find_documents
from benchapp.fio.json_report import read_document
from benchapp.fio.notes import Notes
from benchapp.fio.report import Document, Report
from benchapp.fio.snapshots import drop_snapshots
from benchapp.fio.text import decode_output
from benchapp.fio.unreadable import UnreadableOutput

# Stored with every run: a higher one makes renormalisation worth while.
PARSER_VERSION: Final = 1

_TERSE: Final = re.compile(
    r"^(?:<[^>\n]{1,255}> )?(?:2;[^;\n]+;\d+;\d+;|[345];(?:fio-)?\d+\.\d)", re.MULTILINE
)
_NORMAL: Final = re.compile(r"\(groupid=\d{1,10}, jobs=\d{1,10}\): err=")
_EXCERPT_LENGTH: Final = 200


def read_output(output: bytes) -> Report:
    """Return everything that can be read from what fio printed: UTF-8 or UTF-16, with noise, whole or cut off.

    Raises UnreadableOutput, and nothing else, where there is no report in it.
    """
    notes = Notes()
    findings = find_documents(output, notes)
    documents: list[Document] = []
    for number, found in drop_snapshots(findings.reports, notes):
        where = f"document {number}"
        document = read_document(found.content, where=where, is_partial=found.is_partial, notes=notes)
        if document.jobs:
            documents.append(document)
        elif len(findings.reports) > 1:
            notes.add("no-jobs", where, "this report lists no jobs; nothing of it was kept")
    if not documents:
        raise _explain(output, findings, notes)
    return Report(tuple(documents), notes.list_all(), findings.messages, PARSER_VERSION)


def _explain(output: bytes, findings: Findings, notes: Notes) -> UnreadableOutput:
    """Say why there is nothing, in a sentence for the operator of the host."""
    codes = {note.code for note in notes.list_all()}
    if "truncated-report" in codes:
        return UnreadableOutput(
            "truncated-report",
            "the report of fio ends before its first job does: the output was cut off"
            " (full disk, broken pipe, or fio killed while it printed)",
        )
    if findings.reports or "no-jobs" in codes:
        reason = "its jobs ran with stats=0" if "stats-disabled" in codes else "its list of jobs is empty"
        return UnreadableOutput("no-jobs", f"the report of fio holds no results: {reason}")
    if not output.strip(b" \t\r\n\x00\xef\xbb\xbf\xff\xfe"):
        return UnreadableOutput("empty-output", "no fio report found: the output is empty; was fio killed?")
    text = decode_output(output, Notes())
    for name, pattern in (("human-readable text", _NORMAL), ("terse", _TERSE)):
        if pattern.search(text):
            return UnreadableOutput(
                "format-not-supported-yet",
                f"this is fio's {name} format, which is not read yet; run fio with --output-format=json+",
            )
    return UnreadableOutput("no-report", _describe_foreign(text, findings))


def _describe_foreign(text: str, findings: Findings) -> str:
    if text.startswith("\x1f"):
        return "no fio report found: the output is compressed with gzip, and was sent as if it were not"
    complaint = next((line for line in findings.messages if line.startswith("fio: ")), None)
    if complaint:
        return f"no fio report found; fio said: {complaint[:_EXCERPT_LENGTH]}"
    beginning = " ".join(text[:_EXCERPT_LENGTH].split())
    return f"no fio report found; the output begins: {beginning}"
