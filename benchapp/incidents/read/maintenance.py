"""Maintenance windows, expected changes and notes: the list, one, those of a chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Max, Q

from benchapp.framework.read.pagination import Page, read_page_by_time
from benchapp.models import (
    Change,
    Incident,
    PlannedEvent,
    PlannedEventKind,
    PlannedEventLogEntry,
    PlannedEventState,
    Series,
)
from benchapp.models.coverage import match_stored_filters
from benchapp.models.planned_event import PlannedEventQuerySet

_SCOPES_MAXIMUM: Final = 50
_MUTES_MAXIMUM: Final = 20
# Each different filter with other terms than hosts and pools is a query.
MARKS_MAXIMUM: Final = 200


# Active and upcoming.
CURRENT: Final = (PlannedEventState.ACTIVE, PlannedEventState.UPCOMING)


def list_planned_events(
    states: Sequence[str],
    *,
    now: datetime,
    kind: str | None = None,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
    oldest_first: bool = False,
) -> Page[PlannedEvent]:
    """Return a page of events in any of these states, by start, the latest first; one query. Raises BadCursor.

    states: empty for all. kind: as stored, None for all. from_at, to_at: those that overlap this time range.
    """
    rows = _select_events(now).filter(_overlaps(from_at, to_at))
    if states:
        rows = rows.filter(Q(state__in=states))
    if kind is not None:
        rows = rows.filter(kind=kind)
    return read_page_by_time(rows, "from_at", after=after, limit=limit, oldest_first=oldest_first)


def count_planned_events(*, now: datetime, kind: str | None = None) -> dict[str, int]:
    """Return the number of events by state; one query."""
    rows = PlannedEvent.objects.filter(**({} if kind is None else {"kind": kind})).with_state(now)
    states = PlannedEventState.values
    return rows.aggregate(**{state: Count("pk", filter=Q(state=state)) for state in states})


def read_planned_event(planned_event_id: int, *, now: datetime) -> PlannedEvent | None:
    """Return one planned event or None; one query."""
    return _select_events(now).filter(pk=planned_event_id).first()


def _select_events(now: datetime) -> PlannedEventQuerySet:
    return PlannedEvent.objects.with_state(now).select_related("created_by", "ended_by", "canceled_by")


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


def list_mutes(incident_id: int, *, muted_by: int | None, now: datetime) -> list[PlannedEvent]:
    """Return the expected changes made from an incident, and the one that muted it, newest first; one query."""
    rows = _select_events(now).filter(Q(incident_id=incident_id) | Q(pk=muted_by))
    return list(rows.order_by("-from_at", "-id")[:_MUTES_MAXIMUM])


@dataclass(frozen=True, slots=True)
class PlannedMark:
    """A planned event of a chart. ends_at: the effective end, exclusive; a note of one time ends at its start.

    series_ids: of the chart's series, those that its filter matches, ascending.
    """

    id: int
    kind: PlannedEventKind
    reason: str
    filter: str
    from_at: datetime
    ends_at: datetime
    series_ids: tuple[int, ...]


def read_planned_marks(
    series_ids: Sequence[int], *, from_at: datetime | None, to_at: datetime | None
) -> tuple[tuple[PlannedMark, ...], int]:
    """Return the planned events of a time range whose filters match any of these series, without canceled ones.

    Latest start first; and how many older ones of the time range are left out, of whatever series.
    from_at inclusive, to_at exclusive; None for all, also upcoming ones. Of the newest 200 of the range.
    One query without events; with them those of `match_stored_filters`, and one more for more than 200.
    """
    if not series_ids:
        return (), 0
    found = PlannedEvent.objects.filter(_overlaps(from_at, to_at), canceled_at=None)
    events = list(found.order_by("-from_at", "-id")[: MARKS_MAXIMUM + 1])
    left_out = found.count() - MARKS_MAXIMUM if len(events) > MARKS_MAXIMUM else 0
    events = events[:MARKS_MAXIMUM]
    chosen = Series.objects.filter(pk__in=series_ids)
    matched = match_stored_filters((event.filter for event in events), chosen)
    return tuple(_make_mark(event, ids) for event in events if (ids := matched[event.filter])), left_out


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


def _overlaps(from_at: datetime | None, to_at: datetime | None) -> Q:
    """Return the condition for events of a time range; None is open."""
    overlaps = Q() if to_at is None else Q(from_at__lt=to_at)
    if from_at is None:
        return overlaps
    # The end of a note of one time is its start.
    lasts = Q(to_at__gt=from_at) & (Q(ended_at=None) | Q(ended_at__gt=from_at))
    return overlaps & (lasts | Q(from_at__gte=from_at))
