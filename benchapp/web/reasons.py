"""Why a value is unknown and why a submission was rejected, in words; the codes are stable."""

from typing import Final

MISSING: Final = {
    "clones": "several jobs ran together, and fio samples each by itself",
    "clones-disagree": "the jobs that ran together measured it differently",
    "clones-missing": "some of the jobs that ran together are missing from the report",
    "clones-without-bins": (
        "several jobs ran together and fio printed no histogram: percentiles cannot be averaged; "
        "run fio with group_reporting or --output-format=json+"
    ),
    "job-failed": "the job failed before it measured anything",
    "not-measured": "fio was told not to measure it",
    "not-reported": "this version of fio did not print it",
    "out-of-range": "fio printed a number that cannot be",
    "per-job-samples": "fio samples each job by itself",
    "short-run": "the run was shorter than fio's sampling interval",
    "unreliable-version": "this version of fio is known to print it wrong",
    "zero-runtime": "fio says that the job ran for no time at all",
}

REJECTED: Final = {
    "attempts-exhausted": "Five workers gave up on it. Their log says more; retry once the cause is gone.",
    "database-refused": "PostgreSQL refused a value. This is a fault of ours: please report it with the raw body.",
    "empty-output": "fio printed nothing. Was it killed, or could it not start? Standard error says more.",
    "envelope-invalid": "A field of the agent's document is not what it must be.",
    "envelope-kind": "The agent's document is of a kind that this server does not know. Update the server.",
    "envelope-not-json": "The agent's document is not JSON.",
    "envelope-schema": "The agent's document has another schema. Update the server, or the agent.",
    "format-not-supported-yet": "This output format is not read yet. Run fio with --output-format=json.",
    "no-jobs": "The report has no jobs.",
    "no-report": "No report of fio is in what was printed. Run fio with --output-format=json.",
    "reader-fault": "The reader broke on it. This is a fault of ours: please report it with the raw body.",
    "too-many-jobs": "The report has more jobs than the server takes.",
    "too-many-reports": "There are more reports in one body than the server takes. Send each by itself.",
    "truncated-report": "The report ends before its end. Was fio killed, was the disk full?",
}


def explain_missing(code: str) -> str:
    """Return a sentence for a reason code; an unknown one is shown as it is."""
    return MISSING.get(code, code.replace("-", " "))
