"""Judge one metric of one series: its changes, a suspicion, and how far it can be judged at all. Plain values."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.changepoints.level_shift_v1 import ShiftLevel, describe_level, measure_shift
from benchapp.analysis.changepoints.versions import CURRENT, ChangePoint
from benchapp.analysis.detection.noise_profile import (
    NoiseProfile,
    SeriesState,
    StateJudgement,
    count_runs_needed,
    judge_state,
    profile_noise,
)
from benchapp.analysis.detection.recovery import find_end, has_relapsed, has_returned
from benchapp.analysis.detection.suspicion_test import (
    CONFIRMED_AFTER_RUNS,
    LEAST_KNOWN_RUNS,
    MOST_KNOWN_RUNS,
    NEWEST_RUNS,
    SAME_CHANGE_RUNS,
    Suspicion,
    suspect_newest,
)

Floats = NDArray[np.float64]

METHOD: Final = CURRENT.version
# Runs before a series is judged at all, as the detector has it.
LEAST_RUNS: Final = 6
# Times the smallest change worth saying: a series in which not even that would be found is too noisy to judge. Of real
# histories a quarter is (spread above 7.5 % for IOPS); at once the smallest change itself half of them would be.
_NOISY_FROM: Final = 4.0
# Two of three runs far out: once in 26 000 runs where the noise has the tails of t with 3 degrees of freedom.
_SUSPICION_CHANCE: Final = 1 / 26_000


@dataclass(frozen=True, slots=True)
class DetectedChange:
    """A new level as it was found. index: of its first run; relative, low, high: of the old median.

    chance: that noise alone looks like this anywhere in the stretch. is_lasting: found 5 runs ago too.
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
    is_lasting: bool = False

    @property
    def is_rise(self) -> bool:
        """Say whether the values went up."""
        return self.relative > 0


@dataclass(frozen=True, slots=True)
class MetricJudgement:
    """What one look at a metric's valid values said. level: median of the present one, None where there is none."""

    values: Floats
    changes: tuple[DetectedChange, ...]
    suspicion: DetectedChange | None
    profile: NoiseProfile
    state: StateJudgement
    level: float | None


def judge_metric(
    values: Floats, *, smallest_change: float, confirmed: Collection[tuple[int, bool]] = ()
) -> MetricJudgement:
    """Judge finite values, oldest first; smallest_change is the relative one worth saying.

    confirmed: place and direction (whether it rose) of the changes that need not be confirmed again.
    """
    points = _find_points(values, smallest_change) if len(values) >= LEAST_RUNS else []
    starts = [point.index for point in points]
    fresh = [point for point in points if not _is_near(point, confirmed)]
    lasting = _find_lasting(values, fresh, smallest_change) if fresh else set()
    profile = profile_noise(values, starts)
    state = judge_state(profile, runs=len(values), wanted_change=_NOISY_FROM * smallest_change)
    return MetricJudgement(
        values=values,
        changes=tuple(_describe_point(point, lasting) for point in points if point.shift.relative),
        suspicion=_suspect(values, starts, smallest_change),
        profile=profile,
        state=_say_runs_needed(state, profile, smallest_change),
        level=float(np.median(values[max(starts, default=0) :])) if len(values) else None,
    )


def is_back(values: Floats, index: int, *, before: ShiftLevel, after: ShiftLevel, was_back: bool) -> bool:
    """Say whether the values since a change at `index` are back at the level before it, or were and still are."""
    since = values[index:].tolist()
    if was_back:
        return not has_relapsed(since, before_median=before.median, after_median=after.median)
    return has_returned(
        since,
        before_median=before.median,
        after_median=after.median,
        spread=max(before.spread, after.spread),
    )


def find_ended(
    values: Floats, index: int, *, before: ShiftLevel, after: ShiftLevel, smallest_change: float
) -> DetectedChange | None:
    """Return a change at `index` as it was found before its level ended; None where it lasts or never was.

    The detector takes a short level between two that are the same for chance, unless it is plain; what was confirmed
    while it lasted, and is over, happened all the same.
    """
    lasted = find_end(values[index:].tolist(), before_median=before.median, after_median=after.median)
    if index + lasted == len(values) or lasted < NEWEST_RUNS:
        return None
    points = _find_points(values[: index + lasted], smallest_change)
    near = [point for point in points if _is_near(point, [(index, after.median > before.median)])]
    found = [_describe_point(point, set()) for point in near if point.shift.relative]
    return min(found, key=lambda each: abs(each.index - index), default=None)


def _find_points(values: Floats, smallest_change: float) -> Sequence[ChangePoint]:
    return CURRENT.judge_values(values, least_relative_change=smallest_change).changes


def _find_lasting(
    values: Floats, points: Sequence[ChangePoint], smallest_change: float
) -> set[tuple[int, bool]]:
    """Return place and direction of what was found 5 runs ago too: the same answer whenever it is asked for."""
    earlier = values[:-CONFIRMED_AFTER_RUNS]
    if len(earlier) < LEAST_RUNS or points[0].index >= len(earlier):
        return set()
    known = [(point.index, _is_rise(point)) for point in _find_points(earlier, smallest_change)]
    return {(point.index, _is_rise(point)) for point in points if _is_near(point, known)}


def _is_near(point: ChangePoint, known: Collection[tuple[int, bool]]) -> bool:
    return any(
        is_rise == _is_rise(point) and abs(index - point.index) <= SAME_CHANGE_RUNS
        for index, is_rise in known
    )


def _is_rise(point: ChangePoint) -> bool:
    return (point.shift.relative or 0) > 0


def _describe_point(point: ChangePoint, lasting: set[tuple[int, bool]]) -> DetectedChange:
    score = min(point.t_score, point.rank_score)
    places = point.before.points + point.after.points
    return DetectedChange(
        index=point.index,
        before=point.before,
        after=point.after,
        relative=point.shift.relative or 0.0,
        low=point.shift.low,
        high=point.shift.high,
        # The detector's confidence is 1 less this; kept apart since 1 − 1e-20 is 1.
        chance=min(places * math.erfc(max(score, 0.0) / math.sqrt(2)), 1.0),
        t_score=point.t_score,
        rank_score=point.rank_score,
        correlation=point.correlation,
        is_lasting=(point.index, _is_rise(point)) in lasting,
    )


def _suspect(values: Floats, starts: Sequence[int], smallest_change: float) -> DetectedChange | None:
    start = max(starts, default=0)
    known = values[start:-NEWEST_RUNS][-MOST_KNOWN_RUNS:]
    # What the level has shown before is never suspected: most looks end here, for a hundredth of the whole cost.
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
        # A good run between two bad ones is not of the level that is suspected.
        after=ShiftLevel(describe_level(before).median * (1 + relative), level.spread, suspicion.far_runs),
        relative=relative,
        low=None if shift.low is None else min(shift.low, relative),
        high=None if shift.high is None else max(shift.high, relative),
        chance=_SUSPICION_CHANCE,
    )


def _say_runs_needed(state: StateJudgement, profile: NoiseProfile, smallest_change: float) -> StateJudgement:
    """Count also for a steady series, of which large changes are found and the smallest worth saying are not."""
    is_rough = profile.smallest_change is not None and profile.smallest_change > smallest_change
    if state.state == SeriesState.LEARNING or not is_rough:
        return state
    return StateJudgement(state.state, count_runs_needed(profile, smallest_change))
