"""Detection for one metric of one series: its changes, compared with the stored ones, and its status. Plain values.

Reported changes (confirmed, or in an incident) that are not detected now are retained if their level ended or is still
present: the detector evaluates the complete history each time, treats a short level between two equal ones as chance,
and may find a change near its threshold in one evaluation and not in the next.
"""

from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import VERSION, ChangePoint, bound_chance, judge_values
from benchapp.detection.changepoints.estimates import ShiftLevel, describe_level, measure_shift
from benchapp.detection.changepoints.segmentation import LEAST_LEVEL, take_median
from benchapp.detection.rules.baselines import (
    DetectedStep,
    describe_gradual_change,
    find_slope,
    has_trend,
    remove_slope,
    remove_trend,
)
from benchapp.detection.rules.evaluation_points import YOUNG_RUNS, find_young_change
from benchapp.detection.rules.noise_profile import (
    NoiseProfile,
    SeriesState,
    SpreadIncrease,
    StateResult,
    TwoStates,
    count_runs_needed,
    find_distinct_levels,
    find_spread_increase,
    find_two_states,
    is_return_to_state,
    judge_state,
    profile_noise,
)
from benchapp.detection.rules.recovery import (
    CONFIRMED_AFTER_RUNS,
    FAR_RUNS,
    LEAST_KNOWN_RUNS,
    MOST_KNOWN_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
    Suspicion,
    find_end,
    has_regressed_again,
    has_returned,
    suspect_newest,
)
from benchapp.models import ChangeState

Floats = NDArray[np.float64]

METHOD: Final = VERSION
# Runs from which detection starts, as in the detector.
RUNS_MINIMUM: Final = 6
# Multiple of the threshold that must be detectable, otherwise the series is too noisy. A quarter of real histories is
# (spread above 7.5 % for IOPS); with the threshold itself half of them would be.
_NOISY_FROM: Final = 4.0
# From which the noise is divided by levels that are no changes: for all series it would take a third of the evaluation.
_DIVIDED_FROM: Final = 2.0
# Two of three runs are outliers: once in 26 000 runs for noise with tails of t with 3 degrees of freedom.
_SUSPICION_CHANCE: Final = 1 / 26_000


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A detected change. index: of the first run of the new level; relative, low, high: relative to the old median.

    chance: that noise alone causes it anywhere in the segment; 0 if the storage stopped. separation: gap between all
    values before and after, as share of the shift; 0 if they overlap. is_lasting: detected 5 runs ago too, or certain.
    usual_spread: of comparable series, if this one was too young to know its own.
    """

    index: int
    before: ShiftLevel
    after: ShiftLevel
    relative: float
    low: float | None
    high: float | None
    chance: float
    t_score: float | None = None
    rank_score: float | None = None
    correlation: float | None = None
    separation: float = 0.0
    is_lasting: bool = False
    usual_spread: float | None = None

    @property
    def is_rise(self) -> bool:
        """Return whether the values increased."""
        return self.relative > 0


@dataclass(frozen=True, slots=True)
class MetricResult:
    """Result of one evaluation of a metric's valid values.

    level_start: index of the first value of the current level; level: its median, None without values. spread_increase,
    two_states: None if there are none. Changes between two states are not among the changes.
    """

    values: Floats
    changes: tuple[DetectedChange, ...]
    suspicion: DetectedChange | None
    profile: NoiseProfile
    state: StateResult
    level_start: int
    level: float | None
    spread_increase: SpreadIncrease | None
    two_states: TwoStates | None


def judge_metric(
    values: Floats,
    *,
    smallest_change: float,
    confirmed: Collection[tuple[int, bool]] = (),
    usual_spread: float | None = None,
) -> MetricResult:
    """Evaluate finite values, oldest first; smallest_change is the relative threshold.

    confirmed: index and direction (whether it rose) of confirmed changes, which are not checked again. usual_spread:
    relative, of comparable series, the prior of a young one; None to evaluate it without.
    """
    found = _find_changes(values, smallest_change, usual_spread) if len(values) >= RUNS_MINIMUM else []
    two_states = find_two_states(values, smallest_change=smallest_change)
    if two_states is not None:
        found = [
            change
            for change in found
            if not is_return_to_state(
                values,
                change.index,
                before_median=change.before.median,
                after_median=change.after.median,
                states=two_states,
            )
        ]
    stop = _find_stop(values)
    if stop is not None:
        found = [change for change in found if not _is_near(change, [(stop.index, False)])] + [stop]
    starts = [change.index for change in found]
    start = max(starts, default=0)
    fresh = [change for change in found if not _is_near(change, confirmed)]
    lasting = _find_lasting(values, fresh, smallest_change, usual_spread) if fresh else set()
    steps = [DetectedStep(change.index, is_rise=change.relative > 0) for change in found]
    slope = find_slope(values, steps, tolerated_change=smallest_change)
    if slope is None:
        flat = np.concatenate(
            (values[:start], remove_trend(values[start:], tolerated_change=smallest_change))
        )
        profile = profile_noise(flat, starts)
    else:
        drifting = values[slope.first :]
        start = slope.first + describe_gradual_change(drifting, tolerated_change=smallest_change).newest
        flat = np.concatenate((values[: slope.first], remove_slope(drifting)))
        profile = profile_noise(flat, [place for place in starts if place <= slope.first])
    if profile.smallest_change is not None and profile.smallest_change > _DIVIDED_FROM * smallest_change:
        # Noise is that within levels, also within those that are too short for a change, and around a line that is too
        # flat for a drift.
        if slope is None and has_trend(values[start:]):
            flat = np.concatenate((values[:start], remove_slope(values[start:])))
        profile = profile_noise(flat, [*starts, *find_distinct_levels(flat, smallest_change=smallest_change)])
    state = judge_state(profile, runs=len(values), wanted_change=_NOISY_FROM * smallest_change)
    return MetricResult(
        values=values,
        changes=tuple(
            replace(change, is_lasting=change is stop or (change.index, change.is_rise) in lasting)
            for change in found
            if change.relative
        ),
        suspicion=_suspect(values, starts, smallest_change),
        profile=profile,
        state=_add_runs_needed(state, profile, smallest_change),
        level_start=start,
        level=take_median(values[start:]) if len(values) else None,
        # Two states differ in spread whenever one of them is rarer for a while.
        spread_increase=None if two_states else find_spread_increase(values, starts),
        two_states=two_states,
    )


def is_back(values: Floats, index: int, *, before: ShiftLevel, after: ShiftLevel, was_back: bool) -> bool:
    """Return whether the values since a change at `index` are, or remain, back at the level before it."""
    since = values[index:].tolist()
    if was_back:
        return not has_regressed_again(since, before_median=before.median, after_median=after.median)
    return has_returned(
        since,
        before_median=before.median,
        after_median=after.median,
        spread=max(before.spread, after.spread),
    )


def find_ended(
    values: Floats, index: int, *, before: ShiftLevel, after: ShiftLevel, smallest_change: float
) -> DetectedChange | None:
    """Return a change at `index` as detected before its level ended; None if it lasts or was never detected.

    The detector treats a short level between two equal ones as chance; a confirmed change is kept after its end.
    """
    lasted = find_end(values[index:].tolist(), before_median=before.median, after_median=after.median)
    if index + lasted == len(values) or lasted < NEWEST_RUNS:
        return None
    found = _find_changes(values[: index + lasted], smallest_change)
    near = [change for change in found if _is_near(change, [(index, after.median > before.median)])]
    return min(
        (change for change in near if change.relative),
        key=lambda each: abs(each.index - index),
        default=None,
    )


def _find_changes(
    values: Floats, smallest_change: float, usual_spread: float | None = None
) -> list[DetectedChange]:
    """Return the changes that the detector finds; otherwise that of a young series."""
    points = judge_values(values, least_relative_change=smallest_change).changes
    if points or usual_spread is None or len(values) >= YOUNG_RUNS:
        return list(map(_describe_point, points))
    young = find_young_change(values, usual_spread=usual_spread, least_relative_change=smallest_change)
    if young is None:
        return []
    before, after = values[: young.index], values[young.index :]
    shift = measure_shift(before, after)
    return [
        DetectedChange(
            index=young.index,
            before=describe_level(before),
            after=describe_level(after),
            relative=shift.relative or 0.0,
            low=shift.low,
            high=shift.high,
            chance=bound_chance(young.t_score, len(values)),
            t_score=young.t_score,
            separation=young.gap,
            usual_spread=usual_spread,
        )
    ]


def _find_stop(values: Floats) -> DetectedChange | None:
    """Return the change to 0 of a storage that stopped: the newest runs are 0, at least two.

    It needs no statistics: noise does not make a positive level 0. Of the 60 runs before, earlier outages are left out;
    where single ones are 0, another may be, too.
    """
    is_positive = values > 0
    index = int(np.flatnonzero(is_positive)[-1]) + 1 if is_positive.any() else 0
    before, after = values[:index][-MOST_KNOWN_RUNS:], values[index:]
    edges = np.flatnonzero(np.diff(np.concatenate(([True], before > 0, [True]))))
    # One that began before these runs is cut off.
    outages = (edges[1::2] - edges[::2])[edges[::2] > 0]
    known = before[before > 0]
    is_certain = len(values) >= RUNS_MINIMUM and len(after) >= FAR_RUNS and not after.any()
    if not is_certain or (outages < FAR_RUNS).any() or len(known) < LEAST_LEVEL:
        return None
    return DetectedChange(index, describe_level(known), describe_level(after), -1.0, -1.0, -1.0, chance=0.0)


def _find_lasting(
    values: Floats, changes: Sequence[DetectedChange], smallest_change: float, usual_spread: float | None
) -> set[tuple[int, bool]]:
    """Return index and direction of changes that were detected 5 runs ago too, whenever it is evaluated."""
    earlier = values[:-CONFIRMED_AFTER_RUNS]
    if len(earlier) < RUNS_MINIMUM or changes[0].index >= len(earlier):
        return set()
    known = [
        (change.index, change.is_rise) for change in _find_changes(earlier, smallest_change, usual_spread)
    ]
    return {(change.index, change.is_rise) for change in changes if _is_near(change, known)}


def _is_near(change: DetectedChange, known: Collection[tuple[int, bool]]) -> bool:
    return any(
        is_rise == change.is_rise and abs(index - change.index) <= SAME_CHANGE_RUNS
        for index, is_rise in known
    )


def _describe_point(point: ChangePoint) -> DetectedChange:
    return DetectedChange(
        index=point.index,
        before=point.before,
        after=point.after,
        relative=point.shift.relative or 0.0,
        low=point.shift.low,
        high=point.shift.high,
        chance=point.chance,
        t_score=point.t_score,
        rank_score=point.rank_score,
        correlation=point.correlation,
        separation=point.separation,
    )


def _suspect(values: Floats, starts: Sequence[int], smallest_change: float) -> DetectedChange | None:
    start = max(starts, default=0)
    known = values[start:-NEWEST_RUNS][-MOST_KNOWN_RUNS:]
    # Values within the range of the level are never suspected: most evaluations end here, at 1 % of the cost.
    if len(known) < LEAST_KNOWN_RUNS or known.min() <= values[-1] <= known.max():
        return None
    suspicion = suspect_newest(values.tolist(), starts, least_relative_change=smallest_change)
    return _describe_suspicion(values, suspicion, start) if suspicion and suspicion.relative_change else None


def _describe_suspicion(values: Floats, suspicion: Suspicion, start: int) -> DetectedChange:
    before = values[start : suspicion.index][-MOST_KNOWN_RUNS:]
    after = values[suspicion.index :]
    shift = measure_shift(before, after)
    relative = suspicion.relative_change or 0.0
    level = describe_level(after)
    return DetectedChange(
        index=suspicion.index,
        before=describe_level(before),
        # A good run between two bad ones does not belong to the suspected level.
        after=ShiftLevel(describe_level(before).median * (1 + relative), level.spread, suspicion.far_runs),
        relative=relative,
        low=None if shift.low is None else min(shift.low, relative),
        high=None if shift.high is None else max(shift.high, relative),
        chance=_SUSPICION_CHANCE,
    )


def _add_runs_needed(state: StateResult, profile: NoiseProfile, smallest_change: float) -> StateResult:
    """Add the runs needed for a change of the threshold, also to a steady series."""
    is_noisy = profile.smallest_change is not None and profile.smallest_change > smallest_change
    if state.state == SeriesState.LEARNING or not is_noisy:
        return state
    return StateResult(state.state, count_runs_needed(profile, smallest_change))


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


def list_ended(
    values: Floats,
    stored: Sequence[StoredChange],
    detected: Sequence[DetectedChange],
    *,
    smallest_change: float,
    describe_levels: Callable[[DetectedChange], tuple[ShiftLevel, ShiftLevel]] | None = None,
) -> tuple[list[DetectedChange], frozenset[int]]:
    """Return reported changes that are not detected now because their level ended, as they were before its end.

    And the ids of those that stay as stored. describe_levels: the levels of a detected change as the next evaluation
    has them stored; None if those detected. A change that would end at another run by these is left as it is: each
    evaluation would find the other one again.
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
    return ended, frozenset(unchanged)


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
    # A level of 0 is certain, however short.
    return not change.after.median or _count_runs(values, change) >= NEWEST_RUNS


def _find_end(values: Floats, change: StoredChange) -> int:
    """Return the index of the first run after the level of a change."""
    return change.index + _count_runs(values, change)


def _count_runs(values: Floats, change: StoredChange) -> int:
    """Return how many runs the level of a change lasted."""
    since = values[change.index :].tolist()
    return find_end(since, before_median=change.before.median, after_median=change.after.median)
