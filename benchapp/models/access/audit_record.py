"""Audit records: who wrote what, when and from where."""

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models


class AuditKind(models.TextChoices):
    """What a write changed."""

    ACCOUNT = "account", "Account"
    CONFIRMATION_POLICY = "confirmation_policy", "Confirmation policy"
    DETECTION_POLICY = "detection_policy", "Detection policy"
    DRY_RUN = "dry_run", "Dry run"
    EMAIL_ADDRESS = "email_address", "E-mail address"
    HOST = "host", "Host"
    INCIDENT = "incident", "Incident"
    INVITATION = "invitation", "Invitation"
    LINK = "link", "Signed link"
    PINNED_CHART = "pinned_chart", "Pinned chart"
    PLANNED_EVENT = "planned_event", "Planned event"
    PRICE = "price", "Price"
    RUN = "run", "Run"
    RUN_REQUEST = "run_request", "Run request"
    SAVED_VIEW = "saved_view", "Saved view"
    SCHEDULE = "schedule", "Schedule"
    SQL_ROLE = "sql_role", "SQL role"
    STUDY = "study", "Study"
    SUBMISSION = "submission", "Submission"
    SUBSCRIPTION = "subscription", "Subscription"
    TOKEN = "token", "Token"


class AuditRecord(models.Model):
    """One write. Rows are never changed: a trigger refuses it.

    user_id, username: who wrote, as of then; no foreign key, as records outlive accounts. via: the token
    ("bench_…"), or the command ("manage.py …"). kind: an AuditKind, which needs no migration for a new one. object_id:
    its id in addresses; "" for several. before, after: the changed members; null where there is nothing.
    address: of the client. request_id: as in the log.
    """

    at = models.DateTimeField(help_text="server's clock")
    user_id = models.BigIntegerField(null=True)
    username = models.CharField(max_length=150, blank=True, default="")
    via = models.CharField(max_length=60, blank=True, default="")
    kind = models.CharField(max_length=20)
    object_id = models.CharField(max_length=253, blank=True, default="")
    object_name = models.TextField(blank=True, default="")
    action = models.CharField(max_length=40)
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    address = models.CharField(max_length=100, blank=True, default="")
    request_id = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = (
            # queries.audit.page_audit_records: newest first; pipeline.audit.forget_old_audit_records: oldest first.
            models.Index(fields=["-at", "-id"], name="audit_record_by_time"),
            # queries.audit.page_audit_records: of one object.
            models.Index(fields=["kind", "object_id", "-at", "-id"], name="audit_record_by_object"),
            # queries.audit.page_audit_records: of one person.
            models.Index(fields=["username", "-at", "-id"], name="audit_record_by_username"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id} {self.action} at {self.at}"
