"""Triage the selected incidents of the inbox at once, and undo it."""

from collections.abc import Iterator, Sequence

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.http import require_POST

from benchapp.framework.pages.access import choose_next, needs_role, read_person
from benchapp.framework.pages.value_texts import format_count
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions.accept_impact import preview_accept_impact
from benchapp.incidents.actions.bulk import (
    BULK_ACTIONS,
    BulkReport,
    group_refused,
    take_bulk_steps,
    undo_bulk,
)
from benchapp.incidents.actions.triage import BadTriage
from benchapp.incidents.pages.actions import ACTIONS, read_selected_incidents
from benchapp.incidents.pages.baseline import describe_notified, describe_overlap, list_accept_effects
from benchapp.incidents.pages.texts import describe_action
from benchapp.incidents.read.incidents import list_incidents_by_id
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.models import Role


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


def _describe_outcome(row: IncidentRow) -> str:
    if row.state == "resolved":
        return "not possible: resolved already"
    return f"{format_count(row.change_count, 'change')} in {row.series_count} series"
