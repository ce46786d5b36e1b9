"""Noise of a history without knowledge of its changes: trimmed differences and clipped spikes.

A step affects one difference between neighbors and a spike two, so that the others give the spread of the noise without
segmentation.
"""

import itertools
import math
from dataclasses import dataclass
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
# Share of the squared differences without bad runs: with 20 % of these, 36 % of the differences are affected.
SOUND_SHARE: Final = 0.6
# Bad runs are recognized only if the others have clearly less noise, if they are at least 3, at most 20 %, and if half
# of them are alone: of 15 % at random 28 % have a neighbor, of states that last two runs and more most.
SOUND_SPREAD_SHARE: Final = 0.7
FEWEST_BAD: Final = 3
MOST_BAD_SHARE: Final = 0.2
MOST_BAD_TOGETHER: Final = 0.5


def _mean_square_of_kept(share: float) -> float:
    """Return the mean square of a standard normal variable restricted to its smallest share."""
    edge = NormalDist().inv_cdf((1 + share) / 2)
    return 1 - 2 * edge * NormalDist().pdf(edge) / share


_KEPT_MEAN_SQUARES: Final = {share: _mean_square_of_kept(share) for share in (KEPT_SHARE, SOUND_SHARE)}


@dataclass(frozen=True, slots=True)
class SoundLevels:
    """Levels with lone bad runs replaced by the median around them, and the spread of the others."""

    values: Array
    spread: float


def measure_spread(levels: Array, *, least: float, kept_share: float = KEPT_SHARE) -> float:
    """Return the standard deviation of the noise around its levels, in units of the input, at least `least`.

    With v₁ and v₂ the trimmed mean squares of differences at distance 1 and 2, a chain with lag-1 correlation φ has
    v₁ = 2σ²(1−φ) and v₂ = 2σ²(1−φ²), so that φ = v₂/v₁ − 1. `least` for fewer than 3 points.
    """
    count = len(levels)
    if count < 3:
        return least
    near = _trim_mean_square(levels[1:] - levels[:-1], kept_share)
    far = _trim_mean_square(levels[2:] - levels[:-2], kept_share)
    return _combine(near, far, count=count, least=least)


def measure_spreads(rows: Array, *, least: float) -> list[float]:
    """Return the result of `measure_spread` for each row of an array."""
    count = rows.shape[1]
    if count < 3:
        return [least] * len(rows)
    near = _trim_mean_squares(rows[:, 1:] - rows[:, :-1])
    far = _trim_mean_squares(rows[:, 2:] - rows[:, :-2])
    return [_combine(*both, count=count, least=least) for both in zip(near, far, strict=True)]


def _combine(near: float, far: float, *, count: int, least: float) -> float:
    """Return the standard deviation by the mean squares of differences at distance 1 and 2."""
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
    if count < MEDIAN_WINDOW:
        return levels
    around = _take_running_median(levels)
    limit = SPIKE_SPREADS * spread
    sides = _find_far(levels - around, limit)
    if not sides.any():
        return levels
    clipped = levels.copy()
    for start, end in _find_runs(sides):
        if end - start <= LONGEST_SPIKE and start > 0 and end < count:
            clipped[start:end] = around[start:end] + limit * sides[start]
    return clipped


def replace_bad_runs(levels: Array, spread: float, *, least: float) -> SoundLevels | None:
    """Return the levels without lone bad runs, and their spread; None if there are none, too many, or they cluster.

    `spread` is that of all points. Bad runs at random inflate it, so that they hide changes.
    """
    if len(levels) < MEDIAN_WINDOW:
        return None
    sound_spread = measure_spread(levels, least=least, kept_share=SOUND_SHARE)
    if sound_spread >= SOUND_SPREAD_SHARE * spread:
        return None
    around = _take_running_median(levels)
    sides = _find_far(levels - around, SPIKE_SPREADS * sound_spread)
    lengths = [(start, end) for start, end in _find_runs(sides) if start > 0 and end < len(levels)]
    count = sum(end - start for start, end in lengths)
    together = sum(end - start for start, end in lengths if end - start > 1)
    if not FEWEST_BAD <= count <= MOST_BAD_SHARE * len(levels) or together > MOST_BAD_TOGETHER * count:
        return None
    sound = levels.copy()
    for start, end in lengths:
        if end - start <= LONGEST_SPIKE:
            sound[start:end] = around[start:end]
    return SoundLevels(sound, sound_spread)


def _take_running_median(levels: Array) -> Array:
    half = MEDIAN_WINDOW // 2
    padded = np.concatenate([levels[half - 1 :: -1], levels, levels[: -half - 1 : -1]])
    # As sliding_window_view, which takes as long as the rest together.
    windows = np.ndarray((len(levels), MEDIAN_WINDOW), buffer=padded, strides=2 * padded.strides)
    return np.sort(windows, axis=1)[:, half]


def _find_far(beyond: Array, limit: float) -> npt.NDArray[np.int8]:
    """Return 1 and −1 where the distance exceeds the limit above and below."""
    return (beyond > limit).astype(np.int8) - (beyond < -limit)


def _trim_mean_square(differences: Array, kept_share: float) -> float:
    squares = np.sort(differences * differences)
    kept = max(1, math.ceil(kept_share * len(squares)))
    return float(squares[:kept].mean()) / _KEPT_MEAN_SQUARES[kept_share]


def _trim_mean_squares(differences: Array) -> list[float]:
    squares = np.sort(differences * differences, axis=1)
    kept = max(1, math.ceil(KEPT_SHARE * squares.shape[1]))
    means: list[float] = (squares[:, :kept].mean(axis=1) / _KEPT_MEAN_SQUARES[KEPT_SHARE]).tolist()
    return means


def _find_runs(sides: npt.NDArray[np.int8]) -> list[tuple[int, int]]:
    """Return start and exclusive end of each run of equal non-zero values."""
    edges = np.flatnonzero(np.diff(sides, prepend=0, append=0)).tolist()
    return [(start, end) for start, end in itertools.pairwise(edges) if sides[start]]
