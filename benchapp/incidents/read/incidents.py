"""Incidents: the inbox, and one incident with its changes, what they have in common, and its activity."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from django.db.models import F
from django.utils import timezone

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, SMALLEST_CHANGES
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, SizeCursor, cut_page
from benchapp.incidents.read.changes import (
    ChangeRow,
    ChangeSort,
    make_change_cursor,
    read_change_cursor,
    read_change_rows,
)
from benchapp.incidents.read.series_status import SEVERITY_ORDER
from benchapp.incidents.rules.incidents import measure_multiple
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, User, name_person
from benchapp.models.filtering import match_changes
from benchapp.models.incident import hide_peers


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
    without duplicates; workloads as "4k random read": one if all have it. of_scopes: the largest change of each
    scope in the metric of the largest, of its workload if possible, the largest first, at most SCOPES_SHOWN.
    live_count: changes of all metrics. events: oldest first.
    """

    row: Incident
    changes: tuple[ChangeRow, ...]
    changes_left_out: int
    largest: ChangeRow | None
    scopes: tuple[str, ...]
    workloads: tuple[str, ...]
    of_scopes: tuple[ChangeRow, ...]
    live_count: int
    events: tuple[IncidentEvent, ...]

    @property
    def change_count(self) -> int:
        """Return the number of all its changes, withdrawn ones too."""
        return len(self.changes) + self.changes_left_out


# As many as a history has lines.
SCOPES_SHOWN: Final = 12
# Workloads whose titles are compared; of more it is not known that all have the same.
_WORKLOADS_MAXIMUM: Final = 50


class _Key(NamedTuple):
    """What a change is sorted by."""

    id: int
    state: str
    metric: str
    relative: float
    before: float
    after: float
    started_at: Any
    confidence: float
    scope: str
    workload_id: int
    target_id: int
    direction: str

    @property
    def size(self) -> float:
        # Relative to the metric's threshold: 15 % of IOPS outweigh 20 % of p99 latency.
        return measure_multiple(self.relative, SMALLEST_CHANGES[self.metric])


def _name_workload(key: _Key) -> tuple[int, str]:
    return key.workload_id, key.direction


_METRICS: Final = {name: place for place, name in enumerate(CATALOG)}
_STATES: Final = {state.value: place for place, state in enumerate(ChangeState)}
_SORT_KEYS: Final[dict[ChangeColumn, Callable[[_Key], Any]]] = {
    ChangeColumn.SERIES: lambda key: (key.scope, key.workload_id, key.direction, key.target_id),
    ChangeColumn.METRIC: lambda key: _METRICS[key.metric],
    ChangeColumn.BEFORE: lambda key: (_METRICS[key.metric], key.before),
    ChangeColumn.AFTER: lambda key: (_METRICS[key.metric], key.after),
    ChangeColumn.CHANGE: lambda key: key.size,
    ChangeColumn.SINCE: lambda key: key.started_at,
    ChangeColumn.STATE: lambda key: _STATES[key.state],
    ChangeColumn.CONFIDENCE: lambda key: key.confidence,
}


def _sort(keys: Sequence[_Key], order: ChangeOrder) -> list[_Key]:
    """Return the changes in the order, the larger of equals first, withdrawn ones last."""
    by_size = sorted(keys, key=lambda key: (-key.size, key.id))
    ordered = sorted(by_size, key=_SORT_KEYS[order.column], reverse=order.is_descending)
    return sorted(ordered, key=lambda key: key.state == ChangeState.WITHDRAWN)


# Per answer of the API; `list_changes` has all. A sweep has 320 series with three metrics.
CHANGES_MAXIMUM: Final = 500
_BY_SIZE: Final = ChangeOrder()
EVENTS_MAXIMUM: Final = 500
_PEOPLE_MAXIMUM: Final = 500
# How long the inbox offers to undo a person's last action.
_FRESH: Final = timedelta(hours=1)
_SEVERITY_RANK: Final = f"array_position(ARRAY{[severity.value for severity in SEVERITY_ORDER]}, severity)"
# Of regressions. Those of OPEN, NEW and ACKNOWLEDGED are not snoozed.
_TAB_CONDITIONS: Final = {
    Tab.OPEN: "is_open",
    Tab.NEW: "is_open AND state = 'new'",
    Tab.ACKNOWLEDGED: "is_open AND state = 'acknowledged'",
    Tab.SNOOZED: "is_open",
    Tab.RECOVERED: "state <> 'resolved' AND recovered_at IS NOT NULL",
    Tab.RESOLVED: "state = 'resolved'",
}
_SORTED_BY: Final = {"started_at": "started_at", "size": "abs(incident.relative)"}


def list_incidents(
    filters: IncidentFilter, *, after: str | None = None, limit: int = 50, sort: ChangeSort = "-started_at"
) -> Page[Incident]:
    """Return incidents after the cursor, latest start first or by `sort`; one query. Raises BadCursor."""
    cursor, match = read_change_cursor(after, sort=sort), _match_incidents(filters)
    column, is_descending = _SORTED_BY[sort.removeprefix("-")], sort.startswith("-")
    if cursor is not None:
        sign, value = (
            "<" if is_descending else ">",
            cursor.size if isinstance(cursor, SizeCursor) else cursor.at,
        )
        # The first bound repeats what the second says, so that PostgreSQL starts inside of the index.
        text = f"{column} {sign}= %s AND ({column}, incident.id) {sign} (%s, %s)"
        match = match.and_also(text, value, value, cursor.id)
    direction = "DESC" if is_descending else "ASC"
    rows = _read_incidents(match, order=f"{column} {direction}, incident.id {direction}", limit=limit + 1)
    return cut_page(rows, limit, cursor_of=partial(make_change_cursor, sort=sort))


def list_most_severe(filters: IncidentFilter, *, limit: int = 200) -> Page[Incident]:
    """Return incidents, most severe first, then newest; one query, one page only.

    next_cursor is not None if more incidents match: the filter must be narrowed.
    """
    order = f"{_SEVERITY_RANK}, started_at DESC, incident.id DESC"
    rows = _read_incidents(_match_incidents(filters), order=order, limit=limit + 1)
    return cut_page(rows, limit, cursor_of=lambda incident: Cursor(incident.started_at, incident.id))


def read_incident(
    incident_id: int, *, order: ChangeOrder = _BY_SIZE, limit: int = CHANGES_MAXIMUM
) -> IncidentDetail | None:
    """Return one incident with its changes and activity; None if it does not exist. Four queries.

    limit: of its changes.
    """
    rows = list_incidents_by_id([incident_id])
    if not rows:
        return None
    events = IncidentEvent.objects.filter(incident_id=incident_id).select_related("by")
    shown = tuple(events.defer("by__password").order_by("at", "id")[:EVENTS_MAXIMUM])
    return _make_detail(rows[0], shown, order=order, limit=limit)


def _make_detail(
    incident: Incident, events: tuple[IncidentEvent, ...], *, order: ChangeOrder, limit: int
) -> IncidentDetail:
    """Read the first changes of an incident in an order; two queries, one without changes.

    Of those beyond the limit only the columns of the order are read.
    """
    keys = [
        _Key(*row)
        for row in Change.objects.without_steps_of_drifts()
        .filter(incident_id=incident.pk)
        .order_by("id")
        .values_list(
            *("id", "state", "metric", "relative", "before_median", "after_median", "started_at"),
            *("confidence", "series__scope", "series__workload_id", "series__target_id", "series__direction"),
        )
    ]
    live = sorted((key for key in keys if key.state != ChangeState.WITHDRAWN), key=lambda key: -key.size)
    shown = _sort(keys, order)[:limit]
    # One change for the title of each workload.
    samples = {(key.workload_id, key.direction): key.id for key in reversed(live)}
    if len(samples) > _WORKLOADS_MAXIMUM:
        samples = {}
    of_scopes = _choose_of_scopes(live) if live else []
    wanted = {*(key.id for key in (*shown, *of_scopes)), *samples.values()}
    rows = {row.id: row for row in read_change_rows(Change.objects.filter(pk__in=wanted))} if wanted else {}
    titles = (rows[pk].series.workload_title for pk in samples.values() if pk in rows)
    return IncidentDetail(
        row=incident,
        changes=tuple(rows[key.id] for key in shown if key.id in rows),
        changes_left_out=len(keys) - len(shown),
        largest=rows.get(live[0].id) if live else None,
        scopes=tuple(dict.fromkeys(key.scope for key in live)),
        workloads=tuple(dict.fromkeys(title.split(" · ")[0] for title in titles))[:2],
        of_scopes=tuple(rows[key.id] for key in of_scopes if key.id in rows),
        live_count=len(live),
        events=events,
    )


def _choose_of_scopes(live: Sequence[_Key]) -> list[_Key]:
    """Return the largest change of each scope, the largest first. live: the largest first."""
    found: dict[str, _Key] = {}
    alike = [key for key in live if key.metric == live[0].metric]
    for key in sorted(alike, key=lambda key: _name_workload(key) != _name_workload(live[0])):
        found.setdefault(key.scope, key)
    return list(found.values())[:SCOPES_SHOWN]


def list_incidents_by_id(incident_ids: Sequence[int]) -> list[Incident]:
    """Return these incidents, latest start first; one query, none without ids."""
    if not incident_ids:
        return []
    match = _Condition("incident.id = ANY(%s)", (list(incident_ids),))
    return _read_incidents(match, order="started_at DESC, incident.id DESC", limit=len(incident_ids))


def count_tabs(filters: IncidentFilter) -> dict[Tab, int]:
    """Count the incidents of the tabs of unresolved regressions, whatever the tab of the filter; one query."""
    asked = _match_incidents(replace(filters, tab=Tab.ALL)).and_also("state <> 'resolved'")
    tabs = (Tab.OPEN, Tab.NEW, Tab.ACKNOWLEDGED, Tab.SNOOZED, Tab.RECOVERED)
    own = [match_tab(tab) for tab in tabs]
    counts = ", ".join(f"count(*) FILTER (WHERE {each.text})" for each in own)
    (row,) = fetch_rows(
        f"SELECT {counts} FROM benchapp_incident incident WHERE {asked.text}",  # noqa: S608
        [*(value for each in own for value in each.values), *asked.values],
    )
    return dict(zip(tabs, row, strict=True))


def read_last_action(person: User, *, kinds: Sequence[str]) -> dict[str, Any] | None:
    """Return a person's last action of these kinds within the hour that is not undone; None without one.

    event_id, incident_id, kind, at; bulk: the key of an action on several incidents, "" on one; incidents: how many of
    them are not undone. One query; two after an action on several incidents.
    """
    mine = IncidentEvent.objects.filter(by=person, undone_at=None, kind__in=kinds)
    row = (
        mine.filter(at__gte=timezone.now() - _FRESH)
        .order_by("-at", "-id")
        .values("incident_id", "kind", "at", event_id=F("id"), bulk=F("before__bulk"))
        .first()
    )
    if row is None:
        return None
    bulk = row["bulk"] or ""
    return {**row, "bulk": bulk, "incidents": mine.filter(before__bulk=bulk).count() if bulk else 1}


def list_editors() -> list[tuple[int, str]]:
    """Return (id, name) of possible assignees, by name; one query."""
    people = User.objects.filter(is_active=True).exclude(role="viewer").order_by("username")
    return list(people.values_list("id", "username")[:_PEOPLE_MAXIMUM])


def list_merge_targets(incident: Incident) -> list[tuple[int, str]]:
    """Return (id, title) of 20 open incidents of the same direction within 30 days, nearest in time first."""
    month = timedelta(days=30)
    found = Incident.objects.filter(
        is_open=True,
        is_regression=incident.is_regression,
        started_at__range=(incident.started_at - month, incident.started_at + month),
    ).exclude(pk=incident.id)
    rows = found.order_by("-started_at", "-id").values_list("id", "title", "started_at")[:100]
    nearest = sorted(rows, key=lambda row: abs(row[2] - incident.started_at))
    return [(incident_id, hide_peers(title)) for incident_id, title, _ in nearest[:20]]


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition on incidents in SQL, with its values."""

    text: str
    values: tuple[Any, ...] = ()

    def and_also(self, text: str, *values: Any) -> "_Condition":
        """Return both conditions."""
        return _Condition(f"{self.text} AND {text}", (*self.values, *values))


def _match_incidents(filters: IncidentFilter) -> _Condition:
    tab = match_tab(filters.tab)
    found = _Condition("merged_into_id IS NULL").and_also(tab.text, *tab.values)
    if filters.match.terms or filters.match.words:
        of_it = Change.objects.filter(match_changes(filters.match), incident__isnull=False)
        text, values = of_it.values("incident_id").query.sql_with_params()
        found = found.and_also(f"incident.id IN ({text})", *values)
    for name in ("state", "severity", "is_regression"):
        if (value := getattr(filters, name)) is not None:
            found = found.and_also(f"{name} = %s", value)
    for comparison, at in ((">=", filters.from_at), ("<", filters.to_at)):
        if at is not None:
            found = found.and_also(f"started_at {comparison} %s", at)
    return found


def match_tab(tab: Tab) -> _Condition:
    """Return the condition of the incidents of a tab, without the columns of other tables."""
    if tab == Tab.ALL:
        return _Condition("TRUE")
    if tab == Tab.IMPROVEMENTS:
        return _Condition("NOT is_regression")
    regression = _Condition(f"is_regression AND {_TAB_CONDITIONS[tab]}")
    if tab in (Tab.RECOVERED, Tab.RESOLVED):
        return regression
    now = timezone.now()
    if tab == Tab.SNOOZED:
        return regression.and_also("snoozed_until > %s", now)
    return regression.and_also("(snoozed_until IS NULL OR snoozed_until <= %s)", now)


def _read_incidents(match: _Condition, *, order: str, limit: int) -> list[Incident]:
    incidents = Incident.objects.raw(
        f"{_READ} WHERE {match.text} ORDER BY {order} LIMIT %s",
        [ChangeState.WITHDRAWN.value, *match.values, limit],
    )
    for incident in incidents:
        incident.assignee_name = name_person(incident.assignee_name)
    return list(incidents)


# Composed by Django it takes ten times as long as to run. The total of a mix counts if neither reads nor writes do, as
# incidents.write.common_factors counts.
_READ: Final = (
    "SELECT incident.*, person.username AS assignee_name, (SELECT coalesce(sum(greatest(parts, 1)), 0)::integer FROM"
    "  (SELECT count(DISTINCT series.id) FILTER (WHERE direction <> 'mixed') AS parts FROM benchapp_change"
    "   JOIN benchapp_series series ON series.id = series_id"
    "   WHERE incident_id = incident.id AND benchapp_change.state <> %s GROUP BY scope, target_id, workload_id) AS mix"
    " ) AS series_count FROM benchapp_incident incident"
    " LEFT JOIN benchapp_user person ON person.id = assignee_id"
)
