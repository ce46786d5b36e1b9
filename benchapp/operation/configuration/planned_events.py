"""Maintenance windows, expected changes and notes. An edited one is canceled and scheduled again: see its log."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from django.utils import timezone

from benchapp.framework.write.conflicts import BadValue
from benchapp.incidents.write.planned_events import EVENTS
from benchapp.models import PlannedEvent, User
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    StoredEntry,
    Values,
    list_members,
    normalize_entry,
)


def _list_stored() -> Sequence[StoredEntry]:
    """Return all events that are not canceled; those that have ended are not exported, but found again."""
    now = timezone.now()
    return [
        StoredEntry(row, {name: getattr(row, name) for name in PLANNED_EVENTS.members}, row.ends_at > now)
        for row in PlannedEvent.objects.filter(canceled_at=None).order_by("from_at", "pk")
    ]


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    """Cancel the event and schedule one with the new values that mutes the similar changes of the same incident."""
    canceled = EVENTS.cancel(stored.row.pk, by=by)
    if canceled.ended_at is not None:
        raise BadValue(
            "",
            f"it was ended early at {canceled.ended_at:%Y-%m-%d %H:%M} UTC; a change would start it again: resume it"
            " on its page first, or undo the change in the file",
        )
    EVENTS.create(PlannedEvent(**values, incident_id=canceled.incident_id), by=by)


PLANNED_EVENTS: Final = ConfigurationSection(
    name="planned_events",
    noun="planned event",
    members=list_members(PlannedEvent, last=("metric", "is_regression")),
    identify=lambda values: tuple(
        values[name] for name in ("kind", "filter", "from_at", "metric", "is_regression")
    ),
    title=lambda values: (
        f"{values['kind']}, {values['filter'] or 'all series'}, from {values['from_at']:%Y-%m-%d %H:%M} UTC"
    ),
    normalize=partial(normalize_entry, EVENTS),
    list_stored=_list_stored,
    create=lambda values, by: EVENTS.create(PlannedEvent(**values), by=by),
    change=_change,
    remove=lambda stored, by: EVENTS.cancel(stored.row.pk, by=by),
)
