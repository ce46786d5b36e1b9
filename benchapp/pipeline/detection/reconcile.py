"""Bring what is found now together with what was found before: the same change is one row, whatever moved it. Plain.

What was said of a metric and is not found now: it is over, or the detector wavers; else it is withdrawn. Plain.

Said is what was confirmed, and what is in an incident. The detector weighs a whole history each time: a short level
between two that are the same it takes for chance, and one near its threshold it finds today and not tomorrow.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.changepoints.level_shift_v1 import ShiftLevel
from benchapp.analysis.detection.recovery import LEAST_RUNS, find_end
from benchapp.analysis.detection.suspicion_test import (
    CONFIRMED_AFTER_RUNS,
    FAR_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
)
from benchapp.models import ChangeState
from benchapp.pipeline.detection.metric import DetectedChange, find_ended
from benchapp.pipeline.detection.rows import Row

# Runs that a suspicion waits for its change before it is withdrawn.
_PATIENCE_RUNS: Final = FAR_RUNS + CONFIRMED_AFTER_RUNS


@dataclass(frozen=True, slots=True)
class StoredChange:
    """A change that has a row. index: where its first run is now among those judged; at: the row's, in µs."""

    change_id: int
    state: ChangeState
    index: int
    at: int
    is_rise: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """One row to be: change_id None is a new one; found None leaves the figures as they are."""

    change_id: int | None
    state: ChangeState
    found: DetectedChange | None


def reconcile(
    known: Sequence[StoredChange],
    changes: Sequence[DetectedChange],
    suspicion: DetectedChange | None,
    *,
    runs: int,
    standing: Container[int] = (),
) -> list[Decision]:
    """Return what becomes of the rows of one metric, and which are new; withdrawn ones first, then moved, then new.

    A change of the same direction within 5 runs is the same change; one that was withdrawn comes back as itself.
    standing: ids of rows that stay as they are where they are not found. Nothing depends on how often it is asked.
    """
    pairs = dict(_match(known, changes))
    matched = {id(found) for found in pairs.values()}
    decisions = []
    for row in known:
        if row.change_id in pairs:
            found = pairs[row.change_id]
            decisions.append(Decision(row.change_id, _advance(row.state, found), found))
        elif row.change_id in standing:
            decisions.append(Decision(row.change_id, row.state, None))
        elif row.state != ChangeState.WITHDRAWN:
            decisions.append(_doubt(row, suspicion, runs))
    decisions.extend(
        Decision(None, _advance(ChangeState.PROVISIONAL, found), found)
        for found in changes
        if id(found) not in matched
    )
    if suspicion and not _is_told(suspicion, known, decisions):
        decisions.append(_suspect(suspicion, known))
    return sorted(
        decisions, key=lambda decision: (decision.state != ChangeState.WITHDRAWN, decision.change_id is None)
    )


def is_same(row: StoredChange, found: DetectedChange) -> bool:
    """Say whether a finding is the change of a row: the same direction within 5 runs."""
    return row.is_rise == found.is_rise and abs(row.index - found.index) <= SAME_CHANGE_RUNS


def _match(
    known: Sequence[StoredChange], changes: Sequence[DetectedChange]
) -> Iterator[tuple[int, DetectedChange]]:
    """Pair rows and findings, the nearest first; rows that live before those that were withdrawn."""
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


def _doubt(row: StoredChange, suspicion: DetectedChange | None, runs: int) -> Decision:
    """Withdraw what is found no more; a suspicion may wait for its change, and upholds what is near to it."""
    if suspicion and is_same(row, suspicion):
        found = suspicion if row.state == ChangeState.SUSPECTED else None
        return Decision(row.change_id, row.state, found)
    if row.state == ChangeState.SUSPECTED and runs - row.index < _PATIENCE_RUNS:
        return Decision(row.change_id, row.state, None)
    return Decision(row.change_id, ChangeState.WITHDRAWN, None)


def _is_told(suspicion: DetectedChange, known: Sequence[StoredChange], decisions: Sequence[Decision]) -> bool:
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
    said: Sequence[StoredChange],
    rows: Mapping[int, Row],
    *,
    smallest_change: float,
) -> list[DetectedChange]:
    """Return those that are not found any more because they are over: they are kept as they were before their end."""
    ended: list[DetectedChange] = []
    for row in said:
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
    values: Floats, changes: Sequence[DetectedChange], said: Sequence[StoredChange], rows: Mapping[int, Row]
) -> frozenset[int]:
    """Return the ids of those that stay as they are though the detector is in two minds about them.

    Both levels are still nearer to what was said of them than to each other, and no other change tells the same.
    """
    return frozenset(
        row.change_id for row in said if _is_standing(values, changes, row, *read_levels(rows[row.change_id]))
    )


def read_levels(row: Row) -> tuple[ShiftLevel, ShiftLevel]:
    """Return the levels before and after a change, as its row has them."""
    before, after = (
        ShiftLevel(row[f"{side}_median"], row[f"{side}_spread"], row[f"{side}_n"])
        for side in ("before", "after")
    )
    return before, after


def _is_standing(
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
    """Say whether a level is long enough not to be taken back: if it is over unconfirmed, as long as confirming takes.

    Over is what three runs say: one or two that are good again may be luck.
    """
    lasted = _count_runs(values, row, before, after)
    is_over = len(values) - row.index - lasted >= LEAST_RUNS
    is_young = is_over and row.state != ChangeState.CONFIRMED
    return lasted >= (CONFIRMED_AFTER_RUNS if is_young else NEWEST_RUNS)


def _count_runs(values: Floats, row: StoredChange, before: ShiftLevel, after: ShiftLevel) -> int:
    return find_end(values[row.index :].tolist(), before_median=before.median, after_median=after.median)
