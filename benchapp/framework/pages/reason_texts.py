"""Texts for missing values and rejected submissions; the codes are stable."""

from typing import Final

REJECTED: Final = {
    "attempts-exhausted": "Processing failed five times; see the worker log. Retry after the cause is fixed.",
    "database-refused": "PostgreSQL rejected a value. This is a bug in benchapp; report it with the raw body.",
    "empty-output": "fio printed nothing: it was killed or could not start. Check its standard error.",
    "envelope-invalid": "A field of the envelope is not valid.",
    "envelope-kind": "The kind of the envelope is unknown. Update the server.",
    "envelope-not-json": "The envelope is not valid JSON.",
    "envelope-schema": "The schema of the envelope is unknown. Update the server or the agent.",
    "file-unknown": "The name of the file does not match the pattern, or the table of parameters does not list it.",
    "format-not-supported-yet": "The format was not supported when this was received. It is supported now: retry.",
    "invalid-json": "The report is not valid JSON: a program or a person changed what fio printed.",
    "log-alone": "A fio log without the output it belongs to. Upload both together.",
    "no-jobs": "The report has no jobs.",
    "document": "The file is a document of an agent or of published numbers, not fio output: post it to the API.",
    "no-report": "The output contains no fio report: fio may have failed before the job started.",
    "reader-fault": "The parser failed. This is a bug in benchapp; report it with the raw body.",
    "reported-invalid": "A member of a document of published numbers is not valid.",
    "took-too-long": "Processing exceeded the time limit of a document twice. Split the result, then send the parts.",
    "too-many-jobs": "The report has more jobs than allowed.",
    "too-many-measurements": "The result has more measurements than allowed. Run fewer jobs at a time.",
    "too-many-reports": "The body has more reports than allowed. Send each report separately.",
    "too-many-series": "The host added as many new series today as allowed. Retry after midnight UTC.",
    "too-many-timings": "The body has more shell timings than one run has. Send the timings of each run separately.",
    "unreadable-terse": "The output looks like fio's terse format, but no line has the fields of its version.",
    "truncated-report": "The report ends before any result: fio was killed or the output was truncated.",
}
# Codes of rejections that are also codes of answers of the API: links lead to those on the page of error codes.
ALSO_ANSWERED: Final = frozenset(
    ("envelope-invalid", "envelope-kind", "envelope-not-json", "envelope-schema", "reported-invalid")
)
