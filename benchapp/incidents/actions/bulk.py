"""Triage of several incidents at once: one transaction, a report of what was not possible, and undo of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from django.db import transaction

from benchapp.framework.write.conflicts import lock_incidents, retry_conflicts
from benchapp.incidents.actions.accepted_levels import lock_rows, preview_accept
from benchapp.incidents.actions.triage import BadTriage, NotPossible, Step, UnknownIncident
from benchapp.incidents.actions.undo import undo
from benchapp.incidents.write.events import record_events
from benchapp.models import Incident, IncidentEvent, User
from benchapp.notices.write.enqueue import enqueue

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
