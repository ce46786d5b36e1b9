"""Quantiles over many series for each day."""

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.levels import Quantiles


def find_day_quantiles(values: NDArray[np.float64]) -> list[Quantiles | None]:
    """Return the quantiles of each column; values: series × days, NaN without a value. None without any value.

    Quantiles are interpolated linearly, as by numpy's default.
    """
    found: list[Quantiles | None] = []
    for column in values.T:
        known = column[~np.isnan(column)]
        if len(known) == 0:
            found.append(None)
            continue
        p10, median, p90 = np.quantile(known, (0.1, 0.5, 0.9)).tolist()
        found.append(Quantiles(median, p10, p90, len(known)))
    return found
