"""What series stood at before a moment: from their measurements, as summaries are of now."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from django.db import connection
from psycopg import sql

from benchapp.models import METRIC_FIELDS
from benchapp.queries.scaling_picture import Spread

# As pipeline.summarize.WINDOW: a past picture is made of as many measurements as one of now.
WINDOW: Final = 100
SERIES_MAXIMUM: Final = 2000

# LATERAL: some steps into the index (series, time) for each series, however long its history is.
_READ: Final = sql.SQL(
    "SELECT wanted.id, past.* FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    " SELECT percentile_cont(ARRAY[0.5, 0.1, 0.9]) WITHIN GROUP (ORDER BY value) AS levels, count(*) AS n,"
    " max(started_at) AS last_at FROM (SELECT {metric} AS value, started_at FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND started_at < %s AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL"
    "  ORDER BY started_at DESC, id DESC LIMIT {window}) AS measured) AS past WHERE past.n > 0"
)


def read_past(series_ids: Sequence[int], metric: str, *, before_at: datetime) -> Mapping[int, Spread]:
    """Return what each series stood at before a moment (exclusive), without those that had no value yet; one query.

    Over the newest 100 valid measurements of each. At most SERIES_MAXIMUM series are read.
    """
    if metric not in METRIC_FIELDS:
        raise ValueError(f"{metric!r} is no column of a measurement")
    if not series_ids:
        return {}
    query = _READ.format(metric=sql.Identifier(metric), window=sql.Literal(WINDOW))
    with connection.cursor() as cursor:
        cursor.execute(query, [list(series_ids)[:SERIES_MAXIMUM], before_at])
        return {
            series_id: Spread(levels[0], levels[1], levels[2], n, last_at)
            for series_id, levels, n, last_at in cursor.fetchall()
        }
