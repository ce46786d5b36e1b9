"""Find the first points of new levels in a history of measurements. See docs/detection.md.

Linear in time; bounded memory: a history is evaluated in segments, and changes far enough before the newest point are
settled and not evaluated again. Adding one point therefore gives the same result as a complete evaluation.
Its version is stored with each change: a detector that gives other results gets another one.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.contrast import compare_sides
from benchapp.detection.changepoints.elimination import SIDE_POINTS, eliminate
from benchapp.detection.changepoints.level_shift import (
    Shift,
    ShiftLevel,
    measure_separation,
    recall_level,
    recall_shift,
)
from benchapp.detection.changepoints.noise import clip_spikes, measure_spread, replace_bad_runs
from benchapp.detection.changepoints.rank_test import score_ranks_exactly
from benchapp.detection.changepoints.segmentation import Levels, find_boundaries, take_median

__all__ = [
    "ChangePoint",
    "HistoryChanges",
    "Shift",
    "ShiftLevel",
    "ValueHistory",
    "change_indices",
    "extend_history",
    "judge_next",
    "judge_values",
]

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

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
