"""Schedule, end and cancel maintenance windows, expected changes and notes; end and cancel can be undone."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.grammar import BadFilter, canonicalize_filter, parse_filter
from benchapp.models import (
    METRIC_FIELDS,
    AuditKind,
    Incident,
    PlannedEvent,
    PlannedEventAction,
    PlannedEventKind,
    PlannedEventLogEntry,
    Series,
    User,
)
from benchapp.models.filtering import match_series
from benchapp.models.planned_event_filtering import read_stored_filter
from benchapp.pipeline.audit import record_write, snapshot
from benchapp.pipeline.bad_value import BadValue
from benchapp.pipeline.conflicts import retry_conflicts

log = structlog.get_logger(__name__)

REASON_MAXIMUM: Final = 500
# A host that is out longer is retired; a permanent new level is accepted as the baseline.
SPAN_MAXIMUM: Final = timedelta(days=366)
AHEAD_MAXIMUM: Final = timedelta(days=2 * 366)
# Detection evaluates each different filter for each batch of series.
OPEN_MAXIMUM: Final = 500
_FIRST_AT: Final = datetime(1980, 1, 1, tzinfo=UTC)
_NOUNS: Final = {PlannedEventKind.MAINTENANCE: "maintenance", PlannedEventKind.NOTE: "a note"}


class BadPlannedEvent(BadValue):
    """An invalid planned event."""


class UnknownPlannedEvent(Exception):
    """A planned event that does not exist."""


class NotSchedulable(Exception):
    """An action that the state of a planned event does not allow; the message gives the alternative."""


@dataclass(frozen=True, slots=True)
class EventPlan:
    """A validated planned event. filter, metric: "" for all; from_at inclusive, to_at exclusive.

    is_regression: None for regressions and improvements. A note of one time ends when it starts.
    """

    kind: PlannedEventKind
    filter: str
    from_at: datetime
    to_at: datetime
    reason: str
    metric: str = ""
    is_regression: bool | None = None

    @property
    def ends_at(self) -> datetime:
        """Return the end, as of an event that is saved."""
        return self.to_at


def read_plan(
    kind: str,
    filter: str,
    *,
    from_at: datetime,
    to_at: datetime | None,
    reason: str,
    metric: str = "",
    is_regression: bool | None = None,
) -> EventPlan:
    """Return the validated values, with the reason in one line. Raises BadPlannedEvent.

    to_at: None for a note of one time.
    """
    if kind not in PlannedEventKind.values:
        raise BadPlannedEvent("kind", f"choose one of {', '.join(PlannedEventKind.values)}")
    written = _read_filter(filter)
    if metric and metric not in METRIC_FIELDS:
        raise BadPlannedEvent("metric", f"choose one of {', '.join(METRIC_FIELDS)}")
    if kind != PlannedEventKind.CHANGE and metric:
        raise BadPlannedEvent(
            "metric", f"{_NOUNS[PlannedEventKind(kind)]} is of all metrics: choose an expected change"
        )
    if kind != PlannedEventKind.CHANGE and is_regression is not None:
        raise BadPlannedEvent(
            "is_regression", f"{_NOUNS[PlannedEventKind(kind)]} is of all changes: choose an expected change"
        )
    if from_at < _FIRST_AT:
        raise BadPlannedEvent(
            "from_at", f"the start is in {from_at.year}: nothing is stored from before 1980"
        )
    if to_at is None:
        if kind != PlannedEventKind.NOTE:
            raise BadPlannedEvent("to_at", "an end is required")
        to_at = from_at
    if to_at < from_at or (to_at == from_at and kind != PlannedEventKind.NOTE):
        raise BadPlannedEvent("to_at", "the end is not after the start")
    if to_at - from_at > SPAN_MAXIMUM:
        raise BadPlannedEvent("to_at", f"the period is longer than {SPAN_MAXIMUM.days} days")
    if to_at > timezone.now() + AHEAD_MAXIMUM:
        raise BadPlannedEvent("to_at", "the end is more than two years ahead")
    text = " ".join(reason.replace("\x00", "\ufffd").split())
    if not text:
        raise BadPlannedEvent("reason", "a reason is required")
    if len(text) > REASON_MAXIMUM:
        raise BadPlannedEvent("reason", f"at most {REASON_MAXIMUM} characters; this has {len(text)}")
    return EventPlan(
        PlannedEventKind(kind),
        written,
        from_at,
        to_at,
        text,
        metric=metric,
        is_regression=is_regression,
    )


def check_incident(incident: int | None) -> None:
    """Raise BadPlannedEvent if the incident whose similar changes are muted does not exist; None is none."""
    if incident is not None and not Incident.objects.filter(pk=incident).exists():
        raise BadPlannedEvent("incident", f"incident {incident} does not exist")


def _read_filter(text: str) -> str:
    """Return the filter in its canonical form. Raises BadPlannedEvent."""
    try:
        written = canonicalize_filter(text)
        terms = parse_filter(written).fact_terms
    except BadFilter as error:
        raise BadPlannedEvent("filter", str(error)) from error
    if terms:
        # The runs of a series differ in them: the window would end with the next upgrade, also for earlier runs.
        raise BadPlannedEvent(
            "filter", f"{terms[0].dimension} is a fact of runs; name hosts, pools, layouts or workloads"
        )
    return written


@retry_conflicts
def schedule_planned_event(
    kind: PlannedEventKind,
    filter: str,
    *,
    from_at: datetime,
    to_at: datetime | None,
    reason: str,
    by: User | None,
    via: str = "",
    metric: str = "",
    is_regression: bool | None = None,
    incident: int | None = None,
) -> PlannedEvent:
    """Create a planned event for present and future series that match the filter; "" matches all.

    to_at: None for a note of one time. metric, is_regression: "" and None for all changes. incident: whose similar
    changes it mutes. by: the owner; via: the API token, for the activity log. Detection runs again for series with
    runs in a maintenance window. Raises BadPlannedEvent.
    """
    plan = read_plan(
        kind,
        filter,
        from_at=from_at,
        to_at=to_at,
        reason=reason,
        metric=metric,
        is_regression=is_regression,
    )
    check_incident(incident)
    with transaction.atomic():
        _refuse_more(plan.to_at)
        planned_event = PlannedEvent.objects.create(
            kind=plan.kind,
            filter=plan.filter,
            from_at=plan.from_at,
            to_at=plan.to_at,
            reason=plan.reason,
            metric=plan.metric,
            is_regression=plan.is_regression,
            incident_id=incident,
            created_by=by,
        )
        _log_action(planned_event, PlannedEventAction.SCHEDULED, by=by, via=via, at=planned_event.created_at)
        _record(planned_event, "scheduled", None, snapshot(planned_event, *_PLAN, *_STATE), by)
    return planned_event


@retry_conflicts
def end_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """End an active event before its planned end and return it; later runs count again.

    Raises UnknownPlannedEvent, or NotSchedulable if it has not started or has ended.
    """
    with transaction.atomic():
        planned_event, now = _lock(planned_event_id), timezone.now()
        if planned_event.canceled_at is not None or planned_event.ends_at <= now:
            raise NotSchedulable("it has already ended")
        if planned_event.from_at >= now:
            raise NotSchedulable("it has not started: cancel it instead")
        _change(planned_event, "ended", by, ended_at=now, ended_by=by)
        _log_action(planned_event, PlannedEventAction.ENDED, by=by, via=via, at=now)
    return planned_event


@retry_conflicts
def resume_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """Undo an early end and return the event. Raises UnknownPlannedEvent, NotSchedulable."""
    with transaction.atomic():
        planned_event = _lock(planned_event_id)
        if planned_event.canceled_at is not None or planned_event.ended_at is None:
            raise NotSchedulable("it was not ended early")
        _change(planned_event, "resumed", by, ended_at=None, ended_by=None)
        _log_action(planned_event, PlannedEventAction.RESUMED, by=by, via=via, at=timezone.now())
    return planned_event


@retry_conflicts
def cancel_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """Cancel a planned event and return it; canceling it again changes nothing.

    Incidents that it resolved stay resolved. Raises UnknownPlannedEvent.
    """
    with transaction.atomic():
        planned_event, now = _lock(planned_event_id), timezone.now()
        if planned_event.canceled_at is not None:
            return planned_event
        _change(planned_event, "canceled", by, canceled_at=now, canceled_by=by)
        _log_action(planned_event, PlannedEventAction.CANCELED, by=by, via=via, at=now)
    return planned_event


@retry_conflicts
def restore_planned_event(planned_event_id: int, *, by: User | None, via: str = "") -> PlannedEvent:
    """Restore a canceled event and return it; restoring it again changes nothing.

    Raises UnknownPlannedEvent, or BadPlannedEvent if there are too many.
    """
    with transaction.atomic():
        planned_event = _lock(planned_event_id)
        if planned_event.canceled_at is None:
            return planned_event
        _refuse_more(planned_event.ends_at)
        _change(planned_event, "restored", by, canceled_at=None, canceled_by=None)
        _log_action(planned_event, PlannedEventAction.RESTORED, by=by, via=via, at=timezone.now())
    return planned_event


def _refuse_more(to_at: datetime) -> None:
    now = timezone.now()
    if to_at <= now:
        return
    open_events = PlannedEvent.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=now), canceled_at__isnull=True, to_at__gt=now
    )
    if open_events.count() >= OPEN_MAXIMUM:
        raise BadPlannedEvent(
            "", f"the limit of {OPEN_MAXIMUM} active and upcoming events is reached: end or cancel some first"
        )


def _lock(planned_event_id: int) -> PlannedEvent:
    rows = PlannedEvent.objects.select_for_update(no_key=True)
    planned_event = rows.filter(pk=planned_event_id).first()
    if planned_event is None:
        raise UnknownPlannedEvent(f"planned event {planned_event_id} does not exist")
    return planned_event


def _change(planned_event: PlannedEvent, action: str, by: User | None, **values: Any) -> None:
    before = snapshot(planned_event, *_STATE)
    for name, value in values.items():
        setattr(planned_event, name, value)
    planned_event.save(update_fields=list(values))
    _record(planned_event, action, before, snapshot(planned_event, *_STATE), by)


_PLAN: Final = ("kind", "filter", "metric", "is_regression", "incident_id", "from_at", "to_at", "reason")
_STATE: Final = ("ended_at", "canceled_at")


def _record(
    planned_event: PlannedEvent,
    action: str,
    before: dict[str, Any] | None,
    after: dict[str, Any],
    by: User | None,
) -> None:
    record_write(
        AuditKind.PLANNED_EVENT,
        action,
        object_id=planned_event.pk,
        name=planned_event.reason,
        before=before,
        after=after,
        by=by,
    )


def _log_action(
    planned_event: PlannedEvent, action: PlannedEventAction, *, by: User | None, via: str, at: datetime
) -> None:
    """Write an entry of the activity log and mark affected series for detection."""
    PlannedEventLogEntry.objects.create(planned_event=planned_event, at=at, by=by, via=via, action=action)
    _mark_affected(planned_event)
    log.info(
        "planned_event.action",
        planned_event=planned_event.pk,
        action=action.value,
        kind=str(planned_event.kind),
        by=by.username if by else "",
        via=via,
    )


def _mark_affected(planned_event: PlannedEvent) -> None:
    """Mark series with runs in a maintenance window for detection; rows are locked in the order of ids.

    Up to the planned end: runs after an early end count again.
    """
    if planned_event.kind != PlannedEventKind.MAINTENANCE:
        return
    in_period = Series.objects.filter(last_at__gte=planned_event.from_at, first_at__lt=planned_event.to_at)
    filter = read_stored_filter(planned_event.filter)
    affected = list(in_period.filter(match_series(filter)).values_list("pk", flat=True)) if filter else []
    list(Series.objects.select_for_update().filter(pk__in=affected).order_by("pk").values_list("pk"))
    Series.objects.filter(pk__in=affected).update(judging_is_due=True)
