"""Find the first points of new levels in a history of measurements. See docs/detection.md.

Linear in time; bounded memory: a history is evaluated in segments, and changes far enough before the newest point are
settled and not evaluated again. Adding one point therefore gives the same result as a complete evaluation. Its version
is stored with each change: a detector that gives other results gets another one.

Candidates are eliminated, weakest first: minimum requirements exclude by a single criterion, their weight combines all.
Separate limits would ignore the other evidence: a novel shift of twice the noise needs fewer ranks than a small one
among sticky states. Novelty separates changes from caches, noisy neighbors and correlated noise, of which a t test
considers only the first lag: these return to earlier levels.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.estimates import (
    Shift,
    ShiftLevel,
    clip_spikes,
    measure_separation,
    measure_spread,
    recall_level,
    recall_shift,
    replace_bad_runs,
    score_ranks,
    score_ranks_exactly,
)
from benchapp.detection.changepoints.segmentation import (
    Contrast,
    Levels,
    compare_sides,
    find_boundaries,
    refine,
    relocate,
    score_excursion,
    take_median,
)

Array = NDArray[np.float64]

# Close to those of a logistic regression on generated histories with all kinds of noise; that of the logarithm of the
# chance is 1. Rounded, since the optimum is flat.
NOVELTY_WEIGHT: Final = 6.0
SPREADS_WEIGHT: Final = 4.0
CORRELATION_WEIGHT: Final = 15.0
# More than 1, the value for independent places, because consecutive points are correlated.
PLACES_WEIGHT: Final = 2.5
# Upper bounds, so that one kind of evidence does not outweigh all others.
MOST_NOVELTY: Final = 1.2
MOST_SPREADS: Final = 6.0
# Limit of the sum; determines the rate of false alarms.
LEAST_WEIGHT: Final = 6.0
# Prior for the duration of temporary states: so many, half of which continued.
PRIOR_VISITS: Final = 4.0
_LEAST_CHANCE: Final = 1e-300


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """Evidence of a boundary: rank score (normal), shift in spreads of single points, novelty (share of the shift),
    lag-1 correlation of the residuals, and the number of possible places."""

    rank_score: float
    spreads: float
    novelty: float
    correlation: float
    places: int


def weigh_evidence(evidence: ChangeEvidence) -> float:
    """Return the weight of the evidence relative to the limit: 1 and more is a change.

    −ln p of the ranks + 6 · novelty + 4 · ln spreads − 15 · correlation − 2.5 · ln places, over 6.
    """
    chance = max(math.erfc(evidence.rank_score / math.sqrt(2)) / 2, _LEAST_CHANCE)
    weight = (
        NOVELTY_WEIGHT * min(evidence.novelty, MOST_NOVELTY)
        + SPREADS_WEIGHT * math.log(min(evidence.spreads, MOST_SPREADS))
        - CORRELATION_WEIGHT * evidence.correlation
        - PLACES_WEIGHT * math.log(evidence.places)
        - math.log(chance)
    )
    return weight / LEAST_WEIGHT


def weigh_stay(old: Array, new: Array) -> float:
    """Return the weight of the duration of the new level relative to the limit, as a temporary state of the old level.

    Temporary states: old points beyond the midpoint of both medians. With their share p and the chance s that a state
    continues, both with a prior for few points: −ln(p · sⁿ⁻¹ · places), over 6. 0 if a point of the new level is on the
    old side. The rank test assumes independent points: if one run in four is low, ten low ones in a row are stronger
    evidence than their ranks, and weaker if low runs come in sequences.
    """
    old_median, new_median = take_median(old), take_median(new)
    middle = (old_median + new_median) / 2
    side = 1 if new_median > old_median else -1
    if float((side * (new - middle)).min()) <= 0:
        return 0.0
    is_visit = side * (old - middle) > 0
    visits = int(np.count_nonzero(is_visit))
    stayed = int(np.count_nonzero(is_visit[1:] & is_visit[:-1]))
    share = (visits + 0.5) / (len(old) + 1)
    stay = (stayed + PRIOR_VISITS / 2) / (visits + PRIOR_VISITS)
    chance_log = math.log(share) + (len(new) - 1) * math.log(stay)
    return -(chance_log + math.log(len(old) + len(new))) / LEAST_WEIGHT


# Points: the longest window of the new level that is compared; longer ones are not temporary states.
LONGEST_VISIT: Final = 20


def measure_novelty(levels: Levels, start: int, place: int, *, end: int) -> float:
    """Return the distance of the shorter side from windows of the same length of the longer one, as share of the shift.

    1 if that window has the mean of its side; 0 if the old level was at the new one for as long.
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


Indices = NDArray[np.intp]

VERSION: Final = "changepoints-v2"
# Points: two levels of three.
LEAST_POINTS: Final = 6
# fio's percentiles come from 64 buckets per octave, 1.1 to 1.6 % apart: changes below 1 % are not measurable.
LEAST_RELATIVE_CHANGE: Final = 0.01
# Share of the level. Noise below a tenth of the smallest change is ignored; equal values have no spread.
LEAST_SPREAD: Final = 0.001
# Points. A segment ends at each 512th point plus 128: changes up to the 512th are settled, since twice the points that
# any test reads (60) are on both sides. The next segment starts 128 points earlier, or at the last change.
SETTLED_EVERY: Final = 512
MARGIN: Final = 128
LEAD: Final = 128


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The first measurement of a new level, with the evidence: at most 60 points on each side, in the values' units.

    `index` is 0-based; `chance` is that noise alone reaches these scores at any of the tested places; scores are
    standard normal. `separation` is the gap between all values before and all after, as share of
    the distance of their medians; 0 if they overlap.
    """

    index: int
    before: ShiftLevel
    after: ShiftLevel
    shift: Shift
    t_score: float
    rank_score: float
    correlation: float
    separation: float
    chance: float

    @property
    def confidence(self) -> float:
        """Return 1 minus the chance; 1 for chances below 1e-16."""
        return 1 - self.chance


@dataclass(frozen=True, slots=True)
class ValueHistory:
    """State of a series for the evaluation of its next point: settled changes and at most 768 points.

    The tail is what is not settled: index and value of its finite points. `count` is of all values ever given,
    `finite_count` of the finite ones; at `stretch_end` of these the next segment is settled.
    """

    least_relative_change: float = LEAST_RELATIVE_CHANGE
    settled: tuple[ChangePoint, ...] = ()
    tail_indices: tuple[int, ...] = ()
    tail_values: tuple[float, ...] = ()
    count: int = 0
    finite_count: int = 0
    stretch_end: int = SETTLED_EVERY + MARGIN


@dataclass(frozen=True, slots=True)
class HistoryChanges:
    """A history and all its changes, ascending; pass the history to evaluate the next point."""

    history: ValueHistory
    changes: tuple[ChangePoint, ...]


def change_indices(values: Iterable[float]) -> list[int]:
    """Return only the index of each change: 0-based, of the first point of the new level."""
    found: list[int] = []
    for stretch in _walk(_read_values(values, ValueHistory())):
        found.extend(stretch.indices[stretch.reported].tolist())
    return found


def judge_values(
    values: Iterable[float], *, least_relative_change: float = LEAST_RELATIVE_CHANGE
) -> HistoryChanges:
    """Return the changes of a series, oldest value first, ascending, and the state for its next points.

    No changes under 6 finite values. Deterministic. NaN and infinities are ignored, but keep their index. Positive
    values are evaluated by their ratios; if others are among them, by differences relative to their median size.
    `least_relative_change` (0.05 is 5 %, at least 0.01) is the threshold.
    """
    least = max(least_relative_change, LEAST_RELATIVE_CHANGE)
    return extend_history(ValueHistory(least_relative_change=least), values)


def judge_next(history: ValueHistory, value: float) -> HistoryChanges:
    """Return the changes after one more point: the same as `judge_values` of all points, in constant time."""
    return extend_history(history, (value,))


def extend_history(history: ValueHistory, values: Iterable[float]) -> HistoryChanges:
    """Return the changes after more points, which must be consecutive."""
    given = values if isinstance(values, np.ndarray) else list(values)
    settled = list(history.settled)
    stretch = None
    for stretch in _walk(_read_values(given, history)):
        changes = [_describe_change(stretch, place) for place in stretch.reported]
        if stretch.is_settled:
            settled.extend(changes)
    assert stretch is not None
    return HistoryChanges(
        replace(
            history,
            settled=tuple(settled),
            tail_indices=tuple(stretch.indices.tolist()),
            tail_values=tuple(stretch.values.tolist()),
            count=history.count + len(given),
            finite_count=stretch.first + len(stretch.values),
            stretch_end=stretch.end,
        ),
        (*settled, *changes),
    )


@dataclass(frozen=True, slots=True)
class _Points:
    """Finite points from the `first` one on, counted among the finite ones, and the end of the next segment."""

    indices: Indices
    values: Array
    first: int
    end: int
    least_shift: float

    def skip(self, count: int) -> "_Points":
        return replace(
            self, indices=self.indices[count:], values=self.values[count:], first=self.first + count
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A judged stretch: where its levels begin, and which of these places are reported."""

    indices: Indices
    values: Array
    first: int
    end: int
    levels: Levels
    spread: float
    places: list[int]
    is_settled: bool

    @property
    def reported(self) -> list[int]:
        """All places of the open stretch; of a settled one those that have the margin behind them."""
        if not self.is_settled:
            return self.places
        return [place for place in self.places if self.first + place <= self.end - MARGIN]


def _read_values(values: Iterable[float], history: ValueHistory) -> _Points:
    given = np.asarray(values if isinstance(values, np.ndarray | list) else list(values), dtype=np.float64)
    is_finite = np.isfinite(given)
    return _Points(
        indices=np.concatenate(
            [np.array(history.tail_indices, dtype=np.intp), np.flatnonzero(is_finite) + history.count]
        ),
        values=np.concatenate([np.array(history.tail_values, dtype=np.float64), given[is_finite]]),
        first=history.finite_count - len(history.tail_values),
        end=history.stretch_end,
        least_shift=math.log1p(history.least_relative_change),
    )


def _walk(points: _Points) -> Iterator[_Stretch]:
    """Yield the stretches: those that can be settled, then the open one."""
    while points.first + len(points.values) > points.end:
        stretch = _judge_stretch(points, points.end - points.first)
        yield stretch
        overlap = points.end - MARGIN - LEAD - points.first
        points = points.skip(max([0, overlap, *stretch.reported[-1:]]))
        points = replace(points, end=points.end + SETTLED_EVERY)
    yield _judge_stretch(points, None)


def _judge_stretch(points: _Points, length: int | None) -> _Stretch:
    values = points.values[:length]
    divided = _divide(_take_ratios(values), points.least_shift)
    return _Stretch(
        points.indices[:length],
        values,
        points.first,
        points.end,
        divided.levels,
        divided.spread,
        divided.places,
        is_settled=length is not None,
    )


@dataclass(frozen=True, slots=True)
class _Division:
    """Ratios around 0 without spikes, the spread of their noise, and where their levels begin."""

    levels: Levels
    spread: float
    places: list[int]


def _divide(ratios: Array, least_shift: float) -> _Division:
    """Return the levels of a segment: with its bad runs, or without if more changes are found so."""
    if len(ratios) < LEAST_POINTS:
        return _Division(Levels(ratios), LEAST_SPREAD, [])
    spread = measure_spread(ratios, least=LEAST_SPREAD)
    # Around 0, or the running sums of squares would lose the digits that matter; by the first value and not the mean,
    # so that a value is the same with each point that follows.
    first = ratios[0]
    division = _find_levels(Levels(clip_spikes(ratios, spread) - first), spread, least_shift)
    sound = replace_bad_runs(ratios, spread, least=LEAST_SPREAD)
    if sound is None:
        return division
    clipped = clip_spikes(sound.values, sound.spread) - first
    without_bad = _find_levels(Levels(clipped, given=ratios - first), sound.spread, least_shift)
    return without_bad if len(without_bad.places) > len(division.places) else division


def _find_levels(levels: Levels, spread: float, least_shift: float) -> _Division:
    places = find_boundaries(levels, spread)
    if places:
        places = eliminate(levels, places, spread=spread, least_shift=least_shift)
    return _Division(levels, spread, places)


def _take_ratios(values: Array) -> Array:
    """Return logarithms; where a value is not positive, arcsinh of the values in terms of their median size.

    arcsinh is linear around 0 and logarithmic far from it, of either sign: no value is too large for the sums.
    """
    if not len(values) or values.min() > 0:
        return np.log(values)
    sizes = np.abs(values)
    # Halved, so that the mean of two huge values does not overflow.
    size = 2 * take_median(sizes / 2) or float((sizes / len(sizes)).sum())
    return np.arcsinh(values / size) if size > 0 else np.zeros_like(values)


def _describe_change(stretch: _Stretch, place: int) -> ChangePoint:
    edges = [0, *stretch.places, len(stretch.values)]
    number = edges.index(place, 1)
    start = max(edges[number - 1], place - SIDE_POINTS)
    end = min(edges[number + 1], place + SIDE_POINTS)
    contrast = compare_sides(stretch.levels, start, place, end=end, spread=stretch.spread)
    judged = stretch.levels.values
    rank_score = score_ranks_exactly(judged[start:place], judged[place:end])
    before, after = stretch.values[start:place].tobytes(), stretch.values[place:end].tobytes()
    ratios = _take_ratios(stretch.values[start:end])
    return ChangePoint(
        index=int(stretch.indices[place]),
        before=recall_level(before),
        after=recall_level(after),
        shift=recall_shift(before, after, contrast.correlation),
        t_score=contrast.t_score,
        rank_score=rank_score,
        correlation=contrast.correlation,
        separation=measure_separation(ratios[: place - start], ratios[place - start :]),
        chance=bound_chance(min(contrast.t_score, rank_score), end - start),
    )


def bound_chance(score: float, places: int) -> float:
    """Return places · 2Φ(−score), at most 1: Bonferroni's bound over the places where the boundary could be."""
    return min(places * math.erfc(max(score, 0.0) / math.sqrt(2)), 1.0)
