"""What people do with incidents: each step is one transaction, guarded, and leaves an event that can be undone.

A step that comes too late (somebody else did it, the judge resolved it) raises NotPossible and changes nothing.

Steps of triage together with what they tell: the event and its notices are there both or neither.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import structlog
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import transaction
from django.utils import timezone

from benchapp.models import Change, Incident, IncidentEvent, IncidentState, User, Verdict
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.incidents.events import WORDS_MAXIMUM, Events, describe_state, write_event
from benchapp.pipeline.incidents.grouping import lock_incidents
from benchapp.pipeline.incidents.merging import join_incidents
from benchapp.pipeline.incidents.refresh import refresh_incidents
from benchapp.pipeline.notifications.enqueue import enqueue

log = structlog.get_logger(__name__)

LINK_MAXIMUM: Final = 500
_OPEN: Final = (IncidentState.NEW, IncidentState.ACKNOWLEDGED)
_check_url: Final = URLValidator(schemes=("http", "https"))


class UnknownIncident(Exception):
    """An incident, event or change that there is not."""


class NotPossible(Exception):
    """The incident is not in a state for it; the message says in which it is."""


class BadTriage(Exception):
    """Words, a link or a choice that cannot be kept; the message says what is wrong."""


@transaction.atomic
def acknowledge(incident_id: int, *, by: User | None) -> IncidentEvent:
    """Say that somebody looks at a new incident. Raises UnknownIncident, NotPossible."""
    incident = lock_incident(incident_id)
    before = {"state": incident.state}
    _move(incident, (IncidentState.NEW,), state=IncidentState.ACKNOWLEDGED)
    return _tell(incident, "acknowledged", by=by, before=before)


@transaction.atomic
def resolve(incident_id: int, *, by: User | None, verdict: str, words: str = "") -> IncidentEvent:
    """Close an incident with a verdict other than none. Raises UnknownIncident, NotPossible, BadTriage."""
    if verdict not in Verdict.values or verdict == Verdict.NONE:
        known = ", ".join(value for value in Verdict.values if value)
        raise BadTriage(f"{verdict!r} is no verdict; there are: {known}")
    incident = lock_incident(incident_id)
    before = describe_state(incident)
    now = timezone.now()
    _move(incident, _OPEN, state=IncidentState.RESOLVED, verdict=verdict, resolved_at=now)
    return _tell(incident, "resolved", by=by, words=read_comment(words, is_wanted=False), before=before)


@transaction.atomic
def reopen(incident_id: int, *, by: User | None, words: str = "") -> IncidentEvent:
    """Open a resolved incident again. Raises UnknownIncident, NotPossible, also for one that was merged."""
    incident = lock_incident(incident_id)
    if incident.merged_into_id is not None:
        raise NotPossible(f"its changes are in incident {incident.merged_into_id}: undo the merge there")
    before = describe_state(incident)
    _move(
        incident,
        (IncidentState.RESOLVED,),
        state=IncidentState.NEW,
        verdict=Verdict.NONE,
        resolved_at=None,
        recovered_at=None,
    )
    return _tell(incident, "reopened", by=by, words=read_comment(words, is_wanted=False), before=before)


@transaction.atomic
def assign(incident_id: int, *, by: User | None, to: User | None) -> IncidentEvent:
    """Give an incident to somebody, or to nobody. Raises UnknownIncident."""
    incident = lock_incident(incident_id)
    before = {"assignee_id": incident.assignee_id}
    _set(incident, assignee=to)
    words = f"to {to.username}" if to else "to nobody"
    return _tell(incident, "assigned", by=by, words=words, before=before)


@transaction.atomic
def comment(incident_id: int, *, by: User | None, words: str) -> IncidentEvent:
    """Write something down, as plain text. Raises UnknownIncident, BadTriage."""
    said = read_comment(words, is_wanted=True)
    incident = lock_incident(incident_id)
    return _tell(incident, "commented", by=by, words=said)


@transaction.atomic
def link(incident_id: int, *, by: User | None, url: str) -> IncidentEvent:
    """Link a ticket by its http or https address; "" takes the link away. Raises UnknownIncident, BadTriage."""
    address = url.strip()
    if address:
        _check_link(address)
    incident = lock_incident(incident_id)
    before = {"link": incident.link}
    _set(incident, link=address)
    return _tell(incident, "linked", by=by, words=address or "no link", before=before)


@transaction.atomic
def snooze(incident_id: int, *, by: User | None, until: datetime | None) -> IncidentEvent:
    """Tell nobody of an open incident until a moment to come; None wakes it. Raises as `resolve`."""
    if until is not None and until <= timezone.now():
        raise BadTriage(f"{until:%Y-%m-%d %H:%M} UTC is over: choose a moment to come")
    incident = lock_incident(incident_id)
    if incident.state not in _OPEN:
        raise NotPossible(f"it is {incident.state}: nobody is told of it anyway")
    before = {"snoozed_until": incident.snoozed_until.isoformat() if incident.snoozed_until else None}
    _set(incident, snoozed_until=until)
    words = f"until {until:%Y-%m-%d %H:%M} UTC" if until else "no longer"
    return _tell(incident, "snoozed", by=by, words=words, before=before)


@transaction.atomic
def merge(incident_id: int, *, into: int, by: User | None) -> IncidentEvent:
    """Put all changes of an incident into another open one, and return the event there.

    Raises UnknownIncident, NotPossible, BadTriage.
    """
    if incident_id == into:
        raise BadTriage("an incident cannot be merged into itself: name another")
    lock_incidents()
    other, home = (lock_incident(each) for each in (incident_id, into))
    if other.merged_into_id is not None:
        raise NotPossible(f"it was merged into incident {other.merged_into_id} before")
    if home.state not in _OPEN:
        raise NotPossible(f"incident {into} is {home.state}: reopen it first")
    if other.is_regression != home.is_regression:
        raise BadTriage("regressions and improvements are kept apart")
    words, now = f"took in incident {other.pk}", timezone.now()
    event = join_incidents(home, [other], by=by, words=words, now=now)
    _log(event, by)
    refresh_incidents([home.pk], Events(now))
    return event


@transaction.atomic
def split(incident_id: int, *, change_ids: Sequence[int], by: User | None) -> IncidentEvent:
    """Take some changes of an open incident into one of their own; the event says which in `before["split_into"]`.

    Raises UnknownIncident, NotPossible, BadTriage where these are none or all of its changes.
    """
    lock_incidents()
    incident = lock_incident(incident_id)
    if incident.state not in _OPEN:
        raise NotPossible(f"it is {incident.state}: reopen it first")
    taken = list(Change.objects.filter(incident=incident, pk__in=change_ids).select_related("series"))
    if len(taken) != len(set(change_ids)):
        raise UnknownIncident(f"some of these changes are not of incident {incident_id}")
    if not taken or len(taken) == Change.objects.filter(incident=incident).count():
        raise BadTriage("choose some of its changes, and not all")
    now = timezone.now()
    fresh = _make_split(incident, taken, now)
    Change.objects.filter(pk__in=[change.pk for change in taken]).update(incident=fresh)
    write_event(fresh, "opened", by=by, words=f"split from incident {incident.pk}", now=now)
    before = {"split_into": fresh.pk, "changes": sorted(change.pk for change in taken)}
    event = write_event(incident, "split", by=by, words=f"into incident {fresh.pk}", before=before, now=now)
    _log(event, by)
    refresh_incidents([incident.pk, fresh.pk], Events(now))
    return event


def lock_incident(incident_id: int) -> Incident:
    """Return an incident, its row locked. Raises UnknownIncident."""
    incident = Incident.objects.select_for_update().filter(pk=incident_id).first()
    if incident is None:
        raise UnknownIncident(f"there is no incident {incident_id}")
    return incident


def read_comment(text: str, *, is_wanted: bool) -> str:
    """Return words without surrounding space. Raises BadTriage where there are too many, or none and some wanted."""
    words = text.replace("\x00", "\ufffd").strip()
    if is_wanted and not words:
        raise BadTriage("there are no words in it")
    if len(words) > WORDS_MAXIMUM:
        raise BadTriage(f"{len(words)} characters; at most {WORDS_MAXIMUM} are kept")
    return words


def _check_link(address: str) -> None:
    try:
        _check_url(address)
    except ValidationError as error:
        raise BadTriage("a link is an http or https address") from error
    if len(address) > LINK_MAXIMUM:
        raise BadTriage(f"the link has {len(address)} characters; at most {LINK_MAXIMUM} are kept")


def _make_split(incident: Incident, taken: Sequence[Change], now: datetime) -> Incident:
    scopes = {change.series.scope for change in taken}
    return Incident.objects.create(
        scope=scopes.pop() if len(scopes) == 1 else "",
        state=incident.state,
        severity=incident.severity,
        is_regression=incident.is_regression,
        started_at=min(change.started_at for change in taken),
        relative=max((change.relative for change in taken), key=abs),
        assignee_id=incident.assignee_id,
        opened_at=now,
        updated_at=now,
    )


def _move(incident: Incident, allowed: Sequence[IncidentState], **fields: Any) -> None:
    """Change a state by what it was, so that of two who do the same the second is told."""
    moved = Incident.objects.filter(pk=incident.pk, state__in=allowed).update(
        **fields, updated_at=timezone.now()
    )
    if not moved:
        raise NotPossible(f"it is {IncidentState(incident.state).label.lower()} already")


def _set(incident: Incident, **fields: Any) -> None:
    Incident.objects.filter(pk=incident.pk).update(**fields, updated_at=timezone.now())


def _tell(
    incident: Incident,
    kind: str,
    *,
    by: User | None,
    words: str = "",
    before: dict[str, Any] | None = None,
) -> IncidentEvent:
    event = write_event(incident, kind, by=by, words=words, before=before, now=timezone.now())
    _log(event, by)
    return event


def _log(event: IncidentEvent, by: User | None) -> None:
    log.info(f"incident.{event.kind}", incident=event.incident_id, by=by.username if by else "")


Step = Callable[[], IncidentEvent]


@retry_conflicts
@transaction.atomic
def take_steps(steps: Sequence[Step]) -> tuple[IncidentEvent, ...]:
    """Take some steps, all or none, put their notices into the outbox, and return their events.

    Raises what the first step raises that cannot be taken.
    """
    events = tuple(step() for step in steps)
    enqueue([event.pk for event in events])
    return events
