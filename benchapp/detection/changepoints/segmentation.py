"""Candidates for starts of levels: a scan with multiple window sizes, then the best partition of its results.

Selects too many on purpose; the detector eliminates the weakest.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.intp]

# Points. A level has at least three measurements; two can be one incident of noise.
LEAST_LEVEL: Final = 3
# Window sizes left and right of a place whose means are compared: equal ones, and long with short.
WINDOWS: Final = np.array(
    [
        (3, 3),
        (5, 5),
        (8, 8),
        (16, 16),
        (32, 32),
        (64, 64),
        (64, 3),
        (64, 6),
        (64, 12),
        (3, 64),
        (6, 64),
        (12, 64),
    ],
    dtype=np.intp,
)
# Spreads of the difference. Chance reaches it often: this is a preselection.
LEAST_CONTRAST: Final = 2.5
# Times σ²·ln n for each level more: Schwarz's criterion, which overestimates a little in correlated noise.
LEVEL_PENALTY: Final = 2.0
# Points on each side from which medians are precise enough to place the boundary.
LEAST_REFINED: Final = 5
# The median distance from the middle of a normal distribution, inverted; and the least scale in terms of the spread.
DEVIATIONS_PER_MEDIAN: Final = 1.4826
LEAST_SCALE: Final = 0.3
# Points to either side, among which a candidate must be the largest of its window size.
PEAK_REACH: Final = 2


@dataclass(frozen=True)
class Levels:
    """A segment: its centered values, with running sums for means and slopes in constant time.

    given: the values with bad runs, where those were replaced; None otherwise.
    """

    values: Array
    given: Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def sums(self) -> Array:
        """Running sums of the values; one longer than the values."""
        return _accumulate(self.values)

    @cached_property
    def sum_list(self) -> list[float]:
        """The same as a list: access to single elements of an array is ten times slower."""
        return _list(self.sums)

    @cached_property
    def square_sums(self) -> Array:
        """Running sums of the squares."""
        return _accumulate(self.values * self.values)

    @cached_property
    def square_sum_list(self) -> list[float]:
        """The same as a list."""
        return _list(self.square_sums)

    @cached_property
    def place_sums(self) -> list[float]:
        """Running sums of place × value."""
        return _list(_accumulate(self.values * np.arange(len(self.values))))

    @cached_property
    def neighbor_sums(self) -> list[float]:
        """Running sums of value × previous value; the first point has none."""
        return _list(_accumulate(np.concatenate([[0.0], self.values[1:] * self.values[:-1]])))


def find_boundaries(levels: Levels, spread: float) -> list[int]:
    """Return ascending candidates for the first points of new levels; `spread` is the noise in the values' units."""
    candidates = scan_contrasts(levels, spread)
    return partition(levels, candidates, spread=spread) if len(candidates) else []


@dataclass(frozen=True, slots=True)
class _WindowPairs:
    """The pairs of windows around each place of a segment, a row for each pair of sizes; shorter at its ends.

    ends, starts: of the windows after and before the place; errors: of the difference of their means, in spreads.
    """

    places: Places
    ends: Places
    starts: Places
    after: Places
    before: Places
    errors: Array


@lru_cache(maxsize=32)  # the series of a host have as many runs; at most 0.4 MB each
def _arrange_windows(count: int) -> _WindowPairs:
    places = np.arange(LEAST_LEVEL, count - LEAST_LEVEL + 1)
    before = np.minimum(places, WINDOWS[:, :1])
    after = np.minimum(count - places, WINDOWS[:, 1:])
    return _WindowPairs(
        places, places + after, places - before, after, before, np.sqrt(1 / before + 1 / after)
    )


def scan_contrasts(levels: Levels, spread: float) -> Places:
    """Return the places where, for some window size, the means before and after differ most and by 2.5 spreads."""
    windows = _arrange_windows(len(levels))
    places = windows.places
    if not len(places):
        return places
    sums = levels.sums
    here = sums[places]
    contrasts = (sums[windows.ends] - here) / windows.after
    contrasts -= (here - sums[windows.starts]) / windows.before
    np.abs(contrasts, out=contrasts)
    contrasts /= windows.errors
    padded = np.zeros((len(WINDOWS), len(places) + 2 * PEAK_REACH))
    is_large = contrasts >= LEAST_CONTRAST * spread
    padded[:, PEAK_REACH:-PEAK_REACH] = contrasts * is_large
    is_peak = is_large & (contrasts > 0)
    for shift in range(1, PEAK_REACH + 1):
        is_peak &= contrasts >= padded[:, PEAK_REACH - shift : -PEAK_REACH - shift]
        is_peak &= contrasts > padded[:, PEAK_REACH + shift : len(places) + PEAK_REACH + shift]
    return places[is_peak.any(axis=0)]


def partition(levels: Levels, candidates: Places, *, spread: float) -> list[int]:
    """Return those candidates that split the values into levels of least squares plus penalty.

    Exact over the candidates, by dynamic programming (Jackson et al. 2005, "optimal partitioning").
    """
    edges = np.concatenate([[0], candidates, [len(levels)]])
    costs = _measure_costs(levels, edges)
    penalty = LEVEL_PENALTY * spread * spread * math.log(len(levels))
    # Of the values before each edge, with the penalty of the level that begins there; the first level has none.
    least = np.empty(len(edges))
    least[0] = -penalty
    previous = [0]
    for number in range(1, len(edges)):
        totals = least[:number] + costs[number, :number]
        begin = int(totals.argmin())
        previous.append(begin)
        least[number] = totals[begin] + penalty
    end = previous[-1]
    boundaries = []
    while end > 0:
        boundaries.append(int(edges[end]))
        end = previous[end]
    return boundaries[::-1]


def _measure_costs(levels: Levels, edges: Places) -> Array:
    """Return the squares around the mean of a level from one edge (column) to another (row); infinite if too short."""
    sums, squares = levels.sums[edges], levels.square_sums[edges]
    lengths = np.subtract.outer(edges, edges)
    is_short = lengths < LEAST_LEVEL
    lengths[is_short] = 1
    totals = np.subtract.outer(sums, sums)
    costs: Array = np.subtract.outer(squares, squares) - totals * totals / lengths
    costs[is_short] = math.inf
    return costs


def relocate(levels: Levels, start: int, end: int) -> int | None:
    """Return the split of [start, end) into two levels of least squares; None if it is too short for two."""
    count = end - start
    left = np.arange(LEAST_LEVEL, count - LEAST_LEVEL + 1)
    if not len(left):
        return None
    sums = levels.sums
    before = sums[start + left] - sums[start]
    total = sums[end] - sums[start]
    gains = (before - total * left / count) ** 2 / (left * (count - left))
    return start + int(left[gains.argmax()])


def refine(levels: Levels, start: int, place: int, *, end: int, spread: float) -> int:
    """Return the split of [start, end) of greatest likelihood, the levels being the medians around `place`.

    Noise is taken for Student's t with 3 degrees of freedom: beside a boundary one value far out says little about the
    side that it belongs to, and least squares would follow it. The place itself with fewer than 5 points on a side.
    """
    if min(place - start, end - place) < LEAST_REFINED:
        return place
    values = levels.values[start:end]
    before, after = values[: place - start], values[place - start :]
    old, new = take_median(before), take_median(after)
    apart = np.abs(np.concatenate([before - old, after - new]))
    scale = max(DEVIATIONS_PER_MEDIAN * take_median(apart), LEAST_SCALE * spread)
    costs = np.log1p((values - old) ** 2 / (3 * scale * scale))
    costs -= np.log1p((values - new) ** 2 / (3 * scale * scale))
    left = _accumulate(costs)[LEAST_LEVEL : len(values) - LEAST_LEVEL + 1]
    return start + LEAST_LEVEL + int(left.argmin())


def take_median(values: Array) -> float:
    """Return the median; five times faster than np.median for few values."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


@dataclass(frozen=True, slots=True)
class Groups:
    """Values by the group that they belong to. sizes: of each group.

    places: of the values, a row for each group that has any, filled up with the number of all values. middles: indices
    of the lower and the upper middle of each row, in all rows one after the other.
    """

    sizes: Places
    places: Places
    middles: Places


def arrange_groups(groups: NDArray[np.int64], *, count: int) -> Groups:
    """Return values by the number of their group, 0 to count − 1."""
    sizes = np.bincount(groups, minlength=count)
    known = sizes[sizes > 0]
    places = np.full((len(known), int(known.max(initial=0))), len(groups))
    places[np.arange(places.shape[1]) < known[:, np.newaxis]] = np.argsort(groups, kind="stable")
    starts = np.arange(len(known)) * places.shape[1]
    return Groups(sizes, places, np.stack([starts + (known - 1) // 2, starts + known // 2]))


def take_group_medians(values: Array, groups: Groups) -> Array:
    """Return the median of each group by its number; NaN for a group without values."""
    # NaN is sorted behind the values of each group.
    ordered = np.sort(np.append(values, np.nan)[groups.places], axis=1)
    low, high = ordered.take(groups.middles)
    medians = np.full(len(groups.sizes), np.nan)
    medians[groups.sizes > 0] = (low + high) / 2
    return medians


def _list(sums: Array) -> list[float]:
    plain: list[float] = sums.tolist()
    return plain


def _accumulate(values: Array) -> Array:
    sums = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


# Points of noise from the whole segment that are added to those of the sides (the "moderation" of the t test).
PRIOR_POINTS: Final = 4.0
# Share of the shift within which the levels before and after an excursion are the same.
SAME_LEVEL_SHARE: Final = 0.5
# Points. A correlation from this many points counts half.
CORRELATION_DOUBT: Final = 15.0
MOST_CORRELATION: Final = 0.85


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two sides of a boundary compared: shift in the values' units, and in spreads of single points; t as a normal
    score; gain_over_line is twice the gain in log likelihood of the step over a straight line."""

    shift: float
    spreads: float
    t_score: float
    correlation: float
    gain_over_line: float


def compare_sides(levels: Levels, start: int, place: int, *, end: int, spread: float) -> Contrast:
    """Return the contrast of [start, place) and [place, end), with 4 points of `spread` added to their noise."""
    before, after, count = place - start, end - place, end - start
    sums, squares = levels.sum_list, levels.square_sum_list
    total_before, total_after = sums[place] - sums[start], sums[end] - sums[place]
    mean_before, mean_after = total_before / before, total_after / after
    shift = mean_after - mean_before
    total_squares = squares[end] - squares[start]
    rest = max(total_squares - total_before * mean_before - total_after * mean_after, 0.0)
    products = _multiply_neighbors(levels, start, place, mean_before)
    products += _multiply_neighbors(levels, place, end, mean_after)
    correlation = _correlate(products, rest, count, 2)
    t_score = _score_shift(
        shift, rest, spread=spread, weights=1 / before + 1 / after, count=count - 2, correlation=correlation
    )
    spreads = abs(shift) / math.sqrt(_moderate(rest, spread, count - 2))
    line = _fit_line(levels, start, end)
    floor = 1e-9 * spread * spread
    gain = count * math.log((line + floor) / (rest + floor))
    return Contrast(shift, spreads, t_score, correlation, gain)


def score_excursion(levels: Levels, edges: tuple[int, int, int, int], *, spread: float) -> float | None:
    """Return the t score of the middle of three levels against both others; None if these are not the same level."""
    start, end = edges[0], edges[-1]
    sums, squares = levels.sum_list, levels.square_sum_list
    lengths = [b - a for a, b in itertools.pairwise(edges)]
    totals = [sums[b] - sums[a] for a, b in itertools.pairwise(edges)]
    means = [total / length for total, length in zip(totals, lengths, strict=True)]
    away, back = means[1] - means[0], means[1] - means[2]
    if away * back <= 0 or abs(means[0] - means[2]) > SAME_LEVEL_SHARE * min(abs(away), abs(back)):
        return None
    outside = lengths[0] + lengths[2]
    shift = means[1] - (totals[0] + totals[2]) / outside
    rest = squares[end] - squares[start] - sum(t * m for t, m in zip(totals, means, strict=True))
    products = sum(
        _multiply_neighbors(levels, a, b, m)
        for (a, b), m in zip(itertools.pairwise(edges), means, strict=True)
    )
    count = end - start
    correlation = _correlate(products, rest, count, 3)
    return _score_shift(
        shift,
        max(rest, 0.0),
        spread=spread,
        weights=1 / lengths[1] + 1 / outside,
        count=count - 3,
        correlation=correlation,
    )


def _multiply_neighbors(levels: Levels, start: int, end: int, mean: float) -> float:
    """Return Σ (xᵢ − mean)(xᵢ₋₁ − mean) over neighbors within [start, end)."""
    if end - start < 2:
        return 0.0
    sums, products = levels.sum_list, levels.neighbor_sums
    both = sums[end] - sums[start + 1] + sums[end - 1] - sums[start]
    return products[end] - products[start + 1] - mean * both + (end - start - 1) * mean * mean


def _correlate(products: float, squares: float, count: int, means: int) -> float:
    """Return the lag-1 correlation of residuals, corrected for the bias of fitted means, shrunk to 0 for few points."""
    if squares <= 0:
        return 0.0
    raw = products / squares + means / count
    return min(max(raw, 0.0) * count / (count + CORRELATION_DOUBT), MOST_CORRELATION)


def _score_shift(
    shift: float, squares: float, *, spread: float, weights: float, count: int, correlation: float
) -> float:
    """Return the normal score of a t test with variance increased by (1+φ)/(1−φ) and degrees of freedom reduced by it.

    Moderated: Smyth 2004.
    """
    inflation = (1 + correlation) / (1 - correlation)
    t_squared = shift * shift / (_moderate(squares, spread, count) * weights * inflation)
    return normalize_t_score(t_squared, (count + PRIOR_POINTS) / inflation)


def normalize_t_score(t_squared: float, freedom: float) -> float:
    """Return the normal score of t² with so many degrees of freedom; accurate to 0.02 from 3 on (Wallace 1959)."""
    return math.sqrt(freedom * math.log1p(t_squared / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)


def _moderate(squares: float, spread: float, count: int) -> float:
    """Return the variance of `count` points with their squares, with 4 points of the whole segment added."""
    return (squares + PRIOR_POINTS * spread * spread) / (count + PRIOR_POINTS)


def _fit_line(levels: Levels, start: int, end: int) -> float:
    """Return the squares of the residuals of the best straight line through [start, end)."""
    count = end - start
    total = levels.sum_list[end] - levels.sum_list[start]
    center = (start + end - 1) / 2
    tilt = levels.place_sums[end] - levels.place_sums[start] - center * total
    squares = levels.square_sum_list[end] - levels.square_sum_list[start] - total * total / count
    return max(squares - tilt * tilt / (count * (count * count - 1) / 12), 0.0)
