"""Users with a role, their invitations and identities; what a reader sees of a person; audit records.

What a reader sees of a person: the user name, or only that there is one. Anybody may read with BENCHAPP_PUBLIC_READ,
and shared studies. Names are for those who signed in, and for tokens that read.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Self

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models


class Role(models.TextChoices):
    """Permissions of a user; each role includes those of the previous one."""

    VIEWER = "viewer", "Viewer: reads everything"
    EDITOR = "editor", "Editor: uploads, retries, triages"
    ADMIN = "admin", "Admin: hosts, tokens, users"


class RateUnits(models.TextChoices):
    """Units of throughput on pages (benchapp.catalog.metrics.RateUnits)."""

    SI = "si", "kB/s, MB/s, GB/s (powers of 1000)"
    BINARY = "binary", "KiB/s, MiB/s, GiB/s (powers of 1024)"


class Theme(models.TextChoices):
    """Colors of pages."""

    SYSTEM = "system", "As in the system"
    LIGHT = "light", "Light"
    DARK = "dark", "Dark"


# In place of the name of a time zone: that of the browser.
BROWSER_ZONE = "browser"

_RANK = {Role.VIEWER.value: 0, Role.EDITOR.value: 1, Role.ADMIN.value: 2}


def pools_field() -> "ArrayField[list[str], list[str]]":
    """Return the column of the pools that a viewer or a token is limited to (models.limits); empty: everything."""
    return ArrayField(models.CharField(max_length=100), default=list, db_default=[], blank=True)


def name_limit(pools: Sequence[str]) -> str:
    """Name the pools of a limited reader: "only pool db", "only pools db and web"; "" for none."""
    *first, last = pools or [""]
    names = f"{', '.join(first)} and {last}" if first else last
    return f"only pool{'s' if first else ''} {names}" if pools else ""


class User(AbstractUser):
    """A user who signs in.

    deleted_at: when the account was deleted. Its row remains, without its name, for what refers to it. time_zone: name
    of the IANA database, BROWSER_ZONE, or "" for that of the server. default_filter: in the filter language; the links
    of the navigation bar have it. pools: a viewer sees these alone; empty: all.
    """

    role = models.CharField(max_length=8, choices=Role, default=Role.VIEWER)
    deleted_at = models.DateTimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    rate_units = models.CharField(max_length=6, choices=RateUnits, default=RateUnits.SI)
    theme = models.CharField(max_length=6, choices=Theme, default=Theme.SYSTEM)
    default_filter = models.CharField(max_length=2000, blank=True, default="")
    pools = pools_field()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_is_known"),
            models.CheckConstraint(
                condition=models.Q(role=Role.VIEWER) | models.Q(pools=[]), name="user_with_pools_is_a_viewer"
            ),
            models.CheckConstraint(
                condition=models.Q(rate_units__in=RateUnits.values), name="user_rate_units_are_known"
            ),
            models.CheckConstraint(condition=models.Q(theme__in=Theme.values), name="user_theme_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.username} ({self.role})"

    @property
    def limit_text(self) -> str:
        """Return what the account is limited to: "only pool db"."""
        return name_limit(self.pools)

    def has_role(self, role: Role) -> bool:
        """Return whether this user has the role or a higher one."""
        return self.is_superuser or _RANK[self.role] >= _RANK[role.value]


class InvitationQuerySet(models.QuerySet["Invitation"]):
    """Queries over invitations."""

    def open_at(self, now: datetime) -> Self:
        """Filter invitations that are valid at a given time.

        Those of nobody are links of the first admin, which end when there is one. The others need a creator who is an
        active admin: one that is made while its creator is demoted is not seen by the transaction that withdraws the
        others.
        """
        admins = User.objects.filter(role=Role.ADMIN, is_active=True)
        return self.filter(
            models.Q(created_by__in=admins) | models.Q(~models.Exists(admins), created_by__isnull=True),
            used_at__isnull=True,
            expires_at__gt=now,
        )


class Invitation(models.Model):
    """A one-time link to create an account; the first one creates the first admin."""

    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the link's secret")
    role = models.CharField(max_length=8, choices=Role)
    created_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)
    pools = pools_field()

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_is_known"),
        )

    def __str__(self) -> str:
        return f"invitation {self.pk} ({self.role})"


class Throttle(models.Model):
    """A bucket of attempts within a window: sign-ins, test notices, confirmation mails (accounts.write.throttle)."""

    key = models.CharField(max_length=200, primary_key=True)
    window_started_at = models.DateTimeField()
    attempts = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.key}: {self.attempts}"


class ExternalIdentity(models.Model):
    """A person at a provider: issuer and subject, which never change; names and addresses there do."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="external_identities")
    issuer = models.CharField(max_length=500)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["issuer", "subject"], name="external_identity_is_unique"),
        )

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


SOMEBODY: Final = "a user"
# Outside of requests (workers, commands) there is no stranger. Each request runs in a copy of the context (handler.py).
_IS_STRANGER: Final[ContextVar[Callable[[], bool]]] = ContextVar("is_stranger", default=lambda: False)


@contextmanager
def shown_to(is_stranger: Callable[[], bool]) -> Iterator[None]:
    """Name the reader of what is made within. is_stranger: asked when there is a name to show."""
    earlier = _IS_STRANGER.set(is_stranger)
    try:
        yield
    finally:
        _IS_STRANGER.reset(earlier)


def note_reader(*, is_stranger: bool) -> None:
    """Name the reader of the current request, until `shown_to` ends."""
    _IS_STRANGER.set(lambda: is_stranger)


def is_shown_to_stranger() -> bool:
    """Return whether the reader sees no names."""
    return _IS_STRANGER.get()()


def name_person(person: User | str | None) -> str:
    """Return the name of a user, or a user name, as the reader sees it; "" without a person."""
    username = person.username if isinstance(person, User) else person or ""
    return SOMEBODY if username and is_shown_to_stranger() else username


class AuditKind(models.TextChoices):
    """What a write changed."""

    ACCOUNT = "account", "Account"
    BACKUP = "backup", "Backup"
    CONFIRMATION_POLICY = "confirmation_policy", "Confirmation policy"
    CORRECTION = "correction", "Correction"
    # Of before: deletions are corrections.
    DELETION = "deletion", "Deletion"
    DETECTION_POLICY = "detection_policy", "Detection policy"
    DRY_RUN = "dry_run", "Dry run"
    EMAIL_ADDRESS = "email_address", "E-mail address"
    HOST = "host", "Host"
    INCIDENT = "incident", "Incident"
    INVITATION = "invitation", "Invitation"
    LINK = "link", "Signed link"
    PINNED_CHART = "pinned_chart", "Pinned chart"
    PLANNED_EVENT = "planned_event", "Planned event"
    POOL = "pool", "Pool"
    PRICE = "price", "Price"
    RUN = "run", "Run"
    RUN_REQUEST = "run_request", "Run request"
    SAVED_VIEW = "saved_view", "Saved view"
    SCHEDULE = "schedule", "Schedule"
    SERIES = "series", "Series"
    SQL_ROLE = "sql_role", "SQL role"
    STUDY = "study", "Study"
    SUBMISSION = "submission", "Submission"
    SUBSCRIPTION = "subscription", "Subscription"
    TARGET_MAPPING = "target_mapping", "Target name"
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
            # framework.read.audit.page_audit_records: newest first.
            # framework.write.audit.forget_old_audit_records: oldest first.
            models.Index(fields=["-at", "-id"], name="audit_record_by_time"),
            # framework.read.audit.page_audit_records: of one object.
            models.Index(fields=["kind", "object_id", "-at", "-id"], name="audit_record_by_object"),
            # framework.read.audit.page_audit_records: of one person.
            models.Index(fields=["username", "-at", "-id"], name="audit_record_by_username"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id} {self.action} at {self.at}"

    @property
    def action_text(self) -> str:
        """Return the action in words."""
        return self.action.replace("_", " ")
