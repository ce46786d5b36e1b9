"""Buttons and forms of triage: one step, several incidents at once, a new baseline. Each posts and redirects back."""

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from benchapp.catalog.metrics import format_count
from benchapp.framework.pages.access import choose_next, needs_role, read_person
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions import triage
from benchapp.incidents.actions.baselines import (
    AcceptImpact,
    NotifiedSubscription,
    OverlappingIncident,
    accept_level,
    preview_accept,
    preview_accept_impact,
)
from benchapp.incidents.actions.triage import BadTriage, NotPossible, Step, UnknownIncident, take_steps
from benchapp.incidents.actions.undo import (
    BULK_ACTIONS,
    BULK_MAXIMUM,
    BulkReport,
    group_refused,
    take_bulk_steps,
    undo,
    undo_bulk,
)
from benchapp.incidents.pages.texts import describe_action, make_accepted_lines
from benchapp.incidents.read.changes import read_series_names
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.models import Incident, IncidentEvent, IncidentState, Role, User

_SNOOZE_DAYS_MAXIMUM: Final = 366
_SELECTED_MAXIMUM: Final = 1000
_ID_MAXIMUM: Final = 2**63 - 1
# Result of each action, shown after the redirect.
_RESULTS: Final = {
    "acknowledged": "is acknowledged",
    "resolved": "is resolved",
    "reopened": "is reopened",
    "assigned": "is assigned",
    "commented": "has a new comment",
    "linked": "has a new link",
    "rated": "has a new severity",
    "snoozed": "is snoozed",
    "merged": "contains the merged incident",
    "split": "was split",
    "accepted": "is resolved, the new baseline is accepted",
    "undone": "is restored",
}


@require_POST
@needs_role(Role.EDITOR)
def triage_incident(request: HttpRequest, incident_id: int, action: str) -> HttpResponse:
    """Take one triage step; if the state has changed meanwhile, show why nothing was done."""
    person = read_person(request)
    if action not in ACTIONS:
        raise Http404(f"{action!r} is not a valid action. Valid: {', '.join(ACTIONS)}.")
    try:
        (event,) = take_steps([ACTIONS[action](incident_id, request.POST, person)])
    except UnknownIncident as error:
        raise Http404(f"{error}.") from error
    except (NotPossible, BadTriage) as error:
        messages.error(request, f"Incident {incident_id}: {error}.", extra_tags="bad")
        return HttpResponseRedirect(choose_next(request, "incidents"))
    # An accepted baseline needs a new evaluation; subscribers get notices.
    wake_up()
    wake_notify()
    messages.success(request, _describe_result(event), extra_tags="good")
    if action == "merge":
        return HttpResponseRedirect(reverse("incident", args=[event.incident_id]))
    if action == "split":
        return HttpResponseRedirect(reverse("incident", args=[event.before["split_into"]]))
    return HttpResponseRedirect(choose_next(request, "incidents"))


def _describe_result(event: IncidentEvent) -> str:
    detail = f": {event.text}" if event.kind in ("assigned", "rated", "snoozed") else ""
    if event.kind == "split":
        detail = f": incident {event.before['split_into']} has the selected changes"
    return f"Incident {event.incident_id} {_RESULTS.get(event.kind, event.kind)}{detail}."


def _acknowledge(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.acknowledge, incident_id, by=person)


def _resolve(incident_id: int, form: QueryDict, person: User) -> Step:
    verdict, comment = form.get("verdict", ""), form.get("comment", "")
    return partial(triage.resolve, incident_id, by=person, verdict=verdict, comment=comment)


def _reopen(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.reopen, incident_id, by=person, comment=form.get("comment", ""))


def _assign(incident_id: int, form: QueryDict, person: User) -> Step:
    assignee = form.get("assignee", "")
    to = None
    if assignee:
        to = User.objects.filter(pk=_read_id(assignee), is_active=True).first()
        if to is None or not to.has_role(Role.EDITOR):
            raise BadTriage("the assignee must be an editor or admin")
    return partial(triage.assign, incident_id, by=person, to=to)


def _comment(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.comment, incident_id, by=person, text=form.get("comment", ""))


def _link(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(
        triage.link, incident_id, by=person, url=form.get("link", ""), label=form.get("link_label", "")
    )


def _rate(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.rate, incident_id, by=person, severity=form.get("severity", ""))


def _snooze(incident_id: int, form: QueryDict, person: User) -> Step:
    days = _read_id(form.get("days", "1"))
    if days > _SNOOZE_DAYS_MAXIMUM:
        raise BadTriage(f"{days} days exceed the maximum of {_SNOOZE_DAYS_MAXIMUM}")
    until = timezone.now() + timedelta(days=days) if days else None
    return partial(triage.snooze, incident_id, by=person, until=until)


def _merge(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.merge, incident_id, into=_read_id(form.get("into", "")), by=person)


def _split(incident_id: int, form: QueryDict, person: User) -> Step:
    return partial(triage.split, incident_id, change_ids=_read_ids(form, "selected"), by=person)


def _accept(incident_id: int, form: QueryDict, person: User) -> Step:
    comment, series_ids = form.get("comment", ""), read_selected_series(form)
    return partial(accept_level, incident_id, by=person, comment=comment, series_ids=series_ids)


def _undo(incident_id: int, form: QueryDict, person: User) -> Step:
    event_id = _read_id(form.get("event", ""))
    if not IncidentEvent.objects.filter(pk=event_id, incident_id=incident_id).exists():
        raise UnknownIncident(f"incident {incident_id} has no event {event_id}")
    return partial(undo, event_id, by=person)


ACTIONS: Final[dict[str, Callable[[int, QueryDict, User], Step]]] = {
    "acknowledge": _acknowledge,
    "resolve": _resolve,
    "reopen": _reopen,
    "assign": _assign,
    "comment": _comment,
    "link": _link,
    "rate": _rate,
    "snooze": _snooze,
    "merge": _merge,
    "split": _split,
    "accept": _accept,
    "undo": _undo,
}


def read_selected_series(form: QueryDict) -> list[int] | None:
    """Return the selected series of the form of a new baseline; None for all. Raises BadTriage for none."""
    if form.get("everything") == "yes":
        return None
    series_ids = _read_ids(form, "series")
    if not series_ids:
        raise BadTriage("select at least one series")
    return series_ids


def _read_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _ID_MAXIMUM):
        raise BadTriage(f"{text[:40]!r} is not a valid number")
    return int(text)


def _read_ids(form: QueryDict, name: str) -> list[int]:
    texts = form.getlist(name)
    if len(texts) > _SELECTED_MAXIMUM:
        raise BadTriage(f"{len(texts)} selected rows exceed the maximum of {_SELECTED_MAXIMUM}")
    return [_read_id(text) for text in texts]


def read_selected_incidents(form: QueryDict) -> list[int]:
    """Return the selected incidents. Raises BadTriage for none, too many, or what is not a number."""
    incident_ids = sorted(set(_read_ids(form, "incident")))
    if not incident_ids:
        raise BadTriage("select at least one incident")
    if len(incident_ids) > BULK_MAXIMUM:
        raise BadTriage(f"{len(incident_ids)} incidents exceed the maximum of {BULK_MAXIMUM} at once")
    return incident_ids


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
    return f"{subscription.owner}: {subscription.channel.label}{waiting}"


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


@require_POST
@needs_role(Role.EDITOR)
def triage_selected(request: HttpRequest) -> HttpResponse:
    """Take the same step for each selected incident; a new baseline is shown first and confirmed."""
    person, form = read_person(request), request.POST
    action = form.get("action", "")
    try:
        if action not in BULK_ACTIONS:
            raise BadTriage(f"{action[:40]!r} is not a valid action. Valid: {', '.join(BULK_ACTIONS)}")
        incident_ids = read_selected_incidents(form)
        if action == "accept" and form.get("everything") != "yes":
            return _confirm_accept(request, incident_ids)
        steps = {incident_id: ACTIONS[action](incident_id, form, person) for incident_id in incident_ids}
    except BadTriage as error:
        messages.error(request, f"Nothing was changed: {error}.", extra_tags="bad")
        return HttpResponseRedirect(choose_next(request, "incidents"))
    report = take_bulk_steps(steps)
    wake_up()
    wake_notify()
    _report(request, report, done=describe_action(report.events[0].kind) if report.events else "")
    return HttpResponseRedirect(choose_next(request, "incidents"))


@require_POST
@needs_role(Role.EDITOR)
def undo_selected(request: HttpRequest) -> HttpResponse:
    """Undo one's own action on several incidents."""
    report = undo_bulk(request.POST.get("bulk", "")[:40], by=read_person(request))
    wake_up()
    wake_notify()
    if not report.events and not report.refused:
        messages.error(request, "Nothing was changed: it is already undone.", extra_tags="bad")
    _report(request, report, done="restored")
    return HttpResponseRedirect(choose_next(request, "incidents"))


def list_refused(refused: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield a sentence for each reason: "Not changed: incidents 7 and 9: it is resolved already."."""
    for reason, incident_ids in group_refused(refused).items():
        *others, last = map(str, incident_ids)
        named = f"incidents {', '.join(others)} and {last}" if others else f"incident {last}"
        yield f"Not changed: {named}: {reason}."


def _report(request: HttpRequest, report: BulkReport, *, done: str) -> None:
    """Show how many incidents were changed, and each that was not with the reason."""
    if report.events:
        count = format_count(len(report.events), "incident")
        messages.success(request, f"{count}: {done}.", extra_tags="good")
    for sentence in list_refused(report.refused):
        messages.error(request, sentence, extra_tags="bad")


def _confirm_accept(request: HttpRequest, incident_ids: Sequence[int]) -> HttpResponse:
    """Show what accepting the new levels of these incidents changes."""
    rows = list_incidents_by_id(incident_ids)
    ready = [row for row in rows if row.state != "resolved"]
    impact = preview_accept_impact(*(row.id for row in ready))
    context = {
        "rows": [(row, _describe_outcome(row)) for row in rows],
        "ready_count": len(ready),
        "effects": list(list_accept_effects(impact, incidents=len(ready))),
        "overlaps": [(overlap, describe_overlap(overlap)) for overlap in impact.incidents],
        "subscriptions": list(dict.fromkeys(describe_notified(each) for each in impact.subscriptions)),
        "here": choose_next(request, "incidents"),
    }
    return render(request, "incidents/bulk_baseline.html", context)


def _describe_outcome(row: Incident) -> str:
    if row.state == "resolved":
        return "not possible: resolved already"
    return f"{format_count(row.change_count, 'change')} in {row.series_count} series"
