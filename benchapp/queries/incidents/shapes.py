"""Incidents as frozen values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from benchapp.grammar import Filter
from benchapp.queries.incidents.changes import ChangeRow


class Tab(StrEnum):
    """A tab of the inbox; only the last two contain improvements."""

    OPEN = "open"
    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RESOLVED = "resolved"
    IMPROVEMENTS = "improvements"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list. match: filter of the series of any of its changes.

    state, severity, is_regression, since_at: None means any.
    """

    tab: Tab = Tab.ALL
    match: Filter = field(default_factory=Filter)
    state: str | None = None
    severity: str | None = None
    is_regression: bool | None = None
    since_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident in a list.

    relative, relative_low, relative_high: of its largest change. change_count: changes of all metrics of its series.
    """

    id: int
    title: str
    scope: str
    state: str
    verdict: str
    severity: str
    has_manual_severity: bool
    is_regression: bool
    started_at: datetime
    relative: float
    relative_low: float | None
    relative_high: float | None
    change_count: int
    series_count: int
    common_factors: Sequence[dict[str, Any]]
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
        """Return whether notifications are snoozed now."""
        return self.snoozed_until is not None and self.snoozed_until > timezone.now()


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of the activity. by_name: "" for automatic events. has_before: it can be undone."""

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
    """One incident. changes: largest first, withdrawn ones last, at most 500; events: oldest first."""

    row: IncidentRow
    changes: tuple[ChangeRow, ...]
    changes_left_out: int
    events: tuple[EventRow, ...]

    @property
    def live(self) -> tuple[ChangeRow, ...]:
        """Return the changes that are not withdrawn."""
        return tuple(change for change in self.changes if change.is_live)


@dataclass(frozen=True, slots=True)
class LastAction:
    """A person's last action, which can be undone."""

    event_id: int
    incident_id: int
    kind: str
    at: datetime
