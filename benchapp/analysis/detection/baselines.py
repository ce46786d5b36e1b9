"""Levels to hold a series against: the steady one that it has now, and one that somebody pinned; drift from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.analysis.changepoints.level_shift_v1 import Shift, ShiftLevel, describe_level, measure_shift
from benchapp.analysis.changepoints.v1 import LEAST_RELATIVE_CHANGE
from benchapp.analysis.detection.noise_profile import profile_noise

Array = npt.NDArray[np.float64]

# Runs of either side that are compared: the first of a baseline, the newest of what is held against it.
MOST_RUNS: Final = 60
# Fewer say nothing of a level.
LEAST_RUNS: Final = 3
# Name and version of the method by which drift is found; rows carry it.
DRIFT_METHOD: Final = "drift-v1"
# Of the accepted level, as many as a series learns its noise from; of the present one after a change, as many as
# confirm that.
LEAST_ACCEPTED_RUNS: Final = 20
LEAST_PRESENT_RUNS: Final = 5
# Of the tolerated change: a level that is nearer than this to the accepted one is back.
BACK_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Baseline:
    """A level from index `start` on (0-based) and the values that make it, at most 60; finite ones alone."""

    start: int
    values: tuple[float, ...]
    level: ShiftLevel


@dataclass(frozen=True, slots=True)
class Drift:
    """Where a series stands against a baseline; `is_beyond` where the whole interval lies past the tolerated change."""

    now: ShiftLevel
    shift: Shift
    is_beyond: bool


def find_steady_baseline(values: Sequence[float], changes: Iterable[int] = ()) -> Baseline | None:
    """Return the present level: what follows the last change, its newest 60 runs; None under 3."""
    start = max((index for index in changes if 0 < index < len(values)), default=0)
    kept = _keep_finite(values[start:])[-MOST_RUNS:]
    return _make_baseline(start, kept)


def pin_baseline(values: Sequence[float], start: int, *, end: int | None = None) -> Baseline | None:
    """Return the level of [start, end) as a person accepted it, its first 60 runs; None under 3. `end` None: all."""
    return _make_baseline(start, _keep_finite(values[start:end])[:MOST_RUNS])


def measure_drift(
    baseline: Baseline,
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    tolerated_change: float = LEAST_RELATIVE_CHANGE,
) -> Drift | None:
    """Return how far the present level lies from a pinned baseline; None where it has fewer than 3 runs.

    Many small steps, each below what is worth saying, add up here, and so does a slow drift.
    """
    present = find_steady_baseline(values, changes)
    if present is None:
        return None
    before, after = np.array(baseline.values), np.array(present.values)
    correlation = max(profile_noise(side).correlation for side in (before, after))
    shift = measure_shift(before, after, correlation=correlation)
    return Drift(present.level, shift, _is_beyond(shift, tolerated_change))


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """What a series says, held against its accepted level. start: place of the first run that lies away from it.

    is_back: the present level is within half of what is tolerated; between that and beyond, what was said holds.
    """

    accepted: Baseline
    drift: Drift
    start: int
    is_back: bool


def compare_to_baseline(
    values: Sequence[float], changes: Iterable[int] = (), *, tolerated_change: float
) -> BaselineComparison | None:
    """Hold the present level against the accepted one; None below 20 runs of either, or 5 since the last change.

    values: finite ones, oldest first, from the first run of the accepted level on, whose first 60 runs (of a short
    history half of it) make that level. changes: places of levels that were found since.
    """
    accepted = pin_baseline(values, 0, end=max(LEAST_ACCEPTED_RUNS, len(values) // 2))
    if accepted is None or len(accepted.values) < LEAST_ACCEPTED_RUNS:
        return None
    size = len(accepted.values)
    later = values[size:]
    places = [place - size for place in changes if place > size]
    if len(later) < LEAST_ACCEPTED_RUNS or len(later) - max(places, default=0) < LEAST_PRESENT_RUNS:
        return None
    drift = measure_drift(accepted, later, places, tolerated_change=tolerated_change)
    if drift is None or drift.shift.relative is None:
        return None
    start = size + _find_onset(later, accepted.level.median, drift.shift.relative, tolerated_change)
    return BaselineComparison(
        accepted, drift, start, abs(drift.shift.relative) < BACK_SHARE * tolerated_change
    )


def _find_onset(later: Sequence[float], accepted: float, relative: float, tolerated_change: float) -> int:
    """Return the first place from which on the medians of 20 runs all lie beyond what is tolerated; else the last."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(later), LEAST_ACCEPTED_RUNS)
    away = (np.median(windows, axis=1) - accepted) / abs(accepted) * np.sign(relative)
    within = np.flatnonzero(away <= tolerated_change)
    return min(int(within[-1]) + 1 if len(within) else 0, len(windows) - 1)


def _is_beyond(shift: Shift, tolerated_change: float) -> bool:
    if shift.low is None or shift.high is None:
        return False
    return shift.low > tolerated_change or shift.high < -tolerated_change


def _make_baseline(start: int, values: Array) -> Baseline | None:
    if len(values) < LEAST_RUNS:
        return None
    return Baseline(start, tuple(values.tolist()), describe_level(values))


def _keep_finite(values: Sequence[float]) -> Array:
    given = np.asarray(values, dtype=np.float64)
    return given[np.isfinite(given)]
