"""Reconcile detected changes with stored ones: the same change is one row, also if its start shifts. Plain values.

Reported changes (confirmed, or in an incident) that are not detected now are retained if their level ended or is still
present: the detector evaluates the complete history each time, treats a short level between two equal ones as chance,
and may find a change near its threshold in one evaluation and not in the next.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.level_shift import ShiftLevel
from benchapp.detection.rules.recovery import find_end
from benchapp.detection.rules.suspicion_test import (
    CONFIRMED_AFTER_RUNS,
    FAR_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
)
from benchapp.detection.write.metric import DetectedChange, find_ended
from benchapp.models import ChangeState

Floats = NDArray[np.float64]

# Runs after which a suspected change without detection is withdrawn.
_PATIENCE_RUNS: Final = FAR_RUNS + CONFIRMED_AFTER_RUNS


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A stored change. index: of its first run among the evaluated values; before, after: the stored levels."""

    change_id: int
    state: ChangeState
    index: int
    is_rise: bool
    before: ShiftLevel
    after: ShiftLevel
    is_in_incident: bool = False

    @property
    def is_withdrawn(self) -> bool:
        """Return whether it is withdrawn."""
        return self.state == ChangeState.WITHDRAWN

    @property
    def is_reported(self) -> bool:
        """Return whether it is confirmed, or provisional and in an incident."""
        return self.state == ChangeState.CONFIRMED or (
            self.state == ChangeState.PROVISIONAL and self.is_in_incident
        )

    def is_same(self, detected: DetectedChange) -> bool:
        """Return whether a detected change is this one: the same direction within 5 runs."""
        return self.is_rise == detected.is_rise and abs(self.index - detected.index) <= SAME_CHANGE_RUNS


@dataclass(frozen=True, slots=True)
class Decision:
    """One row to write. change_id: None inserts it; detected: None leaves the values of a stored row unchanged."""

    change_id: int | None
    state: ChangeState
    detected: DetectedChange | None


def reconcile(
    stored: Sequence[StoredChange],
    detected: Sequence[DetectedChange],
    suspicion: DetectedChange | None,
    *,
    runs: int,
    retained: Container[int] = (),
) -> list[Decision]:
    """Return the rows of one metric to write: withdrawn ones first, then updated, then new.

    A change of the same direction within 5 runs is the same change; a withdrawn one is reused. runs: evaluated values.
    retained: ids of rows that are unchanged if not detected. Idempotent.
    """
    pairs = _match(stored, detected)
    decisions: list[Decision] = []
    for change in stored:
        match = pairs.get(change.change_id)
        if match is not None:
            decisions.append(Decision(change.change_id, _advance(change.state, match), match))
        elif change.change_id in retained:
            decisions.append(Decision(change.change_id, change.state, None))
        elif not change.is_withdrawn:
            decisions.append(_decide_undetected(change, suspicion, runs))
    matched = {id(match) for match in pairs.values()}
    decisions.extend(
        Decision(None, _advance(ChangeState.PROVISIONAL, change), change)
        for change in detected
        if id(change) not in matched
    )
    if suspicion and not _is_covered(suspicion, stored, decisions):
        decisions.append(_record_suspicion(suspicion, stored))
    return sorted(
        decisions, key=lambda decision: (decision.state != ChangeState.WITHDRAWN, decision.change_id is None)
    )


def _match(stored: Sequence[StoredChange], detected: Sequence[DetectedChange]) -> dict[int, DetectedChange]:
    """Return the detected change of each stored one by id, nearest pairs first, live rows before withdrawn ones."""
    candidates = sorted(
        (change.is_withdrawn, abs(change.index - found.index), -change.change_id, position)
        for change in stored
        for position, found in enumerate(detected)
        if change.is_same(found)
    )
    pairs: dict[int, DetectedChange] = {}
    matched_positions: set[int] = set()
    for _, _, negative_id, position in candidates:
        if -negative_id not in pairs and position not in matched_positions:
            matched_positions.add(position)
            pairs[-negative_id] = detected[position]
    return pairs


def _advance(state: ChangeState, detected: DetectedChange) -> ChangeState:
    is_confirmed = state == ChangeState.CONFIRMED or detected.is_lasting
    return ChangeState.CONFIRMED if is_confirmed else ChangeState.PROVISIONAL


def _decide_undetected(change: StoredChange, suspicion: DetectedChange | None, runs: int) -> Decision:
    """Withdraw a change that is not detected; a suspected one may wait, and a suspicion nearby retains it."""
    if suspicion and change.is_same(suspicion):
        values = suspicion if change.state == ChangeState.SUSPECTED else None
        return Decision(change.change_id, change.state, values)
    if change.state == ChangeState.SUSPECTED and runs - change.index < _PATIENCE_RUNS:
        return Decision(change.change_id, change.state, None)
    return Decision(change.change_id, ChangeState.WITHDRAWN, None)


def _is_covered(
    suspicion: DetectedChange, stored: Sequence[StoredChange], decisions: Sequence[Decision]
) -> bool:
    """Return whether a live change of either direction begins within 5 runs of the suspected one."""
    stored_indices = {change.change_id: change.index for change in stored}
    for decision in decisions:
        if decision.state == ChangeState.WITHDRAWN:
            continue
        index = decision.detected.index if decision.detected else stored_indices.get(decision.change_id or 0)
        if index is not None and abs(index - suspicion.index) <= SAME_CHANGE_RUNS:
            return True
    return False


def _record_suspicion(suspicion: DetectedChange, stored: Sequence[StoredChange]) -> Decision:
    """Reuse the newest withdrawn row of the same change, or insert one."""
    withdrawn_ids = [
        change.change_id for change in stored if change.is_withdrawn and change.is_same(suspicion)
    ]
    return Decision(max(withdrawn_ids, default=None), ChangeState.SUSPECTED, suspicion)


@dataclass(frozen=True, slots=True)
class EndedChanges:
    """Reported changes whose level ended. detected: as they are now; unchanged: ids of those that stay as stored."""

    detected: list[DetectedChange]
    unchanged: frozenset[int]


def list_ended(
    values: Floats,
    stored: Sequence[StoredChange],
    detected: Sequence[DetectedChange],
    *,
    smallest_change: float,
    describe_levels: Callable[[DetectedChange], tuple[ShiftLevel, ShiftLevel]] | None = None,
) -> EndedChanges:
    """Return reported changes that are not detected now because their level ended, as they were before its end.

    describe_levels: the levels of a detected change as the next evaluation has them stored; None if those detected. A
    change that would end at another run by these is left as it is: each evaluation would find the other one again.
    """
    ended: list[DetectedChange] = []
    unchanged: set[int] = set()
    for change in stored:
        others = [*detected, *ended]
        if not change.is_reported or any(map(change.is_same, others)) or not _has_lasted(values, change):
            continue
        found = find_ended(
            values, change.index, before=change.before, after=change.after, smallest_change=smallest_change
        )
        if found is None or any(found.index == other.index for other in others):
            continue
        before, after = describe_levels(found) if describe_levels else (found.before, found.after)
        stored_next = replace(change, index=found.index, before=before, after=after)
        if _find_end(values, stored_next) == _find_end(values, change):
            ended.append(found)
        else:
            unchanged.add(change.change_id)
    return EndedChanges(ended, frozenset(unchanged))


def find_retained(
    values: Floats, stored: Sequence[StoredChange], detected: Sequence[DetectedChange]
) -> frozenset[int]:
    """Return the ids of reported changes that are retained although they are not detected now.

    Both levels are still nearer to their stored medians than to each other, and no other change covers them.
    """
    return frozenset(
        change.change_id for change in stored if change.is_reported and _is_present(values, change, detected)
    )


def _is_present(values: Floats, change: StoredChange, detected: Sequence[DetectedChange]) -> bool:
    if change.index == 0 or not _has_lasted(values, change):
        return False
    first, end = max(change.index - change.before.points, 0), _find_end(values, change)
    if any(found.is_rise == change.is_rise and first < found.index < end for found in detected):
        return False
    middle = (change.before.median + change.after.median) / 2
    before, after = (
        float(np.median(values[first : change.index])),
        float(np.median(values[change.index : end])),
    )
    return before < middle < after if change.is_rise else after < middle < before


def _has_lasted(values: Floats, change: StoredChange) -> bool:
    return _count_runs(values, change) >= NEWEST_RUNS


def _find_end(values: Floats, change: StoredChange) -> int:
    """Return the index of the first run after the level of a change."""
    return change.index + _count_runs(values, change)


def _count_runs(values: Floats, change: StoredChange) -> int:
    """Return how many runs the level of a change lasted."""
    since = values[change.index :].tolist()
    return find_end(since, before_median=change.before.median, after_median=change.after.median)
