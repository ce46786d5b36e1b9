"""Levels to hold a series against: the steady one that it has now, and one that somebody pinned; drift from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.analysis.changepoints_v1 import LEAST_RELATIVE_CHANGE
from benchapp.analysis.level_shift_v1 import Level, Shift, describe_level, measure_shift
from benchapp.analysis.noise_profile import profile_noise

Array = npt.NDArray[np.float64]

# Runs of either side that are compared: the first of a baseline, the newest of what is held against it.
MOST_RUNS: Final = 60
# Fewer say nothing of a level.
LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Baseline:
    """A level from index `start` on (0-based) and the values that make it, at most 60; finite ones alone."""

    start: int
    values: tuple[float, ...]
    level: Level


@dataclass(frozen=True, slots=True)
class Drift:
    """Where a series stands against a baseline; `is_beyond` where the whole interval lies past the tolerated change."""

    now: Level
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
