"""What lists and pages of incidents ask for and get, besides the incidents themselves."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from benchapp.catalog.grammar import Filter
from benchapp.incidents.read.changes import ChangeRow
from benchapp.models import Incident


class Tab(StrEnum):
    """A tab of the inbox; only the last two contain improvements."""

    OPEN = "open"
    NEW = "new"
    ACKNOWLEDGED = "acknowledged"
    SNOOZED = "snoozed"
    RECOVERED = "recovered"
    RESOLVED = "resolved"
    IMPROVEMENTS = "improvements"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class IncidentFilter:
    """Which incidents to list. match: filter of the series of any of its changes.

    from_at inclusive, to_at exclusive: when they began. state, severity, is_regression: None means any.
    """

    tab: Tab = Tab.ALL
    match: Filter = field(default_factory=Filter)
    state: str | None = None
    severity: str | None = None
    is_regression: bool | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of the activity. by_name: "" for automatic events. has_before: it can be undone."""

    id: int
    at: datetime
    by_id: int | None
    by_name: str
    kind: str
    text: str
    undone_at: datetime | None
    has_before: bool


class ChangeColumn(StrEnum):
    """A column by which the changes of an incident are sorted."""

    SERIES = "series"
    METRIC = "metric"
    BEFORE = "before"
    AFTER = "after"
    CHANGE = "change"
    SINCE = "since"
    STATE = "state"
    CONFIDENCE = "confidence"


@dataclass(frozen=True, slots=True)
class ChangeOrder:
    """How the changes of an incident are sorted; withdrawn ones are always last.

    CHANGE is by size in multiples of the metric's threshold, BEFORE and AFTER by metric and value.
    """

    column: ChangeColumn = ChangeColumn.CHANGE
    is_descending: bool = True


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """One incident. changes: in the order asked for; changes_left_out: how many more there are.

    Live changes are those not withdrawn. largest: None without live changes. scopes, workloads: of the live changes,
    without duplicates; workloads as "4k random read": one if it is that of all. live_count: changes of all metrics.
    events: oldest first.
    """

    row: Incident
    changes: tuple[ChangeRow, ...]
    changes_left_out: int
    largest: ChangeRow | None
    scopes: tuple[str, ...]
    workloads: tuple[str, ...]
    live_count: int
    events: tuple[EventRow, ...]

    @property
    def change_count(self) -> int:
        """Return the number of all its changes, withdrawn ones too."""
        return len(self.changes) + self.changes_left_out


@dataclass(frozen=True, slots=True)
class LastAction:
    """A person's last action, which can be undone.

    bulk: the key of an action on several incidents, "" on one; incidents: how many of them are not undone.
    """

    event_id: int
    incident_id: int
    kind: str
    at: datetime
    bulk: str = ""
    incidents: int = 1
