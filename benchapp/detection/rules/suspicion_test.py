"""Test for suspected changes: outliers among the newest runs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.level_shift import describe_level
from benchapp.detection.rules.noise_profile import profile_noise

# Minimum known runs of the current level, and the maximum that are read.
LEAST_KNOWN_RUNS: Final = 10
MOST_KNOWN_RUNS: Final = 60
# Newest runs that are tested, and how many of them must be outliers: a single one is a spike.
NEWEST_RUNS: Final = 3
FAR_RUNS: Final = 2
# Spreads. The newest and one of two earlier runs exceed it on one side once in 250 million runs for Gaussian noise,
# once in 26 000 for tails of t with 3 degrees of freedom.
FAR_SPREADS: Final = 4.0
# Runs by which the start of a change may shift without being another change.
SAME_CHANGE_RUNS: Final = 5
# Runs for which a change must be detected to be confirmed.
CONFIRMED_AFTER_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The newest runs from `index` on are outliers of the current level; relative to its median, None if that is 0."""

    index: int
    far_runs: int
    relative_change: float | None
    spreads: float


def suspect_newest(
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    least_relative_change: float = LEAST_RELATIVE_CHANGE,
) -> Suspicion | None:
    """Return a suspicion if the newest value and one of the two before are outliers of the current level on one side.

    Outliers are 4 spreads from its median, outside of the range of the level, and differ by the least relative change.
    The current level begins at the last of the changes' indices, and is tested from 10 runs on. Non-finite values are
    ignored.
    """
    finite = _find_current(values, changes)
    known, newest = finite[:-NEWEST_RUNS][-MOST_KNOWN_RUNS:], finite[-NEWEST_RUNS:]
    if len(known) < LEAST_KNOWN_RUNS or newest[-1] != len(values) - 1:
        return None
    level = np.array([values[index] for index in known], dtype=np.float64)
    median, spread = _measure_known(level)
    side = 1 if values[newest[-1]] > median else -1
    beyond = float((level * side).max())
    reach = max(FAR_SPREADS * spread, least_relative_change * abs(median))
    far = [
        index for index in newest if (values[index] - median) * side > reach and values[index] * side > beyond
    ]
    if len(far) < FAR_RUNS or far[-1] != newest[-1]:
        return None
    distance = describe_level(np.array([values[index] for index in far])).median - median
    return Suspicion(
        index=far[0],
        far_runs=len(far),
        relative_change=distance / abs(median) if median else None,
        spreads=abs(distance) / spread if spread > 0 else math.inf,
    )


def find_suspicion_band(
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    least_relative_change: float = LEAST_RELATIVE_CHANGE,
) -> tuple[float, float] | None:
    """Return low and high outside of which the next value is an outlier of the current level; None below 10 runs."""
    known = _find_current(values, changes)[: -(NEWEST_RUNS - 1)][-MOST_KNOWN_RUNS:]
    if len(known) < LEAST_KNOWN_RUNS:
        return None
    level = np.array([values[index] for index in known], dtype=np.float64)
    median, spread = _measure_known(level)
    reach = max(FAR_SPREADS * spread, least_relative_change * abs(median))
    return min(median - reach, float(level.min())), max(median + reach, float(level.max()))


def _find_current(values: Sequence[float], changes: Iterable[int]) -> list[int]:
    """Return the indices of the finite values of the current level."""
    start = max((index for index in changes if 0 < index < len(values)), default=0)
    return [index for index in range(start, len(values)) if math.isfinite(values[index])]


def _measure_known(level: np.ndarray) -> tuple[float, float]:
    """Return the median of a level and its spread, at least a tenth of the smallest change."""
    median = describe_level(level).median
    return median, max(profile_noise(level).spread, LEAST_RELATIVE_CHANGE / 10) * abs(median)
