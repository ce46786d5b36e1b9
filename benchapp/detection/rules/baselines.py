"""Baselines: the current level, an accepted one, and drift from it or from the beginning of the level itself."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.level_shift import Shift, ShiftLevel, describe_level, measure_shift
from benchapp.detection.changepoints.segmentation import take_median
from benchapp.detection.rules.gradual_change import (
    CLEAR_SCORE,
    CURRENT_RUNS_MINIMUM,
    INTERVAL_SCORE,
    Drift,
    GradualChange,
    describe_gradual_change,
    score_shift,
)
from benchapp.detection.rules.noise_profile import measure_residuals, profile_noise

Array = npt.NDArray[np.float64]

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
