"""Changes of level, and the detection status of each metric of a series."""

from django.db import models

from benchapp.models.incident import Incident
from benchapp.models.run import Run
from benchapp.models.series import Series


class ChangeState(models.TextChoices):
    """State of a change. A change that later runs do not confirm is withdrawn, not deleted."""

    SUSPECTED = "suspected", "Suspected: one or two runs"
    PROVISIONAL = "provisional", "Provisional: three runs or more"
    CONFIRMED = "confirmed", "Confirmed: still there five runs later"
    WITHDRAWN = "withdrawn", "Withdrawn: later runs do not bear it out"


class Change(models.Model):
    """One change. Values in the metric's base unit.

    run: the first run of the new level (null once it is deleted); started_at: when that run started.
    before_*, after_*: the levels on both sides, as far as they reach; spreads are robust standard deviations.
    relative: after / before - 1, with its 95 % interval (low, high; null if unknown).
    confidence: 0 to 1. method: name and version of the detector. is_regression: by the metric's better direction.
    evidence: the points used and the tests' results, for people.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="changes", db_index=False)
    metric = models.CharField(max_length=30)
    run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField()
    last_good_run = models.ForeignKey(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    state = models.CharField(max_length=11, choices=ChangeState)
    is_regression = models.BooleanField()
    before_median = models.FloatField()
    before_n = models.PositiveIntegerField()
    before_spread = models.FloatField()
    after_median = models.FloatField()
    after_n = models.PositiveIntegerField()
    after_spread = models.FloatField()
    relative = models.FloatField()
    relative_low = models.FloatField(null=True, blank=True)
    relative_high = models.FloatField(null=True, blank=True)
    confidence = models.FloatField()
    method = models.CharField(max_length=50)
    evidence = models.JSONField(default=dict)
    incident = models.ForeignKey(
        Incident, null=True, blank=True, on_delete=models.SET_NULL, related_name="changes"
    )
    found_at = models.DateTimeField(help_text="server's clock")
    updated_at = models.DateTimeField(help_text="server's clock")
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=ChangeState.values), name="change_state_is_known"
            ),
            # Two detections of one series find the same change: the second finds the existing row.
            models.UniqueConstraint(
                fields=["series", "metric", "started_at"],
                condition=~models.Q(state=ChangeState.WITHDRAWN),
                name="change_is_kept_once",
            ),
        )
        indexes = (
            # queries.changes: of a series, in the order of time; pipeline.detect.
            models.Index(fields=["series", "metric", "started_at"], name="change_by_series"),
            # queries.changes.list_changes: the newest first.
            models.Index(fields=["-started_at", "-id"], name="change_by_time"),
        )

    def __str__(self) -> str:
        return f"change {self.pk} of {self.metric} in series {self.series_id} ({self.state})"


class DetectionStatus(models.TextChoices):
    """Detection status of a metric of a series."""

    LEARNING = "learning", "Learning: too few runs"
    STEADY = "steady", "Steady"
    NOISY = "noisy", "Too noisy to judge"
    STALE = "stale", "Stale: no run for long"


class Judgement(models.Model):
    """Detection status and noise of one metric of one series.

    spread: of the current level, relative. least_change: the smallest detectable relative change.
    runs_needed: more runs until a change of the threshold is detectable; null if it is, or never will be.
    baseline_from_at: start of the accepted baseline; earlier runs are not compared.
    """

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="judgements", db_index=False)
    metric = models.CharField(max_length=30)
    standing = models.CharField(max_length=8, choices=DetectionStatus)
    n = models.PositiveIntegerField()
    level = models.FloatField(null=True, blank=True)
    spread = models.FloatField(null=True, blank=True)
    least_change = models.FloatField(null=True, blank=True)
    runs_needed = models.PositiveIntegerField(null=True, blank=True)
    baseline_from_at = models.DateTimeField(null=True, blank=True)
    method = models.CharField(max_length=50)
    judged_at = models.DateTimeField(help_text="server's clock")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["series", "metric"], name="judgement_is_kept_once"),
            models.CheckConstraint(
                condition=models.Q(standing__in=DetectionStatus.values), name="judgement_standing_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.metric} of series {self.series_id}: {self.standing}"
