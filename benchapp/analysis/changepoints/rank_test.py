"""The exact rank test of Mann and Whitney, as a standard normal score.

Implemented here, because SciPy would add 40 MB to every installation.
"""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Points of the smaller side up to which the distribution is exact. Its counts are below 2⁵³, exact in a float, with 60
# points on the other side (C(72, 12) = 1.5e13); for more the normal approximation is conservative.
EXACT_POINTS: Final = 12
# Upper bound of the normal score of any double.
_MOST_SCORE: Final = 37.0
_NORMAL: Final = NormalDist()


def score_ranks(left: Array, right: Array) -> float:
    """Return the distance of two samples as the one-sided standard normal score of Mann-Whitney's U (0 or more).

    Ties count half. The distribution is that of untied ranks, which has the wider tails: a score is never too large by
    ties. Exact up to 12 points on the smaller side, then normal with a correction for continuity. 0 if a side is empty.
    Source: Mann and Whitney 1947.
    """
    pairs = len(left) * len(right)
    if not pairs:
        return 0.0
    column = right[:, None]
    wins = float(np.count_nonzero(column > left) + np.count_nonzero(column >= left)) / 2
    least = min(wins, pairs - wins)
    small, large = sorted((len(left), len(right)))
    if small <= EXACT_POINTS:
        return _tabulate_scores(small, large)[math.ceil(least)]
    deviation = math.sqrt(pairs * (small + large + 1) / 12)
    return max((pairs / 2 - least - 0.5) / deviation, 0.0)


def count_arrangements(small: int, large: int) -> Array:
    """Return for each U from 0 to small·large how many of the C(small + large, small) arrangements have it.

    The coefficients of the Gaussian binomial: Π (1 − q^(large+i)) / (1 − q^i) for i = 1 … small.
    """
    length = small * large + 1
    counts = np.zeros(length)
    counts[0] = 1.0
    for factor in range(1, small + 1):
        shifted = counts.copy()
        shifted[large + factor :] -= counts[: max(length - large - factor, 0)]
        padded = np.concatenate([shifted, np.zeros(-length % factor)])
        counts = np.cumsum(padded.reshape(-1, factor), axis=0).reshape(-1)[:length]
    return counts


@lru_cache(maxsize=2048)  # 12 × 60 pairs of sizes; some 200 floats each
def _tabulate_scores(small: int, large: int) -> tuple[float, ...]:
    """Return the score of each U from 0 up to the middle: −Φ⁻¹(P(U ≤ u)), cut at 0."""
    below = np.cumsum(count_arrangements(small, large)) / math.comb(small + large, small)
    half = small * large // 2 + small * large % 2
    return tuple(_score(probability) for probability in below[: half + 1].tolist())


def _score(probability: float) -> float:
    if probability >= 0.5:
        return 0.0
    return min(-_NORMAL.inv_cdf(probability), _MOST_SCORE)
