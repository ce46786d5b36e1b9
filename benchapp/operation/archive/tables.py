"""The tables of an archive and their columns: format 1.

An import gives columns that an older archive does not have their default, ignores dropped ones, and refuses those that
it does not know. So `FORMAT` is raised only if a column is added without a default, or gets another meaning.

Not part of any table here: accounts other than the names of authors, password hashes, tokens, invitations, e-mail
addresses, audit records; configuration that is not history (subscriptions, prices, wanted schedules, confirmation
policies); what belongs to users (pinned charts, saved views) or to this instance (notices, links and snapshots of
studies, requested runs, request policies, adopted schedules); and what is calculated again (violations of thresholds,
answers to layout questions, dry runs).
"""

from dataclasses import dataclass
from typing import Any, Final

from django.db import models

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
        _describe("hosts", Host),
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
