"""Detection for one metric of one series: changes, a suspected change, and the detection status. Plain values."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import VERSION, ChangePoint, bound_chance, judge_values
from benchapp.detection.changepoints.level_shift import ShiftLevel, describe_level, measure_shift
from benchapp.detection.changepoints.segmentation import take_median
from benchapp.detection.rules.baselines import remove_trend
from benchapp.detection.rules.gradual_change import describe_gradual_change, remove_slope
from benchapp.detection.rules.noise_profile import (
    NoiseProfile,
    SeriesState,
    StateResult,
    count_runs_needed,
    find_distinct_levels,
    judge_state,
    profile_noise,
)
from benchapp.detection.rules.recovery import find_end, has_regressed_again, has_returned
from benchapp.detection.rules.slope import DetectedStep, find_slope
from benchapp.detection.rules.suspicion_test import (
    CONFIRMED_AFTER_RUNS,
    LEAST_KNOWN_RUNS,
    MOST_KNOWN_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
    Suspicion,
    suspect_newest,
)
from benchapp.detection.rules.variability import (
    SpreadIncrease,
    TwoStates,
    find_spread_increase,
    find_two_states,
    is_return_to_state,
)
from benchapp.detection.rules.young_series import YOUNG_RUNS, find_young_change

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

    chance: that noise alone causes it anywhere in the segment. separation: gap between all values before and after, as
    share of the shift; 0 if they overlap. is_lasting: detected 5 runs ago too. usual_spread: of comparable series, if
    this one was too young to know its own.
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
        # Noise is that within levels, also within those that are too short for a change.
        profile = profile_noise(flat, [*starts, *find_distinct_levels(flat, smallest_change=smallest_change)])
    state = judge_state(profile, runs=len(values), wanted_change=_NOISY_FROM * smallest_change)
    return MetricResult(
        values=values,
        changes=tuple(
            replace(change, is_lasting=(change.index, change.is_rise) in lasting)
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
