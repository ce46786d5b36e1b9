"""Triage of incidents: each step is one transaction and writes one event that can be undone.

A step raises NotPossible if the incident is in another state, as after a concurrent step. Event and notices are
written in the same transaction.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import structlog
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from benchapp.framework.times import format_utc_moment
from benchapp.framework.write.conflicts import lock_incidents, retry_conflicts
from benchapp.incidents.write.incidents import (
    TEXT_MAXIMUM,
    Events,
    describe_state,
    measure_sizes,
    record_events,
    refresh_incidents,
    write_event,
)
from benchapp.incidents.write.merging import merge_incidents
from benchapp.models import (
    UNRESOLVED,
    Change,
    Incident,
    IncidentEvent,
    IncidentState,
    Severity,
    User,
    Verdict,
)
from benchapp.models.incident import LINK_LABEL_MAXIMUM
from benchapp.notices.write.enqueue import enqueue

log = structlog.get_logger(__name__)

LINK_MAXIMUM: Final = 500
_check_url: Final = URLValidator(schemes=("http", "https"))


class UnknownIncident(Exception):
    """The incident, event or change does not exist."""


class NotPossible(Exception):
    """The incident is in another state, which the message names."""


class BadTriage(Exception):
    """Invalid text, link or selection; the message names the problem."""


@transaction.atomic
def acknowledge(incident_id: int, *, by: User | None) -> IncidentEvent:
    """Acknowledge a new incident. Raises UnknownIncident, NotPossible."""
    incident = lock_incident(incident_id)
    before = {"state": incident.state}
    _change_state(incident, (IncidentState.NEW,), state=IncidentState.ACKNOWLEDGED)
    return _write(incident, "acknowledged", by=by, before=before)


@transaction.atomic
def resolve(incident_id: int, *, by: User | None, verdict: str, comment: str = "") -> IncidentEvent:
    """Resolve an incident with a verdict. Raises UnknownIncident, NotPossible, BadTriage."""
    if verdict not in Verdict.values or verdict == Verdict.NONE:
        known = ", ".join(value for value in Verdict.values if value)
        raise BadTriage(f"{verdict!r} is not a valid verdict. Valid: {known}")
    incident = lock_incident(incident_id)
    before = describe_state(incident)
    now = timezone.now()
    _change_state(incident, UNRESOLVED, state=IncidentState.RESOLVED, verdict=verdict, resolved_at=now)
    return _write(incident, "resolved", by=by, text=read_comment(comment, is_required=False), before=before)


@retry_conflicts
@transaction.atomic
def resolve_recovered() -> int:
    """Resolve what recovered BENCHAPP_RECOVERED_QUIET_DAYS ago, without an event since; return the number of incidents.

    An undo is an event, too: the days begin again.
    """
    days, now = settings.RECOVERED_QUIET_DAYS, timezone.now()
    if not days:
        return 0
    lock_incidents()
    since = now - timedelta(days=days)
    events = IncidentEvent.objects.filter(incident=OuterRef("pk"), at__gt=since)
    quiet = Incident.objects.filter(
        ~Exists(events), state__in=UNRESOLVED, merged_into=None, recovered_at__lte=since
    )
    incidents = list(quiet.select_for_update().order_by("pk"))
    for incident in incidents:
        before = describe_state(incident)
        _change_state(incident, UNRESOLVED, state=IncidentState.RESOLVED, resolved_at=now)
        _write(incident, "resolved", by=None, text=f"recovered, and quiet for {days} days", before=before)
    return len(incidents)


@transaction.atomic
def reopen(incident_id: int, *, by: User | None, comment: str = "") -> IncidentEvent:
    """Reopen a resolved incident. Raises UnknownIncident; NotPossible, also for a merged one."""
    incident = lock_incident(incident_id)
    if incident.merged_into_id is not None:
        raise NotPossible(f"it is merged into incident {incident.merged_into_id}: undo the merge there")
    before = describe_state(incident)
    _change_state(
        incident,
        (IncidentState.RESOLVED,),
        state=IncidentState.NEW,
        verdict=Verdict.NONE,
        resolved_at=None,
        recovered_at=None,
        planned_event=None,
    )
    return _write(incident, "reopened", by=by, text=read_comment(comment, is_required=False), before=before)


@transaction.atomic
def assign(incident_id: int, *, by: User | None, to: User | None) -> IncidentEvent:
    """Assign an incident, or remove the assignee. Raises UnknownIncident; BadTriage for a deactivated account."""
    # Before the incident, as the deletion of an account, which unassigns its incidents.
    if to and not User.objects.select_for_update(no_key=True).filter(pk=to.pk, is_active=True).exists():
        raise BadTriage(f"{to.username} is deactivated: choose another assignee")
    incident = lock_incident(incident_id)
    before = {"assignee_id": incident.assignee_id}
    _set(incident, assignee=to)
    text = f"to {to.username}" if to else "removed"
    return _write(incident, "assigned", by=by, text=text, before=before)


@transaction.atomic
def comment(incident_id: int, *, by: User | None, text: str) -> IncidentEvent:
    """Add a comment as plain text. Raises UnknownIncident, BadTriage."""
    stored = read_comment(text, is_required=True)
    incident = lock_incident(incident_id)
    return _write(incident, "commented", by=by, text=stored)


@transaction.atomic
def link(incident_id: int, *, by: User | None, url: str | None, label: str = "") -> IncidentEvent:
    """Set the link to a ticket: its http or https URL and a short label. Raises UnknownIncident, BadTriage.

    url: "" removes the link, None keeps it. label: "" shows the last part of the URL.
    """
    incident = lock_incident(incident_id)
    address = incident.link if url is None else url.strip()
    if address:
        _check_link(address)
    link_label = _read_link_label(label, has_link=bool(address))
    before = {"link": incident.link, "link_label": incident.link_label}
    _set(incident, link=address, link_label=link_label)
    text = f"{link_label}: {address}" if link_label else address
    return _write(incident, "linked", by=by, text=text or "removed", before=before)


@transaction.atomic
def rate(incident_id: int, *, by: User | None, severity: str) -> IncidentEvent:
    """Set the severity, which later changes then do not alter; "" sets it to automatic. Raises as `merge`."""
    if severity and severity not in Severity.values:
        raise BadTriage(f"{severity[:40]!r} is not a valid severity. Valid: {', '.join(Severity.values)}")
    lock_incidents()
    incident = lock_incident(incident_id)
    before = {"severity": incident.severity, "has_manual_severity": incident.has_manual_severity}
    _set(incident, severity=severity or incident.severity, has_manual_severity=bool(severity))
    event = _write(incident, "rated", by=by, text=severity or "automatic", before=before)
    if not severity:
        refresh_incidents([incident_id], Events(timezone.now()))
    return event


@transaction.atomic
def snooze(incident_id: int, *, by: User | None, until: datetime | None) -> IncidentEvent:
    """Suspend notifications of an open incident until a time; None ends the snooze. Raises as `resolve`."""
    if until is not None and until <= timezone.now():
        raise BadTriage(f"{format_utc_moment(until)} is in the past: enter a future time")
    incident = lock_incident(incident_id)
    if incident.state not in UNRESOLVED:
        raise NotPossible(f"it is {incident.state} and sends no notifications")
    before = {"snoozed_until": incident.snoozed_until.isoformat() if incident.snoozed_until else None}
    _set(incident, snoozed_until=until)
    text = f"until {format_utc_moment(until)}" if until else "ended"
    return _write(incident, "snoozed", by=by, text=text, before=before)


@transaction.atomic
def merge(incident_id: int, *, into: int, by: User | None) -> IncidentEvent:
    """Merge all changes of an incident into another open one, and return the event there.

    Raises UnknownIncident, NotPossible, BadTriage.
    """
    if incident_id == into:
        raise BadTriage("an incident cannot be merged into itself")
    lock_incidents()
    other, target = (lock_incident(each) for each in (incident_id, into))
    if other.merged_into_id is not None:
        raise NotPossible(f"it is already merged into incident {other.merged_into_id}")
    if target.state not in UNRESOLVED:
        raise NotPossible(f"incident {into} is {target.state}: reopen it first")
    if other.is_regression != target.is_regression:
        raise BadTriage("regressions and improvements cannot be merged")
    text, now = f"incident {other.pk} merged into this one", timezone.now()
    event = merge_incidents(target, [other], by=by, text=text, now=now)
    _log(event, by)
    refresh_incidents([target.pk], Events(now))
    return event


@transaction.atomic
def split(incident_id: int, *, change_ids: Sequence[int], by: User | None) -> IncidentEvent:
    """Move some changes of an open incident to a new one, named in the event's `before["split_into"]`.

    Raises UnknownIncident, NotPossible; BadTriage for none or all of its changes.
    """
    lock_incidents()
    incident = lock_incident(incident_id)
    if incident.state not in UNRESOLVED:
        raise NotPossible(f"it is {incident.state}: reopen it first")
    selected = list(Change.objects.filter(incident=incident, pk__in=change_ids).select_related("series"))
    if len(selected) != len(set(change_ids)):
        raise UnknownIncident(f"some changes do not belong to incident {incident_id}")
    if not selected or len(selected) == Change.objects.filter(incident=incident).count():
        raise BadTriage("select some of its changes, but not all")
    now = timezone.now()
    fresh = _make_split(incident, selected, now)
    Change.objects.filter(pk__in=[change.pk for change in selected]).update(incident=fresh)
    write_event(fresh, "opened", by=by, text=f"split from incident {incident.pk}", now=now)
    before = {"split_into": fresh.pk, "changes": sorted(change.pk for change in selected)}
    event = write_event(incident, "split", by=by, text=f"into incident {fresh.pk}", before=before, now=now)
    _log(event, by)
    refresh_incidents([incident.pk, fresh.pk], Events(now))
    return event


def lock_incident(incident_id: int) -> Incident:
    """Return an incident, its row locked. Raises UnknownIncident."""
    incident = Incident.objects.select_for_update().filter(pk=incident_id).first()
    if incident is None:
        raise UnknownIncident(f"incident {incident_id} does not exist")
    return incident


def read_comment(text: str, *, is_required: bool) -> str:
    """Return text without surrounding space. Raises BadTriage if it is too long, or empty and required."""
    comment = text.replace("\x00", "\ufffd").strip()
    if is_required and not comment:
        raise BadTriage("the comment is empty")
    if len(comment) > TEXT_MAXIMUM:
        raise BadTriage(f"{len(comment)} characters exceed the maximum of {TEXT_MAXIMUM}")
    return comment


def _check_link(address: str) -> None:
    try:
        _check_url(address)
    except ValidationError as error:
        raise BadTriage("the link must be an http or https URL") from error
    if len(address) > LINK_MAXIMUM:
        raise BadTriage(f"{len(address)} characters exceed the maximum of {LINK_MAXIMUM} for a link")


def _read_link_label(label: str, *, has_link: bool) -> str:
    """Return the label in one line. Raises BadTriage if it is too long, or has no link."""
    text = " ".join(label.replace("\x00", "\ufffd").split())
    if len(text) > LINK_LABEL_MAXIMUM:
        raise BadTriage(
            f"{len(text)} characters exceed the maximum of {LINK_LABEL_MAXIMUM} for a label of a link"
        )
    if text and not has_link:
        raise BadTriage("a label requires a link")
    return text


def _make_split(incident: Incident, selected: Sequence[Change], now: datetime) -> Incident:
    scopes = {change.series.scope for change in selected}
    return Incident.objects.create(
        scope=scopes.pop() if len(scopes) == 1 else "",
        state=incident.state,
        severity=incident.severity,
        is_regression=incident.is_regression,
        started_at=min(change.started_at for change in selected),
        relative=measure_sizes(selected)[0].relative,
        assignee_id=incident.assignee_id,
        opened_at=now,
        updated_at=now,
    )


def _change_state(incident: Incident, allowed: Sequence[IncidentState], **fields: Any) -> None:
    """Change a state if it is one of `allowed`; of two concurrent steps the second raises NotPossible."""
    updated = Incident.objects.filter(pk=incident.pk, state__in=allowed).update(
        **fields, updated_at=timezone.now()
    )
    if not updated:
        raise NotPossible(f"it is {IncidentState(incident.state).label.lower()} already")


def _set(incident: Incident, **fields: Any) -> None:
    Incident.objects.filter(pk=incident.pk).update(**fields, updated_at=timezone.now())


def _write(
    incident: Incident,
    kind: str,
    *,
    by: User | None,
    text: str = "",
    before: dict[str, Any] | None = None,
) -> IncidentEvent:
    event = write_event(incident, kind, by=by, text=text, before=before, now=timezone.now())
    _log(event, by)
    return event


def _log(event: IncidentEvent, by: User | None) -> None:
    log.info(f"incident.{event.kind}", incident=event.incident_id, by=by.username if by else "")


Step = Callable[[], IncidentEvent]


@retry_conflicts
@transaction.atomic
def take_steps(steps: Sequence[Step]) -> tuple[IncidentEvent, ...]:
    """Take all steps or none, put their notices into the outbox, and return their events.

    Raises the error of the first step that fails.
    """
    events = tuple(step() for step in steps)
    record_events(events)
    enqueue([event.pk for event in events])
    return events
