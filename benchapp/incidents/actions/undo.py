"""Triage of several incidents at once: one transaction, a report of what was not possible; undo of one and of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import uuid4

import structlog
from django.db import transaction
from django.utils import timezone

from benchapp.framework.write.conflicts import lock_incidents, retry_conflicts
from benchapp.incidents.actions.baselines import lock_rows, preview_accept, restore_baselines
from benchapp.incidents.actions.triage import BadTriage, NotPossible, Step, UnknownIncident, lock_incident
from benchapp.incidents.write.incidents import Events, record_events, refresh_incidents, write_event
from benchapp.models import Change, Incident, IncidentEvent, IncidentState, User
from benchapp.notices.write.enqueue import enqueue

log = structlog.get_logger(__name__)

UNDOABLE: Final = frozenset(
    {
        "acknowledged",
        "resolved",
        "reopened",
        "assigned",
        "linked",
        "rated",
        "snoozed",
        "merged",
        "split",
        "accepted",
    }
)
_TIMES: Final = ("resolved_at", "recovered_at", "snoozed_until")
_FIELDS: Final = (
    *(
        "state",
        "verdict",
        "assignee_id",
        "link",
        "link_label",
        "scope",
        "severity",
        "has_manual_severity",
        "merged_into_id",
        "planned_event_id",
        "course",
    ),
    *_TIMES,
)


@transaction.atomic
def undo(event_id: int, *, by: User | None) -> IncidentEvent:
    """Restore what an event changed, and return the event of the undo.

    Raises UnknownIncident; NotPossible if it is undone already, cannot be undone, or the same fields changed since.
    """
    event = IncidentEvent.objects.select_related("incident").filter(pk=event_id).first()
    if event is None:
        raise UnknownIncident(f"event {event_id} does not exist")
    baselines = [(row[0], row[1], row[2]) for row in event.before.get("baselines", ())]
    # Series before incidents, in the lock order of detection, to avoid deadlocks.
    lock_rows({series_id for series_id, _, _ in baselines})
    lock_incidents()
    incident = lock_incident(event.incident_id)
    _check(event)
    now = timezone.now()
    if not IncidentEvent.objects.filter(pk=event_id, undone_at=None).update(undone_at=now):
        raise NotPossible("it is already undone")
    _restore(incident, event.before, now)
    touched = _restore_changes(incident, event.before, now)
    restore_baselines(baselines)
    log.info("incident.undone", incident=incident.pk, undone=event_id, by=by.username if by else "")
    undone = write_event(incident, "undone", by=by, text=event.kind, now=now)
    if touched:
        refresh_incidents({incident.pk, *touched}, Events(now))
    return undone


def _check(event: IncidentEvent) -> None:
    if event.kind not in UNDOABLE or not event.before:
        raise NotPossible(
            f"{event.kind} cannot be undone"
            + (": undo it in the other incident" if event.kind == "merged" else "")
        )
    later = IncidentEvent.objects.filter(incident=event.incident, pk__gt=event.pk, undone_at=None)
    for other in later.order_by("pk"):
        if event.before.keys() & other.before.keys() & {*_FIELDS, "changes_from", "baselines"}:
            raise NotPossible(f"it was {other.kind} since: undo that first")


def _restore(incident: Incident, before: dict[str, Any], now: datetime) -> None:
    fields = {name: _read(name, before[name]) for name in _FIELDS if name in before}
    assignee_id = fields.get("assignee_id")
    if assignee_id and not User.objects.filter(pk=assignee_id, is_active=True).exists():
        # Deactivated or deleted since.
        fields["assignee_id"] = None
    Incident.objects.filter(pk=incident.pk).update(**fields, updated_at=now)


def _read(name: str, value: Any) -> Any:
    return datetime.fromisoformat(value) if name in _TIMES and value else value


def _restore_changes(incident: Incident, before: dict[str, Any], now: datetime) -> set[int]:
    """Return changes to their earlier incidents; return the ids of these."""
    for other_id, change_ids in before.get("changes_from", {}).items():
        Change.objects.filter(pk__in=change_ids, incident=incident).update(incident_id=int(other_id))
    closed = before.get("closed", {})
    for other_id, fields in closed.items():
        other = lock_incident(int(other_id))
        _restore(other, fields, now)
        write_event(other, "undone", by=None, text=f"no longer merged into incident {incident.pk}", now=now)
    return {int(other_id) for other_id in closed} | _rejoin(incident, before, now)


def _rejoin(incident: Incident, before: dict[str, Any], now: datetime) -> set[int]:
    """Merge a split incident back into this one."""
    if "split_into" not in before:
        return set()
    fresh = lock_incident(before["split_into"])
    Change.objects.filter(incident=fresh).update(incident=incident)
    Incident.objects.filter(pk=fresh.pk).update(
        state=IncidentState.RESOLVED, merged_into=incident, resolved_at=now, updated_at=now, change_count=0
    )
    write_event(fresh, "undone", by=None, text=f"merged back into incident {incident.pk}", now=now)
    return {incident.pk}


# As many as the inbox shows on one page.
BULK_MAXIMUM: Final = 200
BULK_ACTIONS: Final = ("acknowledge", "assign", "resolve", "accept", "reopen")


@dataclass(frozen=True, slots=True)
class BulkReport:
    """Events of the steps taken, and (incident, reason) of those that were not possible, both by incident.

    bulk: by which `undo_bulk` finds the events; "" without events, and of an undo.
    """

    events: tuple[IncidentEvent, ...]
    refused: tuple[tuple[int, str], ...]
    bulk: str = ""


@retry_conflicts
@transaction.atomic
def take_bulk_steps(steps: Mapping[int, Step]) -> BulkReport:
    """Take one step for each incident, by id, and put their notices into the outbox.

    A step that is not possible changes nothing and is reported; the others are taken, in one transaction. Their events
    have a common `before["bulk"]`, by which `undo_bulk` finds them. Other errors undo everything.
    """
    _lock(steps)
    order = Incident.objects.filter(pk__in=steps).order_by("started_at", "pk").values_list("pk", flat=True)
    missing = [(incident_id, "it does not exist") for incident_id in steps.keys() - set(order)]
    report = _take({incident_id: steps[incident_id] for incident_id in order})
    bulk = uuid4().hex
    for event in report.events:
        event.before = {**event.before, "bulk": bulk}
    IncidentEvent.objects.bulk_update(report.events, ["before"])
    return BulkReport(
        report.events, tuple(sorted((*report.refused, *missing))), bulk if report.events else ""
    )


@retry_conflicts
@transaction.atomic
def undo_bulk(bulk: str, *, by: User | None) -> BulkReport:
    """Undo the events of one bulk action of a person, newest first; reports those that cannot be undone.

    by: None for actions of API tokens.
    """
    events = IncidentEvent.objects.filter(before__bulk=bulk, by=by, undone_at=None).order_by("-pk")
    ids = {event.incident_id: event.pk for event in events}
    _lock(ids)
    return _take({incident_id: partial(undo, event_id, by=by) for incident_id, event_id in ids.items()})


def _lock(incident_ids: Mapping[int, object]) -> None:
    """Lock series, incidents and their rows in the order of all writers, to avoid deadlocks."""
    lock_rows({level.series_id for level in preview_accept(*incident_ids)})
    lock_incidents()
    list(Incident.objects.select_for_update().filter(pk__in=incident_ids).order_by("pk").values_list("pk"))


def _take(steps: Mapping[int, Step]) -> BulkReport:
    events: list[IncidentEvent] = []
    refused: list[tuple[int, str]] = []
    for incident_id, step in steps.items():
        try:
            with transaction.atomic():
                events.append(step())
        except (NotPossible, BadTriage, UnknownIncident) as error:
            refused.append((incident_id, str(error)))
    record_events(events)
    enqueue([event.pk for event in events])
    return BulkReport(tuple(sorted(events, key=lambda event: event.incident_id)), tuple(sorted(refused)))


def group_refused(refused: Sequence[tuple[int, str]]) -> dict[str, list[int]]:
    """Return the incidents of each reason, by reason in the order of the first incident."""
    found: dict[str, list[int]] = {}
    for incident_id, reason in refused:
        found.setdefault(reason, []).append(incident_id)
    return found
