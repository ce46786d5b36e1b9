"""Open and reopen incidents, and write their events; undo and notifications read the events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from benchapp.framework.write.audit import record_write
from benchapp.incidents.write.candidates import Candidate
from benchapp.models import AuditKind, Incident, IncidentEvent, IncidentState, Severity, User, Verdict

TEXT_MAXIMUM: Final = 5000
_COLUMNS: Final = frozenset(field.attname for field in Incident._meta.concrete_fields)


@dataclass(slots=True)
class Events:
    """The events of one batch. now: the server's clock; to_notify: event ids to send, by incident."""

    now: datetime
    to_notify: dict[int, list[int]] = field(default_factory=dict)

    def add(
        self,
        incident: Incident,
        kind: str,
        *,
        text: str = "",
        before: Mapping[str, Any] | None = None,
        is_notified: bool = False,
    ) -> IncidentEvent:
        """Write an automatic event of an incident."""
        event = write_event(incident, kind, by=None, text=text, before=before, now=self.now)
        if is_notified:
            self.to_notify.setdefault(incident.pk, []).append(event.pk)
        return event

    def drop(self, incident_id: int) -> None:
        """Send no notices of an incident that was merged into another in the same batch."""
        self.to_notify.pop(incident_id, None)

    def list_to_notify(self) -> tuple[int, ...]:
        """Return the ids of the events to send, in order."""
        return tuple(sorted(event_id for events in self.to_notify.values() for event_id in events))


def write_event(
    incident: Incident,
    kind: str,
    *,
    by: User | None,
    text: str = "",
    before: Mapping[str, Any] | None = None,
    now: datetime,
) -> IncidentEvent:
    """Write one event of an incident. before: earlier values of the changed fields, for undo."""
    return IncidentEvent.objects.create(
        incident=incident, at=now, by=by, kind=kind, text=text[:TEXT_MAXIMUM], before=dict(before or {})
    )


def record_events(events: Sequence[IncidentEvent]) -> None:
    """Write an audit record for each event of a step that somebody took; call it after all steps."""
    incidents = Incident.objects.in_bulk({event.incident_id for event in events})
    for event in events:
        incident = incidents[event.incident_id]
        fields = {name: getattr(incident, name) for name in event.before if name in _COLUMNS}
        record_write(
            AuditKind.INCIDENT,
            event.kind,
            object_id=incident.pk,
            name=incident.title,
            before={name: event.before[name] for name in fields},
            after={**fields, "text": event.text},
            by=event.by,
        )


def make_incident(
    incident: Incident, significant: Sequence[Candidate], *, events: Events, text: str, is_notified: bool
) -> int:
    """Save a new incident with its first event; `refresh_incidents` writes title and severity."""
    incident.started_at = min(candidate.at for candidate in significant)
    incident.relative = max((candidate.relative for candidate in significant), key=abs)
    incident.severity = Severity.LOW
    incident.opened_at = incident.updated_at = events.now
    incident.save()
    events.add(incident, "opened", text=text, is_notified=is_notified)
    return incident.pk


def reopen_incident(incident: Incident, events: Events, *, text: str) -> None:
    """Reopen an incident that is over but bad now; improvements send no notice."""
    before = describe_state(incident)
    incident.state, incident.verdict = IncidentState.NEW, Verdict.NONE
    incident.resolved_at = incident.recovered_at = incident.planned_event = None
    incident.updated_at = events.now
    incident.save(
        update_fields=["state", "verdict", "resolved_at", "recovered_at", "planned_event", "updated_at"]
    )
    events.add(incident, "reopened", text=text, before=before, is_notified=incident.is_regression)


def describe_state(incident: Incident) -> dict[str, Any]:
    """Return the state fields as stored in an event."""
    return {
        "state": incident.state,
        "verdict": incident.verdict,
        "resolved_at": _write_time(incident.resolved_at),
        "recovered_at": _write_time(incident.recovered_at),
        "merged_into_id": incident.merged_into_id,
        "planned_event_id": incident.planned_event_id,
    }


def _write_time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
