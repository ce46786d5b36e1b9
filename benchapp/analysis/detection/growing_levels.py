"""Growing levels: statistics of levels after a few more values, without the values that they had before. Pure.

A quantile of n + k values is among the k values on either side of the rank that it had among n. Many levels are
calculated together: an array of one row for each.
"""

from collections.abc import Iterator, Sequence
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


def keep_levels(levels: Sequence[Array]) -> NDArray[np.void]:
    """Return the GROWING_LEVEL of each level from its finite values, at least one."""
    kept = np.zeros(len(levels), GROWING_LEVEL)
    for rows, ascending in _sort_alike(levels):
        kept["minimum"][rows], kept["maximum"][rows] = ascending[:, 0], ascending[:, -1]
        for name, share in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
            _keep_around(kept[name], rows, ascending, share)
    return kept


def keep_quantiles(levels: Sequence[Array], share: float) -> NDArray[np.void]:
    """Return the GROWING_QUANTILE of each level from its finite values, at least one; share: 0 to 1."""
    kept = np.zeros(len(levels), GROWING_QUANTILE)
    for rows, ascending in _sort_alike(levels):
        _keep_around(kept, rows, ascending, share)
    return kept


def _sort_alike(levels: Sequence[Array]) -> Iterator[tuple[list[int], Array]]:
    """Yield the numbers of the levels with as many values, and these in ascending order, a row for each level."""
    alike: dict[int, list[int]] = {}
    for number, values in enumerate(levels):
        alike.setdefault(len(values), []).append(number)
    for numbers in alike.values():
        rows = np.stack([levels[number] for number in numbers])
        rows.sort(axis=1)
        yield numbers, rows


def _keep_around(kept: NDArray[np.void], rows: list[int], ascending: Array, share: float) -> None:
    """Fill these rows of GROWING_QUANTILEs from their values."""
    count = ascending.shape[1]
    first = max(int(share * (count - 1)) - GROWTH_MAXIMUM, 0)
    around = np.full((len(rows), _WINDOW), np.inf)
    around[:, : min(count - first, _WINDOW)] = ascending[:, first : first + _WINDOW]
    kept["n"][rows], kept["first"][rows], kept["values"][rows] = count, first, around


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
