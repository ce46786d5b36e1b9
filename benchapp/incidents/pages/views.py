"""The inbox of incidents and the page of one incident."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.charts.texts.history import describe_sides
from benchapp.framework.pages.access import can, may_read
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import FilterBar, explain_empty, make_filter_bar, settle_filter
from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.page_context import find_visitor, make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.framework.pages.selection import KINDS
from benchapp.framework.pages.time_range import AskedRange, describe_bounds, read_time_range
from benchapp.incidents.actions.bulk import BULK_MAXIMUM
from benchapp.incidents.actions.undo import UNDOABLE
from benchapp.incidents.pages.affected_matrix import make_affected_matrix
from benchapp.incidents.pages.affected_series import make_affected_series, read_affected_series_request
from benchapp.incidents.pages.detection_status_texts import describe_status
from benchapp.incidents.pages.evidence_chart import make_evidence
from benchapp.incidents.pages.tables import (
    list_suspects,
    make_incident_line,
    make_incident_lines,
)
from benchapp.incidents.pages.texts import (
    describe_action,
    describe_event,
    describe_inbox,
    describe_incident,
    describe_incident_counts,
    describe_pooled_levels,
    describe_sizes,
)
from benchapp.incidents.read.detection_status import count_detection_status
from benchapp.incidents.read.incidents import (
    count_tabs,
    list_editors,
    list_incidents,
    list_merge_targets,
    list_most_severe,
    read_incident,
    read_last_action,
)
from benchapp.incidents.read.maintenance import list_mutes
from benchapp.incidents.read.shapes import (
    EventRow,
    IncidentDetail,
    IncidentFilter,
    IncidentRow,
    Tab,
)
from benchapp.models import Role, Severity, Verdict
from benchapp.requests.pages.panel import make_request_panel
from benchapp.requests.read.run_requests import RequestFilter, list_latest_runs
from benchapp.series.read.exclusions import has_series

INCIDENTS_ON_A_PAGE: Final = 50
_VERDICTS: Final = [(verdict.value, verdict.label) for verdict in Verdict if verdict]
# Tabs of unresolved regressions: one page, most severe first. The others are paginated by time.
_UNRESOLVED: Final = (Tab.OPEN, Tab.NEW, Tab.ACKNOWLEDGED, Tab.SNOOZED, Tab.RECOVERED)


@dataclass(frozen=True, slots=True)
class TabLink:
    """One tab of the inbox; count: None if not counted."""

    label: str
    url: str
    count: int | None
    is_here: bool


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event of the activity."""

    row: EventRow
    text: str
    can_be_undone: bool


@require_safe
@may_read
def incidents(request: HttpRequest) -> HttpResponse:
    """List incidents: tabs with open work by severity, the others newest first."""
    bar = make_filter_bar(request, keep=("tab",), has_time_range=True)
    errors: list[str] = []
    tab, range = _read_tab(request, errors), read_time_range(request.GET, errors)
    if (answer := settle_filter(request, bar, errors)) is not None:
        return answer
    asked = IncidentFilter(tab=tab, match=bar.filter, from_at=range.from_at, to_at=range.to_at)
    rows, links = _read_list(request, errors, asked)
    counts = count_tabs(asked)
    is_calm = not rows and not bar.text and not range.query and tab in (Tab.OPEN, Tab.NEW)
    context = {
        **links,
        **_describe_visitor(request),
        "title": describe_inbox(tab, counts, rows),
        "bar": bar,
        "errors": errors,
        "range": describe_bounds(range.from_at, range.to_at),
        "tab": tab.value,
        "tabs": _list_tabs(request, tab, counts),
        "lines": make_incident_lines(rows),
        "excluded": () if rows else explain_empty(bar, has_series),
        "status": describe_status(count_detection_status()) if is_calm else None,
        "api_line": _make_api_line(request, tab, bar, range),
        **(_offer_bulk() if rows and can(find_visitor(request), Role.EDITOR) else {}),
    }
    return render(request, "incidents/incidents.html", context, status=400 if errors else 200)


@require_safe
@may_read
def incident(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Show one incident: affected series, evidence, possible causes, scope, activity."""
    errors: list[str] = []
    asked = read_affected_series_request(request.GET, errors)
    detail = read_incident(incident_id, order=asked.order, limit=asked.limit)
    if detail is None:
        raise Http404(f"Incident {incident_id} does not exist.")
    row, largest = detail.row, detail.largest
    title = describe_incident(detail)
    evidence = make_evidence(largest, title=title, base_url=make_base_url(request)) if largest else None
    context = {
        **_describe_visitor(request),
        "title": title,
        "errors": errors,
        "row": row,
        "line": make_incident_line(row),
        "counts": describe_incident_counts(detail),
        "sizes": describe_sizes(detail),
        "pooled_text": describe_pooled_levels(row),
        "evidence": evidence,
        "evidence_text": describe_sides(evidence.change) if evidence else "",
        "suspects": list_suspects(row),
        "selection_kind": KINDS["change"],
        "table": make_affected_series(detail, asked, request.GET),
        "affected": make_affected_matrix(row, request.GET) if largest else None,
        "events": [_make_event(event) for event in reversed(detail.events)],
        "panel": make_request_panel(
            request,
            RequestFilter(incident_id=row.id),
            find_runs=lambda: list_latest_runs([change.series.id for change in detail.changes]),
        ),
        "mutes": list_mutes(row.id, muted_by=row.planned_event_id, now=timezone.now()),
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/incidents/{row.id}"),
        **(_offer_tools(detail) if can(find_visitor(request), Role.EDITOR) else {}),
    }
    return render(request, "incidents/incident.html", context, status=400 if errors else 200)


def _read_list(
    request: HttpRequest, errors: list[str], asked: IncidentFilter
) -> tuple[tuple[IncidentRow, ...], dict[str, Any]]:
    if asked.tab in _UNRESOLVED:
        page = list_most_severe(asked)
        return page.items, {"has_more": page.next_cursor is not None}
    page, links = turn_page(
        request, errors, read=lambda after: list_incidents(asked, after=after, limit=INCIDENTS_ON_A_PAGE)
    )
    return page.items, links


def _read_tab(request: HttpRequest, errors: list[str]) -> Tab:
    wanted = request.GET.get("tab", Tab.OPEN.value)
    if wanted in list(Tab):
        return Tab(wanted)
    errors.append(f"{wanted!r} is not a valid tab. Valid: {', '.join(Tab)}.")
    return Tab.OPEN


def _list_tabs(request: HttpRequest, here: Tab, counts: dict[Tab, int]) -> list[TabLink]:
    """Return the tabs; the snoozed one only if it has incidents or is open."""
    shown = [tab for tab in Tab if tab != Tab.SNOOZED or counts[tab] or here == tab]
    return [
        TabLink(
            label=tab.value.capitalize(),
            url=keep_query(request.GET, tab=None if tab == Tab.OPEN else tab.value, after=None),
            count=counts.get(tab),
            is_here=tab == here,
        )
        for tab in shown
    ]


def _describe_visitor(request: HttpRequest) -> dict[str, Any]:
    """Return what the buttons need, and the editor's last action that can be undone."""
    visitor = find_visitor(request)
    context: dict[str, Any] = {"here": request.get_full_path(), "verdicts": _VERDICTS}
    if visitor is None or not can(visitor, Role.EDITOR):
        return context
    last = read_last_action(visitor, kinds=sorted(UNDOABLE))
    return context | {"last_action": last, "last_action_text": describe_action(last.kind) if last else ""}


def _offer_tools(detail: IncidentDetail) -> dict[str, Any]:
    """Return the choices of the editor's forms."""
    row = detail.row
    is_open = row.state != "resolved"
    return {
        "people": list_editors(),
        "severities": Severity.values,
        "merge_targets": list_merge_targets(row) if is_open else [],
        "can_split": is_open and detail.live_count > 1,
        "can_accept": is_open and detail.largest is not None,
    }


def _offer_bulk() -> dict[str, Any]:
    """Return the choices for the selected incidents."""
    return {"people": list_editors(), "bulk_maximum": BULK_MAXIMUM}


def _make_event(event: EventRow) -> EventLine:
    return EventLine(
        row=event,
        text=describe_event(event),
        can_be_undone=event.undone_at is None and event.has_before and event.kind in UNDOABLE,
    )


def _make_api_line(request: HttpRequest, tab: Tab, bar: FilterBar, range: AskedRange) -> str:
    asked = {**({"q": bar.text} if bar.text else {}), "tab": tab.value, **range.bounds}
    return format_curl_command(f"{make_base_url(request)}/api/v1/incidents?{urlencode(asked, safe=':,/*')}")
