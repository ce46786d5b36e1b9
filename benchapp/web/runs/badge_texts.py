"""How far to trust a run, in words: each badge with what it says of which rows, its rule, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.queries.badges import BADGE_CODES, BadgeRow


@dataclass(frozen=True, slots=True)
class Rule:
    """What a badge means, and what to do about it."""

    meaning: str
    advice: str


# Code → its rule, and what to do. docs/validity.md tells the same with the sources.
BADGES: Final[dict[str, Rule]] = {
    "failed-job": Rule(
        "fio reported an error for the job. Its numbers are of what it did until then.",
        "Read what fio complained of, mend it, run again.",
    ),
    "littles-law": Rule(
        "IOPS × mean total latency is not 0.85 to 1.02 of iodepth × numjobs, with an engine that keeps its queue full"
        " and no option that limits it.",
        "Too few in flight: use direct I/O, more jobs, or a faster engine. Too many: tell us; a unit was misread.",
    ),
    "cached": Rule(
        "Not direct, and the files are smaller than twice the memory; or reads came back in less than 5 µs on average"
        " (2 µs where fio polls), or half of them in less than 10 µs from behind a network.",
        "Use direct=1, or files of at least twice the memory. A cache of the host, if there is one, must be off.",
    ),
    "degraded-raid": Rule(
        "The array had members missing, was rebuilding or checking, or its state was told to be degraded.",
        "Let it finish, replace the disk, run again.",
    ),
    "too-short": Rule(
        "The job ran less than 30 s.",
        "Set runtime=60 or more, and time_based.",
    ),
    "not-steady": Rule(
        "fio's own steadystate was not attained; or over the run's log the values lie more than 20 % of their average"
        " apart, or drift by more than 10 %.",
        "Precondition the device, or run longer: look at the course of the run.",
    ),
    "cpu-bound": Rule(
        "Each job kept a CPU 95 % busy or more, and was not told to poll.",
        "Use more jobs, larger blocks or a cheaper engine (io_uring), until the storage is the limit.",
    ),
    "stalls": Rule(
        "The slowest I/O took 100 times p99.99 or more (of at least 100\u202f000 samples); or bandwidth varied by more"
        " than 20 % over fio's samples.",
        "Look for throttling, burst credits, garbage collection, snapshots, resets at that time.",
    ),
    "few-samples": Rule(
        "Fewer than 10 samples are expected beyond a percentile. It is hidden; all else is as good as without.",
        "Run longer: p99.9 needs 10\u202f000 I/Os. What fio printed stays in the table of percentiles.",
    ),
    "reported": Rule(
        "Someone published this number, and it was typed in or imported: there is no output of fio to read again.",
        "Take it for what its source says: the run names it. Measure the same yourself to compare.",
    ),
}


@dataclass(frozen=True, slots=True)
class Doubt:
    """One sentence of what speaks against numbers of a run, and the rows that it is about. codes: the one."""

    codes: tuple[str]
    names: tuple[str, ...]
    sentence: str


def list_doubts(rows: Sequence[tuple[str, Sequence[BadgeRow]]]) -> list[Doubt]:
    """Return what speaks against the rows of a run, given as name and badges: the gravest first, each sentence once."""
    names: dict[tuple[str, str], list[str]] = {}
    for name, badges in rows:
        for badge in badges:
            names.setdefault((badge.code, badge.sentence), []).append(name)
    doubts = [Doubt((code,), tuple(of), sentence) for (code, sentence), of in names.items()]
    return sorted(doubts, key=lambda doubt: _rank(doubt.codes[0]))


def _rank(code: str) -> int:
    return BADGE_CODES.index(code) if code in BADGE_CODES else len(BADGE_CODES)
