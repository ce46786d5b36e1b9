"""Slope or steps: whether a gradual change explains the values of a series better than steps do. Pure."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.analysis.changepoints.noise import clip_spikes, measure_spread

Array = npt.NDArray[np.float64]

# Minimum of n ln(residual sum of squares of steps / of a slope), as for a step against a line in the detector.
SLOPE_ADVANTAGE_MINIMUM: Final = 2.5
# Runs of a slope at least, and of each level of two steps.
_SLOPE_RUNS_MINIMUM: Final = 10
_STEP_RUNS_MINIMUM: Final = 3
# Points that are fitted; of longer histories the means of consecutive runs.
_POINTS_MAXIMUM: Final = 240
# Places of each end of the slope that are tried.
_PLACES: Final = 40
_SPREAD_MINIMUM: Final = 1e-3


def measure_slope_advantage(values: Array, steps: Sequence[int]) -> float | None:
    """Return n ln(residual sum of squares of steps / of the best slope between two flat parts).

    Of the best two steps, or of the detected ones if these explain more. On logarithms, isolated spikes clipped.
    Positive if the slope is better. values: finite, oldest first. steps: indices of the detected ones. None for fewer
    than 20 values or one of 0 or below.
    """
    if len(values) < 2 * _SLOPE_RUNS_MINIMUM or values.min() <= 0:
        return None
    size = -(-len(values) // _POINTS_MAXIMUM)
    points = _average_groups(np.log(values), size)
    points = clip_spikes(points, measure_spread(points, least=_SPREAD_MINIMUM))
    points = points - points.mean()
    squares, least = float(points @ points), len(points) * _SPREAD_MINIMUM**2
    detected = _explain_by_levels(points, [round(step / size) for step in steps])
    by_steps = squares - max(_explain_by_two_steps(points), detected)
    by_slope = squares - _explain_by_slope(points)
    return len(points) * math.log(max(by_steps, least) / max(by_slope, least))


def _average_groups(levels: Array, size: int) -> Array:
    starts = np.arange(0, len(levels), size)
    counts = np.diff(starts, append=len(levels))
    means: Array = np.add.reduceat(levels, starts) / counts
    return means


def _explain_by_slope(points: Array) -> float:
    """Return the sum of squares that the best slope explains; points have mean 0."""
    count = len(points)
    places = np.arange(0, count, max(count // _PLACES, 1))
    first, last = (grid.ravel() for grid in np.meshgrid(places, places, indexing="ij"))
    is_long = last - first >= _SLOPE_RUNS_MINIMUM
    first, last = first[is_long, np.newaxis], last[is_long, np.newaxis]
    shapes = np.clip((np.arange(count) - first) / (last - first), 0.0, 1.0)
    shapes -= shapes.mean(axis=1, keepdims=True)
    return float(((shapes @ points) ** 2 / np.einsum("ij,ij->i", shapes, shapes)).max())


def _explain_by_two_steps(points: Array) -> float:
    """Return the sum of squares that the best two steps explain; points have mean 0."""
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
    return float(explained.max())


def _explain_by_levels(points: Array, places: Sequence[int]) -> float:
    """Return the sum of squares that the levels between these places explain; points have mean 0."""
    edges = sorted({0, *(place for place in places if 0 < place < len(points)), len(points)})
    return sum(float(points[first:last].sum()) ** 2 / (last - first) for first, last in pairwise(edges))
