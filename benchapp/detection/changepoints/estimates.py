"""Estimates from the values of a history: its noise, the shift between two levels, the rank test.

Noise needs no segmentation: a step affects one difference between neighbors and a spike two, so that the others give
the spread. The exact rank test of Mann and Whitney is implemented here, because SciPy would add 40 MB to every
installation.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Share of the squared differences. Two spikes in thirty points affect 13 %; a cache miss rate of one in five affects
# 32 %, of which half must remain, or the noise would be underestimated.
KEPT_SHARE: Final = 0.85
# Spreads. A Gaussian point exceeds it once in 16 000.
SPIKE_SPREADS: Final = 4.0
# Points. Three in a row are not a spike: they may be a new level.
LONGEST_SPIKE: Final = 2
# Window of the running median: the smallest in which three outliers are a minority.
MEDIAN_WINDOW: Final = 7
# Points. With fewer the correlation of neighbors is mostly chance and weighted less.
CORRELATION_DOUBT: Final = 10
MOST_CORRELATION: Final = 0.9
# Share of the squared differences without bad runs: with 20 % of these, 36 % of the differences are affected.
SOUND_SHARE: Final = 0.6
# Bad runs are recognized only if the others have clearly less noise, if they are at least 3, at most 20 %, and if half
# of them are alone: of 15 % at random 28 % have a neighbor, of states that last two runs and more most.
SOUND_SPREAD_SHARE: Final = 0.7
FEWEST_BAD: Final = 3
MOST_BAD_SHARE: Final = 0.2
MOST_BAD_TOGETHER: Final = 0.5


def _mean_square_of_kept(share: float) -> float:
    """Return the mean square of a standard normal variable restricted to its smallest share."""
    edge = NormalDist().inv_cdf((1 + share) / 2)
    return 1 - 2 * edge * NormalDist().pdf(edge) / share


_KEPT_MEAN_SQUARES: Final = {share: _mean_square_of_kept(share) for share in (KEPT_SHARE, SOUND_SHARE)}


@dataclass(frozen=True, slots=True)
class SoundLevels:
    """Levels with lone bad runs replaced by the median around them, and the spread of the others."""

    values: Array
    spread: float


def measure_spread(levels: Array, *, least: float, kept_share: float = KEPT_SHARE) -> float:
    """Return the standard deviation of the noise around its levels, in units of the input, at least `least`.

    With v₁ and v₂ the trimmed mean squares of differences at distance 1 and 2, a chain with lag-1 correlation φ has
    v₁ = 2σ²(1−φ) and v₂ = 2σ²(1−φ²), so that φ = v₂/v₁ − 1. `least` for fewer than 3 points.
    """
    count = len(levels)
    if count < 3:
        return least
    near = _trim_mean_square(levels[1:] - levels[:-1], kept_share)
    far = _trim_mean_square(levels[2:] - levels[:-2], kept_share)
    return _combine(near, far, count=count, least=least)


def measure_spreads(rows: Array, *, least: float) -> list[float]:
    """Return the result of `measure_spread` for each row of an array."""
    count = rows.shape[1]
    if count < 3:
        return [least] * len(rows)
    near = _trim_mean_squares(rows[:, 1:] - rows[:, :-1])
    far = _trim_mean_squares(rows[:, 2:] - rows[:, :-2])
    return [_combine(*both, count=count, least=least) for both in zip(near, far, strict=True)]


def _combine(near: float, far: float, *, count: int, least: float) -> float:
    """Return the standard deviation by the mean squares of differences at distance 1 and 2."""
    if near <= 0:
        return least
    correlation = min(max(far / near - 1, 0.0), MOST_CORRELATION) * count / (count + CORRELATION_DOUBT)
    return max(math.sqrt(near / 2 / (1 - correlation)), least)


def clip_spikes(levels: Array, spread: float) -> Array:
    """Return the levels with isolated spikes clipped to 4 spreads from the median around them.

    Isolated: at most two neighbors beyond the limit on the same side. The first and the newest point are not clipped;
    points after the newest may show that it is not a spike.
    """
    count = len(levels)
    if count < MEDIAN_WINDOW:
        return levels
    around = _take_running_median(levels)
    limit = SPIKE_SPREADS * spread
    sides = _find_far(levels - around, limit)
    if not sides.any():
        return levels
    clipped = levels.copy()
    for start, end in _find_runs(sides):
        if end - start <= LONGEST_SPIKE and start > 0 and end < count:
            clipped[start:end] = around[start:end] + limit * sides[start]
    return clipped


def replace_bad_runs(levels: Array, spread: float, *, least: float) -> SoundLevels | None:
    """Return the levels without lone bad runs, and their spread; None if there are none, too many, or they cluster.

    `spread` is that of all points. Bad runs at random inflate it, so that they hide changes.
    """
    if len(levels) < MEDIAN_WINDOW:
        return None
    sound_spread = measure_spread(levels, least=least, kept_share=SOUND_SHARE)
    if sound_spread >= SOUND_SPREAD_SHARE * spread:
        return None
    around = _take_running_median(levels)
    sides = _find_far(levels - around, SPIKE_SPREADS * sound_spread)
    lengths = [(start, end) for start, end in _find_runs(sides) if start > 0 and end < len(levels)]
    count = sum(end - start for start, end in lengths)
    together = sum(end - start for start, end in lengths if end - start > 1)
    if not FEWEST_BAD <= count <= MOST_BAD_SHARE * len(levels) or together > MOST_BAD_TOGETHER * count:
        return None
    sound = levels.copy()
    for start, end in lengths:
        if end - start <= LONGEST_SPIKE:
            sound[start:end] = around[start:end]
    return SoundLevels(sound, sound_spread)


def _take_running_median(levels: Array) -> Array:
    half = MEDIAN_WINDOW // 2
    padded = np.concatenate([levels[half - 1 :: -1], levels, levels[: -half - 1 : -1]])
    # As sliding_window_view, which takes as long as the rest together.
    windows = np.ndarray((len(levels), MEDIAN_WINDOW), buffer=padded, strides=2 * padded.strides)
    return np.sort(windows, axis=1)[:, half]


def _find_far(beyond: Array, limit: float) -> NDArray[np.int8]:
    """Return 1 and −1 where the distance exceeds the limit above and below."""
    return (beyond > limit).astype(np.int8) - (beyond < -limit)


def _trim_mean_square(differences: Array, kept_share: float) -> float:
    squares = np.sort(differences * differences)
    kept = max(1, math.ceil(kept_share * len(squares)))
    return float(squares[:kept].mean()) / _KEPT_MEAN_SQUARES[kept_share]


def _trim_mean_squares(differences: Array) -> list[float]:
    squares = np.sort(differences * differences, axis=1)
    kept = max(1, math.ceil(KEPT_SHARE * squares.shape[1]))
    means: list[float] = (squares[:, :kept].mean(axis=1) / _KEPT_MEAN_SQUARES[KEPT_SHARE]).tolist()
    return means


def _find_runs(sides: NDArray[np.int8]) -> list[tuple[int, int]]:
    """Return start and exclusive end of each run of equal non-zero values."""
    edges = np.flatnonzero(np.diff(sides, prepend=0, append=0)).tolist()
    return [(start, end) for start, end in itertools.pairwise(edges) if sides[start]]


# Two-sided.
INTERVAL_LEVEL: Final = 0.95
_INTERVAL_SCORE: Final = NormalDist().inv_cdf((1 + INTERVAL_LEVEL) / 2)
# Interquartile range of a normal distribution, in standard deviations.
_QUARTILES_APART: Final = 1.349
# Share of the largest value below which a level counts as 0, without relative changes.
LEAST_SHARE: Final = 1e-100


@dataclass(frozen=True, slots=True)
class ShiftLevel:
    """Measurements around one level: median and spread in the values' units; spread is that of a normal distribution
    with the same quartiles."""

    median: float
    spread: float
    points: int


@dataclass(frozen=True, slots=True)
class Shift:
    """A relative change (−0.15 is 15 % less) with its 95 % interval; None if the old level is 0."""

    relative: float | None
    low: float | None
    high: float | None


def describe_level(values: Array) -> ShiftLevel:
    """Return median, spread and number of one or more finite values."""
    ordered = np.sort(values)
    apart = _read_quantile(ordered, 0.75) - _read_quantile(ordered, 0.25)
    return ShiftLevel(_read_quantile(ordered, 0.5), apart / _QUARTILES_APART, len(ordered))


@lru_cache(maxsize=2048)  # the sides of a few histories; at most half a kilobyte each
def recall_level(values: bytes) -> ShiftLevel:
    """Return the level of these doubles, cached for repeated evaluations of a growing history."""
    return describe_level(np.frombuffer(values))


def measure_shift(before: Array, after: Array, *, correlation: float = 0.0) -> Shift:
    """Return the shift of the median relative to the size of the old one, with the interval of all pairs' ratios.

    Hodges and Lehmann 1963: the interval is cut from the ordered differences of all pairs at the quantiles of the rank
    test, widened for lag-1 correlation (0 to below 1). Ratios where all values are positive, else differences over the
    old median's size. The interval is extended to include the ratio of the medians, which is the displayed value.
    """
    # Relative to the largest value, because differences of huge values would overflow.
    largest = max(float(np.abs(before).max()), float(np.abs(after).max())) or 1.0
    old, new = (_read_quantile(np.sort(side), 0.5) / largest for side in (before, after))
    if abs(old) < LEAST_SHARE:
        return Shift(None, None, None)
    relative = (new - old) / abs(old)
    is_positive = bool(before.min() > 0 and after.min() > 0)
    if is_positive:
        pairs = np.subtract.outer(np.log(after), np.log(before)).ravel()
        low, high = (math.expm1(min(end, 700.0)) for end in _cut_ends(pairs, before, after, correlation))
    else:
        pairs = np.subtract.outer(after / largest, before / largest).ravel()
        low, high = (end / abs(old) for end in _cut_ends(pairs, before, after, correlation))
    return Shift(relative, min(low, relative), max(high, relative))


def measure_separation(before: Array, after: Array) -> float:
    """Return the gap between two sides as share of the distance of their medians; 0 if their values overlap."""
    gap = max(float(after.min() - before.max()), float(before.min() - after.max()))
    if gap <= 0:
        return 0.0
    old, new = (_read_quantile(np.sort(side), 0.5) for side in (before, after))
    return gap / abs(new - old)


@lru_cache(maxsize=1024)
def recall_shift(before: bytes, after: bytes, correlation: float) -> Shift:
    """Return the shift between these doubles, cached like their levels."""
    return measure_shift(np.frombuffer(before), np.frombuffer(after), correlation=correlation)


def _cut_ends(pairs: Array, before: Array, after: Array, correlation: float) -> tuple[float, float]:
    inflation = (1 + correlation) / (1 - correlation)
    reach = _INTERVAL_SCORE * math.sqrt(inflation * len(pairs) * (len(before) + len(after) + 1) / 12)
    first = max(math.floor(len(pairs) / 2 - reach), 0)
    last = len(pairs) - 1 - first
    parted = np.partition(pairs, (first, last))
    return float(parted[first]), float(parted[last])


def _read_quantile(ordered: Array, share: float) -> float:
    """Return a quantile of sorted values, interpolated linearly."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    weight = place - low
    return float(ordered[low]) * (1 - weight) + float(ordered[high]) * weight


# Points of the smaller side from which the detector uses the normal approximation, which is conservative. With exact
# ranks beyond it, correlated noise causes a tenth more false alarms, and no more changes are detected.
_APPROXIMATE_FROM: Final = 13
# Upper bound of the normal score of any double.
_MOST_SCORE: Final = 37.0
_NORMAL: Final = NormalDist()


def score_ranks(left: Array, right: Array) -> float:
    """Return the distance of two samples as the one-sided standard normal score of Mann-Whitney's U (0 or more).

    Ties count half. The distribution is that of untied ranks, which has the wider tails: a score is never too large by
    ties. Exact up to 12 points on the smaller side, then normal with a correction for continuity. 0 if a side is empty.
    Source: Mann and Whitney 1947.
    """
    small, large = sorted((len(left), len(right)))
    if small < _APPROXIMATE_FROM:
        return score_ranks_exactly(left, right)
    pairs = small * large
    deviation = math.sqrt(pairs * (small + large + 1) / 12)
    return max((pairs / 2 - _count_wins(left, right) - 0.5) / deviation, 0.0)


def score_ranks_exactly(left: Array, right: Array) -> float:
    """Return the same score from the exact distribution, for up to 60 points on each side.

    The approximation cuts off far tails: 13 points beyond all of 60 occur once in 9e13 times, not once in 1e8.
    """
    small, large = sorted((len(left), len(right)))
    if not small:
        return 0.0
    return _score(float(_tabulate_tails(small, large)[math.ceil(_count_wins(left, right))]))


def _count_wins(left: Array, right: Array) -> float:
    """Return in how many pairs one side is larger, for the side with fewer of them; ties count half."""
    column = right[:, None]
    wins = float(np.count_nonzero(column > left) + np.count_nonzero(column >= left)) / 2
    return min(wins, len(left) * len(right) - wins)


def count_arrangements(small: int, large: int) -> Array:
    """Return for each U from 0 to small·large how many of the C(small + large, small) arrangements have it.

    The coefficients of the Gaussian binomial: Π (1 − q^(large+i)) / (1 − q^i) for i = 1 … small. Exact with up to 12
    against 60, where all counts are below 2⁵³; for more, differences cancel in the upper half, while the sums of the
    lower half remain exact to 1e-15 (compared with integers).
    """
    length = small * large + 1
    counts = np.zeros(length)
    counts[0] = 1.0
    for factor in range(1, small + 1):
        shifted = counts.copy()
        shifted[large + factor :] -= counts[: max(length - large - factor, 0)]
        padded = np.concatenate([shifted, np.zeros(-length % factor)])
        counts = np.cumsum(padded.reshape(-1, factor), axis=0).reshape(-1)[:length]
    return counts


@lru_cache(maxsize=2048)  # all 1 830 pairs of sizes up to 60: 13 MB if all occur; 1 ms for the largest
def _tabulate_tails(small: int, large: int) -> Array:
    """Return P(U ≤ u) for each U from 0 up to the middle."""
    half = small * large // 2 + small * large % 2
    # A copy, or the upper half stays in memory.
    below = np.cumsum(count_arrangements(small, large)[: half + 1])
    return below / math.comb(small + large, small)


def _score(probability: float) -> float:
    if probability >= 0.5:
        return 0.0
    return min(-_NORMAL.inv_cdf(probability), _MOST_SCORE)
