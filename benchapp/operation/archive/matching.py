"""Which rows of an archive exist in this instance: a map of ids for each table that others refer to.

`map_TABLE` has the id in the archive (old), the id here (new), and whether the row is inserted (is_new). A row without
an entry is not imported, nor is what belongs to it. `new_submissions` and `incoming_series` have what is inserted or
extended. All are temporary tables beside the staged ones.
"""

from typing import Any, Final

from django.db import connection

from benchapp.operation.archive.tables import TABLES

# The condition under which a stored row is the staged one, of tables that others refer to.
_SAME_ROW: Final = {
    "authors": "stored.username = staged.username AND stored.deleted_at IS NULL",
    "hosts": "stored.name = staged.name",
    "targets": "stored.key = staged.key",
    "workloads": "stored.key = staged.key",
    "environments": "stored.key = staged.key",
    "series": "stored.key = staged.key",
    "runs": "stored.submission_id = staged.submission_id AND stored.document = staged.document",
    "planned_events": "stored.uid = staged.uid",
    "detection_policies": "stored.uid = staged.uid",
    # The sample, which every instance creates itself, has the same content.
    "studies": (
        "stored.uid = staged.uid OR (stored.title = staged.title AND stored.text = staged.text"
        " AND stored.panels = staged.panels)"
    ),
}
# What else decides whether a staged row is mapped.
_MAPPED_IF: Final = {
    "authors": "stored.id IS NOT NULL",
    # The worker of this instance creates the missing runs of a submission that exists.
    "runs": "stored.id IS NOT NULL OR staged.submission_id IN (SELECT id FROM new_submissions)",
}
_CLASSIFY_SERIES: Final = """
CREATE TEMPORARY TABLE incoming_series ON COMMIT DROP AS
SELECT own.new AS id, own.old, own.is_new,
  COALESCE(stored.measurement_count, 0) = 0 AND incoming.count = staged.measurement_count
    AND (own.is_new OR incoming.count > 0) AS is_complete
FROM map_series AS own JOIN staged_series AS staged ON staged.id = own.old
LEFT JOIN benchapp_series AS stored ON stored.id = own.new
CROSS JOIN LATERAL (
  SELECT COALESCE(sum(count), 0) AS count FROM counted WHERE series_id = own.old
) AS incoming
WHERE own.is_new OR incoming.count > 0
"""
_COUNT_INCOMING: Final = """
CREATE TEMPORARY TABLE counted ON COMMIT DROP AS
SELECT measurement.series_id, count(*) AS count FROM staged_measurements AS measurement
JOIN map_runs ON map_runs.old = measurement.run_id AND map_runs.is_new GROUP BY measurement.series_id
"""
_MAP_CHANGES: Final = """
CREATE TEMPORARY TABLE map_changes ON COMMIT DROP AS
SELECT found.old, COALESCE(found.stored_id, nextval(pg_get_serial_sequence('benchapp_change', 'id'))) AS new,
  found.stored_id IS NULL AS is_new
FROM (
  SELECT staged.id AS old, stored.id AS stored_id FROM staged_changes AS staged
  JOIN map_series ON map_series.old = staged.series_id
  LEFT JOIN incoming_series ON incoming_series.old = staged.series_id
  LEFT JOIN LATERAL (SELECT id FROM benchapp_change WHERE series_id = map_series.new AND metric = staged.metric
    AND started_at = staged.started_at ORDER BY state = 'withdrawn', id LIMIT 1) AS stored ON TRUE
  WHERE stored.id IS NOT NULL OR incoming_series.old IS NOT NULL
  ORDER BY staged.id
) AS found
"""
# An incident whose changes all exist here belongs to incidents of this instance. One without changes follows the
# incident that it was merged into.
_MAP_INCIDENTS: Final = """
CREATE TEMPORARY TABLE map_incidents ON COMMIT DROP AS
SELECT found.old, COALESCE(found.stored_id, nextval(pg_get_serial_sequence('benchapp_incident', 'id'))) AS new,
  found.stored_id IS NULL AS is_new
FROM (
  WITH RECURSIVE with_changes AS (
    SELECT incident_id AS id, bool_or(map_changes.is_new) AS has_new FROM staged_changes
    LEFT JOIN map_changes ON map_changes.old = staged_changes.id WHERE incident_id IS NOT NULL GROUP BY incident_id
  ), wanted AS (
    SELECT staged.id FROM staged_incidents AS staged LEFT JOIN with_changes ON with_changes.id = staged.id
    LEFT JOIN benchapp_incident AS stored ON stored.uid = staged.uid
    WHERE stored.id IS NOT NULL OR with_changes.has_new
      OR (with_changes.id IS NULL AND staged.merged_into_id IS NULL)
    UNION
    SELECT staged.id FROM staged_incidents AS staged JOIN wanted ON staged.merged_into_id = wanted.id
    LEFT JOIN with_changes ON with_changes.id = staged.id WHERE with_changes.id IS NULL
  )
  SELECT staged.id AS old, stored.id AS stored_id FROM staged_incidents AS staged JOIN wanted USING (id)
  LEFT JOIN benchapp_incident AS stored ON stored.uid = staged.uid ORDER BY staged.id
) AS found
"""


def map_measured() -> None:
    """Map what measurements refer to; find new submissions and incoming series."""
    run(
        "CREATE TEMPORARY TABLE new_submissions ON COMMIT DROP AS SELECT id FROM staged_submissions AS staged"
        " WHERE NOT EXISTS (SELECT FROM benchapp_submission AS stored WHERE stored.id = staged.id)"
    )
    run("ALTER TABLE new_submissions ADD PRIMARY KEY (id)")
    for name in ("authors", "hosts", "targets", "workloads", "environments", "series", "runs"):
        map_rows(name)
    run(_COUNT_INCOMING)
    run(_CLASSIFY_SERIES)
    run("ANALYZE incoming_series")


def map_triage() -> None:
    """Map planned events, detection policies, changes and incidents, after `map_measured`."""
    map_rows("planned_events")
    map_rows("detection_policies")
    for statement, name in ((_MAP_CHANGES, "changes"), (_MAP_INCIDENTS, "incidents")):
        run(statement)
        _index_map(name)


def map_rows(name: str) -> None:
    """Make the map of a table: the id in the archive, the id here, and whether the row is new."""
    table = TABLES[name]
    condition = f" WHERE {_MAPPED_IF[name]}" if name in _MAPPED_IF else ""
    run(
        f"CREATE TEMPORARY TABLE map_{name} ON COMMIT DROP AS"  # noqa: S608
        f" SELECT old, COALESCE(stored_id, nextval(pg_get_serial_sequence('{table.source}', 'id'))) AS new,"
        " stored_id IS NULL AS is_new FROM ("
        f"  SELECT staged.id AS old, stored.id AS stored_id FROM {table.staged} AS staged"
        f"  LEFT JOIN LATERAL (SELECT stored.id FROM {table.source} AS stored WHERE {_SAME_ROW[name]}"
        f"  ORDER BY stored.id LIMIT 1) AS stored ON TRUE{condition} ORDER BY staged.id"
        " ) AS found"
    )
    _index_map(name)


def _index_map(name: str) -> None:
    run(f"ALTER TABLE map_{name} ADD PRIMARY KEY (old)")
    run(f"ANALYZE map_{name}")


def run(statement: str) -> int:
    """Run a statement and return its number of rows."""
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.rowcount)


def read(query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
