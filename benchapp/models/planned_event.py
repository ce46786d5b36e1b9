"""Maintenance windows, expected changes and notes, with their activity log."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.functions import RandomUUID
from django.db import models

from benchapp.models.account import User, name_person
from benchapp.models.incident import Incident
from benchapp.models.list_entry import ListEntry, ListLogEntry


class PlannedEventKind(models.TextChoices):
    """Kind of a planned event. A note is shown in charts and changes nothing else."""

    CHANGE = "change", "Expected change"
    MAINTENANCE = "maintenance", "Maintenance"
    NOTE = "note", "Note"


class PlannedEventState(models.TextChoices):
    """The state of a planned event at a time."""

    ACTIVE = "active", "active"
    UPCOMING = "upcoming", "upcoming"
    PAST = "past", "past"
    CANCELED = "canceled", "canceled"


class PlannedEventQuerySet(models.QuerySet["PlannedEvent"]):
    """Queries over planned events."""

    def meeting(self, first: datetime, last: datetime) -> Self:
        """Filter the events in effect at any time of a span, both ends inclusive; canceled events are excluded."""
        return self.filter(
            models.Q(ended_at__isnull=True) | models.Q(ended_at__gt=first),
            canceled_at__isnull=True,
            from_at__lte=last,
            to_at__gt=first,
        )

    def with_state(self, now: datetime) -> Self:
        """Give each event its `state` at a time."""
        has_ended = models.Q(to_at__lte=now) | models.Q(ended_at__lte=now)
        return self.annotate(
            state=models.Case(
                models.When(canceled_at__isnull=False, then=models.Value(PlannedEventState.CANCELED)),
                models.When(has_ended, then=models.Value(PlannedEventState.PAST)),
                models.When(from_at__gt=now, then=models.Value(PlannedEventState.UPCOMING)),
                default=models.Value(PlannedEventState.ACTIVE),
            )
        )


class PlannedEvent(ListEntry):
    """A period, from inclusive, to exclusive, for the series that a filter matches; a note can be of one time.

    filter: in the filter language; "" for all. metric, is_regression: limits of an expected change; "" and null: all.
    incident: the one whose similar changes it mutes. ended_at: when somebody ended it before to_at. canceled_at: a
    canceled event has no effect. uid: identity in archives. state: only of rows of `with_state`.
    """

    given = ("kind", "filter", "metric", "is_regression", "incident", "from_at", "to_at", "reason")
    changed = ("ended_at", "canceled_at")

    state: str
    uid = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    kind = models.CharField(max_length=11, choices=PlannedEventKind)
    filter = models.CharField(max_length=2000, blank=True, default="")
    metric = models.CharField(max_length=30, blank=True, default="")
    is_regression = models.BooleanField(null=True, blank=True)
    incident = models.ForeignKey(
        Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="mutes"
    )
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    canceled_at = models.DateTimeField(null=True, blank=True)
    canceled_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    objects = PlannedEventQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=PlannedEventKind.values), name="planned_event_kind_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(kind=PlannedEventKind.CHANGE)
                | models.Q(metric="", is_regression__isnull=True),
                name="planned_limits_are_of_expected_changes",
            ),
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("to_at"))
                | models.Q(kind=PlannedEventKind.NOTE, from_at=models.F("to_at")),
                name="planned_event_begins_before_it_ends",
            ),
        )
        indexes = (
            # incidents.read.maintenance.list_planned_events: latest start first.
            models.Index(fields=["-from_at", "-id"], name="planned_event_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.kind} from {self.from_at} to {self.to_at}"

    @property
    def ends_at(self) -> datetime:
        """Return the effective end, exclusive: the planned end, or the time when somebody ended it early."""
        return self.to_at if self.ended_at is None else min(self.ended_at, self.to_at)

    @property
    def ended_by_name(self) -> str:
        """Return who ended it early; "" if that is not known."""
        return name_person(self.ended_by)

    def covers(self, metric: str, *, is_regression: bool, at: datetime) -> bool:
        """Return whether it covers a change of a matching series that starts at a time."""
        return (
            self.from_at <= at < self.ends_at
            and self.metric in ("", metric)
            and self.is_regression in (None, is_regression)
        )


class PlannedEventAction(models.TextChoices):
    """Action of a user on a planned event; the last two undo the two before them."""

    SCHEDULED = "scheduled", "scheduled"
    ENDED = "ended", "ended early"
    CANCELED = "canceled", "canceled"
    RESUMED = "resumed", "resumed"
    RESTORED = "restored", "restored"


class PlannedEventLogEntry(ListLogEntry):
    """One entry of the activity log."""

    planned_event = models.ForeignKey(
        PlannedEvent, on_delete=models.CASCADE, related_name="log_entries", db_index=False
    )
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=40, blank=True, default="")
    action = models.CharField(max_length=10, choices=PlannedEventAction)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(action__in=PlannedEventAction.values), name="planned_event_action_is_known"
            ),
        )
        indexes = (
            # ListEntry.list_activity: of one event.
            models.Index(fields=["planned_event", "at", "id"], name="planned_event_log_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.action} of planned event {self.planned_event_id}"
