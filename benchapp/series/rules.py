"""Pure: comparison of two groups of values, dependence of a metric on a fact of the runs, rolling medians.

The bootstrap of a median needs no resample to be drawn whole: the r-th smallest of n values drawn from n with
replacement is the value at rank floor(n·U), where U is the r-th smallest of n uniform numbers, which is Beta(r, n-r+1)
(Efron 1979; the order statistics of uniforms). One draw a resample instead of n, at any n, and with a fixed seed the
same answer each time.

Dependence: the slope is the median of the slopes between all pairs of points (Theil 1950), with the interval of Sen
(1968): both do not assume a distribution, and bear up to 29 % outliers. The correlation is Kendall's tau-b.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb, erfc, inf, sqrt
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.levels import Quantiles

_Floats = NDArray[np.float64]
_Ranks = NDArray[np.int64]
RESAMPLES: Final = 4000
_SEED: Final = 20130401
# Of fewer values the bootstrap's interval is too narrow to be called 95 %.
INTERVAL_FROM: Final = 5
# Exact up to here (and without ties), by the normal approximation beyond: the two agree to 0.002 there.
_EXACT_UP_TO: Final = 20
# Romano et al. 2006, from Cohen's d of 0.2, 0.5 and 0.8.
Effect = Literal["negligible", "small", "medium", "large"]
_EFFECTS: Final[tuple[tuple[float, Effect], ...]] = (
    (0.147, "negligible"),
    (0.33, "small"),
    (0.474, "medium"),
    (inf, "large"),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """B against A.

    ratio: median of B / median of A; None where A's is 0 or the signs differ. low, high: its 95 % interval, None where
    either group has fewer than INTERVAL_FROM values. p: two-sided, of the Mann-Whitney test; None under two values a
    side. delta: Cliff's, from -1 (all of B below all of A) to 1.
    """

    a: Quantiles
    b: Quantiles
    ratio: float | None
    low: float | None
    high: float | None
    p: float | None
    delta: float

    @property
    def effect(self) -> Effect:
        """Name the size of the effect."""
        return name_effect(self.delta)

    @property
    def is_significant(self) -> bool:
        """Return whether the interval excludes 1, no change."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


def compare(a: Sequence[float] | _Floats, b: Sequence[float] | _Floats) -> Comparison:
    """Compare two groups of finite values. Raises ValueError if one is empty."""
    if not len(a) or not len(b):
        raise ValueError(f"both groups need values: {len(a)} and {len(b)}")
    first, second = np.sort(np.asarray(a, dtype=float)), np.sort(np.asarray(b, dtype=float))
    u = _count_wins(first, second)
    low, high = bound_ratio(first, second)
    before, after = _summarize(first), _summarize(second)
    is_ratio = before.median * after.median > 0 or (after.median == 0 and before.median != 0)
    return Comparison(
        a=before,
        b=after,
        ratio=after.median / before.median if is_ratio else None,
        low=low,
        high=high,
        p=_test_ranks(first, second, u) if min(len(first), len(second)) >= 2 else None,
        delta=2 * u / (len(first) * len(second)) - 1,
    )


def _summarize(ascending: _Floats) -> Quantiles:
    """Return n, median, p10 and p90 (linear between ranks) of at least one value."""
    p10, median, p90 = (_find_quantile(ascending, share) for share in (0.1, 0.5, 0.9))
    return Quantiles(median, p10, p90, len(ascending))


def _find_quantile(ascending: _Floats, share: float) -> float:
    place = share * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return float(ascending[low] + (ascending[high] - ascending[low]) * (place - low))


def bound_ratio(a: _Floats, b: _Floats) -> tuple[float | None, float | None]:
    """Return the percentile bootstrap's 95 % interval of median(b) / median(a), of sorted values.

    None if either has fewer than INTERVAL_FROM values, or a value is not above 0.
    """
    if min(len(a), len(b)) < INTERVAL_FROM or a[0] <= 0 or b[0] <= 0:
        return None, None
    # A full sort takes a ninth of the time of a partition at two indices (measured).
    ratios = np.sort(_resample_medians(b, seed=_SEED + 1) / _resample_medians(a, seed=_SEED))
    low, high = (float(ratios[round(share * (RESAMPLES - 1))]) for share in (0.025, 0.975))
    return low, high


def adjust(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for multiple comparisons, in the same order (Benjamini and Hochberg 1995)."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    least = 1.0
    for rank in range(len(known), 0, -1):
        p, place = known[rank - 1]
        least = min(least, p * len(known) / rank)
        adjusted[place] = least
    return adjusted


def name_effect(delta: float) -> Effect:
    """Name the size of a Cliff's delta; its sign does not matter."""
    return next(name for limit, name in _EFFECTS if abs(delta) < limit)


def _resample_medians(values: _Floats, *, seed: int) -> _Floats:
    lower, upper = _draw_ranks(len(values), seed)
    medians: _Floats = values[lower] if len(values) % 2 else (values[lower] + values[upper]) / 2
    return medians


# The ranks depend only on the number of values: 400 comparisons share a few dozen draws.
@lru_cache(maxsize=512)
def _draw_ranks(n: int, seed: int) -> tuple[_Ranks, _Ranks]:
    """Return, for each resample, the ranks that its two middle values have in the original; the same for odd n."""
    generator = np.random.Generator(np.random.PCG64(seed))
    middle = (n + 1) // 2
    at = generator.beta(middle, n - middle + 1, RESAMPLES)
    lower = np.minimum((at * n).astype(np.int64), n - 1)
    if n % 2:
        return lower, lower
    # The next order statistic, given this one: the least of the n - middle uniforms above it.
    above = at + (1 - at) * (1 - generator.random(RESAMPLES) ** (1 / (n - middle)))
    return lower, np.minimum((above * n).astype(np.int64), n - 1)


def _count_wins(a: _Floats, b: _Floats) -> float:
    """Return Mann-Whitney's U of B: pairs in which B is above A, ties by half; both sorted."""
    below = np.searchsorted(a, b, side="left").sum()
    not_above = np.searchsorted(a, b, side="right").sum()
    return float(below + not_above) / 2


def _test_ranks(a: _Floats, b: _Floats, u: float) -> float:
    n, m = len(a), len(b)
    total = n + m
    both = np.sort(np.concatenate((a, b)))
    firsts = np.flatnonzero(np.concatenate(([True], both[1:] != both[:-1])))
    if len(firsts) == 1:
        return 1.0
    if max(n, m) <= _EXACT_UP_TO and len(firsts) == total:
        return _find_exact_p(n, m, u)
    counts = (np.concatenate((firsts[1:], [total])) - firsts).astype(float)
    ties = float((counts**3 - counts).sum()) / (total * (total - 1))
    deviation = sqrt(n * m / 12 * (total + 1 - ties))
    distance = max(abs(u - n * m / 2) - 0.5, 0.0)
    return min(1.0, erfc(distance / deviation / sqrt(2)))


def _find_exact_p(n: int, m: int, u: float) -> float:
    tail = min(u, n * m - u)
    below = sum(_count_arrangements(n, m)[: int(tail) + 1])
    return min(1.0, 2 * below / comb(n + m, n))


@lru_cache(maxsize=512)
def _count_arrangements(n: int, m: int) -> tuple[int, ...]:
    """Return how many of the arrangements of n and m values give each U: the Gaussian binomial's coefficients."""
    counts = [1] + [0] * (n * m)
    for k in range(1, n + 1):
        # Times (1 - q^(m+k)), then divided by (1 - q^k).
        for place in range(n * m, m + k - 1, -1):
            counts[place] -= counts[place - m - k]
        for place in range(k, n * m + 1):
            counts[place] += counts[place - k]
    return tuple(counts)


DEPENDENCE_FROM: Final = 8
# All pairs of so many points are 10 MiB.
DEPENDENCE_POINTS_MAXIMUM: Final = 500
# Two-sided, 95 %.
_QUANTILE: Final = 1.96


@dataclass(frozen=True, slots=True)
class Dependence:
    """y by x of n points.

    slope: unit of y per unit of x; low, high: its 95 % interval, not beyond the slopes that occur. intercept: of the
    line with as many points above it as below. tau: Kendall's tau-b, from -1 to 1. p: two-sided, that a dependence is
    chance.
    """

    n: int
    slope: float
    low: float
    high: float
    intercept: float
    tau: float
    p: float

    @property
    def is_significant(self) -> bool:
        """Return whether y depends on x: p is below 0.05 and the interval excludes 0."""
        return self.p < 0.05 and not self.low <= 0 <= self.high


def fit_dependence(x: _Floats, y: _Floats) -> Dependence | None:
    """Fit y by x, finite values of equal number; None for fewer than DEPENDENCE_FROM points or a single x or y.

    Raises ValueError for more than DEPENDENCE_POINTS_MAXIMUM points.
    """
    n = len(x)
    if n > DEPENDENCE_POINTS_MAXIMUM:
        raise ValueError(f"{n} points; at most {DEPENDENCE_POINTS_MAXIMUM} are fitted")
    if n < DEPENDENCE_FROM or x.min() == x.max() or y.min() == y.max():
        return None
    first, second = np.triu_indices(n, k=1)
    across, up = x[second] - x[first], y[second] - y[first]
    slopes = np.sort(up[across != 0] / across[across != 0])
    score = float((np.sign(across) * np.sign(up)).sum())
    variance = _find_variance(x, y)
    slope = float(np.median(slopes))
    half = _QUANTILE * sqrt(variance) / 2
    middle = (len(slopes) - 1) / 2
    return Dependence(
        n=n,
        slope=slope,
        low=float(slopes[max(0, int(np.floor(middle - half)))]),
        high=float(slopes[min(len(slopes) - 1, int(np.ceil(middle + half)))]),
        intercept=float(np.median(y - slope * x)),
        tau=score / sqrt(float(np.count_nonzero(across)) * float(np.count_nonzero(up))),
        p=min(1.0, erfc(max(abs(score) - 1, 0.0) / sqrt(2 * variance))),
    )


def _find_variance(x: _Floats, y: _Floats) -> float:
    """Return the variance of Kendall's score if y does not depend on x, with ties (Kendall 1970)."""
    n = len(x)
    ties = [np.unique(values, return_counts=True)[1].astype(float) for values in (x, y)]
    own = n * (n - 1) * (2 * n + 5) - sum(float((t * (t - 1) * (2 * t + 5)).sum()) for t in ties)
    triples = [float((t * (t - 1) * (t - 2)).sum()) for t in ties]
    pairs = [float((t * (t - 1)).sum()) for t in ties]
    return (
        own / 18
        + triples[0] * triples[1] / (9 * n * (n - 1) * (n - 2))
        + pairs[0] * pairs[1] / (2 * n * (n - 1))
    )


# With fewer points, percentiles of a window are meaningless.
MINIMUM_POINTS: Final = 3


class RollingLevel(NamedTuple):
    """Median, 10th and 90th percentile of the window that ends at a point; None below 3 points.

    A named tuple, at a third of the cost of a dataclass: a chart has a thousand of them.
    """

    median: float | None
    p10: float | None
    p90: float | None


_UNKNOWN: Final = RollingLevel(None, None, None)


def roll_levels(values: Iterable[float | None], *, window: int) -> Iterator[RollingLevel]:
    """Yield the level over the last `window` known values up to and including each value, one for one.

    None is a point without a value: it gets the previous level and is not part of the window. Percentiles
    interpolate between ranks as PostgreSQL's percentile_cont does. O(log window) comparisons a value.
    """
    recent: deque[float] = deque()
    ordered: list[float] = []
    level = _UNKNOWN
    for value in values:
        if value is not None:
            recent.append(value)
            insort(ordered, value)
            if len(recent) > window:
                del ordered[bisect_left(ordered, recent.popleft())]
            if len(ordered) >= MINIMUM_POINTS:
                level = RollingLevel(
                    interpolate(ordered, 0.5), interpolate(ordered, 0.1), interpolate(ordered, 0.9)
                )
        yield level


def interpolate(ordered: list[float], share: float) -> float:
    """Return the quantile at a share (0 to 1, both inclusive) of ascending values, interpolated linearly."""
    rank = share * (len(ordered) - 1)
    below = int(rank)
    if below + 1 >= len(ordered):
        return ordered[-1]
    return ordered[below] + (rank - below) * (ordered[below + 1] - ordered[below])
