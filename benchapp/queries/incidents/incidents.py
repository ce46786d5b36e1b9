"""Incidents: the inbox, and one incident with its changes and activity."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.db.models import Case, Count, Exists, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.utils import timezone

from benchapp.grammar import Filter
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, Severity, User
from benchapp.models.filtering import match_changes
from benchapp.queries.binary_columns import fetch_rows
from benchapp.queries.incidents.incident_changes import read_incident_changes
from benchapp.queries.incidents.shapes import (
    ChangeOrder,
    EventRow,
    IncidentDetail,
    IncidentFilter,
    IncidentRow,
    LastAction,
    MetricSizeRow,
    PooledLevelRow,
    Tab,
)
from benchapp.queries.pagination import Cursor, Page, behind, cut_page, read_cursor

# Per answer of the API; `list_changes` has all. A sweep has 320 series with three metrics.
CHANGES_MAXIMUM: Final = 500
_BY_SIZE: Final = ChangeOrder()
EVENTS_MAXIMUM: Final = 500
_PEOPLE_MAXIMUM: Final = 500
# Upper bound of the counter in the navigation bar.
COUNT_MAXIMUM: Final = 99
# How long the inbox offers to undo a person's last action.
_FRESH: Final = timedelta(hours=1)
_RANKS: Final = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 2}
OPEN_STATES: Final = (IncidentState.NEW, IncidentState.ACKNOWLEDGED)
_TAB_STATES: Final = {
    Tab.OPEN: OPEN_STATES,
    Tab.NEW: (IncidentState.NEW,),
    Tab.ACKNOWLEDGED: (IncidentState.ACKNOWLEDGED,),
    Tab.SNOOZED: OPEN_STATES,
    Tab.RESOLVED: (IncidentState.RESOLVED,),
}


def list_incidents(
    filters: IncidentFilter, *, after: str | None = None, limit: int = 50
) -> Page[IncidentRow]:
    """Return incidents after the cursor, latest start first; two queries. Raises BadCursor."""
    cursor = read_cursor(after)
    found = _filter_incidents(filters).filter(behind("started_at", cursor, is_descending=True))
    rows = _read_rows(found.order_by("-started_at", "-id")[: limit + 1])
    return cut_page(rows, limit, cursor_of=lambda incident: Cursor(incident.started_at, incident.id))


def list_most_severe(filters: IncidentFilter, *, limit: int = 200) -> Page[IncidentRow]:
    """Return incidents, most severe first, then newest; two queries, one page only.

    next_cursor is not None if more incidents match: the filter must be narrowed.
    """
    ranked = _filter_incidents(filters).annotate(
        rank=Case(
            *(When(severity=severity, then=Value(rank)) for severity, rank in _RANKS.items()),
            output_field=IntegerField(),
        )
    )
    rows = _read_rows(ranked.order_by("rank", "-started_at", "-id")[: limit + 1])
    return cut_page(rows, limit, cursor_of=lambda incident: Cursor(incident.started_at, incident.id))


def read_incident(
    incident_id: int, *, order: ChangeOrder = _BY_SIZE, limit: int | None = CHANGES_MAXIMUM
) -> IncidentDetail | None:
    """Return one incident with its changes and activity; None if it does not exist. Five queries.

    limit: of its changes; None for all.
    """
    rows = _read_rows(Incident.objects.filter(pk=incident_id))
    if not rows:
        return None
    found = read_incident_changes(incident_id, order=order, limit=limit)
    events = (
        IncidentEvent.objects.filter(incident_id=incident_id)
        .order_by("at", "id")
        .values_list("id", "at", "by_id", "by__username", "kind", "text", "undone_at", "before")
    )
    return IncidentDetail(
        row=rows[0],
        changes=found.changes,
        changes_left_out=found.left_out,
        largest=found.largest,
        scopes=found.scopes,
        workloads=found.workloads,
        live_count=found.live_count,
        events=tuple(_make_event(event) for event in events[:EVENTS_MAXIMUM]),
    )


def list_incidents_by_id(incident_ids: Sequence[int]) -> list[IncidentRow]:
    """Return these incidents, latest start first; one query, none without ids."""
    if not incident_ids:
        return []
    return _read_rows(Incident.objects.filter(pk__in=incident_ids).order_by("-started_at", "-id"))


def count_new() -> int:
    """Count new regressions, those of the tab, at most 99; one query over the index of states."""
    # On every page: to compose the query takes twenty times as long as to run it.
    ((count,),) = fetch_rows(
        "SELECT count(*) FROM (SELECT FROM benchapp_incident WHERE state = %s AND is_regression"
        " AND merged_into_id IS NULL AND (snoozed_until IS NULL OR snoozed_until <= %s) LIMIT %s) AS new",
        [IncidentState.NEW.value, timezone.now(), COUNT_MAXIMUM],
    )
    return int(count)


def count_tabs(match: Filter) -> dict[Tab, int]:
    """Count the incidents of the tabs with open work; one query."""
    asked = _filter_incidents(IncidentFilter(match=match))
    tabs = (Tab.OPEN, Tab.NEW, Tab.ACKNOWLEDGED, Tab.SNOOZED)
    open_ones = asked.filter(state__in=OPEN_STATES, is_regression=True)
    counts = open_ones.aggregate(**{tab.value: Count("pk", filter=_match_tab(tab)) for tab in tabs})
    return {tab: counts[tab.value] for tab in tabs}


def read_last_action(person: User, *, kinds: Sequence[str]) -> LastAction | None:
    """Return a person's last action of these kinds within the hour that is not undone.

    One query; two after an action on several incidents.
    """
    mine = IncidentEvent.objects.filter(by=person, undone_at=None, kind__in=kinds)
    row = (
        mine.filter(at__gte=timezone.now() - _FRESH)
        .order_by("-at", "-id")
        .values_list("id", "incident_id", "kind", "at", "before__bulk")
        .first()
    )
    if row is None:
        return None
    event_id, incident_id, kind, at, bulk = row
    incidents = mine.filter(before__bulk=bulk).count() if bulk else 1
    return LastAction(event_id, incident_id, kind, at, bulk or "", incidents)


def list_editors() -> list[tuple[int, str]]:
    """Return (id, name) of possible assignees, by name; one query."""
    people = User.objects.filter(is_active=True).exclude(role="viewer").order_by("username")
    return list(people.values_list("id", "username")[:_PEOPLE_MAXIMUM])


def list_merge_targets(incident: IncidentRow, *, limit: int = 20) -> list[tuple[int, str]]:
    """Return (id, title) of open incidents of the same direction within 30 days, nearest in time first; one query."""
    near = (
        incident.started_at - timedelta(days=30),
        incident.started_at + timedelta(days=30),
    )
    found = Incident.objects.filter(
        state__in=OPEN_STATES,
        is_regression=incident.is_regression,
        merged_into=None,
        started_at__range=near,
    ).exclude(pk=incident.id)
    rows = found.order_by("-started_at", "-id").values_list("id", "title", "started_at")[: 5 * limit]
    nearest = sorted(rows, key=lambda row: abs(row[2] - incident.started_at))
    return [(incident_id, title) for incident_id, title, _ in nearest[:limit]]


def _filter_incidents(filters: IncidentFilter) -> QuerySet[Incident]:
    found = Incident.objects.filter(_match_tab(filters.tab), merged_into=None)
    if filters.match.terms or filters.match.words:
        of_it = Change.objects.filter(match_changes(filters.match), incident=OuterRef("pk"))
        found = found.filter(Exists(of_it))
    equal = {
        name: value
        for name in ("state", "severity", "is_regression")
        if (value := getattr(filters, name)) is not None
    }
    if filters.since_at is not None:
        equal["started_at__gte"] = filters.since_at
    return found.filter(**equal)


def _match_tab(tab: Tab) -> Q:
    if tab == Tab.ALL:
        return Q()
    if tab == Tab.IMPROVEMENTS:
        return Q(is_regression=False)
    regression = Q(is_regression=True, state__in=_TAB_STATES[tab])
    if tab == Tab.RESOLVED:
        return regression
    now = timezone.now()
    if tab == Tab.SNOOZED:
        return regression & Q(snoozed_until__gt=now)
    return regression & (Q(snoozed_until=None) | Q(snoozed_until__lte=now))


def _read_rows(incidents: QuerySet[Incident]) -> list[IncidentRow]:
    found = list(incidents.select_related("assignee"))
    counts = _count_series([incident.pk for incident in found]) if found else {}
    return [_make_row(incident, counts.get(incident.pk, 0)) for incident in found]


def _count_series(ids: Sequence[int]) -> dict[int, int]:
    """Return the number of series with live changes of each incident."""
    live = Change.objects.filter(incident_id__in=ids).exclude(state=ChangeState.WITHDRAWN)
    counted = live.values("incident_id").annotate(count=Count("series_id", distinct=True))
    return dict(counted.values_list("incident_id", "count"))


def _make_row(incident: Incident, series_count: int) -> IncidentRow:
    return IncidentRow(
        common_factors=incident.common_factors,
        metric_sizes=tuple(MetricSizeRow(**size) for size in incident.metric_sizes),
        pooled_levels=tuple(PooledLevelRow(**level) for level in incident.pooled_levels),
        series_count=series_count,
        assignee_name=incident.assignee.username if incident.assignee else "",
        **{name: getattr(incident, name) for name in _COPIED},
    )


def _make_event(row: Sequence[Any]) -> EventRow:
    event_id, at, by_id, by_name, kind, text, undone_at, before = row
    return EventRow(event_id, at, by_id, by_name or "", kind, text, undone_at, has_before=bool(before))


_COPIED: Final = (
    "id",
    "title",
    "scope",
    "state",
    "verdict",
    "severity",
    "has_manual_severity",
    "is_regression",
    "started_at",
    "metric",
    "relative",
    "change_count",
    "suspects",
    "assignee_id",
    "link",
    "link_label",
    "link_title",
    "snoozed_until",
    "recovered_at",
    "merged_into_id",
    "planned_event_id",
    "opened_at",
    "updated_at",
    "resolved_at",
)
