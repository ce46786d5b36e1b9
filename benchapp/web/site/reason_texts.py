"""Why a value is unknown and why a submission was rejected, in words; the codes are stable."""

from typing import Final

from benchapp.pipeline.normalize.missing_reasons import MISSING, explain_missing

__all__ = ["MISSING", "REJECTED", "explain_missing"]

REJECTED: Final = {
    "attempts-exhausted": "Five workers gave up on it. Their log says more; retry once the cause is gone.",
    "database-refused": "PostgreSQL refused a value. This is a fault of ours: please report it with the raw body.",
    "empty-output": "fio printed nothing. Was it killed, or could it not start? Standard error says more.",
    "envelope-invalid": "A field of the agent's document is not what it must be.",
    "envelope-kind": "The agent's document is of a kind that this server does not know. Update the server.",
    "envelope-not-json": "The agent's document is not JSON.",
    "envelope-schema": "The agent's document has another schema. Update the server, or the agent.",
    "format-not-supported-yet": "Its format was not read by the version of that time. It is now: retry.",
    "log-alone": "A log of fio without the output that it belongs to. Hand both over together.",
    "no-jobs": "The report has no jobs.",
    "no-report": "No report of fio is in what was printed: it may have failed before it began.",
    "reader-fault": "The reader broke on it. This is a fault of ours: please report it with the raw body.",
    "reported-invalid": "A member of a document of published numbers is not what it must be.",
    "too-many-jobs": "The report has more jobs than the server takes.",
    "too-many-reports": "There are more reports in one body than the server takes. Send each by itself.",
    "too-many-timings": "There are more timings of a shell in it than one run makes. Send those of one by themselves.",
    "unreadable-terse": "It looks like fio's terse format, but no line has the fields that its version has.",
    "truncated-report": "The report ends before any result. Was fio killed, or the output cut off?",
}
