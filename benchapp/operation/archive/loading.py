"""Import an archive: one transaction, new rows only.

Rows are recognized by what identifies them in every instance: hosts by name, submissions by id, runs by submission and
document, targets, workloads, environments and series by key, incidents, studies, planned events and detection policies
by `uid`. What exists stays as it is, with what belongs to it.

A series is complete if the archive has all of its measurements and this instance had none: its changes, levels and
detection status are copied. Others are evaluated again from their measurements, without notices.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Final

from django.db import IntegrityError, connection, models, transaction
from django.utils import timezone
from psycopg.errors import UniqueViolation

from benchapp.incidents.write.incidents import Events, refresh_incidents
from benchapp.incidents.write.planned_events import OPEN_MAXIMUM
from benchapp.intake.normalize.batch import IMPORT_LOCK
from benchapp.intake.normalize.store import recalculate_series
from benchapp.judge import redetect
from benchapp.models import DetectionPolicy, PlannedEvent, PlannedEventKind, Series
from benchapp.models.filtering import match_series
from benchapp.models.planned_event_filtering import read_stored_filter
from benchapp.models.policies.thresholds import list_matching_series
from benchapp.operation.archive.container import BadArchive, CheckedArchive, check_archive
from benchapp.operation.archive.matching import map_measured, map_rows, map_triage, read, run
from benchapp.operation.archive.references import rewrite_events, rewrite_panels
from benchapp.operation.archive.staging import stage_archive
from benchapp.operation.archive.tables import TABLES, ArchiveTable, list_foreign_keys
from benchapp.policies.write import POLICIES_MAXIMUM

_BATCH: Final = 500
# Ids of a table for one statement.
_PART_ROWS: Final = 100_000
# Tables whose rows decide how series are evaluated.
_PLANS: Final = ("planned_events", "detection_policies")

# New incidents some of whose changes exist here already, and existing ones that get changes.
_PARTIAL_INCIDENTS: Final = """
SELECT DISTINCT own.new FROM staged_changes AS staged
JOIN map_incidents AS own ON own.old = staged.incident_id
LEFT JOIN map_changes ON map_changes.old = staged.id
WHERE own.is_new <> COALESCE(map_changes.is_new, FALSE) ORDER BY 1
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


class StoredMeanwhile(Exception):
    """A row of the archive was stored here, too, after the import had decided that it is new."""


@dataclass(slots=True)
class _Loading:
    counts: dict[str, int] = field(default_factory=dict)

    def insert(
        self, name: str, join: str = "", *, more: dict[str, str] | None = None, conflict: str = ""
    ) -> None:
        """Insert the staged rows of a table; without a join those that its map has as new."""
        self.counts[name] = run(_compose_insert(TABLES[name], join, more=more or {}, conflict=conflict))

    def insert_in_parts(self, name: str, join: str) -> None:
        """Insert the rows of a large table, _PART_ROWS at a time, each with its foreign keys checked.

        PostgreSQL remembers each row of a statement, or of a transaction with deferred constraints, for that.
        """
        table = TABLES[name]
        ((first, last),) = read(f"SELECT COALESCE(min(id), 1), COALESCE(max(id), 0) FROM {table.staged}")  # noqa: S608
        run("SET CONSTRAINTS ALL IMMEDIATE")
        self.counts[name] = sum(
            run(
                _compose_insert(
                    table,
                    f"{join} AND staged.id >= {start} AND staged.id < {start + _PART_ROWS}",
                    more={},
                    conflict="",
                )
            )
            for start in range(first, last + 1, _PART_ROWS)
        )
        run("SET CONSTRAINTS ALL DEFERRED")


def load_archive(file: IO[bytes], *, show: Callable[[int, int], None]) -> LoadedArchive:
    """Check an archive and import what is new; all or nothing. show: gets rows copied, and all rows.

    Raises BadArchive, and StoredMeanwhile if a repetition can succeed; nothing is stored then.
    """
    checked = check_archive(file)
    try:
        with transaction.atomic(durable=True):
            return _load(file, checked, show)
    except IntegrityError as error:
        cause = error.__cause__
        if isinstance(cause, UniqueViolation) and (cause.diag.table_name or "").startswith("benchapp_"):
            raise StoredMeanwhile(" ".join(str(error).split())) from error
        raise BadArchive(f"the rows contradict each other: {str(error).splitlines()[0]}") from error


def _load(file: IO[bytes], checked: CheckedArchive, show: Callable[[int, int], None]) -> LoadedArchive:
    stage_archive(file, checked.manifest, show=show)
    # Until the end, other imports wait, and workers store nothing.
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [IMPORT_LOCK])
    loading = _Loading()
    _load_measurements(loading)
    _load_triage(loading)
    _load_detection(loading)
    due = [*_recalculate(), *_mark_affected(), *_list_due()]
    partial = [incident_id for (incident_id,) in read(_PARTIAL_INCIDENTS)]
    evaluated = sum(len(judged.series_ids) for judged in redetect(sorted(set(due)), is_dry_run=False))
    if partial:
        refresh_incidents(partial, Events(timezone.now()))
    _update_hosts()
    rows = checked.manifest.rows
    return LoadedArchive(
        new=loading.counts,
        present={name: rows[name] - count for name, count in loading.counts.items()},
        evaluated=evaluated,
        unknown_authors=tuple(
            name
            for (name,) in read(
                "SELECT username FROM staged_authors WHERE id NOT IN (SELECT old FROM map_authors) ORDER BY 1"
            )
        ),
    )


def _load_measurements(loading: _Loading) -> None:
    """Insert submissions, runs, series and measurements."""
    map_measured()
    loading.insert("hosts", more={"run_count": "0"})
    for name in ("targets", "workloads", "environments"):
        loading.insert(name)
    loading.insert("submissions", "JOIN new_submissions AS own ON own.id = staged.id")
    loading.insert("runs")
    loading.insert("series")
    loading.insert_in_parts("measurements", _NEW_RUNS)
    loading.insert_in_parts("traces", _NEW_RUNS)


def _load_triage(loading: _Loading) -> None:
    """Insert incidents with their events, planned events, detection policies and studies."""
    map_triage()
    rewrite_events()
    rewrite_panels()
    map_rows("studies")
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
    # Levels of older archives have them.
    run(
        "INSERT INTO staged_newest_values (id, series_id, metric, to_at, recent)"
        " SELECT id, series_id, metric, to_at, recent::float8[] FROM staged_levels WHERE is_current AND recent <> '{}'"
    )
    for name in ("series_environments", "levels", "newest_values"):
        loading.insert(name, _COMPLETE_SERIES)
    # Accepted baselines are of people.
    loading.insert(
        "detection_results",
        "JOIN incoming_series AS owner ON owner.old = staged.series_id",
        conflict="(series_id, metric) DO UPDATE SET baseline_from_at = excluded.baseline_from_at"
        " WHERE benchapp_detectionresult.baseline_from_at IS NULL AND excluded.baseline_from_at IS NOT NULL",
    )
    loading.insert("pooled_evaluations", " ", conflict="(scope) DO NOTHING")
    run(
        "UPDATE benchapp_series AS stored SET measurement_count = staged.measurement_count, first_at = staged.first_at,"
        " last_at = staged.last_at, badges = staged.badges FROM staged_series AS staged"
        " JOIN incoming_series ON incoming_series.old = staged.id AND incoming_series.is_complete"
        " AND NOT incoming_series.is_new WHERE stored.id = incoming_series.id"
    )


def _update_hosts() -> None:
    """Add the new runs to the counts of hosts. At the end, as workers update hosts with each result."""
    run(
        "UPDATE benchapp_host AS stored SET run_count = stored.run_count + fresh.count FROM ("
        " SELECT map_hosts.new AS id, count(*) AS count FROM staged_runs AS staged"
        " JOIN map_runs ON map_runs.old = staged.id AND map_runs.is_new"
        " JOIN map_hosts ON map_hosts.old = staged.host_id GROUP BY map_hosts.new"
        ") AS fresh WHERE stored.id = fresh.id"
    )
    run(
        "UPDATE benchapp_host AS stored SET last_seen_at = GREATEST(stored.last_seen_at, staged.last_seen_at)"
        " FROM staged_hosts AS staged JOIN map_hosts ON map_hosts.old = staged.id WHERE stored.id = map_hosts.new"
    )


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
        f"INSERT INTO {table.source} ({', '.join(values)}) SELECT {', '.join(values.values())}"  # noqa: S608
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
    rows = read("SELECT id FROM incoming_series WHERE NOT is_complete ORDER BY id")
    ids = [series_id for (series_id,) in rows]
    for first in range(0, len(ids), _BATCH):
        recalculate_series(ids[first : first + _BATCH])
    return ids


def _mark_affected() -> list[int]:
    """Return the series that were here before and match an imported maintenance window or policy."""
    matched: set[int] = set()
    new_ids = {name: [pk for (pk,) in read(f"SELECT new FROM map_{name} WHERE is_new")] for name in _PLANS}  # noqa: S608
    events = PlannedEvent.objects.filter(pk__in=new_ids["planned_events"], canceled_at=None)
    for event in events.filter(kind=PlannedEventKind.MAINTENANCE):
        if filter := read_stored_filter(event.filter):
            in_period = Series.objects.filter(last_at__gte=event.from_at, first_at__lt=event.to_at)
            matched.update(in_period.filter(match_series(filter)).values_list("pk", flat=True))
    for policy in DetectionPolicy.objects.filter(pk__in=new_ids["detection_policies"], canceled_at=None):
        matched.update(list_matching_series(policy.filter, policy.label))
    if matched:
        matched -= {pk for (pk,) in read("SELECT id FROM incoming_series WHERE is_complete")}
    return sorted(matched)


def _list_due() -> list[int]:
    """Return the complete series that the other instance had not evaluated."""
    rows = read(
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
