"""Deletions of runs, and the deleted runs while they can be restored."""

from datetime import datetime, timedelta
from typing import Final

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from benchapp.models.account import User
from benchapp.models.list_entry import ListEntry, ListLogEntry
from benchapp.models.submission import Submission

# A deletion can be undone so long; then its runs and their raw output are removed for good.
DELETED_RUNS_KEPT: Final = timedelta(days=30)


class DeletionState(models.TextChoices):
    """State of a deletion."""

    DELETING = "deleting", "in progress"
    DELETED = "deleted", "deleted"
    RESTORING = "restoring", "being restored"
    RESTORED = "restored", "restored"
    FINAL = "final", "deleted for good"


class Deletion(ListEntry):
    """Runs that were deleted at once: those of a filter and a time range, or those listed.

    from_at is inclusive, to_at exclusive. run_count, last_run_id: the runs that matched, and the newest of all by id;
    runs stored later stay. canceled_at: when it was undone. is_due: a worker has something to do; it has handled the
    runs up to `position`, done_count of them. unreadable_count: runs that could not be restored, as their results are
    rejected today. removed_at: when the runs were removed for good.
    """

    given = ("filter", "from_at", "to_at", "run_ids", "reason")

    filter = models.CharField(max_length=2000, blank=True, default="")
    from_at = models.DateTimeField(null=True, blank=True)
    to_at = models.DateTimeField(null=True, blank=True)
    run_ids = ArrayField(models.BigIntegerField(), default=list, blank=True)
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
            # corrections.write.advance_deletions: few are due.
            models.Index(fields=["id"], name="deletion_due", condition=models.Q(is_due=True)),
        )

    def __str__(self) -> str:
        return f"deletion {self.pk} of {self.run_count} runs ({self.state})"

    @property
    def state(self) -> DeletionState:
        """Return its state."""
        if self.removed_at is not None:
            return DeletionState.FINAL
        if self.canceled_at is not None:
            return DeletionState.RESTORING if self.is_due else DeletionState.RESTORED
        return DeletionState.DELETING if self.is_due else DeletionState.DELETED

    @property
    def kept_until(self) -> datetime:
        """Return until when it can be undone."""
        return self.created_at + DELETED_RUNS_KEPT

    @property
    def is_over(self) -> bool:
        """Return whether it can be neither undone nor repeated."""
        return self.kept_until <= timezone.now()


class DeletionAction(models.TextChoices):
    """Action of a user on a deletion; the last repeats it."""

    CREATED = "created", "deleted"
    CANCELED = "canceled", "restored"
    RESTORED = "restored", "deleted again"


class DeletionLogEntry(ListLogEntry):
    """One entry of the activity log."""

    deletion = models.ForeignKey(Deletion, on_delete=models.CASCADE, related_name="log_entries")
    at = models.DateTimeField(help_text="server's clock")
    by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL, related_name="+")
    via = models.CharField(max_length=40, blank=True, default="")
    action = models.CharField(max_length=10, choices=DeletionAction)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(action__in=DeletionAction.values), name="deletion_action_is_known"
            ),
        )

    def __str__(self) -> str:
        return f"{self.action} of deletion {self.deletion_id}"


class DeletedRun(models.Model):
    """A run that was deleted; reading its submission again leaves it out. id: the run's; row: its columns."""

    id = models.BigIntegerField(primary_key=True)
    deletion = models.ForeignKey(Deletion, on_delete=models.PROTECT, related_name="deleted_runs")
    submission = models.ForeignKey(Submission, on_delete=models.CASCADE, related_name="+", db_index=False)
    document = models.PositiveSmallIntegerField()
    row = models.JSONField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["submission", "document"], name="run_is_deleted_once"),
        )

    def __str__(self) -> str:
        return f"deleted run {self.pk}"
