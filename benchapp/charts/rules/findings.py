"""The findings of the curves of a scaling chart: they level off, scale linearly, drop, are erratic, have a knee. Pure.

Every finding has its values and the places of their cells, so that a reader can check it. A value is a median of runs.
Its standard error is estimated from the spread and the number of the runs (`estimate_error`); if that is unknown, only
the fixed thresholds apply.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, sqrt
from statistics import median
from typing import Final

# Two values this near are the same: fio's own run-to-run spread on a quiet machine is 1 to 3 %.
SAME_WITHIN: Final = 0.03
# The smallest step; smaller ones are noise, and two values with a larger difference are never the same.
STEP_FROM: Final = 0.1
# With fewer runs p10 and p90 do not describe the spread.
RUNS_MINIMUM: Final = 3
# p10 to p90 of a normal distribution, in standard deviations.
_WIDTH: Final = 2.563
# p10 and p90 of few runs, interpolated between them, lie nearer together: by (n - 1) / (n + 0.9), to 3 % for n from 3.
_FEW: Final = 0.9
# The median of a normal sample scatters by so many standard deviations over the root of n.
_MEDIAN_ERROR: Final = 1.2533
# Two standard errors of a difference: exceeded by chance in about 5 % of cases.
_SURE: Final = 2.0


@dataclass(frozen=True, slots=True)
class CurvePlace:
    """A cell of a chart: the indices of its panel, its line and its x."""

    facet: int
    line: int
    x: int


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A value. count: of volumes or stripes, where as many times the value would be ideal; None elsewhere.

    error: the standard error of the value, in its unit; None where the spread of its runs is not known.
    """

    place: CurvePlace
    value: float
    count: float | None = None
    error: float | None = None


@dataclass(frozen=True, slots=True)
class Curve:
    """The points of one line in the order of x. is_higher_better: throughput; else latency or time."""

    points: tuple[CurvePoint, ...]
    is_higher_better: bool = True


def estimate_error(p10: float, p90: float, n: int) -> float | None:
    """Return the standard error of the median of n runs, in their unit; None of fewer than three.

    (p90 - p10) / 2.563 estimates the standard deviation of normal values, of n few by the factor (n + 0.9) / (n - 1)
    more; the median of n of them has 1.2533 times that over the root of n (asymptotic efficiency of the median, 2/pi).
    """
    if n < RUNS_MINIMUM:
        return None
    deviation = (p90 - p10) / _WIDTH * (n + _FEW) / (n - 1)
    return _MEDIAN_ERROR * deviation / sqrt(n)


def find_margin(one: CurvePoint, other: CurvePoint) -> float:
    """Return the margin of error of a difference (95 %), in the unit of the values; 0 if both errors are unknown."""
    return _SURE * hypot(one.error or 0.0, other.error or 0.0)


def are_same(points: Sequence[CurvePoint]) -> bool:
    """Return whether all values are the same: within 3 %, or within the margin of error, but never above 10 %."""
    low, high = _find_ends(points)
    margin = max(SAME_WITHIN * low.value, find_margin(low, high))
    return high.value - low.value <= min(margin, STEP_FROM * low.value)


def do_differ(one: CurvePoint, other: CurvePoint) -> bool:
    """Return whether two values differ by more than the margin of error."""
    return abs(one.value - other.value) > find_margin(one, other)


def does_reach(point: CurvePoint, limit: float) -> bool:
    """Return whether a value reaches a limit: from 3 % below it, or within its margin of error, but at most 10 %."""
    margin = max(SAME_WITHIN * limit, _SURE * (point.error or 0.0))
    return point.value >= limit - min(margin, STEP_FROM * limit)


def find_hidden(points: Sequence[CurvePoint]) -> tuple[CurvePoint, CurvePoint] | None:
    """Return the lowest and the highest value if they differ by a step within the margin of error; else None."""
    low, high = _find_ends(points)
    is_step = high.value > low.value * (1 + STEP_FROM)
    return (low, high) if is_step and not do_differ(low, high) else None


def _find_ends(points: Sequence[CurvePoint]) -> tuple[CurvePoint, CurvePoint]:
    ordered = sorted(points, key=lambda point: point.value)
    return ordered[0], ordered[-1]


GROWS_FROM: Final = 1.1
LINEAR_FROM: Final = 0.9
LINEAR_TO: Final = 1.25
# An erratic curve turns twice, and once deeply.
TURNS_MINIMUM: Final = 2
DEEP: Final = 0.3
CLIFF_TO: Final = 0.5
CONTRAST_FROM: Final = 1.25
AT_LIMIT_TO: Final = 1.15


@dataclass(frozen=True, slots=True)
class LimitFinding:
    """A named limit of one curve in one panel: values by x, None if unknown or if it does not apply."""

    facet: int
    name: str
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Saturates:
    """All values from a point on are the same (`are_same`); level: their median."""

    start: CurvePoint
    end: CurvePoint
    level: float


@dataclass(frozen=True, slots=True)
class Linear:
    """Every value is 90 to 125 % of linear scaling from the first; efficiency: of the last."""

    first: CurvePoint
    last: CurvePoint
    efficiency: float


@dataclass(frozen=True, slots=True)
class Erratic:
    """No trend: the value before the deepest drop, and the value after it."""

    high: CurvePoint
    low: CurvePoint


@dataclass(frozen=True, slots=True)
class Falls:
    """The highest value and the lowest one after it; share: of the highest."""

    high: CurvePoint
    low: CurvePoint
    share: float


@dataclass(frozen=True, slots=True)
class Grows:
    """Growth from first to last; efficiency: share of linear scaling at the last, None if x is not a count."""

    first: CurvePoint
    last: CurvePoint
    factor: float
    efficiency: float | None


@dataclass(frozen=True, slots=True)
class Steady:
    """No dependence on x: all values are within 10 % of each other."""

    first: CurvePoint
    last: CurvePoint
    level: float


@dataclass(frozen=True, slots=True)
class Unclear:
    """The lowest and the highest value differ by a step, but within the margin of error."""

    low: CurvePoint
    high: CurvePoint
    margin: float


@dataclass(frozen=True, slots=True)
class Cliff:
    """At the same x the next panel or line has at most half; share: of the reference. is_facet: panels, else lines."""

    value: CurvePoint
    reference: CurvePoint
    share: float
    is_facet: bool


@dataclass(frozen=True, slots=True)
class ContrastFinding:
    """The higher and the lower of two cells that differ in one unordered dimension; factor: between them."""

    high: CurvePoint
    low: CurvePoint
    factor: float


@dataclass(frozen=True, slots=True)
class AtLimit:
    """All values from a point on are at a limit: 97 to 115 % of it, or below it within the margin of error.

    limit: its value at the start, in the unit of the points; elsewhere it may have another.
    """

    name: str
    start: CurvePoint
    end: CurvePoint
    limit: float


Finding = Saturates | Linear | Erratic | Falls | Grows | Steady | Unclear | Cliff | ContrastFinding | AtLimit


def read_curve(curve: Curve) -> Finding | None:
    """Return the finding of one curve; None for fewer than two points."""
    points = curve.points
    if len(points) < 2 or any(point.value <= 0 for point in points):
        return None
    return (
        _find_erratic(points)
        or (_find_linear(points) if curve.is_higher_better else None)
        or (_find_plateau(points) if curve.is_higher_better else None)
        or _find_fall(points)
        or _find_growth(points)
        or _find_unclear(points)
        or Steady(points[0], points[-1], median(point.value for point in points))
    )


def find_cliffs(curves: Sequence[Curve], *, is_facet: bool) -> Iterator[Cliff]:
    """Yield the deepest drop between neighbors that differ in one ordered dimension, of throughput only.

    curves: of one line in neighboring panels (is_facet), or of neighboring lines in one panel; in order.
    """
    for before, behind in pairwise(curves):
        references = {point.place.x: point for point in before.points}
        falls = [
            Cliff(point, reference, point.value / reference.value, is_facet)
            for point in behind.points
            if (reference := references.get(point.place.x)) is not None
            and reference.value > 0
            and do_differ(point, reference)
        ]
        deepest = min(falls, key=lambda fall: fall.share, default=None)
        if deepest is not None and deepest.share <= CLIFF_TO and behind.is_higher_better:
            yield deepest


def find_contrast(one: Curve, other: Curve) -> ContrastFinding | None:
    """Return the largest difference of two curves at the same x; None if it is below a quarter."""
    at_same = {point.place.x: point for point in one.points}
    pairs = [(point, at_same[point.place.x]) for point in other.points if point.place.x in at_same]
    return _find_widest(pairs)


def find_extremes(curve: Curve) -> ContrastFinding | None:
    """Return the highest and the lowest value of a curve with unordered x; None if less than a quarter apart."""
    if len(curve.points) < 2:
        return None
    ordered = sorted(curve.points, key=lambda point: point.value)
    return _find_widest([(ordered[-1], ordered[0])])


def find_at_limit(curve: Curve, limit: LimitFinding) -> AtLimit | None:
    """Return the part of a curve that is at a limit, to its end; None if its last value is not."""
    at: list[tuple[CurvePoint, float]] = []
    for point in reversed(curve.points):
        value = limit.values[point.place.x]
        if not value or not does_reach(point, value) or point.value > AT_LIMIT_TO * value:
            break
        at.append((point, value))
    if not at:
        return None
    start, value = at[-1]
    return AtLimit(limit.name, start, at[0][0], value)


def list_places(finding: Finding) -> tuple[CurvePlace, ...]:
    """Return the cells of a finding, the most important first."""
    match finding:
        case Saturates(start, end) | AtLimit(_, start, end):
            return (start.place, end.place)
        case Linear(first, last) | Grows(first, last) | Steady(first, last):
            return (last.place, first.place)
        case Erratic(high, low) | Falls(high, low) | Unclear(low, high):
            return (low.place, high.place)
        case ContrastFinding(high, low):
            return (high.place, low.place)
        case Cliff(value, reference):
            return (value.place, reference.place)


def _find_widest(pairs: Sequence[tuple[CurvePoint, CurvePoint]]) -> ContrastFinding | None:
    ordered = [sorted(pair, key=lambda point: point.value) for pair in pairs if do_differ(*pair)]
    found = [ContrastFinding(high, low, high.value / low.value) for low, high in ordered if low.value > 0]
    widest = max(found, key=lambda contrast: contrast.factor, default=None)
    return widest if widest is not None and widest.factor >= CONTRAST_FROM else None


def _find_erratic(points: Sequence[CurvePoint]) -> Erratic | None:
    steps = [(after.value / before.value, before, after) for before, after in pairwise(points)]
    steps = [step for step in steps if abs(step[0] - 1) > STEP_FROM and do_differ(step[1], step[2])]
    ways = [ratio > 1 for ratio, _, _ in steps]
    if sum(before != after for before, after in pairwise(ways)) < TURNS_MINIMUM:
        return None
    ratio, high, low = min(steps, key=lambda step: step[0])
    return Erratic(high, low) if ratio <= 1 - DEEP else None


def _find_linear(points: Sequence[CurvePoint]) -> Linear | None:
    first, last = points[0], points[-1]
    shares = []
    for point in points:
        if not point.count or not first.count:
            return None
        shares.append(point.value / (first.value * point.count / first.count))
    is_linear = all(LINEAR_FROM <= share <= LINEAR_TO for share in shares)
    return Linear(first, last, shares[-1]) if is_linear else None


def _find_plateau(points: Sequence[CurvePoint]) -> Saturates | Steady | None:
    for start in range(len(points) - 1):
        if not are_same(points[start:]):
            continue
        rest = [point.value for point in points[start:]]
        if start == 0:
            return Steady(points[0], points[-1], median(rest))
        has_grown = points[start].value >= points[0].value * GROWS_FROM
        if not has_grown or not do_differ(points[start], points[0]):
            return None
        return Saturates(points[start], points[-1], median(rest))
    return None


def _find_fall(points: Sequence[CurvePoint]) -> Falls | None:
    place = max(range(len(points)), key=lambda each: points[each].value)
    behind = points[place + 1 :]
    if not behind:
        return None
    low = min(behind, key=lambda point: point.value)
    share = low.value / points[place].value
    is_fall = share <= 1 - STEP_FROM and do_differ(low, points[place])
    return Falls(points[place], low, share) if is_fall else None


def _find_growth(points: Sequence[CurvePoint]) -> Grows | None:
    first, last = points[0], points[-1]
    factor = last.value / first.value
    if factor < GROWS_FROM or not do_differ(first, last):
        return None
    efficiency = factor * first.count / last.count if first.count and last.count else None
    return Grows(first, last, factor, efficiency)


def _find_unclear(points: Sequence[CurvePoint]) -> Unclear | None:
    hidden = find_hidden(points)
    return None if hidden is None else Unclear(*hidden, margin=find_margin(*hidden))


# Two ends and at least two points between them.
POINTS_MINIMUM: Final = 4
# Distance from the diagonal of the unit square, at most 0.71: below it for a gentle arc, 0.4 and more for a corner.
BEND_MINIMUM: Final = 0.15


def find_knee(throughputs: Sequence[float], latencies: Sequence[float]) -> int | None:
    """Return the index of the point farthest below the chord from first to last, both axes scaled to 0..1.

    Points in the order of load. None for fewer than four points, if throughput or latency does not grow, or if no point
    is 0.15 below the chord. After Satopaa et al., "Finding a 'Kneedle' in a Haystack" (2011), without smoothing,
    because a sweep of queue depths has few points.
    """
    if len(throughputs) < POINTS_MINIMUM or len(throughputs) != len(latencies):
        return None
    xs, ys = _scale(throughputs), _scale(latencies)
    if xs is None or ys is None:
        return None
    dx, dy = xs[-1] - xs[0], ys[-1] - ys[0]
    length = (dx * dx + dy * dy) ** 0.5
    # If latency falls while throughput grows, load is not the cause.
    if length == 0 or dx <= 0 or dy <= 0:
        return None
    bends = [((x - xs[0]) * dy - (y - ys[0]) * dx) / length for x, y in zip(xs, ys, strict=True)]
    place = max(range(len(bends)), key=lambda each: bends[each])
    return place if bends[place] >= BEND_MINIMUM else None


def _scale(values: Sequence[float]) -> list[float] | None:
    least, most = min(values), max(values)
    return None if most == least else [(value - least) / (most - least) for value in values]
