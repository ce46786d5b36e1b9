"""One event on many hosts is one incident: where three scopes moved in a day and the same thing changed around them."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from benchapp.models import Incident, IncidentState
from benchapp.pipeline.incident_events import Events
from benchapp.pipeline.incident_merge import join_incidents

# Scopes that are no accident any more.
_LEAST_SCOPES: Final = 3
_TOGETHER: Final = timedelta(days=1)
# Of an incident's changes that the suspect must have come with.
_LEAST_SHARE: Final = 0.5

Sign = tuple[str, str | None, str | None]


def join_wide(ids: Iterable[int], events: Events) -> set[int]:
    """Join incidents of several scopes into one with scope "", and return those that hold changes now.

    Only incidents that nobody has touched are joined; one that was opened in the same batch is told of once.
    """
    joined = set()
    for incident in Incident.objects.filter(pk__in=list(ids), is_regression=True).order_by("pk"):
        sign = _read_sign(incident)
        if sign is None or not _is_untouched(incident):
            continue
        alike = _find_alike(incident, sign)
        wide = next((other for other in alike if other.scope == ""), None)
        if wide is None and len({other.scope for other in alike}) < _LEAST_SCOPES:
            continue
        joined.add(_join(wide, alike, events))
    return joined


def _is_untouched(incident: Incident) -> bool:
    is_open = incident.state == IncidentState.NEW and incident.recovered_at is None
    return is_open and incident.scope != "" and incident.assignee_id is None


def _read_sign(incident: Incident) -> Sign | None:
    """Return the likeliest suspect, if it came with most of the changes."""
    suspects: list[dict[str, Any]] = incident.suspects
    if not suspects or suspects[0]["share"] < _LEAST_SHARE:
        return None
    first = suspects[0]
    return first["name"], first["before"], first["after"]


def _find_alike(incident: Incident, sign: Sign) -> list[Incident]:
    incident.refresh_from_db(fields=["merged_into", "state"])
    if incident.merged_into_id is not None:
        return []
    near = Incident.objects.filter(
        state=IncidentState.NEW,
        is_regression=True,
        merged_into=None,
        assignee=None,
        recovered_at=None,
        started_at__range=(incident.started_at - _TOGETHER, incident.started_at + _TOGETHER),
    ).order_by("pk")
    return [other for other in near if _read_sign(other) == sign]


def _join(wide: Incident | None, alike: Sequence[Incident], events: Events) -> int:
    home = wide or alike[0]
    others = [other for other in alike if other.pk != home.pk]
    words = f"joined with {len(others)} others that moved when the same thing changed"
    join_incidents(home, others, by=None, words=words, now=events.now)
    for other in others:
        events.drop(other.pk)
    return home.pk
