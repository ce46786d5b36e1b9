"""Evaluation points: the runs at which a series is evaluated; the quiet runs between them extend its current level.

A metric of a series is evaluated at every 16th run, and at each run that ends a window of runs that is far enough from
those before it to be a candidate for a change. This depends on its values alone: a series that is evaluated run by run,
and one that is evaluated once with all runs, are evaluated at the same points. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import LEAST_SPREAD
from benchapp.detection.changepoints.noise import SPIKE_SPREADS, measure_spread
from benchapp.detection.changepoints.segmentation import LEAST_LEVEL, take_median

Array = NDArray[np.float64]

# Runs after which a series is evaluated at the latest.
EVALUATED_EVERY: Final = 16
# Runs up to which every run is evaluated: the windows before the newest runs are too short.
ALWAYS_EVALUATED: Final = 48
# Runs up to a point of the grid from which its reference is measured.
_REFERENCE_RUNS: Final = 128
# The newest 3 to 64 runs are compared with the 64 before them, and with as many before them.
_WINDOW: Final = 64
_EQUAL_WINDOWS: Final = (3, 5, 8, 16, 32)
_NEWEST: Final = np.array([*range(LEAST_LEVEL, _WINDOW + 1), *_EQUAL_WINDOWS])
_BEFORE: Final = np.array([*(_WINDOW for _ in range(LEAST_LEVEL, _WINDOW + 1)), *_EQUAL_WINDOWS])
# Difference of the means in standard errors. Of 70 changes that the detector found for the first time as a simulated
# fleet grew run by run, 69 were at such a run; in 12 % of the runs without a change one of three metrics is.
_CONTRAST_MINIMUM: Final = 3.5
# Share of the threshold of the metric that the means must differ by: less than 1, because a change is measured at the
# place with the largest difference.
_CHANGE_SHARE: Final = 0.8
# Multiple of the threshold beyond which a single value counts no more: less than three times the share above, so that
# one bad run is quiet.
_MOST_CHANGES: Final = 2.0
_ERRORS: Final = np.sqrt(1 / _NEWEST + 1 / _BEFORE)


@dataclass(frozen=True, slots=True)
class Reference:
    """Median and spread of the logarithms of a metric before a point of the grid."""

    median: float
    spread: float


def find_evaluation_points(
    values: Array, positions: NDArray[np.int64], *, smallest_changes: Sequence[float]
) -> tuple[int, ...]:
    """Return of each metric how many runs its last evaluation point has.

    values: a row for each metric, a column for each run, oldest first; NaN where unknown. positions: of the runs in the
    series, ascending. smallest_changes: threshold of each metric.
    """
    metrics, count = values.shape
    grid = np.flatnonzero(np.diff(positions // EVALUATED_EVERY))
    end = int(grid[-1]) + 2 if len(grid) else 0
    first = max(end - _REFERENCE_RUNS, 0)
    references = _measure_references(values[:, first:end]) if end >= ALWAYS_EVALUATED else None
    if references is None or end == count:
        return tuple([count] * metrics)
    flags = _flag_runs(values[:, first:], references, start=end - first, smallest_changes=smallest_changes)
    ends: list[int] = np.where(flags.any(axis=1), count - flags[:, ::-1].argmax(axis=1), end).tolist()
    return tuple(ends)


def _flag_runs(
    values: Array,
    references: Sequence[Reference | None],
    *,
    start: int,
    smallest_changes: Sequence[float],
) -> NDArray[np.bool_]:
    """Return for each metric, a row, and each run from `start` on whether it is evaluated; otherwise it is quiet.

    values: from the first run of the references on, a row for each metric.
    """
    # A metric without a reference is evaluated with its first value.
    flags: NDArray[np.bool_] = np.isfinite(values[:, start:])
    known = [number for number, reference in enumerate(references) if reference is not None]
    limits = np.array(
        [
            (reference.median, reference.spread, math.log1p(smallest))
            for reference, smallest in zip(references, smallest_changes, strict=True)
            if reference is not None
        ]
    ).reshape(-1, 3)
    sums = np.pad(np.cumsum(_take_clipped_ratios(values[known], limits), axis=1), ((0, 0), (1, 0)))
    newest = values[known, start:]
    flags[known] = _find_contrasts(sums, start, limits) | ~(newest > 0) | ~np.isfinite(newest)
    return flags


def _take_clipped_ratios(values: Array, limits: Array) -> Array:
    """Return the logarithms relative to the median, clipped so that one bad run is quiet; a row for each limit."""
    median, spread, least = limits.T[:, :, np.newaxis]
    limit = np.maximum(SPIKE_SPREADS * spread, _MOST_CHANGES * least)
    # An evaluated run may be 0 or unknown.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Array = np.clip(np.log(values) - median, -limit, limit)
    return ratios


def _find_contrasts(sums: Array, start: int, limits: Array) -> NDArray[np.bool_]:
    """Return for each row and each run from `start` on whether windows that end with it are far apart.

    sums: running sums of the clipped ratios of all runs, from 0.
    """
    ends = np.arange(start + 1, sums.shape[1])[:, np.newaxis]
    places = ends - _NEWEST
    before = np.minimum(_BEFORE, places)
    is_short = before < LEAST_LEVEL
    before = np.maximum(before, 1)
    here = sums[:, np.maximum(places, 0)]
    contrasts = np.abs(
        (sums[:, ends] - here) / _NEWEST - (here - sums[:, np.maximum(places - before, 0)]) / before
    )
    errors = np.where(before < _BEFORE, np.sqrt(1 / _NEWEST + 1 / before), _ERRORS)
    spread, least = limits[:, 1:2, np.newaxis], limits[:, 2:, np.newaxis]
    needed = np.maximum(_CHANGE_SHARE * least, _CONTRAST_MINIMUM * spread * errors)
    far: NDArray[np.bool_] = ((contrasts >= needed) & ~is_short).any(axis=2)
    return far


def _measure_references(values: Array) -> tuple[Reference | None, ...] | None:
    """Return the reference of each metric; None if only some of its values are known, or one is not positive."""
    references: list[Reference | None] = []
    for row in values:
        if np.isnan(row).all():
            references.append(None)
        elif np.isfinite(row).all() and row.min() > 0:
            ratios = np.log(row)
            spread = measure_spread(ratios, least=LEAST_SPREAD)
            references.append(Reference(take_median(ratios), spread))
        else:
            return None
    return tuple(references)
