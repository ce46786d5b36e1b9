"""Maintenance windows, expected changes and notes. An edited one is canceled and scheduled again: see its log."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from benchapp.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.models import PlannedEvent, User
from benchapp.pipeline.bad_value import BadValue
from benchapp.pipeline.maintenance.planned_events import (
    cancel_planned_event,
    read_plan,
    schedule_planned_event,
)


def _normalize(values: Values) -> Values:
    plan = asdict(read_plan(**values))
    return {**plan, "kind": str(plan["kind"])}


def _list_stored() -> Sequence[StoredEntry]:
    """Return all events that are not canceled; those that have ended are not exported, but found again."""
    now = timezone.now()
    return [
        StoredEntry(row, {name: getattr(row, name) for name in PLANNED_EVENTS.members}, row.ends_at > now)
        for row in PlannedEvent.objects.filter(canceled_at=None).order_by("from_at", "pk")
    ]


def _create(values: Values, by: User | None, *, incident: int | None = None) -> None:
    given: dict[str, Any] = dict(values)
    schedule_planned_event(given.pop("kind"), given.pop("filter"), by=by, incident=incident, **given)


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    """Cancel the event and schedule one with the new values that mutes the similar changes of the same incident."""
    canceled = cancel_planned_event(stored.row.pk, by=by)
    if canceled.ended_at is not None:
        raise BadValue(
            "",
            f"it was ended early at {canceled.ended_at:%Y-%m-%d %H:%M} UTC; a change would start it again: resume it"
            " on its page first, or undo the change in the file",
        )
    _create(values, by, incident=canceled.incident_id)


def _remove(stored: StoredEntry, by: User | None) -> None:
    cancel_planned_event(stored.row.pk, by=by)


PLANNED_EVENTS: Final = ConfigurationSection(
    name="planned_events",
    noun="planned event",
    members={
        "kind": Member(str, is_required=True),
        "filter": Member(str, default=""),
        "from_at": Member(datetime, is_required=True),
        "to_at": Member(datetime, is_required=True),
        "reason": Member(str, is_required=True),
        "metric": Member(str, default=""),
        "is_regression": Member(bool, is_optional=True),
    },
    identify=lambda values: tuple(
        values[name] for name in ("kind", "filter", "from_at", "metric", "is_regression")
    ),
    title=lambda values: (
        f"{values['kind']}, {values['filter'] or 'all series'}, from {values['from_at']:%Y-%m-%d %H:%M} UTC"
    ),
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
)
