"""Why a value is unknown, in words; the codes are those of `fio.report` and of what is withheld here."""

from typing import Final

MISSING: Final = {
    "clones": "several jobs ran together, and fio samples each by itself",
    "clones-disagree": "the jobs that ran together measured it differently",
    "clones-missing": "some of the jobs that ran together are missing from the report",
    "clones-without-bins": (
        "several jobs ran together and fio printed no histogram: percentiles cannot be averaged; "
        "run fio with group_reporting or --output-format=json+"
    ),
    "few-samples": "fewer than 10 samples lie beyond it, so that chance decides what it is",
    "groups-without-bins": (
        "several jobs of different kinds ran together and fio printed no histogram: percentiles cannot be averaged"
    ),
    "groups-without-counts": (
        "several jobs of different kinds ran together, and nothing tells how many operations each of them did, by which"
        " their means were to be weighted"
    ),
    "job-failed": "the job failed before it measured anything",
    "no-io": "it was asked for, and nothing was done",
    "not-a-number": "fio printed nan or inf, which is what it could not calculate",
    "not-in-format": "this output format has no place for it",
    "not-measured": "fio was told not to measure it",
    "not-reported": "it was not told: this version of fio, its options, or who published the numbers leave it out",
    "out-of-range": "fio printed a number that cannot be",
    "per-job-samples": "fio before 3.13 averages the samples of jobs that ran together instead of adding them up",
    "short-run": "the run was shorter than fio's sampling interval",
    "unreliable-version": "this version of fio is known to print it wrong",
    "zero-runtime": "fio says that the job ran for no time at all",
}


def explain_missing(code: str) -> str:
    """Return a sentence for a reason code; an unknown one is shown as it is."""
    return MISSING.get(code, code.replace("-", " "))
