"""Schedule, end and cancel maintenance windows, expected changes and notes; end and cancel can be undone."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db.models import Q
from django.utils import timezone

from benchapp.framework.write.bad_value import BadValue
from benchapp.framework.write.list_entries import (
    EntryList,
    NotInThisState,
    read_entry_reason,
    read_series_filter,
)
from benchapp.models import (
    METRIC_FIELDS,
    AuditKind,
    Incident,
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    Series,
    User,
)
from benchapp.models.filtering import match_series
from benchapp.models.planned_event_filtering import read_stored_filter

# A host that is out longer is retired; a permanent new level is accepted as the baseline.
SPAN_MAXIMUM: Final = timedelta(days=366)
AHEAD_MAXIMUM: Final = timedelta(days=2 * 366)
# Detection evaluates each different filter for each batch of series.
OPEN_MAXIMUM: Final = 500
_FIRST_AT: Final = datetime(1980, 1, 1, tzinfo=UTC)
_NOUNS: Final[Mapping[str, str]] = {
    PlannedEventKind.MAINTENANCE: "maintenance",
    PlannedEventKind.NOTE: "a note",
}


class PlannedEventList(EntryList[PlannedEvent]):
    """Maintenance windows, expected changes and notes."""

    model = PlannedEvent
    kind = AuditKind.PLANNED_EVENT
    noun = "planned event"
    creation = PlannedEventAction.SCHEDULED.value

    def check(self, entry: PlannedEvent) -> None:
        """Write filter, end and reason in their canonical form: a note without an end is of one time.

        Raises BadValue.
        """
        kind = entry.kind
        if kind not in PlannedEventKind.values:
            raise BadValue("kind", f"choose one of {', '.join(PlannedEventKind.values)}")
        entry.filter = read_series_filter(entry.filter)
        if entry.metric and entry.metric not in METRIC_FIELDS:
            raise BadValue("metric", f"choose one of {', '.join(METRIC_FIELDS)}")
        if kind in _NOUNS and entry.metric:
            raise BadValue("metric", f"{_NOUNS[kind]} is of all metrics: choose an expected change")
        if kind in _NOUNS and entry.is_regression is not None:
            raise BadValue("is_regression", f"{_NOUNS[kind]} is of all changes: choose an expected change")
        entry.to_at = _read_end(entry.from_at, entry.to_at, is_note=kind == PlannedEventKind.NOTE)
        entry.reason = read_entry_reason(entry.reason)
        if (incident := entry.incident_id) and not Incident.objects.filter(pk=incident).exists():
            raise BadValue("incident", f"incident {incident} does not exist")

    def refuse_more(self, entry: PlannedEvent) -> None:
        """Raise BadValue if there are too many active and upcoming events for one more."""
        now = timezone.now()
        if entry.ends_at <= now:
            return
        open_events = PlannedEvent.objects.filter(
            Q(ended_at__isnull=True) | Q(ended_at__gt=now), canceled_at__isnull=True, to_at__gt=now
        )
        if open_events.count() >= OPEN_MAXIMUM:
            text = (
                f"the limit of {OPEN_MAXIMUM} active and upcoming events is reached: end or cancel some first"
            )
            raise BadValue("", text)

    def apply(self, entry: PlannedEvent) -> None:
        """Mark series with runs in a maintenance window for detection; rows are locked in the order of ids.

        Up to the planned end: runs after an early end count again.
        """
        if entry.kind != PlannedEventKind.MAINTENANCE:
            return
        in_period = Series.objects.filter(last_at__gte=entry.from_at, first_at__lt=entry.to_at)
        filter = read_stored_filter(entry.filter)
        affected = list(in_period.filter(match_series(filter)).values_list("pk", flat=True)) if filter else []
        list(Series.objects.select_for_update().filter(pk__in=affected).order_by("pk").values_list("pk"))
        Series.objects.filter(pk__in=affected).update(judging_is_due=True)


def _read_end(from_at: datetime, to_at: datetime | None, *, is_note: bool) -> datetime:
    """Return the end of a period. Raises BadValue."""
    if from_at < _FIRST_AT:
        raise BadValue("from_at", f"the start is in {from_at.year}: nothing is stored from before 1980")
    if to_at is None:
        if not is_note:
            raise BadValue("to_at", "an end is required")
        to_at = from_at
    if to_at < from_at or (to_at == from_at and not is_note):
        raise BadValue("to_at", "the end is not after the start")
    if to_at - from_at > SPAN_MAXIMUM:
        raise BadValue("to_at", f"the period is longer than {SPAN_MAXIMUM.days} days")
    if to_at > timezone.now() + AHEAD_MAXIMUM:
        raise BadValue("to_at", "the end is more than two years ahead")
    return to_at


EVENTS: Final = PlannedEventList()
schedule_planned_event = EVENTS.create
cancel_planned_event, restore_planned_event = EVENTS.cancel, EVENTS.restore


def end_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """End an active event before its planned end and return it; later runs count again.

    Raises UnknownEntry, or NotInThisState if it has not started or has ended.
    """

    def find_changes(planned_event: PlannedEvent, now: datetime) -> Mapping[str, Any]:
        if planned_event.canceled_at is not None or planned_event.ends_at <= now:
            raise NotInThisState("it has already ended")
        if planned_event.from_at >= now:
            raise NotInThisState("it has not started: cancel it instead")
        return {"ended_at": now, "ended_by": by}

    return EVENTS.change(planned_event_id, "ended", find_changes, by=by, via=via)


def resume_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """Undo an early end and return the event. Raises UnknownEntry, or NotInThisState if there was none."""

    def find_changes(planned_event: PlannedEvent, now: datetime) -> Mapping[str, Any]:
        if planned_event.canceled_at is not None or planned_event.ended_at is None:
            raise NotInThisState("it was not ended early")
        return {"ended_at": None, "ended_by": None}

    return EVENTS.change(planned_event_id, "resumed", find_changes, by=by, via=via)
