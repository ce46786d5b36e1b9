"""Submissions: one POST each, stored as received; the table is the work queue."""

from typing import Final, Self

from django.db import models
from django.utils import timezone

from benchapp.models.host import Host

# Version of the parser of a stored submission that is to be read again, whatever read it.
REREAD: Final = 0


class State(models.TextChoices):
    """State of a submission."""

    RECEIVED = "received", "Received"
    STORED = "stored", "Stored"
    REJECTED = "rejected", "Rejected"


class Kind(models.TextChoices):
    """Kind of the body."""

    ENVELOPE = "envelope", "Envelope of the agent"
    FIO = "fio", "fio output"
    REPORTED = "reported", "Published numbers"


class SubmissionQuerySet(models.QuerySet["Submission"]):
    """Queries over submissions."""

    def waiting(self) -> Self:
        """Filter submissions waiting for a worker or in processing (the worker holds the row lock)."""
        return self.filter(state=State.RECEIVED)

    def due(self) -> Self:
        """Filter waiting submissions, except for those that failed and are tried again later."""
        return self.waiting().exclude(retry_at__gt=timezone.now())


class Submission(models.Model):
    """One POST of one host.

    id: created by the sender, the same on every retry.
    body: gzip of the bytes received (unpacked), without secrets; digest: SHA-256 of bytes and parameters as received.
    parameters: the validated query parameters of a body without envelope. relabeled: what people corrected of what was
    sent, by document and parameter; null for nothing.
    """

    id = models.UUIDField(primary_key=True)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, related_name="submissions", db_index=False)
    scope = models.CharField(
        max_length=260,
        blank=True,
        default="",
        help_text="scope of its series: the host's pool or name at that time",
    )
    kind = models.CharField(max_length=8, choices=Kind)
    parameters = models.JSONField(default=dict)
    relabeled = models.JSONField(null=True, blank=True)
    body = models.BinaryField(null=True, help_text="gzip; null once retention has removed it")
    body_bytes = models.PositiveIntegerField(help_text="unpacked")
    digest = models.BinaryField(max_length=32)
    received_at = models.DateTimeField(help_text="server's clock")
    state = models.CharField(max_length=8, choices=State, default=State.RECEIVED)
    attempts = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, help_text="after an attempt: not tried again before")
    time_outs = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="attempts that exceeded the time limit of a document"
    )
    settled_at = models.DateTimeField(null=True, blank=True, help_text="when it became stored or rejected")
    reason_code = models.CharField(max_length=50, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    parser_version = models.PositiveSmallIntegerField(null=True, blank=True)

    objects = SubmissionQuerySet.as_manager()
    # Annotated by intake.read.
    has_body: bool
    run_ids: list[int]

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=State.values), name="submission_state_is_known"
            ),
            models.CheckConstraint(condition=models.Q(kind__in=Kind.values), name="submission_kind_is_known"),
            models.CheckConstraint(
                condition=models.Q(state=State.REJECTED, reason_code__gt="")
                | (~models.Q(state=State.REJECTED) & models.Q(reason_code="")),
                name="submission_is_rejected_with_a_reason",
            ),
        )
        indexes = (
            # intake.normalize.batch: the longest waiting; small, without settled rows.
            models.Index(
                fields=["attempts", "received_at"],
                name="submission_waiting",
                condition=models.Q(state=State.RECEIVED),
            ),
            # intake.read.submissions.list_uploads: newest first, by state.
            models.Index(fields=["state", "-received_at", "id"], name="submission_by_state"),
            # intake.normalize.reparse: the oldest that an older parser read, and their count.
            models.Index(
                fields=["parser_version", "received_at"],
                name="submission_by_parser",
                condition=models.Q(state=State.STORED, body__isnull=False),
            ),
            # intake.posts.submissions.read_rejected; models.measurement.read_last_receipts: newest first.
            models.Index(fields=["host", "-received_at"], name="submission_of_host"),
            # intake.read.submissions.list_uploads without a state; counts per hour.
            models.Index(fields=["-received_at", "id"], name="submission_by_time"),
        )

    def __str__(self) -> str:
        return f"submission {self.id} ({self.state})"


# Its submission, with the id of the attempt, was rejected.
REJECTED_CODE: Final = "rejected"


class Attempt(models.Model):
    """A run without a result. sender_id: created by the agent, the same on every retry; of a submission, its id.

    started_at: the host's clock. received_at: the server's, null for those of before it was kept.
    """

    sender_id = models.UUIDField(unique=True)
    host = models.ForeignKey(Host, on_delete=models.CASCADE, related_name="+", db_index=False)
    profile = models.CharField(max_length=100, blank=True)
    target_name = models.CharField(max_length=200, blank=True, help_text="directory or device")
    started_at = models.DateTimeField()
    received_at = models.DateTimeField(null=True, default=timezone.now)
    reason_code = models.CharField(max_length=50)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        indexes = (
            # Attempts of a host, newest first.
            models.Index(fields=["host", "-started_at", "-id"], name="attempts_of_a_host"),
        )

    def __str__(self) -> str:
        return f"attempt of {self.profile} at {self.started_at}: {self.reason_code}"
