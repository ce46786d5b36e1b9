"""Baselines: the current level, an accepted one; drift from them, gradual changes, and whether slope or steps. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.estimates import (
    MOST_CORRELATION,
    Shift,
    ShiftLevel,
    clip_spikes,
    describe_level,
    measure_shift,
    measure_spread,
)
from benchapp.detection.changepoints.segmentation import take_median
from benchapp.detection.rules.noise_profile import measure_residuals, profile_noise

Array = NDArray[np.float64]
Places = NDArray[np.int64]

# Minimum runs of a level, as for a confirmation. As many are the newest level of a series that still drifts: the median
# of more is behind the slope.
CURRENT_RUNS_MINIMUM: Final = 5
# Runs of a slope at least.
SLOPE_RUNS_MINIMUM: Final = 10
# Minimum advantage of one model over another, as for a step against a line in the detector.
SLOPE_ADVANTAGE_MINIMUM: Final = 2.5
SPREAD_MINIMUM: Final = 1e-3
# Quantiles of the normal distribution for intervals of 95 % and 99 %: a drift of a single series must exceed this one.
INTERVAL_SCORE: Final = 1.960
CLEAR_SCORE: Final = 2.576
# Scores are cut off: equal values have no error.
_MOST_SCORE: Final = 99.0
# Points that are fitted; of longer histories the means of consecutive runs.
_POINTS_MAXIMUM: Final = 240
# Places of each end of the slope that are tried.
_PLACES: Final = 40


@dataclass(frozen=True, slots=True)
class Drift:
    """The current level relative to a baseline.

    score: distance of the change from the tolerated one in standard errors; at most 99.
    """

    now: ShiftLevel
    shift: Shift
    score: float

    @property
    def is_beyond(self) -> bool:
        """Return whether the whole 95 % interval exceeds the tolerated change."""
        return self.score > INTERVAL_SCORE

    @property
    def is_clear(self) -> bool:
        """Return whether the 99 % interval does, too."""
        return self.score > CLEAR_SCORE


@dataclass(frozen=True, slots=True)
class GradualChange:
    """A gradual change between two levels: what every page and answer states about a drift.

    first: index of its first run, after those of the level before. newest: index of the first run of the newest level:
    of the newest five runs while the change continues, else of all runs since its end.
    """

    first: int
    newest: int
    continues: bool
    before: ShiftLevel
    drift: Drift


@dataclass(frozen=True, slots=True)
class SlopeFit:
    """A slope between two flat parts: places of its ends, its values around 0, and the sum of squares it explains."""

    first: int
    last: int
    shape: Array
    explained: float


def describe_gradual_change(
    values: Array, *, tolerated_change: float, steps: tuple[int, ...] = ()
) -> GradualChange:
    """Return the gradual change of values that have drifted, by the best slope between two flat parts.

    values: finite, oldest first, at least 20. It continues unless a flat part at the end explains them clearly better,
    by the criterion for slopes and steps. Each level has at least five runs. steps: indices of changes of level, which
    neither level extends across.
    """
    count = len(values)
    points, size = make_points(values)
    places = list_slope_ends(len(points))
    firsts = places[places >= CURRENT_RUNS_MINIMUM - 1]
    ended, lasting = (fit_slope(points, firsts, lasts) for lasts in (places, np.array([len(points) - 1])))
    least = len(points) * SPREAD_MINIMUM**2
    left, left_by_lasting = (max(float(points @ points) - fit.explained, least) for fit in (ended, lasting))
    effective = count_effective(points, ended.shape)
    # One with an end has a parameter more.
    advantage = effective * math.log(left_by_lasting / left) - math.log(effective)
    continues = advantage < SLOPE_ADVANTAGE_MINIMUM
    fit = lasting if continues else ended
    newest = count if continues else fit.last * size
    newest = max(min(newest, count - CURRENT_RUNS_MINIMUM), *steps, 0)
    first = fit.first * size + 1
    old, new = values[: min(first, *steps, count)], values[newest:]
    correlation = max(profile_noise(side).correlation for side in (old, new))
    shift = measure_shift(old, new, correlation=correlation)
    drift = Drift(describe_level(new), shift, score_shift(shift, tolerated_change))
    return GradualChange(first, newest, continues, describe_level(old), drift)


def remove_slope(values: Array) -> Array:
    """Return positive values without their best slope, which is neither spread of the runs nor correlation."""
    points, size = make_points(values)
    places = list_slope_ends(len(points))
    shape = np.repeat(fit_slope(points, places, places).shape, size)[: len(values)]
    flat: Array = values * np.exp(-shape)
    return flat


def score_shift(shift: Shift, tolerated_change: float) -> float:
    """Return how many standard errors the shift is beyond the tolerated change; negative within it, 0 if unknown."""
    if shift.low is None or shift.high is None or shift.relative is None:
        return 0.0
    side = shift.relative - shift.low if shift.relative > 0 else shift.high - shift.relative
    beyond = abs(shift.relative) - tolerated_change
    error = side / INTERVAL_SCORE
    if error <= 0:
        return _MOST_SCORE if beyond > 0 else 0.0
    return min(beyond / error, _MOST_SCORE)


def make_points(values: Array) -> tuple[Array, int]:
    """Return at most 240 points around 0 that a slope is fitted to, and the runs of each.

    Logarithms of positive values, else shares of the largest one; isolated spikes are clipped.
    """
    size = -(-len(values) // _POINTS_MAXIMUM)
    scaled = np.log(values) if values.min() > 0 else values / (np.abs(values).max() or 1.0)
    points = _average_groups(scaled, size)
    points = clip_spikes(points, measure_spread(points, least=SPREAD_MINIMUM))
    return points - points.mean(), size


def list_slope_ends(count: int) -> Places:
    """Return the places that are tried as ends of a slope of so many points."""
    return np.arange(0, count, max(count // _PLACES, 1))


def fit_slope(points: Array, firsts: Places, lasts: Places) -> SlopeFit:
    """Return the best slope with its ends at these places; points have mean 0."""
    count = len(points)
    first, last = (grid.ravel() for grid in np.meshgrid(firsts, lasts, indexing="ij"))
    is_long = last - first >= SLOPE_RUNS_MINIMUM
    first, last = first[is_long, np.newaxis], last[is_long, np.newaxis]
    shapes = np.clip((np.arange(count) - first) / (last - first), 0.0, 1.0)
    shapes -= shapes.mean(axis=1, keepdims=True)
    products, squares = shapes @ points, np.einsum("ij,ij->i", shapes, shapes)
    best = int(np.argmax(products**2 / squares))
    shape: Array = shapes[best] * (products[best] / squares[best])
    return SlopeFit(int(first[best, 0]), int(last[best, 0]), shape, float(shape @ points))


def count_effective(points: Array, shape: Array) -> float:
    """Return the effective number of points: steps also fit correlated noise.

    By the lag-1 correlation of the residuals, its bias in short series removed (Kendall 1954).
    """
    _, correlation = measure_residuals(points - shape)
    correlation = min(correlation + (1 + 4 * correlation) / len(points), MOST_CORRELATION)
    return len(points) * (1 - correlation) / (1 + correlation)


def _average_groups(levels: Array, size: int) -> Array:
    starts = np.arange(0, len(levels), size)
    counts = np.diff(starts, append=len(levels))
    means: Array = np.add.reduceat(levels, starts) / counts
    return means


# Runs on each side of the comparison: the first of the baseline, the newest of the current level.
COMPARED_RUNS_MAXIMUM: Final = 60
# Minimum runs of a level.
RUNS_MINIMUM: Final = 3
# Name and version of the method, stored with each drift.
DRIFT_METHOD: Final = "drift-v1"
# Minimum runs of the baseline, and of the level that is compared with it: a month of daily runs has both.
BASELINE_RUNS_MINIMUM: Final = 12
DRIFT_RUNS_MINIMUM: Final = 2 * BASELINE_RUNS_MINIMUM
# Share of the tolerated change within which a level has recovered.
BACK_SHARE: Final = 0.5
# Pairs of runs closer than this share of the level say little about its slope.
_PAIR_APART_SHARE: Final = 0.25
# Above this correlation of the residuals the error of a slope is not known.
_MOST_CORRELATION: Final = 0.95
# Share of the tolerated change from which medians are compared with their intervals, which takes 50 times as long.
_WORTH_COMPARING: Final = 0.8


@dataclass(frozen=True, slots=True)
class Baseline:
    """A level from index `start` on (0-based) with its finite values, at most 60."""

    start: int
    values: tuple[float, ...]
    level: ShiftLevel


def find_steady_baseline(values: Sequence[float], changes: Iterable[int] = ()) -> Baseline | None:
    """Return the current level: the newest 60 runs since the last change; None for fewer than 3."""
    start = max((index for index in changes if 0 < index < len(values)), default=0)
    selected = _select_finite(values[start:])[-COMPARED_RUNS_MAXIMUM:]
    return _make_baseline(start, selected)


def pin_baseline(values: Sequence[float], start: int, *, end: int | None = None) -> Baseline | None:
    """Return the accepted level [start, end): its first 60 runs; None for fewer than 3. `end` None: all."""
    return _make_baseline(start, _select_finite(values[start:end])[:COMPARED_RUNS_MAXIMUM])


def measure_drift(
    baseline: Baseline,
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    tolerated_change: float = LEAST_RELATIVE_CHANGE,
) -> Drift | None:
    """Return the shift of the current level from a baseline; None for fewer than 3 runs.

    This detects many small steps below the threshold and slow drifts.
    """
    present = find_steady_baseline(values, changes)
    if present is None:
        return None
    before, after = np.array(baseline.values), np.array(present.values)
    correlation = max(profile_noise(side).correlation for side in (before, after))
    shift = measure_shift(before, after, correlation=correlation)
    return Drift(present.level, shift, score_shift(shift, tolerated_change))


def measure_trend(values: Sequence[float]) -> Shift | None:
    """Return the change of a straight line from the middle of the older half to that of the newer one.

    A slope through a whole level spreads both of its halves, so that their values overlap and seem correlated;
    residuals around a line do not have it. The slope is the median of those of all pairs (Theil 1950, Sen 1968) of the
    newest 120 logarithms. The 95 % interval is that of a least-squares slope, widened for lag-1 correlation of the
    residuals with its bias in short series removed (Kendall 1954). None for fewer than 24 values or one of 0 or below.
    """
    newest = np.asarray(values[-2 * COMPARED_RUNS_MAXIMUM :], dtype=np.float64)
    count = len(newest)
    if count < DRIFT_RUNS_MINIMUM or newest.min() <= 0:
        return None
    logarithms, places = np.log(newest), np.arange(count)
    older, newer = np.triu_indices(count, round(count * _PAIR_APART_SHARE))
    slope = take_median((logarithms[newer] - logarithms[older]) / (newer - older))
    flat = logarithms - slope * places
    spread, correlation = measure_residuals(flat - take_median(flat))
    correlation = min(correlation + (1 + 4 * correlation) / count, _MOST_CORRELATION)
    half = slope * (count - 1) / 2
    error = spread * math.sqrt(3 / count * (1 + correlation) / (1 - correlation))
    ends = (half - INTERVAL_SCORE * error, half, half + INTERVAL_SCORE * error)
    low, relative, high = (math.expm1(min(end, 700.0)) for end in ends)
    return Shift(relative, low, high)


def has_trend(values: Array) -> bool:
    """Return whether the newest 120 values of a level have a clear slope, however small."""
    trend = measure_trend(values.tolist())
    return trend is not None and score_shift(trend, 0.0) > CLEAR_SCORE


def remove_trend(values: Array, *, tolerated_change: float) -> Array:
    """Return the newest 120 values of a level without a slope beyond the tolerance; without such a slope the level.

    A slope is neither spread of the runs nor correlation between them.
    """
    is_worth = may_have_drifted(values, tolerated_change=tolerated_change)
    trend = measure_trend(values.tolist()) if is_worth else None
    if trend is None or score_shift(trend, tolerated_change) <= INTERVAL_SCORE:
        return values
    newest = values[-2 * COMPARED_RUNS_MAXIMUM :]
    middle = (len(newest) - 1) / 2
    slope = math.log1p(trend.relative or 0.0) / middle
    flat: Array = newest * np.exp(-slope * (np.arange(len(newest)) - middle))
    return flat


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Comparison of a series with its baseline, which decides whether it drifted.

    change: what is stated about its drift; None if the newest runs are back. is_back: the current level is within half
    of the tolerated change; in between, the state does not change.
    """

    accepted: Baseline
    drift: Drift
    change: GradualChange | None
    is_back: bool

    @property
    def has_drifted(self) -> bool:
        """Return whether the series has drifted."""
        return self.change is not None and self.drift.is_beyond

    @property
    def stated(self) -> Drift:
        """Return the newest level and its size: of a drift, as it is stated everywhere."""
        return self.change.drift if self.change is not None and self.drift.is_beyond else self.drift


def may_have_drifted(values: Array, *, tolerated_change: float) -> bool:
    """Return whether a level may be beyond the tolerated change of its beginning: by their medians alone."""
    if len(values) < DRIFT_RUNS_MINIMUM:
        return False
    size = min(len(values) // 2, COMPARED_RUNS_MAXIMUM)
    before, after = take_median(values[:size]), take_median(values[-size:])
    return abs(after - before) > _WORTH_COMPARING * tolerated_change * abs(before)


def compare_to_baseline(
    values: Sequence[float], changes: Iterable[int] = (), *, tolerated_change: float
) -> BaselineComparison | None:
    """Compare the current level with the baseline; None below 12 runs of either, or 5 since the last change.

    values: finite, oldest first, from the first run of the baseline on; its first 60 runs, or half of a short history,
    are the baseline. changes: indices of later changes.
    """
    accepted = pin_baseline(values, 0, end=max(BASELINE_RUNS_MINIMUM, len(values) // 2))
    if accepted is None or len(accepted.values) < BASELINE_RUNS_MINIMUM:
        return None
    size = len(accepted.values)
    later = values[size:]
    places = [place - size for place in changes if place > size]
    if len(later) < BASELINE_RUNS_MINIMUM or len(later) - max(places, default=0) < CURRENT_RUNS_MINIMUM:
        return None
    drift = measure_drift(accepted, later, places, tolerated_change=tolerated_change)
    if drift is None:
        return None
    if not drift.is_clear and not places:
        drift = _follow_trend(drift, values, tolerated_change)
    relative = drift.shift.relative
    if relative is None:
        return None
    least = BACK_SHARE * tolerated_change
    if abs(relative) < least:
        return BaselineComparison(accepted, drift, None, is_back=True)
    change = describe_gradual_change(
        np.asarray(values), tolerated_change=tolerated_change, steps=tuple(place + size for place in places)
    )
    is_away = abs(change.drift.shift.relative or 0.0) >= least
    return BaselineComparison(accepted, drift, change if is_away else None, is_back=False)


def _follow_trend(drift: Drift, values: Sequence[float], tolerated_change: float) -> Drift:
    """Return the drift by the trend of the values if that is clear, else as it is."""
    trend = measure_trend(values)
    score = 0.0 if trend is None else score_shift(trend, tolerated_change)
    if trend is None or score <= CLEAR_SCORE:
        return drift
    return replace(drift, shift=trend, score=score)


def _make_baseline(start: int, values: Array) -> Baseline | None:
    if len(values) < RUNS_MINIMUM:
        return None
    return Baseline(start, tuple(values.tolist()), describe_level(values))


def _select_finite(values: Sequence[float]) -> Array:
    given = np.asarray(values, dtype=np.float64)
    return given[np.isfinite(given)]


# Runs of each level of two steps at least.
_STEP_RUNS_MINIMUM: Final = 3
# Fitted numbers: the levels and places of a slope between two flat parts. Steps have one level more than places.
_SLOPE_PARAMETERS: Final = 4


@dataclass(frozen=True, slots=True)
class DetectedStep:
    """A detected step. place: index of the first value of the new level."""

    place: int
    is_rise: bool


@dataclass(frozen=True, slots=True)
class SlopePart:
    """Values from index `first` on that a slope explains better than steps, by this advantage."""

    first: int
    advantage: float


@dataclass(frozen=True, slots=True)
class _StepsFit:
    """Levels between steps: the sum of squares that they explain, with so many parameters."""

    explained: float
    parameters: int


def find_slope(values: Array, steps: Sequence[DetectedStep], *, tolerated_change: float) -> SlopePart | None:
    """Return the values with the newest steps of one direction, if they are a slope; None if not.

    values: finite, oldest first. steps: detected in them, oldest first; the values begin with the step of the other
    direction before the newest ones, if any. None if the values have not changed by the tolerated change.
    """
    is_rise = steps[-1].is_rise if steps else False
    newest = list(takewhile(lambda step: step.is_rise == is_rise, reversed(steps)))
    first = steps[-len(newest) - 1].place if len(newest) < len(steps) else 0
    if not may_have_drifted(values[first:], tolerated_change=tolerated_change):
        return None
    advantage = measure_slope_advantage(values[first:], [step.place - first for step in newest])
    if advantage is None or advantage < SLOPE_ADVANTAGE_MINIMUM:
        return None
    return SlopePart(first, advantage)


def measure_slope_advantage(values: Array, steps: Sequence[int]) -> float | None:
    """Return by how much the best slope between two flat parts explains the values better than steps.

    The difference of the Bayesian information criteria (Schwarz 1978), n ln(residual sum of squares) + k ln n for k
    parameters: of the best one step, the best two, or the detected ones, whichever is the least. On logarithms,
    isolated spikes clipped. n: the effective number of values, because steps also fit correlated noise.
    Positive if the slope is better. values: finite, oldest first. steps: indices of the detected ones. None for fewer
    than 20 values or one of 0 or below.
    """
    if len(values) < 2 * SLOPE_RUNS_MINIMUM or values.min() <= 0:
        return None
    points, size = make_points(values)
    places = list_slope_ends(len(points))
    slope = fit_slope(points, places, places)
    effective = count_effective(points, slope.shape)
    squares, least = float(points @ points), len(points) * SPREAD_MINIMUM**2
    left = max(squares - slope.explained, least)
    return min(
        effective * math.log(max(squares - fit.explained, least) / left)
        + (fit.parameters - _SLOPE_PARAMETERS) * math.log(effective)
        for fit in (
            _fit_one_step(points),
            _fit_two_steps(points),
            _fit_levels(points, [round(step / size) for step in steps]),
        )
    )


def _fit_one_step(points: Array) -> _StepsFit:
    """Return the best one step; points have mean 0."""
    count = len(points)
    places = np.arange(_STEP_RUNS_MINIMUM, count - _STEP_RUNS_MINIMUM + 1)
    sums = np.cumsum(points)[places - 1]
    return _StepsFit(float((sums**2 / places + sums**2 / (count - places)).max()), 3)


def _fit_two_steps(points: Array) -> _StepsFit:
    """Return the best two steps; points have mean 0."""
    count = len(points)
    sums = np.concatenate([[0.0], np.cumsum(points)])
    places = np.arange(_STEP_RUNS_MINIMUM, count - _STEP_RUNS_MINIMUM + 1)
    first, second = (grid.ravel() for grid in np.meshgrid(places, places, indexing="ij"))
    is_apart = second - first >= _STEP_RUNS_MINIMUM
    first, second = first[is_apart], second[is_apart]
    explained = (
        sums[first] ** 2 / first
        + (sums[second] - sums[first]) ** 2 / (second - first)
        + sums[second] ** 2 / (count - second)
    )
    return _StepsFit(float(explained.max()), 5)


def _fit_levels(points: Array, places: Sequence[int]) -> _StepsFit:
    """Return the levels between these places; points have mean 0."""
    edges = sorted({0, *(place for place in places if 0 < place < len(points)), len(points)})
    explained = sum(float(points[first:last].sum()) ** 2 / (last - first) for first, last in pairwise(edges))
    return _StepsFit(explained, 2 * len(edges) - 3)
