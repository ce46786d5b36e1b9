"""Reconcile detected changes with stored ones: the same change is one row, also if its start shifts. Plain values.

Reported changes (confirmed, or in an incident) that are not detected now are kept if their level ended or is still
present: the detector evaluates the complete history each time, treats a short level between two equal ones as chance,
and may find a change near its threshold in one evaluation and not in the next.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.changepoints.level_shift_v1 import ShiftLevel
from benchapp.analysis.detection.recovery import RUNS_MINIMUM, find_end
from benchapp.analysis.detection.suspicion_test import (
    CONFIRMED_AFTER_RUNS,
    FAR_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
)
from benchapp.models import ChangeState
from benchapp.pipeline.detection.metric import DetectedChange, find_ended
from benchapp.pipeline.detection.rows import Row

# Runs after which a suspected change without detection is withdrawn.
_PATIENCE_RUNS: Final = FAR_RUNS + CONFIRMED_AFTER_RUNS


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A stored change. index: of its first run among those evaluated; at: its start, in µs."""

    change_id: int
    state: ChangeState
    index: int
    at: int
    is_rise: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """One row to write. change_id: None for a new one; found: None leaves the values unchanged."""

    change_id: int | None
    state: ChangeState
    found: DetectedChange | None


def reconcile(
    known: Sequence[StoredChange],
    changes: Sequence[DetectedChange],
    suspicion: DetectedChange | None,
    *,
    runs: int,
    retained: Container[int] = (),
) -> list[Decision]:
    """Return the rows of one metric to write: withdrawn ones first, then updated, then new.

    A change of the same direction within 5 runs is the same change; a withdrawn one is reused. retained: ids of rows
    that are unchanged if not detected. Idempotent.
    """
    pairs = dict(_match(known, changes))
    matched = {id(found) for found in pairs.values()}
    decisions = []
    for row in known:
        if row.change_id in pairs:
            found = pairs[row.change_id]
            decisions.append(Decision(row.change_id, _advance(row.state, found), found))
        elif row.change_id in retained:
            decisions.append(Decision(row.change_id, row.state, None))
        elif row.state != ChangeState.WITHDRAWN:
            decisions.append(_check_missing(row, suspicion, runs))
    decisions.extend(
        Decision(None, _advance(ChangeState.PROVISIONAL, found), found)
        for found in changes
        if id(found) not in matched
    )
    if suspicion and not _is_covered(suspicion, known, decisions):
        decisions.append(_suspect(suspicion, known))
    return sorted(
        decisions, key=lambda decision: (decision.state != ChangeState.WITHDRAWN, decision.change_id is None)
    )


def is_same(row: StoredChange, found: DetectedChange) -> bool:
    """Return whether a detected change is the stored one: the same direction within 5 runs."""
    return row.is_rise == found.is_rise and abs(row.index - found.index) <= SAME_CHANGE_RUNS


def _match(
    known: Sequence[StoredChange], changes: Sequence[DetectedChange]
) -> Iterator[tuple[int, DetectedChange]]:
    """Pair stored and detected changes, nearest first; live rows before withdrawn ones."""
    candidates = sorted(
        (row.state == ChangeState.WITHDRAWN, abs(row.index - found.index), -row.change_id, place)
        for row in known
        for place, found in enumerate(changes)
        if row.is_rise == found.is_rise and abs(row.index - found.index) <= SAME_CHANGE_RUNS
    )
    rows, places = set(), set()
    for _, _, negative_id, place in candidates:
        if -negative_id not in rows and place not in places:
            rows.add(-negative_id)
            places.add(place)
            yield -negative_id, changes[place]


def _advance(state: ChangeState, found: DetectedChange) -> ChangeState:
    is_confirmed = state == ChangeState.CONFIRMED or found.is_lasting
    return ChangeState.CONFIRMED if is_confirmed else ChangeState.PROVISIONAL


def _check_missing(row: StoredChange, suspicion: DetectedChange | None, runs: int) -> Decision:
    """Withdraw a change that is not detected; a suspected one may wait, and a suspicion nearby retains it."""
    if suspicion and is_same(row, suspicion):
        found = suspicion if row.state == ChangeState.SUSPECTED else None
        return Decision(row.change_id, row.state, found)
    if row.state == ChangeState.SUSPECTED and runs - row.index < _PATIENCE_RUNS:
        return Decision(row.change_id, row.state, None)
    return Decision(row.change_id, ChangeState.WITHDRAWN, None)


def _is_covered(
    suspicion: DetectedChange, known: Sequence[StoredChange], decisions: Sequence[Decision]
) -> bool:
    places = {row.change_id: row.index for row in known}
    for decision in decisions:
        if decision.state == ChangeState.WITHDRAWN:
            continue
        index = decision.found.index if decision.found else places.get(decision.change_id or 0)
        if index is not None and abs(index - suspicion.index) <= SAME_CHANGE_RUNS:
            return True
    return False


def _suspect(suspicion: DetectedChange, known: Sequence[StoredChange]) -> Decision:
    before = [row for row in known if row.state == ChangeState.WITHDRAWN and is_same(row, suspicion)]
    newest = max(before, key=lambda row: row.change_id, default=None)
    return Decision(newest.change_id if newest else None, ChangeState.SUSPECTED, suspicion)


Floats = NDArray[np.float64]


def list_reported_changes(known: Sequence[StoredChange], rows: Mapping[int, Row]) -> list[StoredChange]:
    """Return the changes that were confirmed, and the provisional ones that are in an incident."""
    return [
        row
        for row in known
        if row.state == ChangeState.CONFIRMED
        or (row.state == ChangeState.PROVISIONAL and rows[row.change_id]["incident_id"] is not None)
    ]


def list_ended(
    values: Floats,
    changes: Sequence[DetectedChange],
    reported: Sequence[StoredChange],
    rows: Mapping[int, Row],
    *,
    smallest_change: float,
) -> list[DetectedChange]:
    """Return changes that are not detected any more because their level ended, as they were before its end."""
    ended: list[DetectedChange] = []
    for row in reported:
        if any(is_same(row, found) for found in [*changes, *ended]):
            continue
        before, after = read_levels(rows[row.change_id])
        if not _has_lasted(values, row, before, after):
            continue
        found = find_ended(values, row.index, before=before, after=after, smallest_change=smallest_change)
        if found is not None and not any(found.index == other.index for other in [*changes, *ended]):
            ended.append(found)
    return ended


def find_retained(
    values: Floats,
    changes: Sequence[DetectedChange],
    reported: Sequence[StoredChange],
    rows: Mapping[int, Row],
) -> frozenset[int]:
    """Return the ids of reported changes that are retained although they are not detected now.

    Both levels are still nearer to their stored medians than to each other, and no other change covers them.
    """
    return frozenset(
        row.change_id
        for row in reported
        if _is_present(values, changes, row, *read_levels(rows[row.change_id]))
    )


def read_levels(row: Row) -> tuple[ShiftLevel, ShiftLevel]:
    """Return the stored levels before and after a change."""
    before, after = (
        ShiftLevel(row[f"{side}_median"], row[f"{side}_spread"], row[f"{side}_n"])
        for side in ("before", "after")
    )
    return before, after


def _is_present(
    values: Floats,
    changes: Sequence[DetectedChange],
    row: StoredChange,
    before: ShiftLevel,
    after: ShiftLevel,
) -> bool:
    if row.index == 0 or not _has_lasted(values, row, before, after):
        return False
    first, end = max(row.index - before.points, 0), row.index + _count_runs(values, row, before, after)
    if any(found.is_rise == row.is_rise and first < found.index < end for found in changes):
        return False
    middle = (before.median + after.median) / 2
    old, new = float(np.median(values[first : row.index])), float(np.median(values[row.index : end]))
    return old < middle < new if row.is_rise else new < middle < old


def _has_lasted(values: Floats, row: StoredChange, before: ShiftLevel, after: ShiftLevel) -> bool:
    """Return whether a level lasted long enough to be retained: five runs if it ended unconfirmed.

    Three runs end a level; one or two good runs can be chance.
    """
    lasted = _count_runs(values, row, before, after)
    has_ended = len(values) - row.index - lasted >= RUNS_MINIMUM
    is_young = has_ended and row.state != ChangeState.CONFIRMED
    return lasted >= (CONFIRMED_AFTER_RUNS if is_young else NEWEST_RUNS)


def _count_runs(values: Floats, row: StoredChange, before: ShiftLevel, after: ShiftLevel) -> int:
    return find_end(values[row.index :].tolist(), before_median=before.median, after_median=after.median)
