"""Expected changes and maintenance windows."""

from datetime import datetime
from typing import Self

from django.db import models

from benchapp.models.account import User


class ExpectationKind(models.TextChoices):
    """What happens to changes in the window."""

    CHANGE = "change", "A change is expected: it is recorded and tells nobody"
    MAINTENANCE = "maintenance", "Maintenance: runs within it count in no level"


class ExpectationQuerySet(models.QuerySet["Expectation"]):
    """Queries over expectations."""

    def meeting(self, first: datetime, last: datetime) -> Self:
        """Filter those active at any time of a range, inclusive; canceled ones are never active."""
        return self.filter(
            models.Q(ended_at__isnull=True) | models.Q(ended_at__gt=first),
            taken_back_at__isnull=True,
            from_at__lte=last,
            to_at__gt=first,
        )


class Expectation(models.Model):
    """A time window, from inclusive, to exclusive, for the series that match a filter.

    filter: in the filter language; "" for all. ended_at: ended early at this time.
    taken_back_at: canceled since then, as if it had never existed.
    """

    kind = models.CharField(max_length=11, choices=ExpectationKind)
    filter = models.CharField(max_length=2000, blank=True, default="")
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    ended_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    taken_back_at = models.DateTimeField(null=True, blank=True)
    taken_back_by = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    objects = ExpectationQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=ExpectationKind.values), name="expectation_kind_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("to_at")), name="expectation_begins_before_it_ends"
            ),
        )
        indexes = (
            # queries.expectations.list_expectations: those that begin last first.
            models.Index(fields=["-from_at", "-id"], name="expectation_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.kind} from {self.from_at} to {self.to_at}"

    @property
    def over_at(self) -> datetime:
        """Return its end, exclusive: the planned end, or when it was ended early."""
        return self.to_at if self.ended_at is None else min(self.ended_at, self.to_at)


class ExpectationAct(models.TextChoices):
    """Actions on an expectation; the last two undo the two before them."""

    SAID = "said", "said"
    ENDED = "ended", "ended early"
    TAKEN_BACK = "taken_back", "taken back"
    RESUMED = "resumed", "let run to its planned end again"
    PUT_BACK = "put_back", "put back"


class ExpectationEvent(models.Model):
    """One action in the audit trail. via: the API token, "" for a user in the browser."""

    expectation = models.ForeignKey(
        Expectation, on_delete=models.CASCADE, related_name="events", db_index=False
    )
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=40, blank=True, default="")
    act = models.CharField(max_length=10, choices=ExpectationAct)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(act__in=ExpectationAct.values), name="expectation_act_is_known"
            ),
        )
        indexes = (
            # queries.expectations.read_expectation: its trail.
            models.Index(fields=["expectation", "at", "id"], name="expectation_event_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.act} of expectation {self.expectation_id}"
