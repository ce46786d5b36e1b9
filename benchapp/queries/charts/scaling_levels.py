"""The level of each series of a scaling chart, now or at an earlier time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection
from psycopg import sql

from benchapp.models import METRIC_FIELDS, Level
from benchapp.queries.charts.scaling_shapes import ResolvedRequest, ScalingMetric, ScalingSpread
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.incidents.series_marks import SeriesMark, read_series_marks

PAST_SERIES_MAXIMUM: Final = 2000
# The runs of a level up to an earlier time. A level has at most the newest 2 000 runs of its series.
_READ_PART: Final = sql.SQL(
    "SELECT wanted.id, past.* FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted(id, from_at)"
    " CROSS JOIN LATERAL ("
    " SELECT percentile_cont(ARRAY[0.5, 0.1, 0.9]) WITHIN GROUP (ORDER BY {metric}) AS levels, count(*) AS n,"
    " max(started_at) AS last_at FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND started_at >= wanted.from_at AND started_at < %s"
    "  AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL) AS past WHERE past.n > 0"
)


@dataclass(frozen=True, slots=True)
class SeriesLevels:
    """Levels of series by id: shown, of the earlier period, and of the throughput that a latency is plotted against.

    marks: open and accepted changes; none at an earlier time.
    """

    shown: Mapping[int, ScalingSpread]
    earlier: Mapping[int, ScalingSpread]
    overs: Mapping[int, ScalingSpread]
    marks: Mapping[int, SeriesMark]


def read_series_levels(resolved: ResolvedRequest, table: SeriesTable) -> SeriesLevels:
    """Return the levels of the series of a table; one query, and two for each of as_of and the earlier period."""
    shown_at, earlier_at = resolved.as_of, resolved.earlier_at
    return SeriesLevels(
        shown=_read(table, resolved.metric, shown_at),
        earlier={} if earlier_at is None else _read(table, resolved.metric, earlier_at),
        overs={} if resolved.over is None else _read(table, resolved.over, shown_at),
        marks={} if shown_at else _read_marks(table, resolved.metric.base),
    )


def _read_marks(table: SeriesTable, metric: str) -> Mapping[int, SeriesMark]:
    """Return the marks by id; of groups of runs only of those in the current level."""
    marks = read_series_marks(table.column("series_id"), metric=metric)
    if table.group_levels is None:
        return marks
    levels = table.group_levels[metric]
    rows = zip(table.column("id"), table.column("series_id"), strict=True)
    return {
        number: marks[series_id]
        for number, series_id in rows
        if series_id in marks and number in levels and levels[number].is_current
    }


def _read(
    table: SeriesTable, metric: ScalingMetric, before_at: datetime | None
) -> Mapping[int, ScalingSpread]:
    """Return the level of a metric by series, per volume if the metric is; before_at: None for now."""
    if before_at is None:
        levels = _list_current(table, metric)
    else:
        levels = _read_past(table.column("id"), metric.base, before_at=before_at)
    if not metric.is_per_volume:
        return levels
    counts = dict(zip(table.column("id"), table.column("volume_count"), strict=True))
    return {series_id: _divide(level, counts[series_id]) for series_id, level in levels.items()}


def _list_current(table: SeriesTable, metric: ScalingMetric) -> Mapping[int, ScalingSpread]:
    names = [f"{metric.base}.{part}" for part in ("median", "p10", "p90", "n", "last_at")]
    rows = zip(table.column("id"), *map(table.column, names), strict=True)
    return {series_id: ScalingSpread(*parts) for series_id, *parts in rows if parts[0] is not None}


def _read_past(series_ids: Sequence[int], metric: str, *, before_at: datetime) -> Mapping[int, ScalingSpread]:
    """Return the level of each series before a moment (exclusive), without series that had no value; two queries.

    The level that had begun by then: its runs before the moment. At most PAST_SERIES_MAXIMUM series are read.
    """
    if metric not in METRIC_FIELDS:
        raise ValueError(f"{metric!r} is not a column of a measurement")
    begun = (
        Level.objects.filter(
            series_id__in=list(series_ids)[:PAST_SERIES_MAXIMUM], metric=metric, from_at__lt=before_at
        )
        .order_by("series_id", "-from_at")
        .distinct("series_id")
        .values_list("series_id", "from_at", "to_at", "median", "p10", "p90", "n")
    )
    found: dict[int, ScalingSpread] = {}
    parts: list[tuple[int, datetime]] = []
    for series_id, from_at, to_at, median, p10, p90, n in begun:
        if to_at < before_at:
            found[series_id] = ScalingSpread(median, p10, p90, n, to_at)
        else:
            parts.append((series_id, from_at))
    return found | _read_parts(parts, metric, before_at) if parts else found


def _read_parts(
    parts: Sequence[tuple[int, datetime]], metric: str, before_at: datetime
) -> dict[int, ScalingSpread]:
    query = _READ_PART.format(metric=sql.Identifier(metric))
    with connection.cursor() as cursor:
        cursor.execute(query, [*map(list, zip(*parts, strict=True)), before_at])
        return {
            series_id: ScalingSpread(levels[0], levels[1], levels[2], n, last_at)
            for series_id, levels, n, last_at in cursor.fetchall()
        }


def _divide(level: ScalingSpread, count: int) -> ScalingSpread:
    median = None if level.median is None else level.median / count
    return ScalingSpread(median, level.p10 / count, level.p90 / count, level.n, level.last_at)
