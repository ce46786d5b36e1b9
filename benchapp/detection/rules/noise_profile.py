"""Noise profile of a series: spread, correlation, smallest detectable change, detection status, two states. Pure."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.estimates import (
    clip_spikes,
    measure_separation,
    measure_spread,
    score_ranks_exactly,
)
from benchapp.detection.changepoints.segmentation import (
    DEVIATIONS_PER_MEDIAN,
    LEAST_LEVEL,
    Levels,
    find_boundaries,
    take_median,
)

Array = NDArray[np.float64]

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
    """Detection status. Learning: too few runs; too noisy: changes of the wanted size are not detectable."""

    LEARNING = "learning"
    TOO_NOISY = "too noisy"
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
) -> StateResult:
    """Return the status of a series with so many runs.

    `wanted_change` is the relative change to detect (0.05 is 5 %). Learning precedes noise. The noise of a new level is
    that of all levels so far.
    """
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


# Newest values that are examined, and the fewest.
_EXAMINED_MAXIMUM: Final = 240
_EXAMINED_MINIMUM: Final = 40
# Values compared on each side of the place from which the spread is larger: at most, and at least before and after it.
_SIDE_MAXIMUM: Final = 60
_BEFORE_MINIMUM: Final = 20
_AFTER_MINIMUM: Final = 10
# Multiple of the spread, and normal score of the ranks of the distances from the level, reduced for correlation. One of
# 1 000 series of each kind of stationary noise has such an increase by chance (benchmarks/variability.py).
_RATIO_MINIMUM: Final = 2.0
_SCORE_MINIMUM: Final = 4.2
# Share of the spread as which distances of 0 count, or equal values would be infinitely more even than others.
_FLOOR_SHARE: Final = 0.1
_CORRELATION_MAXIMUM: Final = 0.9
# Distance of two states in spreads of one of them, share of the values in the rarer one, and how often each is entered.
# Halves of one normal distribution are 2.2 spreads apart, those of an even one 2.7.
_SEPARATION_MINIMUM: Final = 4.5
_SHARE_MINIMUM: Final = 0.1
_VISITS_MINIMUM: Final = 3
# Share of the distance of the states within which a level is one of them; and multiple of the longest earlier stay in a
# state from which another stay is another level.
_STATE_WIDTH: Final = 0.25
_LONGEST_STAY: Final = 2.0


@dataclass(frozen=True, slots=True)
class SpreadIncrease:
    """Values from `index` on (0-based) vary more than before: robust relative standard deviations around the levels.

    score: normal score of the ranks.
    """

    index: int
    before: float
    after: float
    score: float


@dataclass(frozen=True, slots=True)
class TwoStates:
    """Values are near one of two states, and alternate between them. low, high: medians, in the unit of the values.

    high_share: of the values. visits: how often the rarer state was entered. from_index: of the first examined value.
    """

    low: float
    high: float
    high_share: float
    visits: int
    from_index: int


def find_spread_increase(values: Array, starts: Sequence[int] = ()) -> SpreadIncrease | None:
    """Return the increase in spread around the levels; None if there is none, or values are not all positive.

    starts: indices of the first values of later levels, ascending. At least doubled, to more than 1 %.
    """
    if len(values) < _EXAMINED_MINIMUM or values.min() <= 0:
        return None
    ratios = np.log(values)
    edges = [0, *starts, len(values)]
    around = np.concatenate([np.abs(ratios[a:b] - take_median(ratios[a:b])) for a, b in pairwise(edges)])
    first = max(len(values) - _EXAMINED_MAXIMUM, 0)
    distances = around[first:]
    place = _find_place(distances)
    before = distances[max(place - _SIDE_MAXIMUM, 0) : place]
    after = distances[place : place + _SIDE_MAXIMUM]
    old, new = (DEVIATIONS_PER_MEDIAN * take_median(side) for side in (before, after))
    # Around their own median, too: a step below the threshold moves values away from the level without spreading them.
    later = ratios[first + place : first + place + _SIDE_MAXIMUM]
    around_own = DEVIATIONS_PER_MEDIAN * take_median(np.abs(later - take_median(later)))
    if min(new, around_own) < max(LEAST_RELATIVE_CHANGE, _RATIO_MINIMUM * old):
        return None
    score = score_ranks_exactly(before, after) / math.sqrt(_measure_inflation(before, after))
    # It has to last: a few wide runs are bad runs.
    newest = DEVIATIONS_PER_MEDIAN * take_median(distances[-_AFTER_MINIMUM:])
    if score < _SCORE_MINIMUM or newest < _RATIO_MINIMUM * old:
        return None
    return SpreadIncrease(first + place, old, new, score)


def find_two_states(values: Array, *, smallest_change: float) -> TwoStates | None:
    """Return the two states between which the newest 240 values alternate; None if there are none.

    smallest_change: by which the states differ at least, relative. Values that are not all positive have no states.
    """
    examined = values[-_EXAMINED_MAXIMUM:]
    count = len(examined)
    if count < _EXAMINED_MINIMUM or examined.min() <= 0:
        return None
    ratios = np.log(examined)
    ordered = np.sort(ratios)
    split = _split_in_two(ordered)
    fewer = min(split, count - split)
    if fewer < _SHARE_MINIMUM * count:
        return None
    low, high = ordered[:split], ordered[split:]
    middles = [take_median(side) for side in (low, high)]
    spread = max(
        DEVIATIONS_PER_MEDIAN * take_median(np.abs(side - middle))
        for side, middle in zip((low, high), middles, strict=True)
    )
    apart = middles[1] - middles[0]
    if apart < max(_SEPARATION_MINIMUM * spread, math.log1p(smallest_change)):
        return None
    is_high = ratios > ordered[split - 1]
    entered = np.diff(is_high.astype(np.int8))
    visits = min(int(np.count_nonzero(entered == side)) for side in (1, -1))
    if visits < _VISITS_MINIMUM:
        return None
    return TwoStates(
        low=take_median(examined[~is_high]),
        high=take_median(examined[is_high]),
        high_share=(count - split) / count,
        visits=visits,
        from_index=len(values) - count,
    )


def is_return_to_state(
    values: Array, index: int, *, before_median: float, after_median: float, states: TwoStates
) -> bool:
    """Return whether a change at `index` is from one state to the other, which was entered often before.

    A stay of more than twice the longest earlier one in that state is another level.
    """
    if min(before_median, after_median) <= 0:
        return False
    low, high = math.log(states.low), math.log(states.high)
    old, new = ((math.log(median) - low) / (high - low) for median in (before_median, after_median))
    if (
        abs(new - round(new)) > _STATE_WIDTH
        or not abs(old + new - 1) < 2 * _STATE_WIDTH
        or abs(new - old) < 1 / 2
    ):
        return False
    is_there = (values > math.exp((low + high) / 2)) == (new > 1 / 2)
    lengths = _list_stays(is_there[:index])
    stay = _list_stays(is_there[index:])[:1]
    return len(lengths) >= _VISITS_MINIMUM and max(stay, default=0) <= _LONGEST_STAY * max(lengths)


def _list_stays(is_there: NDArray[np.bool_]) -> list[int]:
    """Return the lengths of the stays in a state, oldest first."""
    edges = np.flatnonzero(np.diff(is_there.astype(np.int8), prepend=0, append=0)).tolist()
    return [end - start for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _find_place(distances: Array) -> int:
    """Return the place with the largest difference of the mean logarithms of the distances before and after."""
    floor = _FLOOR_SHARE * float(distances.mean()) or 1.0
    sums = np.concatenate([[0.0], np.cumsum(np.log(distances + floor))])
    places = np.arange(_BEFORE_MINIMUM, len(distances) - _AFTER_MINIMUM + 1)
    before = np.minimum(places, _SIDE_MAXIMUM)
    after = np.minimum(len(distances) - places, _SIDE_MAXIMUM)
    rise = (sums[places + after] - sums[places]) / after - (sums[places] - sums[places - before]) / before
    return int(places[(rise / np.sqrt(1 / before + 1 / after)).argmax()])


def _measure_inflation(before: Array, after: Array) -> float:
    """Return by how much correlation of consecutive distances increases the variance of the ranks."""
    residuals = [side - side.mean() for side in (before, after)]
    squares = sum(float(side @ side) for side in residuals)
    if squares <= 0:
        return 1.0
    products = sum(float(side[1:] @ side[:-1]) for side in residuals)
    correlation = min(max(products / squares, 0.0), _CORRELATION_MAXIMUM)
    return (1 + correlation) / (1 - correlation)


def _split_in_two(ordered: Array) -> int:
    """Return the number of values in the lower of two groups with the least squares (Fisher 1958, for two groups)."""
    count = len(ordered)
    centered = ordered - ordered[0]
    sums = np.cumsum(centered)
    sizes = np.arange(1, count)
    means = sums[:-1] / sizes
    rest = (sums[-1] - sums[:-1]) / (count - sizes)
    return int((sizes * (count - sizes) * (rest - means) ** 2).argmax()) + 1
