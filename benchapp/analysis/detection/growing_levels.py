"""Growing levels: statistics of levels after a few more values, without the values that they had before. Pure.

A quantile of n + k values is among the k values on either side of the rank that it had among n. Many levels are
calculated together: an array of one row for each.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.detection.evaluation_points import EVALUATED_EVERY

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

# Values by which a level grows at most: up to the next evaluation.
GROWTH_MAXIMUM: Final = EVALUATED_EVERY - 1
_WINDOW: Final = 2 * GROWTH_MAXIMUM + 2
# Values around the rank of a quantile of n values, ascending, infinite behind the largest. first: rank of the first of
# them, from 0.
GROWING_QUANTILE: Final = np.dtype([("n", np.int64), ("first", np.int64), ("values", np.float64, (_WINDOW,))])
# What is kept of the values of a level.
GROWING_LEVEL: Final = np.dtype(
    [
        ("minimum", np.float64),
        ("maximum", np.float64),
        *((name, GROWING_QUANTILE) for name in ("p10", "median", "p90")),
    ]
)


@dataclass(frozen=True, slots=True)
class GrownLevels:
    """Statistics of levels, as `LevelStatistics`: an element for each level."""

    n: Counts
    median: Array
    p10: Array
    p90: Array
    minimum: Array
    maximum: Array
    last: Array


def keep_level(values: Array) -> NDArray[np.void]:
    """Return the single GROWING_LEVEL of the finite values of a level, at least one."""
    ascending = np.sort(values)
    level = np.zeros((), GROWING_LEVEL)
    level["minimum"], level["maximum"] = ascending[0], ascending[-1]
    for name, share in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
        level[name] = keep_quantile(ascending, share)
    return level


def keep_quantile(ascending: Array, share: float) -> NDArray[np.void]:
    """Return the single GROWING_QUANTILE of one or more values; share: 0 to 1."""
    first = max(int(share * (len(ascending) - 1)) - GROWTH_MAXIMUM, 0)
    around = ascending[first : first + _WINDOW]
    quantile = np.zeros((), GROWING_QUANTILE)
    quantile["n"], quantile["first"] = len(ascending), first
    quantile["values"] = np.inf
    quantile["values"][: len(around)] = around
    return quantile


def grow_levels(levels: NDArray[np.void], added: Array) -> GrownLevels:
    """Return the statistics of GROWING_LEVELs after 1 to 15 more values: the same as of all values.

    added: a row for each level, oldest first, NaN where unknown; at least one is known.
    """
    is_known = np.isfinite(added)
    newest = added.shape[1] - 1 - is_known[:, ::-1].argmax(axis=1)
    return GrownLevels(
        n=levels["median"]["n"] + np.count_nonzero(is_known, axis=1),
        median=grow_quantiles(levels["median"], 0.5, added),
        p10=grow_quantiles(levels["p10"], 0.1, added),
        p90=grow_quantiles(levels["p90"], 0.9, added),
        minimum=np.fmin(levels["minimum"], np.fmin.reduce(added, axis=1)),
        maximum=np.fmax(levels["maximum"], np.fmax.reduce(added, axis=1)),
        last=added[np.arange(len(added)), newest],
    )


def grow_quantiles(quantiles: NDArray[np.void], share: float, added: Array) -> Array:
    """Return the quantile of each GROWING_QUANTILE after more values, as of `grow_levels`; interpolated linearly."""
    # NaN is sorted behind the infinite. Values below the window change the rank of its values as much as their place.
    known = np.sort(np.concatenate([quantiles["values"], added], axis=1), axis=1)
    highest = quantiles["n"] + np.count_nonzero(np.isfinite(added), axis=1) - 1
    ranks = share * highest
    below = ranks.astype(np.int64)
    rows = np.arange(len(known))
    low = known[rows, below - quantiles["first"]]
    high = known[rows, np.minimum(below + 1, highest) - quantiles["first"]]
    quantile: Array = np.where(ranks == below, low, low + (ranks - below) * (high - low))
    return quantile
