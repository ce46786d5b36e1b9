"""Corrections: runs that were deleted, or whose layout or labels were corrected; what is kept how long."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from benchapp.models.account import User
from benchapp.models.list_entry import ListEntry, ListLogEntry
from benchapp.models.submission import Submission

# A deletion can be undone so long; then its runs and their raw output are removed for good.
DELETED_RUNS_KEPT: Final = timedelta(days=30)


class CorrectionKind(models.TextChoices):
    """What a correction does."""

    DELETION = "deletion", "deletion"
    RELABELING = "relabeling", "relabeling"
    RETENTION = "retention", "retention"


class RetentionTier(models.TextChoices):
    """What a retention removes. Larger tiers have the smaller ones: points are whole runs."""

    OUTPUT = "output", "raw output"
    TRACES = "traces", "traces"
    HISTOGRAMS = "histograms", "percentiles and histograms"
    POINTS = "points", "points"
    INCIDENTS = "incidents", "incidents"


class CorrectionState(models.TextChoices):
    """State of a correction."""

    APPLYING = "applying", "in progress"
    APPLIED = "applied", "applied"
    UNDOING = "undoing", "being undone"
    UNDONE = "undone", "undone"
    FINAL = "final", "deleted for good"
    ENDED = "ended", "ended"


class Correction(ListEntry):
    """Runs that were deleted or relabeled at once: those of a filter and a time range, or those listed.

    changes: of a relabeling, new values by parameter of a post; None: not stated. from_at is inclusive, to_at
    exclusive. run_count, last_run_id: the runs that matched, and the newest of all by id; runs stored later stay.
    canceled_at: when it was undone. is_due: a worker has something to do; it has handled the runs up to `position`,
    done_count of them. unreadable_count: runs that stay as they were, as their results cannot be read today.
    removed_at: when the runs of a deletion were removed for good.
    A retention removes what is older than keep_days, once a day, until it is canceled: removed_at is its last time,
    `position` the start of a run in µs since 1970, done_count what it has removed in total.
    """

    given = ("kind", "filter", "from_at", "to_at", "run_ids", "changes", "tier", "keep_days", "reason")

    kind = models.CharField(max_length=10, choices=CorrectionKind)
    filter = models.CharField(max_length=2000, blank=True, default="")
    from_at = models.DateTimeField(null=True, blank=True)
    to_at = models.DateTimeField(null=True, blank=True)
    run_ids = ArrayField(models.BigIntegerField(), default=list, blank=True)
    changes: "models.JSONField[Mapping[str, Any], Mapping[str, Any]]" = models.JSONField(
        default=dict, blank=True
    )
    tier = models.CharField(max_length=10, choices=RetentionTier, blank=True, default="", db_default="")
    keep_days = models.PositiveIntegerField(null=True, blank=True)
    reason = models.CharField(max_length=500)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    canceled_at = models.DateTimeField(null=True, blank=True)
    canceled_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    run_count = models.PositiveIntegerField()
    last_run_id = models.BigIntegerField()
    is_due = models.BooleanField(default=True)
    position = models.BigIntegerField(default=0)
    done_count = models.PositiveIntegerField(default=0)
    unreadable_count = models.PositiveIntegerField(default=0)
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = (
            # corrections.write.advance_corrections: few are due.
            models.Index(fields=["id"], name="correction_due", condition=models.Q(is_due=True)),
        )
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=CorrectionKind.values), name="correction_kind_is_known"
            ),
            models.CheckConstraint(
                condition=models.Q(
                    kind=CorrectionKind.RETENTION, tier__in=RetentionTier.values, keep_days__gt=0
                )
                | (~models.Q(kind=CorrectionKind.RETENTION) & models.Q(tier="", keep_days=None)),
                name="retention_has_a_tier",
            ),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} of {self.run_count} runs ({self.state})"

    @property
    def is_deletion(self) -> bool:
        """Return whether it deletes runs."""
        return self.kind == CorrectionKind.DELETION

    @property
    def is_retention(self) -> bool:
        """Return whether it removes what is old, again and again."""
        return self.kind == CorrectionKind.RETENTION

    @property
    def state(self) -> CorrectionState:
        """Return its state."""
        if self.is_retention:
            is_ended = self.canceled_at is not None
            return CorrectionState.ENDED if is_ended else _PROGRESS[self.is_due]
        if self.removed_at is not None:
            return CorrectionState.FINAL
        if self.canceled_at is not None:
            return CorrectionState.UNDOING if self.is_due else CorrectionState.UNDONE
        return _PROGRESS[self.is_due]

    @property
    def kept_until(self) -> datetime | None:
        """Return until when it can be undone; None: as long as there is raw output."""
        return self.created_at + DELETED_RUNS_KEPT if self.is_deletion else None

    @property
    def is_over(self) -> bool:
        """Return whether it can be neither undone nor repeated."""
        return self.kept_until is not None and self.kept_until <= timezone.now()


_PROGRESS: Final = (CorrectionState.APPLIED, CorrectionState.APPLYING)


class CorrectionAction(models.TextChoices):
    """Action of a user on a correction; the last repeats it."""

    CREATED = "created", "created"
    CANCELED = "canceled", "undone"
    RESTORED = "restored", "applied again"


class CorrectionLogEntry(ListLogEntry):
    """One entry of the activity log."""

    correction = models.ForeignKey(Correction, on_delete=models.CASCADE, related_name="log_entries")
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=40, blank=True, default="")
    action = models.CharField(max_length=10, choices=CorrectionAction)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(action__in=CorrectionAction.values), name="correction_action_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.action} of correction {self.correction_id}"


class DeletedRun(models.Model):
    """A run that was deleted; reading its submission again leaves it out. id: the run's; row: its columns."""

    id = models.BigIntegerField(primary_key=True)
    correction = models.ForeignKey(Correction, on_delete=models.PROTECT, related_name="deleted_runs")
    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="+", db_index=False)
    document = models.PositiveSmallIntegerField()
    row = models.JSONField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["submission", "document"], name="run_is_deleted_once"),
        )

    def __str__(self) -> str:
        return f"deleted run {self.pk}"


class RelabeledRun(models.Model):
    """A run of a deletion or relabeling; what is corrected of its submission is there, too."""

    correction = models.ForeignKey(
        Correction, on_delete=models.CASCADE, related_name="relabeled_runs", db_index=False
    )
    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="+", db_index=False)
    document = models.PositiveSmallIntegerField()

    class Meta:
        indexes = (
            # corrections.write: the next ones of a correction.
            models.Index(fields=["correction", "id"], name="relabeled_by_correction"),
        )
        constraints = (
            # corrections: those of a submission or run.
            models.UniqueConstraint(
                fields=["submission", "document", "correction"], name="run_is_relabeled_once"
            ),
        )

    def __str__(self) -> str:
        return f"run {self.document} of submission {self.submission_id}, relabeled by {self.correction_id}"
