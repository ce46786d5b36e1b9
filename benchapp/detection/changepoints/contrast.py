"""Contrast of two levels from running sums: their distance relative to their noise and its correlation."""

import itertools
import math
from dataclasses import dataclass
from typing import Final

from benchapp.detection.changepoints.segmentation import Levels

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
