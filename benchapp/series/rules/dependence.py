"""Whether a metric depends on a fact of the runs: slope and rank correlation. Pure.

The slope is the median of the slopes between all pairs of points (Theil 1950), with the interval of Sen (1968): both do
not assume a distribution, and bear up to 29 % outliers. The correlation is Kendall's tau-b.
"""

from dataclasses import dataclass
from math import erfc, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
DEPENDENCE_FROM: Final = 8
# All pairs of so many points are 10 MiB.
DEPENDENCE_POINTS_MAXIMUM: Final = 500
# Two-sided, 95 %.
_QUANTILE: Final = 1.96


@dataclass(frozen=True, slots=True)
class Dependence:
    """y by x of n points.

    slope: unit of y per unit of x; low, high: its 95 % interval, not beyond the slopes that occur. intercept: of the
    line through the medians. tau: Kendall's tau-b, from -1 to 1. p: two-sided, that a dependence is chance.
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
        intercept=float(np.median(y) - slope * np.median(x)),
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
