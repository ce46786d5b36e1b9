"""Keep the environments of series: SeriesEnvironment."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Final

from django.db import connection

# Unchanged rows are not written again.
_EXTEND: Final = (
    "INSERT INTO benchapp_seriesenvironment AS stored (series_id, environment_id, first_at, last_at)"
    " SELECT * FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[])"
    " ON CONFLICT (series_id, environment_id) DO UPDATE SET"
    " first_at = LEAST(stored.first_at, excluded.first_at), last_at = GREATEST(stored.last_at, excluded.last_at)"
    " WHERE excluded.first_at < stored.first_at OR excluded.last_at > stored.last_at"
)
_READ: Final = (
    "INSERT INTO benchapp_seriesenvironment (series_id, environment_id, first_at, last_at)"
    " SELECT m.series_id, run.environment_id, min(m.started_at), max(m.started_at)"
    " FROM benchapp_measurement m JOIN benchapp_run run ON run.id = m.run_id"
    " WHERE m.series_id = ANY(%s) GROUP BY m.series_id, run.environment_id"
)


def extend_environments(times: Mapping[tuple[int, int], Collection[datetime]]) -> None:
    """Add runs of series, whose rows are locked: their starts by (series id, environment id); one statement."""
    if not times:
        return
    keys = sorted(times)
    with connection.cursor() as cursor:
        cursor.execute(
            _EXTEND,
            [
                [series_id for series_id, _ in keys],
                [environment_id for _, environment_id in keys],
                [min(times[key]) for key in keys],
                [max(times[key]) for key in keys],
            ],
        )


def recalculate_environments(series_ids: Collection[int]) -> None:
    """Read the environments of series, whose rows are locked, from all of their runs; two statements."""
    if not series_ids:
        return
    ids = sorted(series_ids)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM benchapp_seriesenvironment WHERE series_id = ANY(%s)", [ids])
        cursor.execute(_READ, [ids])
