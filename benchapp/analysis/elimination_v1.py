"""Which candidates stand: from the weakest on, each must differ in size, in ranks, from a drift and from old visits.

Part of method v1. All limits are of standard normal scores unless they say otherwise; docs/detection.md derives them.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Final

from benchapp.analysis.rank_test_v1 import score_ranks
from benchapp.analysis.segmentation_v1 import Levels, refine, relocate

# Points to each side that speak for a boundary: enough for any test, few enough that a slow drift stays small.
SIDE_POINTS: Final = 60
# Of the moderated t test, from 5 points on the shorter side; and of fewer, which bad luck fills more easily and which
# are judged again with each new point.
LEAST_T: Final = 3.7
LEAST_T_OF_FEW: Final = {3: 6.0, 4: 5.0}
# Of the exact rank test: what 3 points beyond all of 20 reach (1 of 1 771: 3.25), with room for one tie.
LEAST_RANK: Final = 3.1
# The same where t is beyond doubt: a spike on the wrong side costs ranks.
SURE_T: Final = 6.0
LEAST_RANK_OF_SURE: Final = 2.7
# Points of noise known from the whole stretch, beside those of the two sides (the "moderation" of the t test).
PRIOR_POINTS: Final = 4.0
# Share of the shift by which the new level must lie beyond the farthest stretch of the old one as long as it.
LEAST_NOVELTY: Final = 0.5
LEAST_NOVELTY_OF_FEW: Final = 0.65
# Points to each side in which old visits are remembered: twice those of the tests, since states that last are rare.
# Less is asked there, or a drift would pass for a visit.
REMEMBERED_POINTS: Final = 120
LEAST_REMEMBERED_NOVELTY: Final = 0.3
# Points: the longest stretch of the new level that is compared with the old; longer ones never are mere visits.
LONGEST_VISIT: Final = 20
# Twice the gain in log likelihood of a step over a straight line through the same points.
LEAST_GAIN_OVER_LINE: Final = 4.0
# A level that was left for where it came from within so many points is an excursion; two places were searched for it
# and cache states make them all the time: it needs more.
LONGEST_EXCURSION: Final = 30
LEAST_T_OF_EXCURSION: Final = 8.0
# Share of the shift within which the levels before and after an excursion are the same.
SAME_LEVEL_SHARE: Final = 0.5
# Points. Correlation of neighbours seen in so many is believed by half.
CORRELATION_DOUBT: Final = 15.0
MOST_CORRELATION: Final = 0.85


@dataclass(frozen=True, slots=True)
class Contrast:
    """Two sides of a boundary, or of an excursion, compared; shift in the values' units, t as a normal score."""

    shift: float
    t_score: float
    correlation: float
    gain_over_line: float


def eliminate(levels: Levels, candidates: list[int], *, spread: float, least_shift: float) -> list[int]:
    """Return the candidates that stand, ascending, each where its levels are split best.

    The weakest goes first, since its neighbours are then judged on longer levels; moved to the split of least squares,
    all are judged again. `spread` and `least_shift` are in the values' units.
    """
    judge = _Judge(levels, spread, least_shift)
    standing = judge.remove_weak(candidates)
    moved = _relocate_all(levels, standing)
    if moved != standing:
        standing = judge.remove_weak(moved)
    return _refine_all(levels, standing, spread)


class _Judge:
    """Judges boundaries between their neighbours, each set of neighbours once."""

    def __init__(self, levels: Levels, spread: float, least_shift: float) -> None:
        self.levels, self.spread, self.least_shift = levels, spread, least_shift
        self._known: dict[tuple[int, ...], float] = {}

    def remove_weak(self, boundaries: list[int]) -> list[int]:
        """Return those that stand; one goes at a time."""
        standing = list(boundaries)
        while standing:
            strengths = self._measure_all([0, *standing, len(self.levels)])
            weakest = min(range(len(standing)), key=strengths.__getitem__)
            if strengths[weakest] >= 1:
                break
            del standing[weakest]
        return standing

    def _measure_all(self, edges: list[int]) -> list[float]:
        """Return of each inner edge how many times its limits it reaches; below 1 it falls."""
        strengths = [self._recall(*edges[i : i + 3]) for i in range(len(edges) - 2)]
        for i in range(len(edges) - 3):
            if edges[i + 2] - edges[i + 1] < LONGEST_EXCURSION:
                shared = self._recall(*edges[i : i + 4])
                strengths[i] = min(strengths[i], shared)
                strengths[i + 1] = min(strengths[i + 1], shared)
        return strengths

    def _recall(self, *edges: int) -> float:
        if edges not in self._known:
            measure = self._measure_boundary if len(edges) == 3 else self._measure_excursion
            self._known[edges] = measure(*edges)
        return self._known[edges]

    def _measure_boundary(self, first: int, place: int, last: int) -> float:
        start, end = max(first, place - SIDE_POINTS), min(last, place + SIDE_POINTS)
        contrast = compare_sides(self.levels, start, place, end=end, spread=self.spread)
        fewer = min(place - start, end - place)
        strength = contrast.t_score / LEAST_T_OF_FEW.get(fewer, LEAST_T)
        if abs(contrast.shift) < self.least_shift or contrast.gain_over_line < LEAST_GAIN_OVER_LINE:
            return 0.0
        if strength < 1:
            return strength
        least_novelty = LEAST_NOVELTY_OF_FEW if fewer in LEAST_T_OF_FEW else LEAST_NOVELTY
        if not self._is_novel(first, place, last, least_novelty):
            return 0.0
        return min(strength, self._score_ranks(first, place, last) / _ask_rank(contrast.t_score))

    def _is_novel(self, first: int, place: int, last: int, least: float) -> bool:
        """Return whether neither the near nor the remembered past has seen the new level for as long."""
        for points, share in ((SIDE_POINTS, least), (REMEMBERED_POINTS, LEAST_REMEMBERED_NOVELTY)):
            start, end = max(first, place - points), min(last, place + points)
            if _measure_novelty(self.levels, start, place, end=end) <= share:
                return False
        return True

    def _score_ranks(self, first: int, place: int, last: int) -> float:
        values = self.levels.values
        before = values[max(first, place - SIDE_POINTS) : place]
        return score_ranks(before, values[place : min(last, place + SIDE_POINTS)])

    def _measure_excursion(self, start: int, left: int, returned: int, end: int) -> float:
        start, end = max(start, left - SIDE_POINTS), min(end, returned + SIDE_POINTS)
        score = score_excursion(self.levels, (start, left, returned, end), spread=self.spread)
        return math.inf if score is None else score / LEAST_T_OF_EXCURSION


def _ask_rank(t_score: float) -> float:
    return LEAST_RANK_OF_SURE if t_score >= SURE_T else LEAST_RANK


def compare_sides(levels: Levels, start: int, place: int, *, end: int, spread: float) -> Contrast:
    """Return the contrast of [start, place) and [place, end); to their noise 4 points of `spread` are added."""
    before, after, count = place - start, end - place, end - start
    sums, squares = levels.sum_list, levels.square_sums
    total_before, total_after = sums[place] - sums[start], sums[end] - sums[place]
    mean_before, mean_after = total_before / before, total_after / after
    shift = mean_after - mean_before
    total_squares = squares[end] - squares[start]
    rest = max(total_squares - total_before * mean_before - total_after * mean_after, 0.0)
    products = _multiply_neighbours(levels, start, place, mean_before)
    products += _multiply_neighbours(levels, place, end, mean_after)
    correlation = _correlate(products, rest, count, 2)
    t_score = _score_shift(
        shift, rest, spread=spread, weights=1 / before + 1 / after, count=count - 2, correlation=correlation
    )
    line = _fit_line(levels, start, end)
    floor = 1e-9 * spread * spread
    gain = count * math.log((line + floor) / (rest + floor))
    return Contrast(shift, t_score, correlation, gain)


def score_excursion(levels: Levels, edges: tuple[int, int, int, int], *, spread: float) -> float | None:
    """Return the t score of the middle of three levels against both others; None where they are not the same level."""
    start, end = edges[0], edges[-1]
    sums, squares = levels.sum_list, levels.square_sums
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
        _multiply_neighbours(levels, a, b, m)
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


def _multiply_neighbours(levels: Levels, start: int, end: int, mean: float) -> float:
    """Return Σ (xᵢ − mean)(xᵢ₋₁ − mean) over neighbours within [start, end)."""
    if end - start < 2:
        return 0.0
    sums, products = levels.sum_list, levels.neighbour_sums
    both = sums[end] - sums[start + 1] + sums[end - 1] - sums[start]
    return products[end] - products[start + 1] - mean * both + (end - start - 1) * mean * mean


def _correlate(products: float, squares: float, count: int, means: int) -> float:
    """Return the lag-1 correlation of residuals, lifted by the bias of fitted means, drawn to 0 by few points."""
    if squares <= 0:
        return 0.0
    raw = products / squares + means / count
    return min(max(raw, 0.0) * count / (count + CORRELATION_DOUBT), MOST_CORRELATION)


def _score_shift(
    shift: float, squares: float, *, spread: float, weights: float, count: int, correlation: float
) -> float:
    """Return the normal score of a t test with variance inflated by (1+φ)/(1−φ) and freedom deflated by it.

    Moderated: Smyth 2004. Normal score of t: Wallace 1959, good to 0.02 from 3 degrees of freedom on.
    """
    inflation = (1 + correlation) / (1 - correlation)
    freedom = count + PRIOR_POINTS
    variance = (squares + PRIOR_POINTS * spread * spread) / freedom
    t_squared = shift * shift / (variance * weights * inflation)
    freedom /= inflation
    return math.sqrt(freedom * math.log1p(t_squared / freedom)) * (8 * freedom + 1) / (8 * freedom + 3)


def _fit_line(levels: Levels, start: int, end: int) -> float:
    """Return the squares that the best straight line through [start, end) leaves."""
    count = end - start
    total = levels.sum_list[end] - levels.sum_list[start]
    centre = (start + end - 1) / 2
    tilt = levels.place_sums[end] - levels.place_sums[start] - centre * total
    squares = levels.square_sums[end] - levels.square_sums[start] - total * total / count
    return max(squares - tilt * tilt / (count * (count * count - 1) / 12), 0.0)


def _measure_novelty(levels: Levels, start: int, place: int, *, end: int) -> float:
    """Return how far the shorter side lies beyond any equally long stretch of the longer, as share of the shift.

    1 where even that stretch has the mean of its side; 0 where the old level has visited the new one for as long.
    """
    before, after = place - start, end - place
    sums, ends = levels.sum_list, levels.sums
    mean_before = (sums[place] - sums[start]) / before
    mean_after = (sums[end] - sums[place]) / after
    shift = mean_after - mean_before
    if before >= after:
        (first, last), longer, shorter, fewer = (start, place), before, mean_after, after
    else:
        (first, last), longer, shorter, fewer = (place, end), after, mean_before, before
        shift = -shift
    length = min(fewer, max(longer // 2, 1), LONGEST_VISIT)
    stretches = ends[first + length : last + 1] - ends[first : last + 1 - length]
    farthest = float(stretches.max() if shift > 0 else stretches.min()) / length
    return (shorter - farthest) / shift


def _relocate_all(levels: Levels, boundaries: list[int]) -> list[int]:
    edges = [0, *boundaries, len(levels)]
    for i in range(1, len(edges) - 1):
        place = relocate(levels, *_reach(edges, i))
        edges[i] = edges[i] if place is None else place
    return edges[1:-1]


def _refine_all(levels: Levels, boundaries: list[int], spread: float) -> list[int]:
    edges = [0, *boundaries, len(levels)]
    for i in range(1, len(edges) - 1):
        start, end = _reach(edges, i)
        edges[i] = refine(levels, start, edges[i], end=end, spread=spread)
    return edges[1:-1]


def _reach(edges: list[int], number: int) -> tuple[int, int]:
    """Return what belongs to a boundary: up to its neighbours, at most 60 points to each side."""
    place = edges[number]
    return max(edges[number - 1], place - SIDE_POINTS), min(edges[number + 1], place + SIDE_POINTS)
