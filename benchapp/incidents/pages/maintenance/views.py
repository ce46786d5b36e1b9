"""Schedule, preview, end and cancel maintenance windows, expected changes and notes; the last two can be undone."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.framework.pages.access import choose_next, may_read, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import refuse_address
from benchapp.framework.pages.filter_forms import keep_query, write_scopes
from benchapp.framework.pages.list_entries import change_entry, confirm_change, describe_entry
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.pagination import turn_page
from benchapp.framework.pages.time_range import describe_bounds, make_time_range, parse_bound, read_time_range
from benchapp.framework.write.bad_value import BadValue
from benchapp.incidents.pages.maintenance.forms import (
    KINDS,
    PlannedEventForm,
    has_time_zones,
    make_initial,
)
from benchapp.incidents.pages.maintenance.texts import (
    describe_effect,
    describe_impact,
    describe_limits,
    format_list_title,
    format_title,
)
from benchapp.incidents.read.maintenance import (
    CURRENT,
    count_planned_events,
    list_planned_events,
    read_planned_event,
    read_similar_changes,
)
from benchapp.incidents.write.impact import Impact, preview_impact
from benchapp.incidents.write.planned_events import (
    EVENTS,
    OPEN_MAXIMUM,
    end_planned_event,
    resume_planned_event,
)
from benchapp.models import Host, PlannedEvent, PlannedEventKind, PlannedEventState, Role
from benchapp.models.host_filtering import match_hosts

ROWS_ON_A_PAGE: Final = 50
_TABS: Final[Mapping[str, tuple[PlannedEventState, ...]]] = {
    "current": CURRENT,
    "past": (PlannedEventState.PAST,),
    "canceled": (PlannedEventState.CANCELED,),
}
_TAB_LABELS: Final = {"current": "Active & upcoming", "past": "Past", "canceled": "Canceled"}
_Action = Callable[..., PlannedEvent]
ACTIONS: Final[Mapping[str, tuple[_Action, str]]] = {
    "end": (end_planned_event, "Ended. Later runs and changes are evaluated again."),
    "resume": (resume_planned_event, "Resumed until the planned end."),
    "cancel": (EVENTS.cancel, "Canceled."),
    "restore": (EVENTS.restore, "Restored."),
}


@never_cache
@require_safe
@may_read
def planned_events(request: HttpRequest) -> HttpResponse:
    """List active and upcoming windows; other tabs list past and canceled ones."""
    now = timezone.now()
    errors: list[str] = []
    tab = _choose(request, "tab", [*_TABS], errors) or "current"
    kind = _choose(request, "kind", PlannedEventKind.values, errors)
    range = read_time_range(request.GET, errors)
    if errors:
        return refuse_address(request, errors)
    page, links = turn_page(
        request,
        errors,
        read=lambda after: list_planned_events(
            _TABS[tab],
            now=now,
            kind=kind,
            from_at=range.from_at,
            to_at=range.to_at,
            after=after,
            limit=ROWS_ON_A_PAGE,
        ),
    )
    counts = count_planned_events(now=now, kind=kind)
    context = {
        **links,
        "title": format_list_title(counts),
        "errors": errors,
        "rows": [(row, describe_limits(row)) for row in page.items],
        "tabs": [
            (
                label,
                keep_query(request.GET, tab=name, after=None),
                sum(counts[s] for s in _TABS[name]),
                name == tab,
            )
            for name, label in _TAB_LABELS.items()
        ],
        "kinds": [
            (label, keep_query(request.GET, kind=value or None, after=None), value == (kind or ""))
            for value, label in [("", "All"), *KINDS]
        ],
        "tab": tab,
        "range": make_time_range(request.GET),
        "range_text": describe_bounds(range.from_at, range.to_at),
        "retained": [(name, request.GET[name]) for name in ("tab", "kind") if request.GET.get(name)],
        "api_line": format_curl_command(f"{make_base_url(request)}/api/v1/planned-events"),
    }
    return render(
        request, "incidents/maintenance/planned_events.html", context, status=400 if errors else 200
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def add_planned_event(request: HttpRequest) -> HttpResponse:
    """Show the form, preview the affected series, or save."""
    form = (
        PlannedEventForm(request.POST)
        if request.method == "POST"
        else PlannedEventForm(initial=_make_initial_values(request))
    )
    impact = None
    if request.method == "POST" and form.is_valid():
        try:
            if "preview" not in request.POST:
                return _save(request, form)
            impact = _preview(form.instance)
        except BadValue as problem:
            form.refuse(problem)
    context = {
        "form": form,
        "is_fresh": request.method != "POST",
        "has_time_zones": has_time_zones(),
        "impact": impact,
        "impact_texts": describe_impact(impact) if impact else [],
        "effect": describe_effect(form.cleaned_data["kind"]) if impact else "",
        "effects": [(label, describe_effect(value)) for value, label in KINDS],
    }
    return render(
        request, "incidents/maintenance/add_planned_event.html", context, status=400 if form.errors else 200
    )


@never_cache
@require_safe
@may_read
def planned_event(request: HttpRequest, planned_event_id: int) -> HttpResponse:
    """Show one maintenance window, expected change or note with its impact and activity."""
    event = read_planned_event(planned_event_id, now=timezone.now())
    if event is None:
        raise Http404(f"No maintenance window, expected change or note {planned_event_id}.")
    impact = preview_impact(event)
    context = {
        **describe_entry(request, event, title=format_title(event), path="planned-events"),
        "limits": describe_limits(event),
        "impact": impact,
        "impact_texts": describe_impact(impact),
        "effect": describe_effect(event.kind),
    }
    return render(request, "incidents/maintenance/planned_event.html", context)


@require_POST
@needs_role(Role.EDITOR)
def change_planned_event(request: HttpRequest, planned_event_id: int, act: str) -> HttpResponse:
    """End early, cancel, or undo either."""
    apply, success_text = ACTIONS[act]
    return change_entry(request, apply, planned_event_id, success_text=success_text, page="planned_event")


def list_maintenance(host_id: int) -> list[PlannedEvent]:
    """Return the active and upcoming maintenance windows of a host, latest start first."""
    host = Host.objects.get(pk=host_id)
    page = list_planned_events(
        CURRENT, now=timezone.now(), kind=PlannedEventKind.MAINTENANCE, limit=OPEN_MAXIMUM
    )
    return [row for row in page.items if _matches(row, host)]


def _matches(row: PlannedEvent, host: Host) -> bool:
    try:
        return host.pk in match_hosts(parse_filter(row.filter), [host])
    except BadFilter:
        return False


def _save(request: HttpRequest, form: PlannedEventForm) -> HttpResponse:
    saved = EVENTS.create(form.instance, by=read_person(request))
    confirm_change(request, "Saved.")
    if form.cleaned_data["next"]:
        return redirect(choose_next(request, "planned_events"))
    return redirect("planned_event", planned_event_id=saved.pk)


def _preview(planned: PlannedEvent) -> Impact:
    planned.reason = planned.reason or "preview"
    EVENTS.check(planned)
    return preview_impact(planned)


def _make_initial_values(request: HttpRequest) -> dict[str, Any]:
    """Return the initial form values, from a host, an incident or the query string."""
    kind = request.GET.get("kind", "")
    if kind not in PlannedEventKind.values:
        kind = PlannedEventKind.MAINTENANCE.value
    filter = request.GET.get("filter", "")[:2000]
    if host := request.GET.get("host", ""):
        filter = write_scopes([f"host:{host[:253]}"])
    if (number := request.GET.get("incident", "")).isdecimal() and len(number) < 19:
        similar = read_similar_changes(int(number))
        if similar is not None:
            change, start = PlannedEventKind.CHANGE.value, similar.started_at
            return make_initial(change, filter=write_scopes(similar.scopes), from_at=start) | {
                "metric": similar.metric,
                "is_regression": str(similar.is_regression).lower(),
                "incident": int(number),
            }
    times = {"from_at": _read_time(request, "from"), "to_at": _read_time(request, "to")}
    return make_initial(kind, filter=filter, **times) | {"next": request.GET.get("next", "")[:4000]}


def _read_time(request: HttpRequest, name: str) -> datetime | None:
    """Return a time of the query string; None without a valid one."""
    try:
        return parse_bound(request.GET.get(name, "")[:40], is_end=name == "to")
    except ValueError:
        return None


def _choose(request: HttpRequest, name: str, values: list[str], errors: list[str]) -> str | None:
    wanted = request.GET.get(name)
    if not wanted or wanted in values:
        return wanted or None
    errors.append(f"Unknown {name}. Available: {', '.join(values)}.")
    return None
