"""The curves of a scaling chart, and whether two of their values are the same or differ. Pure.

A value is a median of runs. Its standard error is estimated from the spread and the number of the runs
(`estimate_error`); if that is unknown, only the fixed thresholds apply.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt
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
