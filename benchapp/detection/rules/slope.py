"""Slope or steps: whether a gradual change explains the values of a series better than steps do. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.rules.baselines import may_have_drifted
from benchapp.detection.rules.gradual_change import (
    SLOPE_ADVANTAGE_MINIMUM,
    SLOPE_RUNS_MINIMUM,
    SPREAD_MINIMUM,
    count_effective,
    fit_slope,
    list_slope_ends,
    make_points,
)

Array = npt.NDArray[np.float64]

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
