"""Noise profile of a series: spread, correlation, smallest detectable change, detection status."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.level_shift import measure_separation
from benchapp.detection.changepoints.noise import clip_spikes, measure_spread
from benchapp.detection.changepoints.segmentation import LEAST_LEVEL, Levels, find_boundaries, take_median

Array = npt.NDArray[np.float64]

# Standard errors: the detector's requirement for 5 new runs, plus two for the scatter of the estimate. After 60 old
# runs 87 % of such changes are detected in 5 new ones, 99 % in 8 (counted on generated histories not used for tuning).
DETECTABLE_SCORES: Final = 5.8
# New runs within which a change should be detected, and the maximum on each side of a boundary.
FEWEST_NEW_RUNS: Final = 5
MOST_RUNS: Final = 60
# Runs from which a series is no longer learning.
BASELINE_RUNS: Final = 20
# Standard deviations of a normal distribution between its quartiles; values beyond 5 spreads are spikes.
_QUARTILES_APART: Final = 1.349
_SPIKE_SPREADS: Final = 5.0
_MOST_CORRELATION: Final = 0.9
# Multiple of the level from which a value counts as infinite; its square is still finite.
_MOST_RESIDUAL: Final = 1e9
# Of the logarithm; as the detector's.
_LEAST_SPREAD: Final = 0.001
# Gap between the values of two levels, as share of the distance of their medians.
_LEAST_GAP: Final = 0.1


class SeriesState(StrEnum):
    """Detection status. Stale: no recent runs; learning: too few runs; too noisy: changes of the wanted size are not
    detectable."""

    LEARNING = "learning"
    TOO_NOISY = "too noisy"
    STALE = "stale"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class NoiseProfile:
    """The noise of a series around its levels, as share of the level; `points` are those of the current level.

    `smallest_change` is detectable in 5 runs; None for fewer than 6 points.
    """

    spread: float
    correlation: float
    points: int
    smallest_change: float | None


@dataclass(frozen=True, slots=True)
class StateResult:
    """A status, and the runs needed: until it is learned, or after a change of the wanted size.

    `runs_needed` is None if no runs are needed, or no number suffices.
    """

    state: SeriesState
    runs_needed: int | None


def profile_noise(values: Iterable[float], changes: Iterable[int] = ()) -> NoiseProfile:
    """Return the noise of a series around the levels that begin at 0 and at the given indices, as shares of the level.

    Lag-1 correlation is 0 to 0.9, corrected for the bias of the fitted levels. Non-finite values are ignored; indices
    count all values.
    """
    given = np.asarray(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
    edges = [0, *sorted(index for index in set(changes) if 0 < index < len(given)), len(given)]
    levels = [level[np.isfinite(level)] for level in (given[a:b] for a, b in pairwise(edges))]
    residuals = [_take_residuals(level) for level in levels if len(level)]
    points = len(levels[-1])
    if not residuals:
        return NoiseProfile(0.0, 0.0, points, None)
    spread = _measure_spread(np.concatenate(residuals))
    correlation = _measure_correlation(residuals, spread)
    smallest = (
        find_smallest_change(spread, correlation, old_runs=points) if points >= FEWEST_NEW_RUNS + 1 else None
    )
    return NoiseProfile(spread, correlation, points, smallest)


def find_distinct_levels(values: Array, *, smallest_change: float) -> list[int]:
    """Return where levels begin that do not overlap with their neighbors: ascending indices of finite values.

    For the noise alone: the detector takes a short excursion, as a regression that recovered, for chance, but its runs
    say nothing about how much runs of one level differ. Two levels differ by smallest_change (relative) or more, and
    their values are apart by a tenth of that difference. Of 1 080 histories of nine kinds of noise without changes 5
    have such levels. Values that are not all positive have none.
    """
    if len(values) < 2 * LEAST_LEVEL or values.min() <= 0:
        return []
    ratios = np.log(values)
    spread = measure_spread(ratios, least=_LEAST_SPREAD)
    places = find_boundaries(Levels(clip_spikes(ratios, spread) - ratios[0]), spread)
    while places:
        edges = [0, *places, len(ratios)]
        apart = [
            _measure_gap(ratios[start:place], ratios[place:end], least=math.log1p(smallest_change))
            for start, place, end in zip(edges, edges[1:], edges[2:], strict=False)
        ]
        if min(apart) >= _LEAST_GAP:
            break
        del places[apart.index(min(apart))]
    return places


def _measure_gap(before: Array, after: Array, *, least: float) -> float:
    is_step = abs(take_median(after) - take_median(before)) >= least
    return measure_separation(before, after) if is_step else 0.0


def find_smallest_change(
    spread: float, correlation: float, *, old_runs: int, new_runs: int = FEWEST_NEW_RUNS
) -> float:
    """Return the relative change that is detected in almost 90 % of cases: 5.8·σ·√[(1+φ)/(1−φ)·(1/k+1/m)].

    k new runs, at least 5, after m old ones, at most 60 each. `spread` is σ as share of the level.
    """
    new, old = (
        min(max(runs, least), MOST_RUNS) for runs, least in ((new_runs, FEWEST_NEW_RUNS), (old_runs, 1))
    )
    inflation = (1 + correlation) / (1 - correlation)
    return DETECTABLE_SCORES * spread * math.sqrt(inflation * (1 / new + 1 / old))


def count_runs_needed(profile: NoiseProfile, wanted_change: float) -> int | None:
    """Return the runs needed to detect a change of the wanted size, 5 to 60; None if 60 do not suffice."""
    candidates = range(FEWEST_NEW_RUNS, MOST_RUNS + 1)
    # The more runs, the smaller the change.
    place = bisect_left(
        candidates,
        True,
        key=lambda runs: (
            find_smallest_change(profile.spread, profile.correlation, old_runs=profile.points, new_runs=runs)
            <= wanted_change
        ),
    )
    return candidates[place] if place < len(candidates) else None


def judge_state(
    profile: NoiseProfile,
    *,
    runs: int,
    wanted_change: float,
    silent_s: float | None = None,
    stale_after_s: float | None = None,
) -> StateResult:
    """Return the status of a series with so many runs, the last one `silent_s` ago.

    `wanted_change` is the relative change to detect (0.05 is 5 %). Staleness precedes learning, and learning noise.
    The noise of a new level is that of all levels so far.
    """
    if silent_s is not None and stale_after_s is not None and silent_s > stale_after_s:
        return StateResult(SeriesState.STALE, None)
    if runs < BASELINE_RUNS:
        return StateResult(SeriesState.LEARNING, BASELINE_RUNS - runs)
    smallest = profile.smallest_change
    if smallest is None:
        smallest = find_smallest_change(profile.spread, profile.correlation, old_runs=FEWEST_NEW_RUNS + 1)
    if smallest > wanted_change:
        return StateResult(SeriesState.TOO_NOISY, count_runs_needed(profile, wanted_change))
    return StateResult(SeriesState.STEADY, None)


def measure_residuals(residuals: Array) -> tuple[float, float]:
    """Return the spread of residuals around 0, without spikes, and their lag-1 correlation (0 to below 1)."""
    spread = _measure_spread(residuals)
    return spread, _measure_correlation([residuals], spread)


def _take_residuals(level: Array) -> Array:
    """Return the values of one level as shares of its size around its median."""
    largest = float(np.abs(level).max())
    if largest == 0:
        return np.zeros_like(level)
    shares = level / largest  # otherwise two huge values overflow
    median = take_median(shares)
    size = abs(median) or float(np.abs(shares).mean())
    limit = size * _MOST_RESIDUAL
    return np.clip(shares - median, -limit, limit) / size if size > 0 else np.zeros_like(level)


def _measure_spread(residuals: Array) -> float:
    """Return the standard deviation without values beyond 5 spreads: includes both of two modes, excludes spikes."""
    included = residuals
    ordered = np.sort(residuals)
    apart = _interpolate(ordered, 0.75) - _interpolate(ordered, 0.25)
    limit = _SPIKE_SPREADS * apart / _QUARTILES_APART
    if limit > 0:
        included = residuals[np.abs(residuals) <= limit]
    # Each median costs one degree of freedom; one is a sufficient approximation.
    return float(np.sqrt(np.sum(included * included) / max(len(included) - 1, 1)))


def _interpolate(ascending: Array, share: float) -> float:
    """Return a quantile as np.quantile, to the last bit, which takes ten times as long for few values."""
    rank = share * (len(ascending) - 1)
    below = int(rank)
    low, high = float(ascending[below]), float(ascending[min(below + 1, len(ascending) - 1)])
    part = rank - below
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def _measure_correlation(levels: Sequence[Array], spread: float) -> float:
    if spread <= 0:
        return 0.0
    limit = _SPIKE_SPREADS * spread
    clipped = [np.clip(level - level.mean(), -limit, limit) for level in levels]
    squares = sum(float(level @ level) for level in clipped)
    if squares <= 0:
        return 0.0
    count = sum(len(level) for level in clipped)
    products = sum(float(level[1:] @ level[:-1]) for level in clipped)
    return min(max(products / squares + len(clipped) / count, 0.0), _MOST_CORRELATION)
