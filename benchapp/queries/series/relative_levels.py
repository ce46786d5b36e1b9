"""Levels of many series day by day, relative to the level of each when the period began."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from benchapp.analysis.detection.staleness import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.queries.binary_columns import fetch_arrays

HISTORY_DAYS: Final = 90
_DAY_US: Final = 86_400_000_000
# A level of zero has no logarithm; no change is as large as this.
_RATIO_MINIMUM: Final = 1e-3
_COLUMNS: Final = {
    "place": "bigint",
    "is_time": "integer",
    "from_at": "timestamptz",
    "first_at": "timestamptz",
    "last_at": "timestamptz",
    "n": "integer",
    "median": "double precision",
}
# The main metric of a series: IOPS, or the elapsed time of a workload that is timed as a whole.
_LEVELS: Final = sql.SQL(
    "SELECT wanted.place, (level.metric = 'elapsed_s')::integer AS is_time, level.from_at, level.median,"
    " series.first_at, series.last_at, series.measurement_count AS n"
    " FROM unnest(%s::bigint[]) WITH ORDINALITY AS wanted(id, place)"
    " JOIN benchapp_series series ON series.id = wanted.id"
    " JOIN benchapp_level level ON level.series_id = wanted.id AND level.metric = ANY('{iops,elapsed_s}')"
    " ORDER BY wanted.place, level.from_at"
)

Ratios = NDArray[np.float64]
Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True, slots=True)
class RelativeLevels:
    """Levels of series at the same time of each day, the last of which is now.

    days: these times. ratios: series × days; the level in effect / the level at the first of these times, or the first
    level of a later series; above 1 is better. NaN before the first run and after the last one of a series that is no
    longer measured.
    """

    days: tuple[datetime, ...]
    ratios: Ratios


def read_relative_levels(
    series_ids: Sequence[int], *, days: int = HISTORY_DAYS, now: datetime | None = None
) -> RelativeLevels:
    """Return the relative levels of IOPS, or of elapsed time, in the order of the ids; one query.

    Read from stored levels: the cost depends on the number of series, not of runs. 10 000 series: about 60 ms.
    """
    end = now or timezone.now()
    times = tuple(end - timedelta(days=days - 1 - place) for place in range(days))
    found = fetch_arrays(_LEVELS, [list(series_ids)], columns=_COLUMNS) if series_ids else None
    ratios = np.full((len(series_ids), days), np.nan)
    if found is not None and len(found["place"]):
        _fill_ratios(ratios, found, now=end)
    return RelativeLevels(times, ratios)


def average_by_group(
    levels: RelativeLevels, groups: Sequence[Group]
) -> dict[Group, tuple[float | None, ...]]:
    """Return the geometric mean of the ratios of each group on each day; None on a day without a series.

    groups: of each series, in the order of the ratios.
    """
    if not groups:
        return {}
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    members = np.array([numbers[group] for group in groups])
    order = np.argsort(members, kind="stable")
    starts = np.searchsorted(members[order], np.arange(len(numbers)))
    logarithms = np.log(np.maximum(levels.ratios[order], _RATIO_MINIMUM))
    counts = np.add.reduceat(~np.isnan(logarithms), starts, axis=0, dtype=np.int64)
    sums = np.add.reduceat(np.nan_to_num(logarithms), starts, axis=0)
    means = np.round(np.exp(sums / np.maximum(counts, 1)), 6).tolist()
    return {
        group: tuple(mean if count else None for mean, count in zip(row, known, strict=True))
        for group, row, known in zip(numbers, means, counts.tolist(), strict=True)
    }


def _fill_ratios(ratios: Ratios, found: Mapping[str, NDArray[Any]], *, now: datetime) -> None:
    now_us = round(now.timestamp() * 1e6)
    first_us = now_us - (ratios.shape[1] - 1) * _DAY_US
    until_us = np.where(_find_stale(found, now_us), found["last_at"] + _DAY_US, now_us + _DAY_US)
    series = found["place"] - 1
    is_time = found["is_time"] == 1
    kept = ~is_time | ~np.isin(series, series[~is_time])
    series, is_time, median = series[kept], is_time[kept], found["median"][kept]
    days = ratios.shape[1]
    start = _count_days(found["from_at"][kept], first_us, days)
    is_last = np.append(series[1:] != series[:-1], True)
    end = np.where(is_last, _count_days(until_us[kept], first_us, days), np.append(start[1:], days))
    reference = _find_references(series, start, median)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(is_time, reference / median, median / reference)
    relative[~np.isfinite(relative)] = np.nan
    lengths = np.maximum(end - start, 0)
    # Each level fills the days from its start to the next one.
    steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ratios[np.repeat(series, lengths), np.repeat(start, lengths) + steps] = np.repeat(relative, lengths)


def _find_stale(found: Mapping[str, NDArray[Any]], now_us: int) -> NDArray[np.bool_]:
    """Return `is_stale` of the series of each level."""
    intervals = np.maximum(found["n"] - 1, 1)
    usual = np.where(found["n"] >= INTERVAL_FROM, (found["last_at"] - found["first_at"]) / intervals, 0.0)
    longest = np.maximum(STALE_AFTER.total_seconds() * 1e6, INTERVALS * usual)
    stale: NDArray[np.bool_] = now_us - found["last_at"] > longest
    return stale


def _count_days(times_us: NDArray[np.int64], first_us: int, days: int) -> NDArray[np.int64]:
    """Return the first day at or after each time, at most `days`."""
    counted: NDArray[np.int64] = np.clip(-((first_us - times_us) // _DAY_US), 0, days)
    return counted


def _find_references(
    series: NDArray[np.int64], start: NDArray[np.int64], median: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each level the median that it is compared to: of the last level that began before the period."""
    first = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    earlier = np.add.reduceat((start == 0).astype(np.int64), first)
    chosen = median[first + np.maximum(earlier - 1, 0)]
    references: NDArray[np.float64] = np.repeat(chosen, np.diff(np.append(first, len(series))))
    return references
