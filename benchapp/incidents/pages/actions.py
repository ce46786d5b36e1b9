"""Buttons of incidents: each posts one triage step and redirects back."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from benchapp.framework.pages.access import choose_next, needs_role, read_person
from benchapp.framework.queue import wake_notify, wake_up
from benchapp.incidents.actions import triage
from benchapp.incidents.actions.accepted_levels import accept_level
from benchapp.incidents.actions.bulk import BULK_MAXIMUM
from benchapp.incidents.actions.triage import BadTriage, NotPossible, Step, UnknownIncident, take_steps
from benchapp.incidents.actions.undo import undo
from benchapp.models import IncidentEvent, Role, User

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
