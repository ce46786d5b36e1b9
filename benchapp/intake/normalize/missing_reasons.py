"""Reasons of missing values as text; codes as in `fio.report`, and those of withheld values."""

from typing import Final

MISSING: Final = {
    "clones": "several concurrent jobs, and fio samples each separately",
    "clones-disagree": "the concurrent jobs measured it differently",
    "clones-missing": "some of the concurrent jobs are missing from the report",
    "clones-without-bins": (
        "several concurrent jobs without histograms: percentiles cannot be averaged; "
        "run fio with group_reporting or --output-format=json+"
    ),
    "few-samples": "fewer than 10 samples above this percentile: not statistically meaningful",
    "groups-without-bins": (
        "several different concurrent jobs without histograms: percentiles cannot be averaged"
    ),
    "groups-without-counts": (
        "several different concurrent jobs without I/O counts: their means cannot be weighted"
    ),
    "job-failed": "the job failed before its first measurement",
    "no-io": "no I/O in this direction",
    "not-a-number": "fio printed nan or inf: it could not calculate the value",
    "not-in-format": "not part of this output format",
    "not-measured": "measurement disabled in the fio options",
    "not-reported": "not reported: omitted by this fio version, its options, or the publisher",
    "out-of-range": "fio printed an impossible value",
    "per-job-samples": "fio before 3.13 averages the samples of concurrent jobs instead of adding them up",
    "saturated": "longer than fio's histogram, which ends at 17.1 s (16.7 s before fio 3.0)",
    "short-run": "the run was shorter than fio's sampling interval",
    "unreliable-version": "this fio version is known to print a wrong value",
    "zero-runtime": "fio reported a runtime of zero",
}


def describe_missing(code: str) -> str:
    """Return the text of a reason code; an unknown code is returned with spaces."""
    return MISSING.get(code, code.replace("-", " "))
