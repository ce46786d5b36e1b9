"""Which candidates stand: from the weakest on, each must differ in size, in ranks, from a drift and from old visits.

Part of method v1. Floors keep out what one piece of evidence alone rules out; weight_v1 decides on the sum of all.
"""

import math
from typing import Final

from benchapp.analysis.changepoints.contrast_v1 import Contrast, compare_sides, score_excursion
from benchapp.analysis.changepoints.novelty_v1 import measure_novelty
from benchapp.analysis.changepoints.rank_test_v1 import score_ranks
from benchapp.analysis.changepoints.segmentation_v1 import Levels, refine, relocate
from benchapp.analysis.changepoints.weight_v1 import ChangeEvidence, weigh_evidence, weigh_stay

# Points to each side that speak for a boundary: enough for any test, few enough that a slow drift stays small.
SIDE_POINTS: Final = 60
# Normal score of the moderated t test, from 5 points on the shorter side; and of fewer, which bad luck fills more
# easily and which are judged again with each new point.
LEAST_T: Final = 2.8
LEAST_T_OF_FEW: Final = {3: 4.5, 4: 3.8}
# Normal score of the exact rank test: what 3 points beyond all of 10 reach (1 of 286).
LEAST_RANK: Final = 2.7
# Spreads of single points. A smaller shift hides in the noise that every run has, however many runs tell it.
LEAST_SPREADS: Final = 1.0
# Share of the shift by which the new level must lie beyond the farthest stretch of the old one as long as it.
LEAST_NOVELTY: Final = 0.2
# Points to each side in which old visits are remembered: twice those of the tests, since states that last are rare.
# Less is asked there, or a drift would pass for a visit.
REMEMBERED_POINTS: Final = 120
LEAST_REMEMBERED_NOVELTY: Final = 0.3
# Twice the gain in log likelihood of a step over a straight line through the same points.
LEAST_GAIN_OVER_LINE: Final = 2.5
# A level that was left for where it came from within so many points is an excursion; two places were searched for it
# and cache states make them all the time: it needs more.
LONGEST_EXCURSION: Final = 30
LEAST_T_OF_EXCURSION: Final = 8.0
# Below any weight: what a floor keeps out falls first, the least t before the others.
REFUSED: Final = 1000.0


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
        refused = contrast.t_score - REFUSED
        if not self._is_large(contrast, min(place - start, end - place)):
            return refused
        novelty = measure_novelty(self.levels, start, place, end=end)
        if novelty < LEAST_NOVELTY or self._is_remembered(first, place, last):
            return refused
        values = self.levels.values
        before, after = values[start:place], values[place:end]
        weight = 0.0
        rank_score = score_ranks(before, after)
        if rank_score >= LEAST_RANK:
            correlation = contrast.correlation
            weight = weigh_evidence(
                ChangeEvidence(rank_score, contrast.spreads, novelty, correlation, end - start)
            )
        if weight < 1:
            old, new = (before, after) if len(before) >= len(after) else (after, before)
            weight = max(weight, weigh_stay(old, new))
        return weight

    def _is_large(self, contrast: Contrast, fewer: int) -> bool:
        return (
            abs(contrast.shift) >= self.least_shift
            and contrast.spreads >= LEAST_SPREADS
            and contrast.gain_over_line >= LEAST_GAIN_OVER_LINE
            and contrast.t_score >= LEAST_T_OF_FEW.get(fewer, LEAST_T)
        )

    def _is_remembered(self, first: int, place: int, last: int) -> bool:
        start, end = max(first, place - REMEMBERED_POINTS), min(last, place + REMEMBERED_POINTS)
        return measure_novelty(self.levels, start, place, end=end) < LEAST_REMEMBERED_NOVELTY

    def _measure_excursion(self, start: int, left: int, returned: int, end: int) -> float:
        start, end = max(start, left - SIDE_POINTS), min(end, returned + SIDE_POINTS)
        score = score_excursion(self.levels, (start, left, returned, end), spread=self.spread)
        return math.inf if score is None else score / LEAST_T_OF_EXCURSION


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
