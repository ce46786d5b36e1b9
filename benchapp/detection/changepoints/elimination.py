"""Elimination of candidates, weakest first: each must pass tests of size, ranks, drift and novelty.

Minimum requirements exclude candidates by a single criterion; weight.py combines all.
"""

import math
from dataclasses import dataclass
from typing import Final

from benchapp.detection.changepoints.contrast import Contrast, compare_sides, score_excursion
from benchapp.detection.changepoints.novelty import measure_novelty
from benchapp.detection.changepoints.rank_test import score_ranks
from benchapp.detection.changepoints.segmentation import Levels, refine, relocate, take_median
from benchapp.detection.changepoints.weight import ChangeEvidence, weigh_evidence, weigh_stay

# Points on each side of a boundary: enough for any test, few enough that a slow drift stays small.
SIDE_POINTS: Final = 60
# Normal score of the moderated t test, from 5 points on the shorter side; and of fewer, which are more
# likely by chance and are evaluated again with each new point.
LEAST_T: Final = 2.8
LEAST_T_OF_FEW: Final = {3: 4.5, 4: 3.8}
# Normal score of the exact rank test: what 3 points beyond all of 10 reach (1 of 286).
LEAST_RANK: Final = 2.7
# Spreads of single points. A smaller shift is within the noise of single runs.
LEAST_SPREADS: Final = 1.0
# Share of the shift by which the new level must exceed the farthest window of the same length in the old one.
LEAST_NOVELTY: Final = 0.2
# Points on each side that are searched for earlier states: twice those of the tests, since lasting states are rare.
# The limit is lower there, because of drift.
REMEMBERED_POINTS: Final = 120
LEAST_REMEMBERED_NOVELTY: Final = 0.3
# Twice the gain in log likelihood of a step over a straight line through the same points.
LEAST_GAIN_OVER_LINE: Final = 2.5
# A level that returns within so many points is an excursion. It needs a higher score, because two boundaries were
# searched and cache states cause excursions frequently.
LONGEST_EXCURSION: Final = 30
LEAST_T_OF_EXCURSION: Final = 8.0
# Limit of the weight, in multiples of the usual one, for a change that is found only without bad runs: states that
# come and go may have been replaced with them.
WEIGHT_WITHOUT_BAD_RUNS: Final = 1.5
# Below any weight: candidates that fail a minimum requirement are removed first, lowest t first.
REFUSED: Final = 1000.0


def eliminate(levels: Levels, candidates: list[int], *, spread: float, least_shift: float) -> list[int]:
    """Return the accepted candidates, ascending, each at the best split of its levels.

    The weakest is removed first, since its neighbors then have longer levels; after moving to the least-squares splits,
    all are tested again. `spread` and `least_shift` are in the values' units.
    """
    judge = _Judge(levels, spread, least_shift)
    accepted = judge.remove_weak(candidates)
    relocated = _relocate_all(levels, accepted)
    if relocated != accepted:
        accepted = judge.remove_weak(relocated)
    return _refine_all(levels, accepted, spread)


@dataclass(frozen=True, slots=True)
class _TestedPlace:
    """A boundary between its neighbors. novelty: None if it fails a minimum requirement."""

    start: int
    place: int
    end: int
    contrast: Contrast
    novelty: float | None


class _Judge:
    """Tests boundaries between their neighbors, with a cache by set of neighbors."""

    def __init__(self, levels: Levels, spread: float, least_shift: float) -> None:
        self.levels, self.spread, self.least_shift = levels, spread, least_shift
        self._tested: dict[tuple[int, ...], _TestedPlace] = {}
        self._weighed: dict[tuple[int, ...], float] = {}

    def remove_weak(self, boundaries: list[int]) -> list[int]:
        """Return the accepted boundaries; one is removed at a time."""
        accepted = list(boundaries)
        while accepted:
            edges = [0, *accepted, len(self.levels)]
            strengths = self._measure_refused(edges) or self._measure_all(edges)
            weakest = min(strengths, key=strengths.__getitem__)
            if strengths[weakest] >= 1:
                break
            del accepted[weakest]
        return accepted

    def _measure_refused(self, edges: list[int]) -> dict[int, float]:
        """Return the strengths of those inner edges that fail a minimum requirement, by number: below any other."""
        found: dict[int, float] = {}
        for i, triple in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
            if triple not in self._tested:
                self._tested[triple] = self._test(*triple)
            tested = self._tested[triple]
            if tested.novelty is None:
                found[i] = tested.contrast.t_score - REFUSED
        return found

    def _measure_all(self, edges: list[int]) -> dict[int, float]:
        """Return for each inner edge, by number, the ratio to its limits; below 1 it is removed."""
        strengths = {i: self._recall(*edges[i : i + 3]) for i in range(len(edges) - 2)}
        for i in range(len(edges) - 3):
            if edges[i + 2] - edges[i + 1] < LONGEST_EXCURSION:
                shared = self._recall(*edges[i : i + 4])
                strengths[i] = min(strengths[i], shared)
                strengths[i + 1] = min(strengths[i + 1], shared)
        return strengths

    def _recall(self, *edges: int) -> float:
        if edges not in self._weighed:
            measure = self._weigh_boundary if len(edges) == 3 else self._measure_excursion
            self._weighed[edges] = measure(*edges)
        return self._weighed[edges]

    def _test(self, first: int, place: int, last: int) -> _TestedPlace:
        start, end = max(first, place - SIDE_POINTS), min(last, place + SIDE_POINTS)
        contrast = compare_sides(self.levels, start, place, end=end, spread=self.spread)
        novelty = None
        if self._is_large(contrast, min(place - start, end - place)):
            novelty = measure_novelty(self.levels, start, place, end=end)
            if novelty < LEAST_NOVELTY or self._is_remembered(first, place, last):
                novelty = None
        return _TestedPlace(start, place, end, contrast, novelty)

    def _weigh_boundary(self, first: int, place: int, last: int) -> float:
        tested = self._tested[first, place, last]
        contrast, start, end = tested.contrast, tested.start, tested.end
        assert tested.novelty is not None
        values = self.levels.values
        before, after = values[start:place], values[place:end]
        weight = 0.0
        rank_score = score_ranks(before, after)
        if rank_score >= LEAST_RANK:
            weight = weigh_evidence(
                ChangeEvidence(
                    rank_score, contrast.spreads, tested.novelty, contrast.correlation, end - start
                )
            )
        if weight < 1:
            old, new = (before, after) if len(before) >= len(after) else (after, before)
            weight = max(weight, weigh_stay(old, new))
        if weight >= 1 and self.levels.given is not None:
            against = self._weigh_against_bad_runs(max(first, place - REMEMBERED_POINTS), place, end)
            weight = min(weight, against) / WEIGHT_WITHOUT_BAD_RUNS
        return weight

    def _weigh_against_bad_runs(self, start: int, place: int, end: int) -> float:
        """Return the weight of the new level as a sequence of bad runs of the old one; infinite if none were like it.

        Bad runs far beyond the new level do not count.
        """
        given, sound = self.levels.given, self.levels.values
        assert given is not None
        old, new = sound[start:place].copy(), sound[place:end]
        old_median, new_median = take_median(old), take_median(new)
        shift = new_median - old_median
        shares = (given[start:place] - old_median) / shift
        is_like = (shares > 0.5) & (shares < 1.5)
        if not is_like.any():
            return math.inf
        old[is_like] = new_median
        return weigh_stay(old, new)

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
    """Return the range of a boundary: up to its neighbors, at most 60 points on each side."""
    place = edges[number]
    return max(edges[number - 1], place - SIDE_POINTS), min(edges[number + 1], place + SIDE_POINTS)
