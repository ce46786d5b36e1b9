"""What people know beforehand: a change that is to come, a time in which nothing counts."""

from datetime import datetime
from typing import Self

from django.db import models

from benchapp.models.account import User


class ExpectationKind(models.TextChoices):
    """What happens to changes within the time."""

    CHANGE = "change", "A change is expected: it is recorded and tells nobody"
    MAINTENANCE = "maintenance", "Maintenance: runs within it count in no level"


class ExpectationQuerySet(models.QuerySet["Expectation"]):
    """Queries over expectations."""

    def meeting(self, first: datetime, last: datetime) -> Self:
        """Keep those that hold at any moment of a span, both ends inclusive; what was taken back holds never."""
        return self.filter(
            models.Q(ended_at__isnull=True) | models.Q(ended_at__gt=first),
            taken_back_at__isnull=True,
            from_at__lte=last,
            to_at__gt=first,
        )


class Expectation(models.Model):
    """A span of time, from inclusive, to exclusive, for the series that a filter leaves.

    filter: in the filter bar's language; "" for all. ended_at: it held until then, and not to its planned end.
    taken_back_at: since then it holds for nothing, as if it had never been said.
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
        """Return until when it holds, exclusive: its planned end, or the moment at which somebody ended it."""
        return self.to_at if self.ended_at is None else min(self.ended_at, self.to_at)


class ExpectationAct(models.TextChoices):
    """What people do with an expectation; the last two undo the two before them."""

    SAID = "said", "said"
    ENDED = "ended", "ended early"
    TAKEN_BACK = "taken_back", "taken back"
    RESUMED = "resumed", "let run to its planned end again"
    PUT_BACK = "put_back", "put back"


class ExpectationEvent(models.Model):
    """One act, and who did it: the audit trail. via: the program's token where one did it, "" for a person."""

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
