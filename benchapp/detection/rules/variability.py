"""Findings about the variability of a series that are no changes of level: larger spread, and two states. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.rank_test import score_ranks_exactly
from benchapp.detection.changepoints.segmentation import DEVIATIONS_PER_MEDIAN, take_median

Array = NDArray[np.float64]

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
