"""Changes of young series: too few runs to know the noise, so that the usual spread of comparable series is the prior.

Below 6 runs before a change no rank test can reach a useful score, and a t test of so few runs depends on their own
spread, which is often too small by chance.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.contrast import normalize_t_score

Array = npt.NDArray[np.float64]

# Runs of a series from which only the detector decides.
YOUNG_RUNS: Final = 15
# Minimum runs before and after a change. With 4 runs before it, almost twice as many changes were false.
BEFORE_MINIMUM: Final = 5
AFTER_MINIMUM: Final = 3
# Points of noise with the usual spread that are added to those of the series. The other limits are minimum
# requirements: normal score, shift in spreads, gap between both sides as share of the shift. Of series whose spreads
# vary as those of real histories, 0.5 % have a false change in their first 14 runs (benchmarks/detection.py).
_PRIOR_POINTS: Final = 8.0
_SCORE_MINIMUM: Final = 4.0
_SPREADS_MINIMUM: Final = 5.0
_GAP_MINIMUM: Final = 0.25


@dataclass(frozen=True, slots=True)
class YoungChange:
    """The first value of a new level of a young series. t_score: normal score; gap: as share of the shift."""

    index: int
    t_score: float
    gap: float


def find_young_change(
    values: Array, *, usual_spread: float, least_relative_change: float
) -> YoungChange | None:
    """Return the most certain change of 8 to 14 positive values, oldest first; None without one.

    usual_spread: relative, of series with the same workload. A t test whose variance is moderated by a prior: Smyth
    2004.
    """
    count = len(values)
    if not BEFORE_MINIMUM + AFTER_MINIMUM <= count < YOUNG_RUNS or values.min() <= 0:
        return None
    ratios = np.log(values)
    found = [
        change
        for place in range(BEFORE_MINIMUM, count - AFTER_MINIMUM + 1)
        if (
            change := _test_place(
                ratios, place, spread=usual_spread, least_shift=math.log1p(least_relative_change)
            )
        )
    ]
    return max(found, key=lambda change: change.t_score, default=None)


def _test_place(ratios: Array, place: int, *, spread: float, least_shift: float) -> YoungChange | None:
    before, after = ratios[:place], ratios[place:]
    shift = abs(float(after.mean() - before.mean()))
    gap = max(float(after.min() - before.max()), float(before.min() - after.max()))
    if shift < least_shift or gap < _GAP_MINIMUM * shift:
        return None
    freedom = len(ratios) - 2 + _PRIOR_POINTS
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    variance = (squares + _PRIOR_POINTS * spread * spread) / freedom
    if shift < _SPREADS_MINIMUM * math.sqrt(variance):
        return None
    t_squared = shift * shift / (variance * (1 / len(before) + 1 / len(after)))
    score = normalize_t_score(t_squared, freedom)
    return YoungChange(place, score, gap / shift) if score >= _SCORE_MINIMUM else None
