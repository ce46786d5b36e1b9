"""Maintenance windows, expected changes and notes: the list, one with its activity log, those of a chart."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Final

from django.db.models import Count, Max, Q, TextChoices

from benchapp.models import (
    Change,
    Incident,
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    PlannedEventLogEntry,
    Series,
    name_person,
)
from benchapp.models.planned_event_filtering import match_stored_filters
from benchapp.queries.pagination import Cursor, Page, behind, by_time, cut_page, read_cursor

# Older entries are left out.
LOG_MAXIMUM: Final = 200
_SCOPES_MAXIMUM: Final = 50
_MUTES_MAXIMUM: Final = 20
# Each different filter with other terms than hosts and pools is a query.
MARKS_MAXIMUM: Final = 200


class PlannedEventState(TextChoices):
    """The state of a planned event at a time."""

    ACTIVE = "active", "active"
    UPCOMING = "upcoming", "upcoming"
    PAST = "past", "past"
    CANCELED = "canceled", "canceled"


# Active and upcoming.
CURRENT: Final = (PlannedEventState.ACTIVE, PlannedEventState.UPCOMING)


@dataclass(frozen=True, slots=True)
class PlannedEventRow:
    """One planned event with its state at a time. ends_at: the effective end; names are "" if unknown.

    metric, is_regression: "" and None for all changes. incident_id: whose similar changes it mutes.
    """

    id: int
    kind: PlannedEventKind
    filter: str
    from_at: datetime
    to_at: datetime
    ends_at: datetime
    reason: str
    metric: str
    is_regression: bool | None
    incident_id: int | None
    state: PlannedEventState
    created_by_name: str
    created_at: datetime
    ended_at: datetime | None
    ended_by_name: str
    canceled_at: datetime | None
    canceled_by_name: str

    @property
    def is_note(self) -> bool:
        """Return whether it is only shown in charts."""
        return self.kind == PlannedEventKind.NOTE


@dataclass(frozen=True, slots=True)
class PlannedEventLogRow:
    """One entry of the activity log. by_name: "" for a token without owner; via: the API token, "" for a person."""

    at: datetime
    action: PlannedEventAction
    by_name: str
    via: str

    @property
    def label(self) -> str:
        """Return the text of the action."""
        return str(self.action.label)


@dataclass(frozen=True, slots=True)
class PlannedEventDetail:
    """One planned event with its activity log, oldest first."""

    row: PlannedEventRow
    activity: tuple[PlannedEventLogRow, ...]


def list_planned_events(
    states: Sequence[PlannedEventState],
    *,
    now: datetime,
    kind: PlannedEventKind | None = None,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[PlannedEventRow]:
    """Return a page of events in any of these states, by start, the latest first; one query. Raises BadCursor.

    states: empty for all. kind: as stored, None for all. from_at, to_at: those that overlap this time range.
    """
    cursor = read_cursor(after)
    wanted = reduce(operator.or_, (_match_state(state, now) for state in states), Q()) & _overlaps(
        from_at, to_at
    )
    if kind is not None:
        wanted &= Q(kind=kind)
    rows = (
        PlannedEvent.objects.filter(wanted, behind("from_at", cursor, is_descending=not oldest_first))
        .select_related("created_by", "ended_by", "canceled_by")
        .order_by(*by_time("from_at", oldest_first=oldest_first))[: limit + 1]
    )
    return cut_page(
        [_make_row(row, now) for row in rows], limit, cursor_of=lambda row: Cursor(row.from_at, row.id)
    )


def count_planned_events(
    *, now: datetime, kind: PlannedEventKind | None = None
) -> dict[PlannedEventState, int]:
    """Return the number of events by state; one query."""
    found = PlannedEvent.objects.filter(**({} if kind is None else {"kind": kind}))
    counts = found.aggregate(
        **{state.value: Count("pk", filter=_match_state(state, now)) for state in PlannedEventState}
    )
    return {state: counts[state.value] for state in PlannedEventState}


def read_planned_event(planned_event_id: int, *, now: datetime) -> PlannedEventDetail | None:
    """Return one planned event or None; two queries."""
    people = ("created_by", "ended_by", "canceled_by")
    found = PlannedEvent.objects.filter(pk=planned_event_id).select_related(*people).first()
    if found is None:
        return None
    entries = PlannedEventLogEntry.objects.filter(planned_event=found).order_by("at", "id")
    rows = entries.values_list("at", "action", "by__username", "via")[:LOG_MAXIMUM]
    return PlannedEventDetail(
        row=_make_row(found, now),
        activity=tuple(
            PlannedEventLogRow(at, PlannedEventAction(action), name_person(name), via)
            for at, action, name, via in rows
        ),
    )


@dataclass(frozen=True, slots=True)
class SimilarChanges:
    """What the changes of an incident have in common. scopes: at most 50; metric: "" for several."""

    started_at: datetime
    is_regression: bool
    scopes: tuple[str, ...]
    metric: str


def read_similar_changes(incident_id: int) -> SimilarChanges | None:
    """Return what the changes of an incident have in common; None if it does not exist. Three queries."""
    incident = Incident.objects.filter(pk=incident_id).first()
    if incident is None:
        return None
    changes = Change.objects.filter(incident_id=incident_id)
    scopes = changes.order_by("series__scope").values_list("series__scope", flat=True).distinct()
    metrics = list(changes.order_by("metric").values_list("metric", flat=True).distinct()[:2])
    return SimilarChanges(
        started_at=incident.started_at,
        is_regression=incident.is_regression,
        scopes=tuple(scopes[:_SCOPES_MAXIMUM]),
        metric=metrics[0] if len(metrics) == 1 else "",
    )


def list_mutes(incident_id: int, *, muted_by: int | None, now: datetime) -> tuple[PlannedEventRow, ...]:
    """Return the expected changes made from an incident, and the one that muted it, newest first; one query."""
    rows = PlannedEvent.objects.filter(Q(incident_id=incident_id) | Q(pk=muted_by))
    found = rows.select_related("created_by", "ended_by", "canceled_by").order_by("-from_at", "-id")
    return tuple(_make_row(row, now) for row in found[:_MUTES_MAXIMUM])


@dataclass(frozen=True, slots=True)
class PlannedMark:
    """A planned event of a chart. ends_at: the effective end, exclusive; that of a note of one time is its start.

    series_ids: of the chart's series, those that its filter matches, ascending.
    """

    id: int
    kind: PlannedEventKind
    reason: str
    filter: str
    from_at: datetime
    ends_at: datetime
    series_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedMarks:
    """Planned events of a chart, latest start first. left_out: older ones of the time range, of whatever series."""

    items: tuple[PlannedMark, ...] = ()
    left_out: int = 0


def read_planned_marks(
    series_ids: Sequence[int], *, from_at: datetime | None, to_at: datetime | None
) -> PlannedMarks:
    """Return the planned events of a time range whose filters match any of these series, without canceled ones.

    from_at inclusive, to_at exclusive; None for all, also upcoming ones. Of the newest 200 of the range.
    One query without events; with them those of `match_stored_filters`, and one more for more than 200.
    """
    if not series_ids:
        return PlannedMarks()
    found = PlannedEvent.objects.filter(_overlaps(from_at, to_at), canceled_at=None)
    events = list(found.order_by("-from_at", "-id")[: MARKS_MAXIMUM + 1])
    left_out = found.count() - MARKS_MAXIMUM if len(events) > MARKS_MAXIMUM else 0
    events = events[:MARKS_MAXIMUM]
    chosen = Series.objects.filter(pk__in=series_ids)
    matched = match_stored_filters((event.filter for event in events), chosen)
    return PlannedMarks(
        tuple(_make_mark(event, ids) for event in events if (ids := matched[event.filter])), left_out
    )


def read_planned_version() -> str:
    """Return text that changes with each action on a planned event, which its activity log has; one query."""
    return str(PlannedEventLogEntry.objects.aggregate(newest=Max("id"))["newest"] or 0)


def _make_mark(event: PlannedEvent, series_ids: Sequence[int]) -> PlannedMark:
    return PlannedMark(
        id=event.pk,
        kind=PlannedEventKind(event.kind),
        reason=event.reason,
        filter=event.filter,
        from_at=event.from_at,
        ends_at=event.ends_at,
        series_ids=tuple(sorted(series_ids)),
    )


def _match_state(state: PlannedEventState, now: datetime) -> Q:
    is_canceled = Q(canceled_at__isnull=False)
    has_ended = Q(to_at__lte=now) | Q(ended_at__lte=now)
    if state == PlannedEventState.CANCELED:
        return is_canceled
    if state == PlannedEventState.PAST:
        return ~is_canceled & has_ended
    begins = Q(from_at__gt=now) if state == PlannedEventState.UPCOMING else Q(from_at__lte=now)
    return Q(Q(ended_at__isnull=True) | Q(ended_at__gt=now), begins, canceled_at__isnull=True, to_at__gt=now)


def _overlaps(from_at: datetime | None, to_at: datetime | None) -> Q:
    """Return the condition for events of a time range; None is open."""
    overlaps = Q() if to_at is None else Q(from_at__lt=to_at)
    if from_at is None:
        return overlaps
    # The end of a note of one time is its start.
    lasts = Q(to_at__gt=from_at) & (Q(ended_at=None) | Q(ended_at__gt=from_at))
    return overlaps & (lasts | Q(from_at__gte=from_at))


def _find_state(planned_event: PlannedEvent, now: datetime) -> PlannedEventState:
    if planned_event.canceled_at is not None:
        return PlannedEventState.CANCELED
    if planned_event.ends_at <= now:
        return PlannedEventState.PAST
    return PlannedEventState.UPCOMING if planned_event.from_at > now else PlannedEventState.ACTIVE


def _make_row(planned_event: PlannedEvent, now: datetime) -> PlannedEventRow:
    return PlannedEventRow(
        id=planned_event.pk,
        kind=PlannedEventKind(planned_event.kind),
        filter=planned_event.filter,
        from_at=planned_event.from_at,
        to_at=planned_event.to_at,
        ends_at=planned_event.ends_at,
        reason=planned_event.reason,
        metric=planned_event.metric,
        is_regression=planned_event.is_regression,
        incident_id=planned_event.incident_id,
        state=_find_state(planned_event, now),
        created_by_name=name_person(planned_event.created_by),
        created_at=planned_event.created_at,
        ended_at=planned_event.ended_at,
        ended_by_name=name_person(planned_event.ended_by),
        canceled_at=planned_event.canceled_at,
        canceled_by_name=name_person(planned_event.canceled_by),
    )
