"""Levels of many series day by day, relative to the level of each when the period began."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import numpy as np
from django.db import connection
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from benchapp.detection.rules.staleness import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.framework.read.binary_columns import DAYS_S, fetch_arrays, read_cached
from benchapp.framework.read.days import DayRange

HISTORY_DAYS: Final = 90
_DAY_US: Final = 86_400_000_000
# A level of zero has no logarithm; no change is as large as this.
_RATIO_MINIMUM: Final = 1e-3
# The main metric of a series: IOPS, or the elapsed time of a workload that is timed as a whole. A series whose current
# level began before the period, or is its first, is at its reference on each day: such series are only counted, by
# group and days. The others are listed. When a series is no longer measured: as `is_stale`.
_CURRENT_LEVELS: Final = sql.SQL(
    "SELECT place, first_day, end_day, count(*) FILTER (WHERE NOT is_changed AND median <> 0),"
    " array_agg(id) FILTER (WHERE is_changed)"
    " FROM (SELECT wanted.place, wanted.id, level.median,"
    "  CASE WHEN level.from_at <= %(first_at)s THEN 0"
    "   ELSE least(ceil(extract(epoch FROM level.from_at - %(first_at)s) / 86400), %(days)s)::integer"
    "   END AS first_day,"
    "  CASE WHEN wanted.last_at >= %(stale_at)s THEN %(days)s ELSE ("
    "   SELECT CASE WHEN measurement_count >= %(interval_from)s AND last_at"
    "     >= %(now)s - %(intervals)s * (last_at - first_at) / (measurement_count - 1) THEN %(days)s"
    "    ELSE greatest(ceil(extract(epoch FROM last_at + interval '1 day' - %(first_at)s) / 86400), 0)::integer END"
    "   FROM benchapp_series WHERE id = wanted.id) END AS end_day,"
    "  level.from_at > %(first_at)s AND level.previous_until_at IS NOT NULL AS is_changed"
    "  FROM ({wanted}) AS wanted(id, place, last_at)"
    "  LEFT JOIN benchapp_level iops ON iops.series_id = wanted.id AND iops.metric = 'iops' AND iops.is_current"
    "  LEFT JOIN benchapp_level elapsed ON elapsed.series_id = wanted.id AND elapsed.metric = 'elapsed_s'"
    "   AND elapsed.is_current AND iops.id IS NULL"
    "  CROSS JOIN LATERAL (SELECT coalesce(iops.from_at, elapsed.from_at) AS from_at,"
    "   coalesce(iops.previous_until_at, elapsed.previous_until_at) AS previous_until_at,"
    "   coalesce(iops.median, elapsed.median) AS median) AS level"
    "  WHERE level.from_at IS NOT NULL) AS days GROUP BY place, first_day, end_day"
)
_ALL_LEVELS: Final = sql.SQL(
    "SELECT wanted.number, wanted.place, wanted.end_day, (level.metric = 'elapsed_s')::integer AS is_time,"
    " level.from_at, level.median FROM unnest(%s::bigint[], %s::integer[], %s::integer[])"
    " WITH ORDINALITY AS wanted(id, place, end_day, number)"
    " JOIN benchapp_level level ON level.series_id = wanted.id AND level.metric = ANY('{iops,elapsed_s}')"
    " ORDER BY wanted.number, level.from_at"
)
_COLUMNS: Final = {
    "number": "bigint",
    "place": "integer",
    "end_day": "integer",
    "is_time": "integer",
    "from_at": "timestamptz",
    "median": "double precision",
}


def read_relative_levels(
    wanted: sql.Composable,
    values: Mapping[str, Any],
    *,
    days: DayRange | None = None,
) -> dict[int, tuple[float | None, ...]]:
    """Return the relative level of each group of series at the end of each day, oldest first.

    wanted: a query of series: id, number of the group, last_at; values: its named parameters. Of a series: the
    level in effect on a day / the level on the first of these days, or the first level of a later series; of IOPS, or
    of the elapsed time where there is none; above 1 is better. Of a group: the geometric mean of its series that have
    a level on the day; None without one: before the first run, and after the last one of series that are no longer
    measured. Groups without a level are left out.

    days: by default 90 until now. Read from stored levels: the cost depends on the number of series, not of runs. One
    query, and one for the series whose level changed in the period; one if the result is cached, which may be a minute
    old. 4 000 series: about 4 ms.
    """
    days = days or DayRange(timezone.now(), HISTORY_DAYS)
    end, length = days.end_at.replace(second=0, microsecond=0), days.count
    load = partial(_read_relative_levels, wanted, values, end=end, length=length)
    return read_cached("relative levels", wanted.as_string(), values, end, length, load=load, age_s=DAYS_S)


def _read_relative_levels(
    wanted: sql.Composable, values: Mapping[str, Any], *, end: datetime, length: int
) -> dict[int, tuple[float | None, ...]]:
    first_at = end - timedelta(days=length - 1)
    asked = {
        **values,
        "first_at": first_at,
        "now": end,
        "days": length,
        "stale_at": end - STALE_AFTER,
        "interval_from": INTERVAL_FROM,
        "intervals": INTERVALS,
    }
    # Not `fetch_rows`: prepared, the query gets a plan for any number of series, which takes a third longer.
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT_LEVELS.format(wanted=wanted).as_string(cursor.connection), asked)
        rows: list[tuple[int, int, int, int, list[int] | None]] = cursor.fetchall()
    if not rows:
        return {}
    # Each level is added on its first day and subtracted on the day after its last one: what remains of the sums is
    # on each day what is in effect.
    groups = max(row[0] for row in rows) + 1
    counts = np.zeros((groups, length + 1), dtype=np.int64)
    logarithms = np.zeros((groups, length + 1))
    changed: list[tuple[int, int, int]] = []
    for place, first_day, end_day, count, ids in rows:
        if end_day > first_day:
            counts[place, first_day] += count
            counts[place, end_day] -= count
        changed += [(series_id, place, end_day) for series_id in ids or ()]
    if changed:
        _add_changed(counts, logarithms, changed, first_us=round(first_at.timestamp() * 1e6))
    counts, logarithms = np.cumsum(counts, axis=1), np.cumsum(logarithms, axis=1)
    means = np.round(np.exp(logarithms / np.maximum(counts, 1)), 6)
    return {
        place: tuple(
            mean if count else None
            for mean, count in zip(
                means[place, :length].tolist(), counts[place, :length].tolist(), strict=True
            )
        )
        for place in dict.fromkeys(row[0] for row in rows)
    }


def _add_changed(
    counts: NDArray[np.int64],
    logarithms: NDArray[np.float64],
    changed: Sequence[tuple[int, int, int]],
    *,
    first_us: int,
) -> None:
    """Add the levels of these series: (id, group, day after the last one)."""
    days = counts.shape[1] - 1
    found = fetch_arrays(
        _ALL_LEVELS, [list(column) for column in zip(*changed, strict=True)], columns=_COLUMNS
    )
    is_time = found["is_time"] == 1
    kept = ~is_time | ~np.isin(found["number"], found["number"][~is_time])
    series, is_time, median = found["number"][kept], is_time[kept], found["median"][kept]
    # The first day at or after the start of each level.
    start = np.clip(-((first_us - found["from_at"][kept]) // _DAY_US), 0, days)
    is_last = np.append(series[1:] != series[:-1], True)
    end = np.where(is_last, found["end_day"][kept], np.append(start[1:], days))
    reference = _find_references(series, start, median)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(is_time, reference / median, median / reference)
    shown = np.isfinite(relative) & (end > start)
    place, start, end = found["place"][kept][shown], start[shown], end[shown]
    logarithm = np.log(np.maximum(relative[shown], _RATIO_MINIMUM))
    for day, sign in ((start, 1), (end, -1)):
        np.add.at(counts, (place, day), sign)
        np.add.at(logarithms, (place, day), sign * logarithm)


def _find_references(
    series: NDArray[np.int64], start: NDArray[np.int64], median: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each level the median that it is compared to: of the last level that began before the period."""
    first = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    earlier = np.add.reduceat((start == 0).astype(np.int64), first)
    chosen = median[first + np.maximum(earlier - 1, 0)]
    references: NDArray[np.float64] = np.repeat(chosen, np.diff(np.append(first, len(series))))
    return references
