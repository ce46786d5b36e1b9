"""What people know beforehand: a change that is to come, a time in which nothing counts."""

from django.db import models

from benchapp.models.account import User


class ExpectationKind(models.TextChoices):
    """What happens to changes within the time."""

    CHANGE = "change", "A change is expected: it is recorded and tells nobody"
    MAINTENANCE = "maintenance", "Maintenance: runs within it count in no level"


class Expectation(models.Model):
    """A span of time, from inclusive, to exclusive, for the series that a filter leaves.

    filter: in the filter bar's language; "" for all. ended_at: taken back.
    """

    kind = models.CharField(max_length=11, choices=ExpectationKind)
    filter = models.CharField(max_length=2000, blank=True, default="")
    from_at = models.DateTimeField()
    to_at = models.DateTimeField()
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=ExpectationKind.values), name="expectation_kind_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(from_at__lt=models.F("to_at")), name="expectation_begins_before_it_ends"
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} from {self.from_at} to {self.to_at}"
