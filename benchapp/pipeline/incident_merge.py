"""Put the changes of several incidents into one."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from benchapp.models import Change, Incident, IncidentEvent, IncidentState, User
from benchapp.pipeline.incident_events import describe_state, write_event


def join_incidents(
    home: Incident, others: Sequence[Incident], *, by: User | None, words: str, now: datetime
) -> IncidentEvent:
    """Move all changes of the others to `home`, close them, and return the event of `home`, which undo goes by.

    The description of `home` is left to `refresh_incidents`. Call it behind `lock_incidents`.
    """
    ids = [other.pk for other in others]
    moved: dict[str, list[int]] = defaultdict(list)
    for change_id, incident_id in Change.objects.filter(incident_id__in=ids).values_list("id", "incident_id"):
        moved[str(incident_id)].append(change_id)
    Change.objects.filter(incident_id__in=ids).update(incident=home)
    before = {
        "scope": home.scope,
        "moved": dict(moved),
        "closed": {str(other.pk): describe_state(other) for other in others},
    }
    for other in others:
        _close(other, home, by=by, now=now)
    if any(other.scope != home.scope for other in others):
        home.scope = ""
    home.updated_at = now
    home.save(update_fields=["scope", "updated_at"])
    return write_event(home, "merged", by=by, words=words, before=before, now=now)


def _close(other: Incident, home: Incident, *, by: User | None, now: datetime) -> None:
    other.state, other.merged_into = IncidentState.RESOLVED, home
    other.resolved_at = other.updated_at = now
    other.change_count = 0
    other.save(update_fields=["state", "merged_into", "resolved_at", "updated_at", "change_count"])
    # Taken back with the event of its new home; so it keeps nothing to go back to.
    write_event(other, "merged", by=by, words=f"joined into incident {home.pk}", now=now)
