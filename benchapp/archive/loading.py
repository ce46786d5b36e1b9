"""Import an archive: one transaction, new rows only.

Rows are recognized by what identifies them in every instance: hosts by name, submissions by id, runs by submission and
document, targets, workloads, environments and series by key, incidents, studies, planned events and detection policies
by `uid`. What exists stays as it is, with what belongs to it.

A series is complete if the archive has all of its measurements and this instance had none: its changes, levels and
detection status are copied. Others are evaluated again from their measurements, without notices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final

from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone

from benchapp.archive.container import BadArchive, CheckedArchive, check_archive
from benchapp.archive.references import rewrite_events, rewrite_panels
from benchapp.archive.staging import stage_archive
from benchapp.archive.tables import TABLES, ArchiveTable, list_foreign_keys
from benchapp.models import DetectionPolicy, PlannedEvent, PlannedEventKind, Series
from benchapp.models.filtering import match_series
from benchapp.models.planned_event_filtering import read_stored_filter
from benchapp.models.policies.thresholds import list_matching_series
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.refresh import refresh_incidents
from benchapp.pipeline.judge import redetect
from benchapp.pipeline.maintenance.planned_events import OPEN_MAXIMUM
from benchapp.pipeline.normalize.store import recalculate_series
from benchapp.pipeline.policies.policies import POLICIES_MAXIMUM

_LOCK: Final = 0x61726368  # pg_advisory lock: "arch"
_BATCH: Final = 500

# The condition under which a stored row is the staged one, of tables that others refer to.
_SAME_ROW: Final = {
    "authors": "stored.username = staged.username",
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
# Incidents of this archive some of whose changes exist here already.
_PARTIAL_INCIDENTS: Final = """
SELECT DISTINCT own.new FROM staged_changes AS staged
JOIN map_incidents AS own ON own.old = staged.incident_id AND own.is_new
LEFT JOIN map_changes ON map_changes.old = staged.id WHERE map_changes.is_new IS NOT TRUE ORDER BY 1
"""
_NEW_RUNS: Final = "JOIN map_runs AS owner ON owner.old = staged.run_id AND owner.is_new"
_COMPLETE_SERIES: Final = (
    "JOIN incoming_series AS owner ON owner.old = staged.series_id AND owner.is_complete"
)


@dataclass(frozen=True, slots=True)
class LoadedArchive:
    """Result of an import. new: inserted rows by table; present: rows that existed or belong to what existed.

    evaluated: series that detection evaluated again. unknown_authors: names without an account here; what they did
    has no author.
    """

    new: dict[str, int]
    present: dict[str, int]
    evaluated: int
    unknown_authors: tuple[str, ...]


@dataclass(slots=True)
class _Loading:
    counts: dict[str, int] = field(default_factory=dict)

    def insert(
        self, name: str, join: str = "", *, more: dict[str, str] | None = None, conflict: str = ""
    ) -> None:
        """Insert the staged rows of a table; without a join those that its map has as new."""
        self.counts[name] = _run(_compose_insert(TABLES[name], join, more=more or {}, conflict=conflict))


def load_archive(file: IO[bytes], *, show: Callable[[int, int], None]) -> LoadedArchive:
    """Check an archive and import what is new; all or nothing. show: gets rows copied, and all rows.

    Raises BadArchive; nothing is stored then.
    """
    checked = check_archive(file)
    try:
        with transaction.atomic(durable=True):
            return _load(file, checked, show)
    except IntegrityError as error:
        raise BadArchive(f"the rows contradict each other: {str(error).splitlines()[0]}") from error


def _load(file: IO[bytes], checked: CheckedArchive, show: Callable[[int, int], None]) -> LoadedArchive:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    stage_archive(file, checked.manifest, show=show)
    loading = _Loading()
    _load_measurements(loading)
    _load_triage(loading)
    _load_detection(loading)
    due = [*_recalculate(), *_mark_affected(), *_list_due()]
    partial = [incident_id for (incident_id,) in _read(_PARTIAL_INCIDENTS)]
    evaluated = sum(len(judged.series_ids) for judged in redetect(sorted(set(due)), is_dry_run=False))
    if partial:
        refresh_incidents(partial, Events(timezone.now()))
    rows = checked.manifest.rows
    return LoadedArchive(
        new=loading.counts,
        present={name: rows[name] - count for name, count in loading.counts.items()},
        evaluated=evaluated,
        unknown_authors=tuple(
            name
            for (name,) in _read(
                "SELECT username FROM staged_authors WHERE id NOT IN (SELECT old FROM map_authors) ORDER BY 1"
            )
        ),
    )


def _load_measurements(loading: _Loading) -> None:
    """Insert submissions, runs, series and measurements."""
    _run(
        "CREATE TEMPORARY TABLE new_submissions ON COMMIT DROP AS SELECT id FROM staged_submissions AS staged"
        " WHERE NOT EXISTS (SELECT FROM benchapp_submission AS stored WHERE stored.id = staged.id)"
    )
    _run("ALTER TABLE new_submissions ADD PRIMARY KEY (id)")
    for name in ("authors", "hosts", "targets", "workloads", "environments", "series", "runs"):
        _map_rows(name)
    _run(_COUNT_INCOMING)
    _run(_CLASSIFY_SERIES)
    _run("ANALYZE incoming_series")
    loading.insert("hosts", more={"run_count": "0"})
    for name in ("targets", "workloads", "environments"):
        loading.insert(name)
    loading.insert("submissions", "JOIN new_submissions AS own ON own.id = staged.id")
    loading.insert("runs")
    loading.insert("series", more={"judging_resumes": "FALSE"})
    loading.insert("measurements", _NEW_RUNS)
    loading.insert("traces", _NEW_RUNS)
    _run(
        "UPDATE benchapp_host AS stored SET run_count = stored.run_count + fresh.count FROM ("
        " SELECT map_hosts.new AS id, count(*) AS count FROM staged_runs AS staged"
        " JOIN map_runs ON map_runs.old = staged.id AND map_runs.is_new"
        " JOIN map_hosts ON map_hosts.old = staged.host_id GROUP BY map_hosts.new"
        ") AS fresh WHERE stored.id = fresh.id"
    )
    _run(
        "UPDATE benchapp_host AS stored SET last_seen_at = GREATEST(stored.last_seen_at, staged.last_seen_at)"
        " FROM staged_hosts AS staged JOIN map_hosts ON map_hosts.old = staged.id WHERE stored.id = map_hosts.new"
    )


def _load_triage(loading: _Loading) -> None:
    """Insert incidents with their events, planned events, detection policies and studies."""
    _map_rows("planned_events")
    _map_rows("detection_policies")
    for statement, name in ((_MAP_CHANGES, "changes"), (_MAP_INCIDENTS, "incidents")):
        _run(statement)
        _index_map(name)
    rewrite_events()
    rewrite_panels()
    _map_rows("studies")
    loading.insert("incidents")
    loading.insert("incident_events", _join_new("incidents", "incident_id"))
    loading.insert("planned_events")
    loading.insert("planned_event_log", _join_new("planned_events", "planned_event_id"))
    loading.insert("detection_policies")
    loading.insert("detection_policy_log", _join_new("detection_policies", "policy_id"))
    loading.insert("studies")
    _refuse_too_many()


def _load_detection(loading: _Loading) -> None:
    """Insert changes, and what is derived from the measurements of complete series."""
    loading.insert("changes")
    for name in ("series_environments", "levels"):
        loading.insert(name, _COMPLETE_SERIES)
    # Accepted baselines are of people.
    loading.insert(
        "detection_results",
        "JOIN incoming_series AS owner ON owner.old = staged.series_id",
        conflict="(series_id, metric) DO UPDATE SET"
        " baseline_from_at = COALESCE(benchapp_detectionresult.baseline_from_at, excluded.baseline_from_at)",
    )
    loading.insert("pooled_evaluations", " ", conflict="(scope) DO NOTHING")
    _run(
        "UPDATE benchapp_series AS stored SET measurement_count = staged.measurement_count, first_at = staged.first_at,"
        " last_at = staged.last_at, badges = staged.badges FROM staged_series AS staged"
        " JOIN incoming_series ON incoming_series.old = staged.id AND incoming_series.is_complete"
        " AND NOT incoming_series.is_new WHERE stored.id = incoming_series.id"
    )


def _map_rows(name: str) -> None:
    """Make the map of a table: the id in the archive, the id here, and whether the row is new."""
    table = TABLES[name]
    condition = f" WHERE {_MAPPED_IF[name]}" if name in _MAPPED_IF else ""
    _run(
        f"CREATE TEMPORARY TABLE map_{name} ON COMMIT DROP AS"  # nosec B608
        f" SELECT old, COALESCE(stored_id, nextval(pg_get_serial_sequence('{table.source}', 'id'))) AS new,"
        " stored_id IS NULL AS is_new FROM ("
        f"  SELECT staged.id AS old, stored.id AS stored_id FROM {table.staged} AS staged"
        f"  LEFT JOIN LATERAL (SELECT stored.id FROM {table.source} AS stored WHERE {_SAME_ROW[name]}"
        f"  ORDER BY stored.id LIMIT 1) AS stored ON TRUE{condition} ORDER BY staged.id"
        " ) AS found"
    )
    _index_map(name)


def _index_map(name: str) -> None:
    _run(f"ALTER TABLE map_{name} ADD PRIMARY KEY (old)")
    _run(f"ANALYZE map_{name}")


def _join_new(name: str, column: str) -> str:
    return f"JOIN map_{name} AS owner ON owner.old = staged.{column} AND owner.is_new"


def _compose_insert(table: ArchiveTable, join: str, *, more: dict[str, str], conflict: str) -> str:
    """Return the statement that inserts staged rows with the ids of this instance, in the order of ids.

    join: what selects the rows; "" the new ones of the table's own map, whose ids they get. Otherwise the sequence of
    the table numbers them, and a UUID stays. more: expressions by column, which replace those of the archive.
    """
    values = {column: f"staged.{column}" for column in table.columns}
    joins = [join or f"JOIN map_{table.name} AS own ON own.old = staged.id AND own.is_new"]
    for column, target in _list_references(table):
        joins.append(f"LEFT JOIN map_{target} AS to_{column} ON to_{column}.old = staged.{column}")
        values[column] = f"to_{column}.new"
    if not join:
        values["id"] = "own.new"
    elif isinstance(table.model._meta.pk, models.AutoField):
        del values["id"]
    values |= more
    return (
        f"INSERT INTO {table.source} ({', '.join(values)}) SELECT {', '.join(values.values())}"  # nosec B608
        f" FROM {table.staged} AS staged {' '.join(joins)} ORDER BY staged.id"
        f"{f' ON CONFLICT {conflict}' if conflict else ''}"
    )


def _list_references(table: ArchiveTable) -> Iterator[tuple[str, str]]:
    """Yield the columns with ids of other tables, and the names of these."""
    names = {other.model: name for name, other in TABLES.items() if name != "submissions"}
    for column, related in list_foreign_keys(table.model):
        if related in names:
            yield column, names[related]
    if table.name == "levels":
        yield "first_run_id", "runs"


def _recalculate() -> list[int]:
    """Recalculate series that have other measurements, too, and mark them; return their ids."""
    rows = _read("SELECT id FROM incoming_series WHERE NOT is_complete ORDER BY id")
    ids = [series_id for (series_id,) in rows]
    for first in range(0, len(ids), _BATCH):
        recalculate_series(ids[first : first + _BATCH])
    return ids


def _mark_affected() -> list[int]:
    """Return the series that were here before and match an imported maintenance window or policy."""
    matched: set[int] = set()
    new_ids = {name: [pk for (pk,) in _read(f"SELECT new FROM map_{name} WHERE is_new")] for name in _PLANS}  # nosec B608
    events = PlannedEvent.objects.filter(pk__in=new_ids["planned_events"], canceled_at=None)
    for event in events.filter(kind=PlannedEventKind.MAINTENANCE):
        if filter := read_stored_filter(event.filter):
            in_period = Series.objects.filter(last_at__gte=event.from_at, first_at__lt=event.to_at)
            matched.update(in_period.filter(match_series(filter)).values_list("pk", flat=True))
    for policy in DetectionPolicy.objects.filter(pk__in=new_ids["detection_policies"], canceled_at=None):
        matched.update(list_matching_series(policy.filter, policy.label))
    if matched:
        matched -= {pk for (pk,) in _read("SELECT id FROM incoming_series WHERE is_complete")}
    return sorted(matched)


_PLANS: Final = ("planned_events", "detection_policies")


def _list_due() -> list[int]:
    """Return the complete series that the other instance had not evaluated."""
    rows = _read(
        "SELECT stored.id FROM benchapp_series AS stored JOIN incoming_series USING (id)"
        " WHERE is_complete AND stored.judging_is_due ORDER BY stored.id"
    )
    return [series_id for (series_id,) in rows]


def _refuse_too_many() -> None:
    """Raise BadArchive above the limits that the pages have."""
    now = timezone.now()
    open_events = PlannedEvent.objects.filter(canceled_at=None, to_at__gt=now).exclude(ended_at__lte=now)
    if (count := open_events.count()) > OPEN_MAXIMUM:
        raise BadArchive(f"{count} active and upcoming planned events; at most {OPEN_MAXIMUM} are possible")
    if (count := DetectionPolicy.objects.filter(canceled_at=None).count()) > POLICIES_MAXIMUM:
        raise BadArchive(f"{count} detection policies; at most {POLICIES_MAXIMUM} are possible")


def _run(statement: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.rowcount)


def _read(query: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
