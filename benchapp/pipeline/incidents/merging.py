"""One event on many hosts is one incident: where three scopes moved in a day, and the same thing changed around them
or the same dimension explains them.

Put the changes of several incidents into one.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet

from benchapp.grammar import parse_filter
from benchapp.models import Change, ChangeState, Incident, IncidentEvent, IncidentState, User
from benchapp.models.filtering import match_series
from benchapp.pipeline.incidents.events import Events, describe_state, write_event


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


# Scopes that are no accident any more.
_LEAST_SCOPES: Final = 3
_TOGETHER: Final = timedelta(days=1)
# Of an incident's changes that the suspect must have come with.
_LEAST_SHARE: Final = 0.5
# What explains a scope, or says where the others of its kind stand, is of that scope alone.
_OF_ONE_SCOPE: Final = ("scope", "host", "pool")

Sign = tuple[str | None, ...]


def join_wide(ids: Iterable[int], events: Events) -> set[int]:
    """Join incidents of several scopes into one with scope "", and return those that hold changes now.

    Only incidents that nobody has touched are joined; one that was opened in the same batch is told of once.
    """
    joined = set()
    for incident in Incident.objects.filter(pk__in=list(ids), is_regression=True).order_by("pk"):
        # It may have been joined a moment ago.
        incident.refresh_from_db(fields=["merged_into", "state"])
        if incident.merged_into_id is None and _is_untouched(incident):
            homes = (_join_alike(incident, sign, events) for sign in _list_signs(incident))
            home = next((home for home in homes if home is not None), None)
            joined.add(_join_explained(incident, events) if home is None else home)
    return {home for home in joined if home is not None}


def _list_signs(incident: Incident) -> list[Sign]:
    """Return by what it may be known as part of a wider event: the likeliest suspect, if it came with most of the
    changes, and what explains most of its cells."""
    signs: list[Sign] = [
        ("suspect", first["name"], first["before"], first["after"])
        for first in incident.suspects[:1]
        if first["share"] >= _LEAST_SHARE
    ]
    about = (one for one in incident.explained_by if one["dimension"] not in _OF_ONE_SCOPE)
    return signs + [("explained", one["dimension"], one["value"]) for one in about]


def _join_alike(incident: Incident, sign: Sign, events: Events) -> int | None:
    alike = _find_alike(incident, sign)
    wide = next((other for other in alike if other.scope == ""), None)
    if wide is None and len({other.scope for other in alike}) < _LEAST_SCOPES:
        return None
    words = "that the same explains" if sign[0] == "explained" else "that moved when the same thing changed"
    return _join(wide, alike, words, events=events)


def _join_explained(incident: Incident, events: Events) -> int | None:
    """Join an incident of too few cells to be explained by itself to a wide one that explains all of them."""
    changes = Change.objects.filter(incident=incident).exclude(state=ChangeState.WITHDRAWN)
    for wide in _find_near(incident).filter(scope=""):
        for _, name, value in (sign for sign in _list_signs(wide) if sign[0] == "explained"):
            condition = match_series(parse_filter(f"{name}:{value}"), "series__")
            if changes.exists() and not changes.exclude(condition).exists():
                return _join(wide, [wide, incident], "that the same explains", events=events)
    return None


def _is_untouched(incident: Incident) -> bool:
    is_open = incident.state == IncidentState.NEW and incident.recovered_at is None
    return is_open and incident.scope != "" and incident.assignee_id is None


def _find_alike(incident: Incident, sign: Sign) -> list[Incident]:
    return [other for other in _find_near(incident) if sign in _list_signs(other)]


def _find_near(incident: Incident) -> QuerySet[Incident]:
    return Incident.objects.filter(
        state=IncidentState.NEW,
        is_regression=True,
        merged_into=None,
        assignee=None,
        recovered_at=None,
        started_at__range=(incident.started_at - _TOGETHER, incident.started_at + _TOGETHER),
    ).order_by("pk")


def _join(wide: Incident | None, alike: Sequence[Incident], words: str, *, events: Events) -> int:
    home = wide or alike[0]
    others = [other for other in alike if other.pk != home.pk]
    join_incidents(home, others, by=None, words=f"joined with {len(others)} others {words}", now=events.now)
    for other in others:
        events.drop(other.pk)
    return home.pk
