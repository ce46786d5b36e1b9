"""Noise of a history without knowledge of its changes: trimmed differences and clipped spikes.

A step affects one difference between neighbors and a spike two, so that the others give the spread of the noise without
segmentation.
"""

import itertools
import math
from statistics import NormalDist
from typing import Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# Share of the squared differences. Two spikes in thirty points affect 13 %; a cache miss rate of one in five affects
# 32 %, of which half must remain, or the noise would be underestimated.
KEPT_SHARE: Final = 0.85
# Spreads. A Gaussian point exceeds it once in 16 000.
SPIKE_SPREADS: Final = 4.0
# Points. Three in a row are not a spike: they may be a new level.
LONGEST_SPIKE: Final = 2
# Window of the running median: the smallest in which three outliers are a minority.
MEDIAN_WINDOW: Final = 7
# Points. With fewer the correlation of neighbors is mostly chance and weighted less.
CORRELATION_DOUBT: Final = 10
MOST_CORRELATION: Final = 0.9


def _mean_square_of_kept(share: float) -> float:
    """Return the mean square of a standard normal variable restricted to its smallest share."""
    edge = NormalDist().inv_cdf((1 + share) / 2)
    return 1 - 2 * edge * NormalDist().pdf(edge) / share


_KEPT_MEAN_SQUARE: Final = _mean_square_of_kept(KEPT_SHARE)


def measure_spread(levels: Array, *, least: float) -> float:
    """Return the standard deviation of the noise around its levels, in units of the input, at least `least`.

    With v₁ and v₂ the trimmed mean squares of differences at distance 1 and 2, a chain with lag-1 correlation φ has
    v₁ = 2σ²(1−φ) and v₂ = 2σ²(1−φ²), so that φ = v₂/v₁ − 1. `least` for fewer than 3 points.
    """
    count = len(levels)
    if count < 3:
        return least
    near = _trim_mean_square(levels[1:] - levels[:-1])
    far = _trim_mean_square(levels[2:] - levels[:-2])
    if near <= 0:
        return least
    correlation = min(max(far / near - 1, 0.0), MOST_CORRELATION) * count / (count + CORRELATION_DOUBT)
    return max(math.sqrt(near / 2 / (1 - correlation)), least)


def clip_spikes(levels: Array, spread: float) -> Array:
    """Return the levels with isolated spikes clipped to 4 spreads from the median around them.

    Isolated: at most two neighbors beyond the limit on the same side. The first and the newest point are not clipped;
    points after the newest may show that it is not a spike.
    """
    count = len(levels)
    half = MEDIAN_WINDOW // 2
    if count < MEDIAN_WINDOW:
        return levels
    padded = np.concatenate([levels[half - 1 :: -1], levels, levels[: -half - 1 : -1]])
    around = np.sort(np.lib.stride_tricks.sliding_window_view(padded, MEDIAN_WINDOW), axis=1)[:, half]
    beyond = levels - around
    limit = SPIKE_SPREADS * spread
    sides = (beyond > limit).astype(np.int8) - (beyond < -limit)
    if not sides.any():
        return levels
    clipped = levels.copy()
    for start, end in _find_runs(sides):
        if end - start <= LONGEST_SPIKE and start > 0 and end < count:
            clipped[start:end] = around[start:end] + limit * sides[start]
    return clipped


def _trim_mean_square(differences: Array) -> float:
    squares = np.sort(differences * differences)
    kept = max(1, math.ceil(KEPT_SHARE * len(squares)))
    return float(squares[:kept].mean()) / _KEPT_MEAN_SQUARE


def _find_runs(sides: npt.NDArray[np.int8]) -> list[tuple[int, int]]:
    """Return start and exclusive end of each run of equal non-zero values."""
    edges = np.flatnonzero(np.diff(sides, prepend=0, append=0)).tolist()
    return [(start, end) for start, end in itertools.pairwise(edges) if sides[start]]
