"""Gradual changes: the level before, the newest level, when the change began, and whether it continues. Pure."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.level_shift import Shift, ShiftLevel, describe_level, measure_shift
from benchapp.detection.changepoints.noise import MOST_CORRELATION, clip_spikes, measure_spread
from benchapp.detection.rules.noise_profile import measure_residuals, profile_noise

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]

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
