"""Incidents as frozen values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.incidents.read.changes import ChangeRow


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
class MetricSizeRow:
    """The changes of one metric of an incident: number of series, median, lowest and highest change."""

    metric: str
    series: int
    relative: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PooledLevelRow:
    """The change of a pooled level. dimension, value: of the pooled series, "" for all of the scope.

    series: compared series; changed: of these, in the direction of the change; relative: median change of all of them.
    """

    scope: str
    dimension: str
    value: str
    metric: str
    series: int
    changed: int
    relative: float
    text: str


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """One incident in a list.

    metric: the typical one; relative, relative_low, relative_high: median, lowest and highest of its changes.
    metric_sizes: of all metrics, the typical one first. pooled_levels: of hosts and pools, the most series first.
    link_title: the label of the link, or the last part of its URL. is_open: neither resolved nor recovered.
    planned_event_id: the expected change that muted it. change_count: changes of all metrics of its series.
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
    metric: str
    relative: float
    metric_sizes: Sequence[MetricSizeRow]
    pooled_levels: Sequence[PooledLevelRow]
    change_count: int
    series_count: int
    common_factors: Sequence[dict[str, Any]]
    suspects: Sequence[dict[str, Any]]
    assignee_id: int | None
    assignee_name: str
    link: str
    link_label: str
    link_title: str
    snoozed_until: datetime | None
    recovered_at: datetime | None
    is_open: bool
    merged_into_id: int | None
    planned_event_id: int | None
    opened_at: datetime
    updated_at: datetime
    resolved_at: datetime | None

    @property
    def relative_low(self) -> float | None:
        """Return the lowest change of the typical metric; None before the first evaluation."""
        return self.metric_sizes[0].low if self.metric_sizes else None

    @property
    def relative_high(self) -> float | None:
        """Return the highest change of the typical metric; None before the first evaluation."""
        return self.metric_sizes[0].high if self.metric_sizes else None

    @property
    def is_muted(self) -> bool:
        """Return whether an expected change resolved it, without notifications, and nobody reopened it since."""
        return self.planned_event_id is not None

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

    row: IncidentRow
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
