"""Test for suspected changes, and the states of a finding: suspected, provisional, confirmed, withdrawn.

A finding that does not last is withdrawn and stays in the list.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

import numpy as np

from benchapp.analysis.changepoints.level_shift_v1 import describe_level
from benchapp.analysis.changepoints.v1 import LEAST_RELATIVE_CHANGE, ChangePoint
from benchapp.analysis.detection.noise_profile import profile_noise

# Minimum known runs of the current level, and the maximum that are read.
LEAST_KNOWN_RUNS: Final = 10
MOST_KNOWN_RUNS: Final = 60
# Newest runs that are tested, and how many of them must be outliers: a single one is a spike.
NEWEST_RUNS: Final = 3
FAR_RUNS: Final = 2
# Spreads. The newest and one of two earlier runs exceed it on one side once in 250 million runs for Gaussian noise,
# once in 26 000 for tails of t with 3 degrees of freedom.
FAR_SPREADS: Final = 4.0
# Runs by which the start of a change may shift without being another change.
SAME_CHANGE_RUNS: Final = 5
# Runs for which a change must be detected to be confirmed, and after which a suspicion expires.
CONFIRMED_AFTER_RUNS: Final = 5

# One false in 10 000, in 100, in 10.
CONFIDENCE_WORDS: Final = ((0.9999, "practically certain"), (0.99, "very likely"), (0.9, "likely"))


class Stage(StrEnum):
    """Suspected: the newest runs are outliers; run again. Provisional: a new level of three runs or more is detected.
    Confirmed: it persists after 5 runs. Withdrawn: it did not last."""

    SUSPECTED = "suspected"
    PROVISIONAL = "provisional"
    CONFIRMED = "confirmed"
    WITHDRAWN = "withdrawn"


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The newest runs from `index` on are outliers of the current level; relative to its median, None if that is 0."""

    index: int
    far_runs: int
    relative_change: float | None
    spreads: float


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding at an index of a series; run counts are numbers of values known at the time.

    `index` is where it is now, `first_index` where it was first seen; `change` is None while suspected, and the last
    one that was found when withdrawn.
    """

    stage: Stage
    index: int
    first_index: int
    first_seen_runs: int
    change: ChangePoint | None = None
    found_since_runs: int | None = None


def suspect_newest(
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    least_relative_change: float = LEAST_RELATIVE_CHANGE,
) -> Suspicion | None:
    """Return a suspicion if the newest value and one of the two before are outliers of the current level on one side.

    Far: 4 spreads from its median, beyond all that the level has ever shown, and by the least relative change. The
    present level begins at the last of the changes' indices and is known from 10 runs on. Values that are not finite
    are passed over.
    """
    start = max((index for index in changes if 0 < index < len(values)), default=0)
    finite = [index for index in range(start, len(values)) if math.isfinite(values[index])]
    known, newest = finite[:-NEWEST_RUNS][-MOST_KNOWN_RUNS:], finite[-NEWEST_RUNS:]
    if len(known) < LEAST_KNOWN_RUNS or newest[-1] != len(values) - 1:
        return None
    level = np.array([values[index] for index in known], dtype=np.float64)
    median = describe_level(level).median
    spread = max(profile_noise(level).spread, LEAST_RELATIVE_CHANGE / 10) * abs(median)
    side = 1 if values[newest[-1]] > median else -1
    beyond = float((level * side).max())
    reach = max(FAR_SPREADS * spread, least_relative_change * abs(median))
    far = [
        index for index in newest if (values[index] - median) * side > reach and values[index] * side > beyond
    ]
    if len(far) < FAR_RUNS or far[-1] != newest[-1]:
        return None
    distance = describe_level(np.array([values[index] for index in far])).median - median
    return Suspicion(
        index=far[0],
        far_runs=len(far),
        relative_change=distance / abs(median) if median else None,
        spreads=abs(distance) / spread if spread > 0 else math.inf,
    )


def describe_confidence(confidence: float) -> str:
    """Return a change's confidence (0 to 1) in words: practically certain, very likely, likely or uncertain."""
    return next((words for least, words in CONFIDENCE_WORDS if confidence >= least), "uncertain")


def track_findings(
    findings: Iterable[Finding], changes: Iterable[ChangePoint], suspicion: Suspicion | None, *, runs: int
) -> tuple[Finding, ...]:
    """Return the findings after `runs` values, given the earlier ones: updated, added or withdrawn; by first index.

    A change within 5 runs of a finding is that finding. Idempotent for the same count.
    """
    waiting = list(changes)
    tracked = []
    for finding in findings:
        change = _take_nearest(waiting, finding.index) if finding.stage != Stage.WITHDRAWN else None
        tracked.append(
            _advance(finding, change, runs) if change else _check_missing(finding, suspicion, runs)
        )
    tracked.extend(_begin(change, runs) for change in waiting)
    if suspicion and not any(_is_open_near(finding, suspicion.index) for finding in tracked):
        tracked.append(Finding(Stage.SUSPECTED, suspicion.index, suspicion.index, runs))
    return tuple(sorted(tracked, key=lambda finding: (finding.first_index, finding.first_seen_runs)))


def _take_nearest(changes: list[ChangePoint], index: int) -> ChangePoint | None:
    near = [change for change in changes if abs(change.index - index) <= SAME_CHANGE_RUNS]
    if not near:
        return None
    nearest = min(near, key=lambda change: abs(change.index - index))
    changes.remove(nearest)
    return nearest


def _begin(change: ChangePoint, runs: int) -> Finding:
    return Finding(_stage(runs, runs), change.index, change.index, runs, change, runs)


def _advance(finding: Finding, change: ChangePoint, runs: int) -> Finding:
    since = runs if finding.found_since_runs is None else finding.found_since_runs
    stage = finding.stage if finding.stage == Stage.CONFIRMED else _stage(since, runs)
    return replace(finding, stage=stage, index=change.index, change=change, found_since_runs=since)


def _check_missing(finding: Finding, suspicion: Suspicion | None, runs: int) -> Finding:
    """Withdraw what is no longer detected; a suspicion expires 5 runs after it was last suspected."""
    if finding.stage == Stage.WITHDRAWN:
        return finding
    is_upheld = suspicion is not None and abs(suspicion.index - finding.index) <= SAME_CHANGE_RUNS
    is_young = runs - finding.first_seen_runs < CONFIRMED_AFTER_RUNS
    if finding.stage == Stage.SUSPECTED and (is_upheld or is_young):
        return finding
    return replace(finding, stage=Stage.WITHDRAWN)


def _stage(since: int, runs: int) -> Stage:
    return Stage.CONFIRMED if runs - since >= CONFIRMED_AFTER_RUNS else Stage.PROVISIONAL


def _is_open_near(finding: Finding, index: int) -> bool:
    return finding.stage != Stage.WITHDRAWN and abs(finding.index - index) <= SAME_CHANGE_RUNS
