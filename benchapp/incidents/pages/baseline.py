"""Preview and confirm a new baseline: levels, other incidents and subscriptions."""

from collections.abc import Collection, Iterator
from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from benchapp.framework.pages.access import needs_role
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.value_texts import format_count
from benchapp.incidents.actions.accept_impact import (
    AcceptImpact,
    NotifiedSubscription,
    OverlappingIncident,
    preview_accept_impact,
)
from benchapp.incidents.actions.accepted_levels import preview_accept
from benchapp.incidents.actions.triage import BadTriage
from benchapp.incidents.pages.actions import read_selected_series
from benchapp.incidents.pages.tables import make_accepted_lines
from benchapp.incidents.read.changes import read_series_names
from benchapp.models import Channel, Incident, IncidentState, Role

# With more series there are no checkboxes: all are accepted. Django reads at most 1 000 fields of a form.
SELECTABLE_MAXIMUM: Final = 500


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs_role(Role.EDITOR)
def baseline(request: HttpRequest, incident_id: int) -> HttpResponse:
    """Show what accepting the new levels changes, for all series or, after POST, for the selected ones."""
    incident = Incident.objects.filter(pk=incident_id).first()
    if incident is None:
        raise Http404(f"Incident {incident_id} does not exist.")
    errors: list[str] = []
    selected = _read_selection(request, errors)
    levels = preview_accept(incident_id)
    impact = preview_accept_impact(incident_id, series_ids=selected)
    lines = make_accepted_lines(levels, read_series_names({level.series_id for level in levels}))
    context = {
        "incident": incident,
        "errors": errors,
        "obstacle": _describe_obstacle(incident, has_levels=bool(levels)),
        "lines": lines,
        "selected": None if selected is None else set(selected),
        "is_selectable": len(lines) <= SELECTABLE_MAXIMUM,
        "effects": list(list_accept_effects(impact)),
        "overlaps": [(overlap, describe_overlap(overlap)) for overlap in impact.incidents],
        "subscriptions": [describe_notified(each) for each in impact.subscriptions],
        "comment": request.POST.get("comment", "")[:500],
        "api_line": _make_api_line(request, incident_id),
    }
    return render(request, "incidents/baseline.html", context, status=400 if errors else 200)


def list_accept_effects(impact: AcceptImpact, *, incidents: int = 1) -> Iterator[str]:
    """Yield what accepting the levels of this number of incidents changes, in sentences."""
    count, series = format_count(len(impact.levels), "level"), impact.series_count
    yield f"{count} of {series} series become baselines; earlier runs are no longer compared with later ones."
    if incidents == 1:
        yield "The incident is resolved as expected. Undo restores the earlier baselines and reopens it."
    else:
        yield f"{incidents} incidents are resolved as expected. Undo restores the earlier baselines and reopens them."


def describe_overlap(overlap: OverlappingIncident) -> str:
    """Return what happens to the changes of another incident."""
    parts = []
    if overlap.earlier:
        parts.append(
            f"{format_count(overlap.earlier, 'change')} from before the new baseline: not evaluated any more, the "
            "incident stays open"
        )
    if overlap.later:
        parts.append(
            f"{format_count(overlap.later, 'later change')}: evaluated again, against the new baseline"
        )
    if overlap.drifts:
        parts.append(f"{format_count(overlap.drifts, 'drift')} from the earlier baseline: withdrawn")
    return "; ".join(parts)


def describe_notified(subscription: NotifiedSubscription) -> str:
    """Return owner and channel, and whether its notice is still to be sent; never the address."""
    waiting = "; the waiting notice of this incident is still sent" if subscription.is_waiting else ""
    return f"{subscription.owner_name}: {Channel(subscription.channel).label}{waiting}"


def _read_selection(request: HttpRequest, errors: list[str]) -> Collection[int] | None:
    """Return the selected series; None for all."""
    if request.method != "POST":
        return None
    try:
        return read_selected_series(request.POST)
    except BadTriage as error:
        errors.append(f"{error}.".capitalize())
        return []


def _describe_obstacle(incident: Incident, *, has_levels: bool) -> str:
    if incident.state == IncidentState.RESOLVED:
        return "The incident is resolved: reopen it first."
    return "" if has_levels else "No new level to accept: all changes are suspected or withdrawn."


def _make_api_line(request: HttpRequest, incident_id: int) -> str:
    url = f"{make_base_url(request)}/api/v1/incidents/{incident_id}/baseline"
    command = format_curl_command(url, is_personal=True)
    return f"{command} -H 'Content-Type: application/json' -d '{{\"dry_run\": true}}'"
