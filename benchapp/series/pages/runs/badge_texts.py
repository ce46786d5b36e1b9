"""Data quality of a run: findings, and the rule and remedy of each badge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.series.read.badges import BADGE_CODES, BadgeRow


@dataclass(frozen=True, slots=True)
class Rule:
    """Meaning of a badge, and its remedy."""

    meaning: str
    advice: str


# Code → rule and remedy. docs/runs.md has the same with sources.
BADGES: Final[dict[str, Rule]] = {
    "failed-job": Rule(
        "A job had an error, fio was killed, cut or ended with an error, or a job has no result. No value of the run"
        " counts.",
        "Read the error message of fio, fix the cause, run again.",
    ),
    "no-io": Rule(
        "The job asked for this direction and ran, but no I/O completed. IOPS and bandwidth are 0, latencies unknown.",
        "Check the device, its path and the kernel log of the host.",
    ),
    "littles-law": Rule(
        "IOPS × mean total latency is outside 0.85 to 1.02 of iodepth × numjobs, with an asynchronous engine and no"
        " option that limits the queue.",
        "Below: use direct I/O, more jobs, or a faster engine. Above: report a bug; a unit was misread.",
    ),
    "cached": Rule(
        "Buffered I/O with files smaller than twice the memory; or reads with a mean latency below 5 µs (2 µs with"
        " polling); or reads with a median below 10 µs from network storage.",
        "Use direct=1, or files of at least twice the memory. Disable caches on the host.",
    ),
    "memory-filesystem": Rule(
        "The files were on tmpfs, ramfs or a RAM disk, also below an overlay or a loop device.",
        "Set --directory to one on the storage under test.",
    ),
    "degraded-raid": Rule(
        "The array had missing members, was rebuilding or checking, or reported a degraded state.",
        "Wait for the rebuild or replace the disk, then run again.",
    ),
    "too-short": Rule(
        "The job ran for less than 30 s.",
        "Set runtime=60 or more and time_based.",
    ),
    "not-steady": Rule(
        "fio did not attain its steadystate criterion; or the values of the trace range over more than 20 % of their"
        " average, or drift by more than 10 %.",
        "Precondition the device or run longer; check the trace.",
    ),
    "cpu-bound": Rule(
        "Each job used 95 % or more of a CPU, without polling.",
        "Use more jobs, larger blocks or a more efficient engine (io_uring), until the storage is the limit.",
    ),
    "stalls": Rule(
        "The maximum latency was 100 times p99.99 or more (at least 100\u202f000 samples); or the bandwidth samples of"
        " fio varied by more than 20 %.",
        "Check for throttling, burst credits, garbage collection, snapshots or resets at that time.",
    ),
    "few-samples": Rule(
        "Fewer than 10 samples are expected above a percentile. The percentile is hidden; other values are unaffected.",
        "Run longer: p99.9 needs 10\u202f000 I/Os. The percentile table keeps the value that fio printed.",
    ),
    "reported": Rule(
        "Published result, entered or imported; no fio output exists.",
        "Check the source on the run page. Measure the same workload yourself to compare.",
    ),
}


@dataclass(frozen=True, slots=True)
class QualityFinding:
    """One data-quality finding. codes: one badge; names: of the measurements concerned."""

    codes: tuple[str]
    names: tuple[str, ...]
    sentence: str


def list_quality_findings(rows: Sequence[tuple[str, Sequence[BadgeRow]]]) -> list[QualityFinding]:
    """Return the findings of measurements, given as name and badges: most severe first, each sentence once."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, badges in rows:
        for badge in badges:
            names.setdefault((badge.code, badge.sentence), []).append(name)
    findings = [QualityFinding((code,), tuple(of), sentence) for (code, sentence), of in names.items()]
    return sorted(findings, key=lambda finding: _rank(finding.codes[0]))


def _rank(code: str) -> int:
    return BADGE_CODES.index(code) if code in BADGE_CODES else len(BADGE_CODES)
