"""The same change is one row, also if its start shifts."""

from typing import Any

import numpy as np
import pytest

from benchapp.detection.changepoints.estimates import ShiftLevel
from benchapp.detection.write.metric import (
    DetectedChange,
    StoredChange,
    find_retained,
    judge_metric,
    list_ended,
    reconcile,
)
from benchapp.models import ChangeState

SUSPECTED, PROVISIONAL = ChangeState.SUSPECTED, ChangeState.PROVISIONAL
CONFIRMED, WITHDRAWN = ChangeState.CONFIRMED, ChangeState.WITHDRAWN


def found(index: int, *, relative: float = -0.2, is_lasting: bool = False) -> DetectedChange:
    level = ShiftLevel(1.0, 0.1, 10)
    return DetectedChange(
        index, level, level, relative=relative, low=None, high=None, chance=1e-6, is_lasting=is_lasting
    )


def row(
    change_id: int, index: int, state: ChangeState = PROVISIONAL, *, is_rise: bool = False
) -> StoredChange:
    level = ShiftLevel(1.0, 0.1, 10)
    return StoredChange(change_id, state, index, is_rise, before=level, after=level)


def decide(
    stored: list[StoredChange],
    detected: list[DetectedChange],
    *,
    suspicion: DetectedChange | None = None,
    runs: int = 60,
) -> list[tuple[Any, ...]]:
    decisions = reconcile(stored, detected, suspicion, runs=runs)
    return [(each.change_id, each.state.value, each.detected and each.detected.index) for each in decisions]


def test_new_change_is_a_new_row() -> None:
    assert decide([], [found(30)]) == [(None, "provisional", 30)]
    assert decide([], [found(30, is_lasting=True)]) == [(None, "confirmed", 30)]


def test_change_that_shifts_by_a_few_runs_is_the_same() -> None:
    assert decide([row(1, 30)], [found(33)]) == [(1, "provisional", 33)]
    assert decide([row(1, 30)], [found(36)]) == [(1, "withdrawn", None), (None, "provisional", 36)]


def test_other_direction_is_another_change() -> None:
    assert decide([row(1, 30, is_rise=True)], [found(30)]) == [
        (1, "withdrawn", None),
        (None, "provisional", 30),
    ]


def test_nearest_pair_matches_and_each_change_once() -> None:
    assert decide([row(1, 30), row(2, 34)], [found(33)]) == [(1, "withdrawn", None), (2, "provisional", 33)]
    assert decide([row(1, 30), row(2, 34)], [found(31), found(34)]) == [
        (1, "provisional", 31),
        (2, "provisional", 34),
    ]


def test_confirmed_change_stays_confirmed_while_it_is_detected() -> None:
    assert decide([row(1, 30, CONFIRMED)], [found(30)]) == [(1, "confirmed", 30)]
    assert decide([row(1, 30, CONFIRMED)], []) == [(1, "withdrawn", None)]


def test_withdrawn_row_is_reused_after_live_ones() -> None:
    assert decide([row(1, 30, WITHDRAWN)], [found(31)]) == [(1, "provisional", 31)]
    assert decide([row(1, 31, WITHDRAWN), row(2, 33)], [found(31)]) == [(2, "provisional", 31)]
    assert decide([row(1, 30, WITHDRAWN)], []) == []


def test_suspicion_waits_for_its_change() -> None:
    suspected = [row(1, 58, SUSPECTED)]

    assert decide([], [], suspicion=found(58)) == [(None, "suspected", 58)]
    assert decide(suspected, [], suspicion=found(58)) == [(1, "suspected", 58)]
    assert decide(suspected, [], runs=64) == [(1, "suspected", None)]
    assert decide(suspected, [], runs=65) == [(1, "withdrawn", None)]
    assert decide(suspected, [found(57)]) == [(1, "provisional", 57)]


def test_suspicion_near_a_change_retains_it() -> None:
    assert decide([], [found(57)], suspicion=found(58)) == [(None, "provisional", 57)]
    assert decide([row(1, 57)], [], suspicion=found(58)) == [(1, "provisional", None)]


def test_suspicion_reuses_a_withdrawn_row() -> None:
    assert decide([row(1, 58, WITHDRAWN)], [], suspicion=found(58)) == [(1, "suspected", 58)]


def test_retained_row_is_unchanged_and_detected_row_is_updated() -> None:
    rows = [row(1, 30), row(2, 50, CONFIRMED)]

    decisions = reconcile(rows, [found(33)], None, runs=60, retained={1, 2})

    assert [(each.change_id, each.state, each.detected and each.detected.index) for each in decisions] == [
        (1, PROVISIONAL, 33),
        (2, CONFIRMED, None),
    ]


def test_reconcile_is_idempotent() -> None:
    first = reconcile([], [found(30)], None, runs=60)

    assert decide([row(1, 30, first[0].state)], [found(30)]) == [(1, "provisional", 30)]


@pytest.mark.parametrize("seed", [20, 47])
def test_change_that_ended_is_the_same_in_each_evaluation(seed: int) -> None:
    """Three good runs within a low level: it ends before them by its mean, and after them by that of its beginning."""
    noise = np.random.default_rng(seed).standard_normal(104)
    levels = np.repeat([1.0, 0.966, 0.982, 0.945, 1.0], [60, 8, 3, 13, 20])
    values = levels * (1 + 0.012 * noise)
    stored = StoredChange(
        1, CONFIRMED, 60, False, before=ShiftLevel(1.0, 0.012, 60), after=ShiftLevel(0.953, 0.012, 24)
    )
    evaluated, unchanged = [], set()
    for _ in range(4):
        detected = list(judge_metric(values, smallest_change=0.02, confirmed=[(stored.index, False)]).changes)
        ended, left = list_ended(values, [stored], detected, smallest_change=0.02)
        detected += ended
        unchanged |= left
        retained = find_retained(values, [stored], detected) | left
        (decision,) = [
            decision
            for decision in reconcile([stored], detected, None, runs=len(values), retained=retained)
            if decision.change_id
        ]
        if found := decision.detected:
            stored = StoredChange(1, decision.state, found.index, False, found.before, found.after)
        evaluated.append((decision.state, stored.index, stored.after))

    assert [state for state, *_ in evaluated] == [CONFIRMED] * 4
    assert len(set(evaluated)) == 1
    # It is retained, whatever other changes are near it.
    assert unchanged == {1}
