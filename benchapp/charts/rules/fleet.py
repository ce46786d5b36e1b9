"""Quantiles over many series for each day."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class DayQuantiles:
    """The values of one day over all series that have one. n: their number."""

    median: float
    p10: float
    p90: float
    n: int


def find_day_quantiles(values: NDArray[np.float64]) -> list[DayQuantiles | None]:
    """Return the quantiles of each column; values: series × days, NaN without a value. None without any value.

    Quantiles are interpolated linearly, as by numpy's default.
    """
    found: list[DayQuantiles | None] = []
    for column in values.T:
        known = column[~np.isnan(column)]
        if len(known) == 0:
            found.append(None)
            continue
        p10, median, p90 = np.quantile(known, (0.1, 0.5, 0.9)).tolist()
        found.append(DayQuantiles(median, p10, p90, len(known)))
    return found
