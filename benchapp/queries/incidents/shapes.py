"""What is told of incidents, as plain frozen values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from benchapp.grammar import Filter
from benchapp.queries.incidents.changes import ChangeRow


class Tab(StrEnum):
    """Which part of the inbox; improvements are apart from all but the last."""

    OPEN = "open"
    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    IMPROVEMENTS = "improvements"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list. match: of the series of any of its changes, in the bar's language.

    state, verdict, severity, is_regression, since_at: None leaves out nothing.
    """

    tab: Tab = Tab.ALL
    match: Filter = field(default_factory=Filter)
    state: str | None = None
    severity: str | None = None
    is_regression: bool | None = None
    since_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident in a list, as Incident has it.

    relative_low, relative_high: of its worst change. series_count: cells whose level moved; change_count: with each
    metric of them.
    """

    id: int
    title: str
    scope: str
    state: str
    verdict: str
    severity: str
    is_regression: bool
    started_at: datetime
    relative: float
    relative_low: float | None
    relative_high: float | None
    change_count: int
    series_count: int
    explained_by: Sequence[dict[str, Any]]
    suspects: Sequence[dict[str, Any]]
    assignee_id: int | None
    assignee_name: str
    link: str
    snoozed_until: datetime | None
    recovered_at: datetime | None
    merged_into_id: int | None
    opened_at: datetime
    updated_at: datetime
    resolved_at: datetime | None

    @property
    def is_snoozed(self) -> bool:
        """Say whether nobody is told of it now."""
        return self.snoozed_until is not None and self.snoozed_until > timezone.now()


@dataclass(frozen=True, slots=True)
class EventRow:
    """One thing that happened; by_name: "" for the judge. has_before: it changed something that can be put back."""

    id: int
    at: datetime
    by_id: int | None
    by_name: str
    kind: str
    words: str
    undone_at: datetime | None
    has_before: bool


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """One incident. changes: the worst first, withdrawn ones last, at most 500; events: oldest first."""

    row: IncidentRow
    changes: tuple[ChangeRow, ...]
    changes_left_out: int
    events: tuple[EventRow, ...]

    @property
    def live(self) -> tuple[ChangeRow, ...]:
        """Return the changes that are still believed."""
        return tuple(change for change in self.changes if change.is_live)


@dataclass(frozen=True, slots=True)
class LastAct:
    """What somebody did last, and may take back."""

    event_id: int
    incident_id: int
    kind: str
    at: datetime
