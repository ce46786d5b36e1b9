"""Baselines: the current level, an accepted one, and drift from it or from the beginning of the level itself."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.analysis.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.analysis.changepoints.level_shift import Shift, ShiftLevel, describe_level, measure_shift
from benchapp.analysis.changepoints.segmentation import take_median
from benchapp.analysis.detection.noise_profile import measure_residuals, profile_noise

Array = npt.NDArray[np.float64]

# Runs on each side of the comparison: the first of the baseline, the newest of the current level.
COMPARED_RUNS_MAXIMUM: Final = 60
# Minimum runs of a level.
RUNS_MINIMUM: Final = 3
# Name and version of the method, stored with each drift.
DRIFT_METHOD: Final = "drift-v1"
# Minimum runs of the baseline (as for a learned noise profile), and of the current level after a change (as for a
# confirmation).
BASELINE_RUNS_MINIMUM: Final = 20
CURRENT_RUNS_MINIMUM: Final = 5
# Share of the tolerated change within which a level has recovered.
BACK_SHARE: Final = 0.5
# Shares of a drift between which its slope lies.
_SLOPE_SHARES: Final = (0.15, 0.85)
# Quantiles of the normal distribution for intervals of 95 % and 99 %: a drift of a single series must exceed this one.
_INTERVAL_SCORE: Final = 1.960
_CLEAR_SCORE: Final = 2.576
# Scores are cut off: equal values have no error.
_MOST_SCORE: Final = 99.0
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
        return self.score > _INTERVAL_SCORE

    @property
    def is_clear(self) -> bool:
        """Return whether the 99 % interval does, too."""
        return self.score > _CLEAR_SCORE


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
    return Drift(present.level, shift, _score(shift, tolerated_change))


def measure_trend(values: Sequence[float]) -> Shift | None:
    """Return the change of a straight line from the middle of the older half to that of the newer one.

    A slope through a whole level spreads both of its halves, so that their values overlap and seem correlated;
    residuals around a line do not have it. The slope is the median of those of all pairs (Theil 1950, Sen 1968) of the
    newest 120 logarithms. The 95 % interval is that of a least-squares slope, widened for lag-1 correlation of the
    residuals with its bias in short series removed (Kendall 1954). None for fewer than 40 values or one of 0 or below.
    """
    newest = np.asarray(values[-2 * COMPARED_RUNS_MAXIMUM :], dtype=np.float64)
    count = len(newest)
    if count < 2 * BASELINE_RUNS_MINIMUM or newest.min() <= 0:
        return None
    logarithms, places = np.log(newest), np.arange(count)
    older, newer = np.triu_indices(count, round(count * _PAIR_APART_SHARE))
    slope = take_median((logarithms[newer] - logarithms[older]) / (newer - older))
    flat = logarithms - slope * places
    spread, correlation = measure_residuals(flat - take_median(flat))
    correlation = min(correlation + (1 + 4 * correlation) / count, _MOST_CORRELATION)
    half = slope * (count - 1) / 2
    error = spread * math.sqrt(3 / count * (1 + correlation) / (1 - correlation))
    ends = (half - _INTERVAL_SCORE * error, half, half + _INTERVAL_SCORE * error)
    low, relative, high = (math.expm1(min(end, 700.0)) for end in ends)
    return Shift(relative, low, high)


def remove_trend(values: Array, *, tolerated_change: float) -> Array:
    """Return the newest 120 values of a level without a slope beyond the tolerance; without such a slope the level.

    A slope is neither spread of the runs nor correlation between them.
    """
    is_worth = may_have_drifted(values, tolerated_change=tolerated_change)
    trend = measure_trend(values.tolist()) if is_worth else None
    if trend is None or _score(trend, tolerated_change) <= _INTERVAL_SCORE:
        return values
    newest = values[-2 * COMPARED_RUNS_MAXIMUM :]
    middle = (len(newest) - 1) / 2
    slope = math.log1p(trend.relative or 0.0) / middle
    flat: Array = newest * np.exp(-slope * (np.arange(len(newest)) - middle))
    return flat


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Comparison of a series with its baseline. start: index of the first run beyond the tolerated change.

    slope_first, slope_last: the runs between which most of the change took place.
    is_back: the current level is within half of the tolerated change; in between, the state does not change.
    """

    accepted: Baseline
    drift: Drift
    start: int
    slope_first: int
    slope_last: int
    is_back: bool


def may_have_drifted(values: Array, *, tolerated_change: float) -> bool:
    """Return whether a level may be beyond the tolerated change of its beginning: by their medians alone."""
    if len(values) < 2 * BASELINE_RUNS_MINIMUM:
        return False
    size = min(len(values) // 2, COMPARED_RUNS_MAXIMUM)
    before, after = take_median(values[:size]), take_median(values[-size:])
    return abs(after - before) > _WORTH_COMPARING * tolerated_change * abs(before)


def compare_to_baseline(
    values: Sequence[float], changes: Iterable[int] = (), *, tolerated_change: float
) -> BaselineComparison | None:
    """Compare the current level with the baseline; None below 20 runs of either, or 5 since the last change.

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
    onset = _find_onset(later, accepted.level.median, relative, tolerated_change)
    # A slope that continues is beyond the median of the newest 60 runs.
    newest = float(np.median(values[-BASELINE_RUNS_MINIMUM:]))
    whole = max(abs(newest / accepted.level.median - 1), abs(relative))
    first, last = (
        _find_onset(values, accepted.level.median, relative, share * whole) for share in _SLOPE_SHARES
    )
    return BaselineComparison(
        accepted,
        drift,
        start=size + onset,
        # Windows of 20 runs are at a share in their middle.
        slope_first=first + BASELINE_RUNS_MINIMUM // 2,
        slope_last=min(last + BASELINE_RUNS_MINIMUM // 2, len(values) - 1),
        is_back=abs(relative) < BACK_SHARE * tolerated_change,
    )


def _follow_trend(drift: Drift, values: Sequence[float], tolerated_change: float) -> Drift:
    """Return the drift by the trend of the values if that is clear, else as it is."""
    trend = measure_trend(values)
    score = 0.0 if trend is None else _score(trend, tolerated_change)
    if trend is None or score <= _CLEAR_SCORE:
        return drift
    return replace(drift, shift=trend, score=score)


def _find_onset(values: Sequence[float], accepted: float, relative: float, change: float) -> int:
    """Return the first index from which all medians of 20 runs exceed the change; else the last."""
    windows = np.lib.stride_tricks.sliding_window_view(np.asarray(values), BASELINE_RUNS_MINIMUM)
    away = (np.median(windows, axis=1) - accepted) / abs(accepted) * np.sign(relative)
    within = np.flatnonzero(away <= change)
    return min(int(within[-1]) + 1 if len(within) else 0, len(windows) - 1)


def _score(shift: Shift, tolerated_change: float) -> float:
    """Return how many standard errors the shift is beyond the tolerated change; negative within it, 0 if unknown."""
    if shift.low is None or shift.high is None or shift.relative is None:
        return 0.0
    side = shift.relative - shift.low if shift.relative > 0 else shift.high - shift.relative
    beyond = abs(shift.relative) - tolerated_change
    error = side / _INTERVAL_SCORE
    if error <= 0:
        return _MOST_SCORE if beyond > 0 else 0.0
    return min(beyond / error, _MOST_SCORE)


def _make_baseline(start: int, values: Array) -> Baseline | None:
    if len(values) < RUNS_MINIMUM:
        return None
    return Baseline(start, tuple(values.tolist()), describe_level(values))


def _select_finite(values: Sequence[float]) -> Array:
    given = np.asarray(values, dtype=np.float64)
    return given[np.isfinite(given)]
