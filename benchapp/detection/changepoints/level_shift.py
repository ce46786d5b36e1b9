"""Levels before and after a change, and the shift between them with its interval, in the values' units."""

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

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
