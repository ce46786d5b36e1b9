"""Summaries of levels: median, percentiles, the newest values against earlier ones. Pure; many series at once."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# The newest five values are compared with the earlier ones, from ten values in all.
RECENT_COUNT: Final = 5
COMPARED_FROM: Final = 10
# Points of a sparkline.
SPARKLINE_COUNT: Final = 20

_Floats = NDArray[np.float64]
_Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LevelCounts:
    """Columns with one entry for each row of values.

    recent_median, baseline_median: of the newest RECENT_COUNT and of the earlier values, NaN below COMPARED_FROM.
    newest: the known values, newest first, then NaN. first_place, last_place: the columns of the oldest
    and the newest known value.
    """

    n: _Places
    p10: _Floats
    median: _Floats
    p90: _Floats
    minimum: _Floats
    maximum: _Floats
    last: _Floats
    recent_median: _Floats
    baseline_median: _Floats
    newest: _Floats
    first_place: _Places
    last_place: _Places


def summarize_levels(values: _Floats) -> LevelCounts:
    """Summarize each row; values: rows of one metric of one series, newest first, NaN if unknown.

    Every row has a known value. Percentiles interpolate linearly, bit for bit as PostgreSQL's percentile_cont.
    """
    is_known = ~np.isnan(values)
    n = is_known.sum(axis=1)
    order = np.argsort(~is_known, axis=1, kind="stable")
    newest = np.take_along_axis(values, order, axis=1)
    # NaN sorts after all numbers.
    ascending = np.sort(values, axis=1)
    is_compared = n >= COMPARED_FROM
    recent = np.sort(newest[:, :RECENT_COUNT], axis=1)
    earlier = np.sort(newest[:, RECENT_COUNT:], axis=1)
    return LevelCounts(
        n=n,
        p10=_find_quantile(ascending, n, 0.1),
        median=_find_quantile(ascending, n, 0.5),
        p90=_find_quantile(ascending, n, 0.9),
        minimum=ascending[:, 0],
        maximum=_pick(ascending, n - 1),
        last=newest[:, 0],
        recent_median=_find_median_where(is_compared, recent, np.minimum(n, RECENT_COUNT)),
        baseline_median=_find_median_where(is_compared, earlier, n - RECENT_COUNT),
        newest=newest,
        first_place=_pick(order, n - 1),
        last_place=order[:, 0],
    )


def _find_median_where(is_selected: NDArray[np.bool_], ascending: _Floats, n: _Places) -> _Floats:
    medians = np.full(len(n), np.nan)
    if is_selected.any():
        medians[is_selected] = _find_quantile(ascending[is_selected], n[is_selected], 0.5)
    return medians


def _find_quantile(ascending: _Floats, n: _Places, share: float) -> _Floats:
    rank = share * (n - 1)
    below = np.floor(rank).astype(np.int64)
    low, high = _pick(ascending, below), _pick(ascending, np.ceil(rank).astype(np.int64))
    return np.asarray(low + (rank - below) * (high - low))


def _pick(rows: NDArray[Any], places: _Places) -> NDArray[Any]:
    return np.asarray(rows[np.arange(len(rows)), places])
