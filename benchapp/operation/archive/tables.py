"""The tables of an archive and their columns: format 1.

An import gives columns that an older archive does not have their default, ignores dropped ones, and refuses those that
it does not know. So `FORMAT` is raised only if a column is added without a default, or gets another meaning.

Not part of any table here: accounts other than the names of authors, password hashes, tokens, invitations, e-mail
addresses, audit records; configuration that is not history (subscriptions, prices, target mappings, wanted
schedules, confirmation policies); what belongs to users (pinned charts, saved views) or to this instance (notices,
former names, links and snapshots of studies, requested runs, request policies, adopted schedules, runs without a
result); and what is calculated again (violations of thresholds, answers to layout questions, dry runs).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import EmptyResultSet
from django.db import connection, models
from django.db.models import QuerySet

from benchapp.catalog.grammar import parse_filter
from benchapp.framework.read.pagination import match_times
from benchapp.models import (
    Change,
    DetectionPolicy,
    DetectionPolicyLogEntry,
    DetectionResult,
    Environment,
    Host,
    Incident,
    IncidentEvent,
    Level,
    Measurement,
    NewestValues,
    PlannedEvent,
    PlannedEventLogEntry,
    PooledEvaluation,
    Run,
    Series,
    SeriesEnvironment,
    Study,
    Submission,
    Target,
    Trace,
    User,
    Workload,
)
from benchapp.models.coverage import read_stored_filter
from benchapp.models.filtering import match_runs, match_series

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class ArchiveTable:
    """A table. name: in archives; columns: in the order of archives, `id` first.

    dropped: columns that older archives have and no import reads.
    """

    name: str
    model: type[models.Model]
    columns: tuple[str, ...]
    dropped: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """Return the name of the table in the database."""
        return self.model._meta.db_table

    @property
    def staged(self) -> str:
        """Return the name of the temporary table that an import copies it to."""
        return f"staged_{self.name}"


def _describe(
    name: str,
    model: type[models.Model],
    *,
    without: tuple[str, ...] = (),
    dropped: tuple[str, ...] = (),
) -> ArchiveTable:
    columns = (str(field.column) for field in model._meta.local_fields)
    return ArchiveTable(name, model, tuple(column for column in columns if column not in without), dropped)


def list_foreign_keys(model: type[models.Model]) -> list[tuple[str, Any]]:
    """Return the columns of a model with ids of others, and the models of these."""
    return [
        (str(field.column), field.related_model)
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey)
    ]


TABLES: Final = {
    table.name: table
    for table in (
        ArchiveTable("authors", User, ("id", "username")),
        _describe("hosts", Host, dropped=("clock_ahead_s",)),
        _describe("targets", Target),
        _describe("workloads", Workload),
        _describe("environments", Environment),
        _describe("submissions", Submission, without=("retry_at", "time_outs")),
        _describe("runs", Run),
        _describe("series", Series),
        _describe("measurements", Measurement),
        _describe("traces", Trace),
        _describe("series_environments", SeriesEnvironment),
        _describe("planned_events", PlannedEvent),
        _describe("planned_event_log", PlannedEventLogEntry),
        _describe("incidents", Incident, without=("is_open",)),
        _describe("incident_events", IncidentEvent),
        _describe("changes", Change),
        _describe("levels", Level, dropped=("recent",)),
        _describe("newest_values", NewestValues),
        _describe("detection_results", DetectionResult, without=("input_hash",), dropped=("level",)),
        _describe("pooled_evaluations", PooledEvaluation),
        _describe("detection_policies", DetectionPolicy),
        _describe("detection_policy_log", DetectionPolicyLogEntry),
        _describe("studies", Study, without=("share_token",)),
    )
}
"""By name, in the order of archives."""

AUTHOR_COLUMNS: Final = tuple(
    (table, column)
    for table in TABLES.values()
    for column, related in list_foreign_keys(table.model)
    if related is User
)
"""The columns that refer to an account."""


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """What is exported. filter: in the filter language, over runs; from_at inclusive, to_at exclusive."""

    filter: str = ""
    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_everything(self) -> bool:
        """Return whether nothing is left out."""
        return not self.filter.strip() and self.from_at is None and self.to_at is None


# A submission is exported with all of its runs, so that its raw body and its runs agree.
_SELECT_SUBMISSIONS: Final = (
    "SELECT DISTINCT submission_id AS id FROM benchapp_run WHERE id IN (SELECT id FROM chosen_runs)"
)
# Each statement selects ids of one table by those before it.
_SELECTIONS: Final = {
    "submissions": _SELECT_SUBMISSIONS,
    "runs": "SELECT id FROM benchapp_run WHERE submission_id IN (SELECT id FROM selected_submissions)",
    "series": (
        "SELECT DISTINCT series_id AS id FROM benchapp_measurement WHERE run_id IN (SELECT id FROM selected_runs)"
    ),
    "changes": (
        "SELECT id FROM benchapp_change WHERE series_id IN (SELECT id FROM selected_series)"
        " AND (run_id IS NULL OR run_id IN (SELECT id FROM selected_runs))"
    ),
    "incidents": (
        "WITH RECURSIVE related AS (SELECT incident_id AS id FROM benchapp_change"
        " WHERE id IN (SELECT id FROM selected_changes) AND incident_id IS NOT NULL"
        " UNION SELECT incident.id FROM benchapp_incident AS incident JOIN related"
        " ON incident.merged_into_id = related.id) SELECT id FROM related"
    ),
}
_BY_SERIES: Final = "series_id IN (SELECT id FROM selected_series)"
_BY_RUN: Final = "run_id IN (SELECT id FROM selected_runs)"
# Conditions on the rows of an archive that is not of everything.
_CONDITIONS: Final = {
    "hosts": (
        "id IN (SELECT host_id FROM benchapp_submission WHERE id IN (SELECT id FROM selected_submissions)"
        " UNION SELECT host_id FROM benchapp_run WHERE id IN (SELECT id FROM selected_runs)"
        " UNION SELECT host_id FROM benchapp_series WHERE id IN (SELECT id FROM selected_series))"
    ),
    "targets": (
        "id IN (SELECT target_id FROM benchapp_run WHERE id IN (SELECT id FROM selected_runs)"
        " UNION SELECT target_id FROM benchapp_series WHERE id IN (SELECT id FROM selected_series))"
    ),
    "workloads": (
        "id IN (SELECT workload_id FROM benchapp_series WHERE id IN (SELECT id FROM selected_series))"
    ),
    "environments": (
        "id IN (SELECT environment_id FROM benchapp_run WHERE id IN (SELECT id FROM selected_runs)"  # noqa: S608
        f" UNION SELECT environment_id FROM benchapp_seriesenvironment WHERE {_BY_SERIES})"
    ),
    "submissions": "id IN (SELECT id FROM selected_submissions)",
    "runs": "id IN (SELECT id FROM selected_runs)",
    "series": "id IN (SELECT id FROM selected_series)",
    "measurements": _BY_RUN,
    "traces": _BY_RUN,
    "series_environments": _BY_SERIES,
    "planned_events": "id IN (SELECT id FROM selected_planned_events)",
    "planned_event_log": "planned_event_id IN (SELECT id FROM selected_planned_events)",
    "incidents": "id IN (SELECT id FROM selected_incidents)",
    "incident_events": "incident_id IN (SELECT id FROM selected_incidents)",
    "changes": "id IN (SELECT id FROM selected_changes)",
    "levels": _BY_SERIES,
    "newest_values": _BY_SERIES,
    "detection_results": _BY_SERIES,
    "pooled_evaluations": (
        "scope IN (SELECT scope FROM benchapp_series WHERE id IN (SELECT id FROM selected_series))"
    ),
    "detection_policies": "id IN (SELECT id FROM selected_detection_policies)",
    "detection_policy_log": "policy_id IN (SELECT id FROM selected_detection_policies)",
}


def select_rows(selection: ExportSelection) -> dict[str, str]:
    """Return the condition of each table, SQL, by name; call inside a transaction.

    Makes temporary tables with the ids of a selection, which the end of the transaction drops. Raises BadFilter.
    """
    if selection.is_everything:
        conditions: dict[str, str] = {}
    else:
        _select_ids(selection)
        conditions = dict(_CONDITIONS)
    authors = " UNION ".join(
        f"SELECT {column} FROM {table.source}{_where(table, conditions)}"  # noqa: S608
        for table, column in AUTHOR_COLUMNS
    )
    events = TABLES["incident_events"]
    # Undo assigns an incident to its earlier assignee.
    authors += (
        f" UNION SELECT (before->>'assignee_id')::bigint FROM {events.source}{_where(events, conditions)}"  # noqa: S608
    )
    # The name of a deleted account has its id here, which is another person's elsewhere.
    return conditions | {"authors": f"id IN ({authors}) AND deleted_at IS NULL"}


def compose_query(table: ArchiveTable, conditions: dict[str, str]) -> str:
    """Return the query of the rows of a table in the order of ids."""
    columns = ", ".join(table.columns)
    return f"SELECT {columns} FROM {table.source}{_where(table, conditions)} ORDER BY id"  # noqa: S608


def count_rows(conditions: dict[str, str]) -> int:
    """Return the number of rows of all tables."""
    with connection.cursor() as cursor:
        counts = [
            f"(SELECT count(*) FROM {table.source}{_where(table, conditions)})"  # noqa: S608
            for table in TABLES.values()
        ]
        cursor.execute(f"SELECT {' + '.join(counts)}")
        return int(cursor.fetchone()[0])


def _where(table: ArchiveTable, conditions: dict[str, str]) -> str:
    return f" WHERE {conditions[table.name]}" if table.name in conditions else ""


def _select_ids(selection: ExportSelection) -> None:
    in_range = match_times("started_at", selection.from_at, selection.to_at)
    runs = Run.objects.filter(match_runs(parse_filter(selection.filter)), in_range)
    _create("chosen_runs", runs.order_by().values("id"))
    for name, query in _SELECTIONS.items():
        _execute(f"CREATE TEMPORARY TABLE selected_{name} ON COMMIT DROP AS {query}")
        _execute(f"ALTER TABLE selected_{name} ADD PRIMARY KEY (id)")
        _execute(f"ANALYZE selected_{name}")
    _create("selected_planned_events", _match_stored(PlannedEvent.objects.all()))
    _create("selected_detection_policies", _match_stored(DetectionPolicy.objects.all()))


def _match_stored(rows: QuerySet[Any]) -> QuerySet[Any, Any]:
    """Return those of the events or policies whose filter matches an exported series; a query for each filter."""
    texts = set(rows.order_by().values_list("filter", flat=True))
    return (
        rows.filter(filter__in=[text for text in texts if _has_selected_series(text)]).order_by().values("id")
    )


def _has_selected_series(text: str) -> bool:
    filter = read_stored_filter(text)
    if filter is None:
        return False
    matched, parameters = _compile(Series.objects.filter(match_series(filter)).order_by().values("id"))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT EXISTS (SELECT FROM selected_series WHERE id IN ({matched}))",  # noqa: S608
            parameters,
        )
        return bool(cursor.fetchone()[0])


def _compile(query: QuerySet[Any, Any]) -> tuple[str, tuple[Any, ...]]:
    try:
        return query.query.sql_with_params()
    except EmptyResultSet:
        return "SELECT NULL::bigint AS id WHERE false", ()


def _create(name: str, query: QuerySet[Any, Any]) -> None:
    selected, parameters = _compile(query)
    _execute(f"CREATE TEMPORARY TABLE {name} ON COMMIT DROP AS {selected}", parameters)


def _execute(statement: str, parameters: tuple[Any, ...] = ()) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or None)
