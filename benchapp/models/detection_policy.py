"""Detection policies: thresholds other than those of the catalog, and dry runs that show their effect."""

from math import inf
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.functions import RandomUUID
from django.db import models

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.models.account import User, name_person
from benchapp.models.list_entry import ListEntry, ListLogEntry

# As relative changes; levels of less than 1 % are within the buckets of fio's percentiles.
THRESHOLD_MINIMUM = 0.01
THRESHOLD_MAXIMUM = 10.0


class DetectionPolicy(ListEntry):
    """The threshold of one metric for the series that a filter and a label match.

    smallest_change: relative, 0.05 is 5 %. filter: in the filter language; "" for all. label: KEY=VALUE of the newest
    run of a series; "" for any. Of several that match, one with a label precedes one with a filter, that precedes one
    for all series, and the newest of equals applies. canceled_at: a canceled policy has no effect. uid: identity in
    archives.
    """

    given = ("metric", "smallest_change", "filter", "label", "reason")

    uid = models.UUIDField(db_default=RandomUUID(), unique=True, editable=False)
    metric = models.CharField(max_length=30)
    smallest_change = models.FloatField()
    filter = models.CharField(max_length=2000, blank=True, default="")
    label = models.CharField(max_length=300, blank=True, default="")
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    canceled_at = models.DateTimeField(null=True, blank=True)
    canceled_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        verbose_name_plural = "detection policies"
        constraints = (
            models.CheckConstraint(
                condition=models.Q(
                    smallest_change__gte=THRESHOLD_MINIMUM, smallest_change__lte=THRESHOLD_MAXIMUM
                ),
                name="detection_policy_threshold_is_in_range",
            ),
        )

    def __str__(self) -> str:
        return f"{self.metric} from {self.smallest_change:.0%} on: {self.filter or 'all series'}"

    @property
    def default(self) -> float:
        """Return the smallest change of the metric without a policy."""
        return SMALLEST_CHANGES[self.metric]

    @property
    def rank(self) -> tuple[bool, bool, float]:
        """Return what decides between policies that match the same series: the largest applies.

        One that is not saved is the newest.
        """
        return bool(self.label), bool(self.filter), self.pk or inf


class DetectionPolicyAction(models.TextChoices):
    """Action of a user on a policy; the last undoes the one before it."""

    CREATED = "created", "created"
    CANCELED = "canceled", "canceled"
    RESTORED = "restored", "restored"


class DetectionPolicyLogEntry(ListLogEntry):
    """One entry of the activity log."""

    policy = models.ForeignKey(
        DetectionPolicy, on_delete=models.CASCADE, related_name="log_entries", db_index=False
    )
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=40, blank=True, default="")
    action = models.CharField(max_length=10, choices=DetectionPolicyAction)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(action__in=DetectionPolicyAction.values),
                name="detection_policy_action_is_known",
            ),
        )
        indexes = (
            # ListEntry.list_activity: of one policy.
            models.Index(fields=["policy", "at", "id"], name="detection_policy_log_by_time"),
        )

    def __str__(self) -> str:
        return f"{self.action} of detection policy {self.policy_id}"


class DryRunState(models.TextChoices):
    """State of a dry run."""

    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELED = "canceled", "canceled"


class DetectionDryRun(models.Model):
    """The incidents of a period with another threshold, calculated by a task series by series.

    filter, label, metric, smallest_change: as of a policy. from_at: changes that begin then or later are compared.
    series_ids: what is evaluated; series_count: what matches, which may be more. done_count: evaluated so far, whose
    changes are `found`, by threshold. attempts: of the next batch so far. result: the incidents, once it is done.
    """

    filter = models.CharField(max_length=2000, blank=True, default="")
    label = models.CharField(max_length=300, blank=True, default="")
    metric = models.CharField(max_length=30)
    smallest_change = models.FloatField()
    from_at = models.DateTimeField()
    state = models.CharField(max_length=8, choices=DryRunState, default=DryRunState.RUNNING)
    series_ids = ArrayField(models.BigIntegerField(), default=list)
    series_count = models.PositiveIntegerField(default=0)
    done_count = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    found = models.JSONField(default=dict)
    result = models.JSONField(default=dict)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=DryRunState.values), name="detection_dry_run_state_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"dry run {self.pk} of {self.metric} from {self.smallest_change:.0%} on ({self.state})"

    @property
    def default(self) -> float:
        """Return the smallest change of the metric without a policy."""
        return SMALLEST_CHANGES[self.metric]

    @property
    def created_by_name(self) -> str:
        """Return who started it; "" if that is not known."""
        return name_person(self.created_by)

    @property
    def evaluated_count(self) -> int:
        """Return how many of the series that match are evaluated: the first ones."""
        return len(self.series_ids)

    @property
    def comparison(self) -> dict[str, Any]:
        """Return the result: incidents with the thresholds of today (`current`) and with the proposed one (`proposed`),
        and those that differ. Until it is done the numbers are None and 0, and the lists empty."""
        counts = {"current": None, "proposed": None, "added_count": 0, "removed_count": 0}
        return {**counts, "added": [], "removed": [], **self.result}
