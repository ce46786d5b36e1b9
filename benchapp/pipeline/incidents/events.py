"""Open incidents and say what happens to them: each transition leaves one event, which undo and notices read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from benchapp.models import Incident, IncidentEvent, IncidentState, Severity, User, Verdict
from benchapp.pipeline.incidents.candidates import Candidate

WORDS_MAXIMUM: Final = 5000


@dataclass(slots=True)
class Events:
    """The events of one batch. now: the server's clock; told: those that somebody may want to hear of."""

    now: datetime
    told: dict[int, list[int]] = field(default_factory=dict)

    def add(
        self,
        incident: Incident,
        kind: str,
        *,
        words: str = "",
        before: Mapping[str, Any] | None = None,
        is_told: bool = False,
    ) -> IncidentEvent:
        """Write what the judge did to an incident."""
        event = write_event(incident, kind, by=None, words=words, before=before, now=self.now)
        if is_told:
            self.told.setdefault(incident.pk, []).append(event.pk)
        return event

    def drop(self, incident_id: int) -> None:
        """Tell nobody of an incident that was joined to another in the same batch."""
        self.told.pop(incident_id, None)

    def list_told(self) -> tuple[int, ...]:
        """Return the events to be told of, in their order."""
        return tuple(sorted(event_id for events in self.told.values() for event_id in events))


def write_event(
    incident: Incident,
    kind: str,
    *,
    by: User | None,
    words: str = "",
    before: Mapping[str, Any] | None = None,
    now: datetime,
) -> IncidentEvent:
    """Write one line of an incident's timeline; before: the fields that it changed, as they were."""
    return IncidentEvent.objects.create(
        incident=incident, at=now, by=by, kind=kind, words=words[:WORDS_MAXIMUM], before=dict(before or {})
    )


def make_incident(
    incident: Incident, believed: Sequence[Candidate], *, events: Events, words: str, is_told: bool
) -> int:
    """Save a new incident with its first event; its description is written by `refresh_incidents`."""
    incident.started_at = min(candidate.at for candidate in believed)
    incident.relative = max((candidate.relative for candidate in believed), key=abs)
    incident.severity = Severity.LOW
    incident.opened_at = incident.updated_at = events.now
    incident.save()
    events.add(incident, "opened", words=words, is_told=is_told)
    return incident.pk


def reopen_incident(incident: Incident, events: Events, *, words: str, is_told: bool = True) -> None:
    """Open an incident that is over again, by the judge; that of improvements tells nobody."""
    before = describe_state(incident)
    incident.state, incident.verdict = IncidentState.NEW, Verdict.NONE
    incident.resolved_at = incident.recovered_at = None
    incident.updated_at = events.now
    incident.save(update_fields=["state", "verdict", "resolved_at", "recovered_at", "updated_at"])
    events.add(incident, "reopened", words=words, before=before, is_told=is_told and incident.is_regression)


def describe_state(incident: Incident) -> dict[str, Any]:
    """Return the fields of a state as an event keeps them."""
    return {
        "state": incident.state,
        "verdict": incident.verdict,
        "resolved_at": _write_time(incident.resolved_at),
        "recovered_at": _write_time(incident.recovered_at),
        "merged_into_id": incident.merged_into_id,
    }


def _write_time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None
