"""References of the rows of an archive: which exist in this instance, and ids inside JSON and texts.

Each table that others refer to has a map of ids: `map_TABLE` has the id in the archive (old), the id here (new), and
whether the row is inserted (is_new). A row without an entry is not imported, nor is what belongs to it.
`new_submissions` and `incoming_series` have what is inserted or extended. All are temporary tables beside the staged
ones.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_plus

import orjson
from django.db import connection

from benchapp.framework.write.conflicts import BadValue
from benchapp.operation.archive.container import BadArchive
from benchapp.operation.archive.tables import TABLES
from benchapp.reports.write import read_panels

_BATCH: Final = 500
# Kinds of automatic events whose text names another incident, as incidents.write writes it.
_NAMING_KINDS: Final = frozenset({"opened", "merged", "split", "undone"})
_INCIDENT: Final = re.compile(r"\bincident (\d{1,18})\b", re.ASCII)
# Parameters of chart pages with ids, separated by commas.
_PARAMETERS: Final = {
    "series": "series",
    "a_series": "series",
    "b_series": "series",
    "a_run": "runs",
    "b_run": "runs",
}
# Fields of `IncidentEvent.before` with one id.
_FIELDS: Final = {
    "assignee_id": "authors",
    "merged_into_id": "incidents",
    "planned_event_id": "planned_events",
    "split_into": "incidents",
}

Ids = Mapping[int, int]


def rewrite_events() -> None:
    """Replace ids in the events of imported incidents, before they are inserted: `before`, and the automatic texts."""
    for rows in _read_batches(
        "SELECT event.id, kind, text, before FROM staged_incident_events AS event"
        " JOIN map_incidents ON map_incidents.old = event.incident_id AND map_incidents.is_new"
        " WHERE event.id > %s AND (before <> '{}' OR text LIKE '%%incident %%') ORDER BY event.id LIMIT %s"
    ):
        wanted: dict[str, set[int]] = {
            "authors": set(),
            "changes": set(),
            "incidents": set(),
            "planned_events": set(),
            "series": set(),
        }
        parsed = []
        for event_id, kind, text, stored in rows:
            try:
                before = orjson.loads(stored)
                _collect(kind, text, before, wanted)
                parsed.append((event_id, kind, text, before))
            except (AttributeError, TypeError, ValueError) as error:
                raise BadArchive(f"incident_events: the earlier values of row {event_id}: {error}") from error
        ids = {name: _read_ids(name, olds) for name, olds in wanted.items()}
        _update(
            "staged_incident_events",
            "text = fresh.text, before = fresh.content::jsonb",
            [
                (
                    event_id,
                    _rewrite_text(kind, text, ids["incidents"]),
                    orjson.dumps(rewrite_before(before, ids)).decode(),
                )
                for event_id, kind, text, before in parsed
            ],
        )


def rewrite_panels() -> None:
    """Replace ids in the addresses of studies' charts, before they are inserted. Raises BadArchive."""
    for rows in _read_batches(
        "SELECT id, title, panels FROM staged_studies WHERE id > %s ORDER BY id LIMIT %s"
    ):
        written = []
        for study_id, title, panels in rows:
            try:
                valid = read_panels(orjson.loads(panels))
            except BadValue as error:
                raise BadArchive(f"studies: {title[:80]!r}{error.pointer}: {error}") from error
            charts = [
                {
                    "kind": panel.kind,
                    "query": _rewrite_query(panel.query),
                    "title": panel.title,
                    "text": panel.text,
                }
                for panel in valid
            ]
            written.append((study_id, "", orjson.dumps(charts).decode()))
        _update("staged_studies", "panels = fresh.content::jsonb", written)


def rewrite_before(before: Mapping[str, Any], ids: Mapping[str, Ids]) -> dict[str, Any]:
    """Return the earlier values of an event with the ids of this instance; what was not imported is left out."""
    found = dict(before)
    for name, table in _FIELDS.items():
        if found.get(name) is not None:
            found[name] = ids[table].get(found[name])
    if "split_into" in before and found["split_into"] is None:
        del found["split_into"]
    if "changes" in before:
        found["changes"] = _translate(before["changes"], ids["changes"])
    if "changes_from" in before:
        found["changes_from"] = {
            str(ids["incidents"][int(old)]): _translate(changes, ids["changes"])
            for old, changes in before["changes_from"].items()
            if int(old) in ids["incidents"]
        }
    if "closed" in before:
        found["closed"] = {
            str(ids["incidents"][int(old)]): rewrite_before(fields, ids)
            for old, fields in before["closed"].items()
            if int(old) in ids["incidents"]
        }
    if "baselines" in before:
        found["baselines"] = [
            [ids["series"][series_id], *rest]
            for series_id, *rest in before["baselines"]
            if series_id in ids["series"]
        ]
    return found


def _collect(kind: str, text: str, before: Mapping[str, Any], wanted: Mapping[str, set[int]]) -> None:
    """Add the ids of an event to those that are wanted."""
    if kind in _NAMING_KINDS:
        wanted["incidents"].update(int(number) for number in _INCIDENT.findall(text))
    for name, table in _FIELDS.items():
        if before.get(name) is not None:
            _add(wanted[table], [before[name]])
    _add(wanted["changes"], before.get("changes", ()))
    for old, changes in before.get("changes_from", {}).items():
        wanted["incidents"].add(int(old))
        _add(wanted["changes"], changes)
    for old, fields in before.get("closed", {}).items():
        wanted["incidents"].add(int(old))
        _collect("", "", fields, wanted)
    _add(wanted["series"], (series_id for series_id, *_ in before.get("baselines", ())))


def _add(ids: set[int], values: Iterable[object]) -> None:
    """Add ids. Raises TypeError for anything else: PostgreSQL compares arrays of one type only."""
    for value in values:
        # bool is a subclass of int.
        if type(value) is not int:
            raise TypeError(f"{str(value)[:80]!r} is not an id")
        ids.add(value)


def _rewrite_text(kind: str, text: str, incidents: Ids) -> str:
    if kind not in _NAMING_KINDS:
        return text
    return _INCIDENT.sub(lambda match: f"incident {incidents.get(int(match[1]), match[1])}", text)


def _rewrite_query(query: str) -> str:
    return "&".join(map(_rewrite_parameter, query.split("&")))


def _rewrite_parameter(part: str) -> str:
    name, _, value = part.partition("=")
    return f"{name}={_rewrite_ids(_PARAMETERS[name], unquote_plus(value))}" if name in _PARAMETERS else part


def _rewrite_ids(table: str, text: str) -> str:
    """Return ids separated by commas; those that were not imported are left out."""
    olds = [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]
    return ",".join(map(str, _translate(olds, _read_ids(table, olds))))


def _translate(olds: Collection[int], ids: Ids) -> list[int]:
    return [ids[old] for old in olds if old in ids]


def _read_ids(table: str, olds: Collection[int]) -> Ids:
    if not olds:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT old, new FROM map_{table} WHERE old = ANY(%s)", [list(olds)])  # noqa: S608
        return dict(cursor.fetchall())


def _read_batches(query: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a query that takes the last id and a limit, and returns the id first."""
    last = 0
    while True:
        with connection.cursor() as cursor:
            cursor.execute(query, [last, _BATCH])
            rows = cursor.fetchall()
        if not rows:
            return
        yield rows
        last = rows[-1][0]


def _update(table: str, assignments: str, rows: list[tuple[int, str, str]]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} AS stored SET {assignments}"  # noqa: S608
            " FROM unnest(%s::bigint[], %s::text[], %s::text[]) AS fresh(id, text, content)"
            " WHERE stored.id = fresh.id",
            [list(column) for column in zip(*rows, strict=True)],
        )


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
