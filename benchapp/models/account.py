"""Users with a role, and the invitations that create them."""

from datetime import datetime
from typing import Self

from django.contrib.auth.models import AbstractUser
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


class User(AbstractUser):
    """A user who signs in.

    deleted_at: when the account was deleted. Its row remains, without its name, for what refers to it. time_zone: name
    of the IANA database, BROWSER_ZONE, or "" for that of the server. default_filter: in the filter language; the links
    of the navigation bar have it.
    """

    role = models.CharField(max_length=8, choices=Role, default=Role.VIEWER)
    deleted_at = models.DateTimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=64, blank=True, default="")
    rate_units = models.CharField(max_length=6, choices=RateUnits, default=RateUnits.SI)
    theme = models.CharField(max_length=6, choices=Theme, default=Theme.SYSTEM)
    default_filter = models.CharField(max_length=2000, blank=True, default="")

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_is_known"),
            models.CheckConstraint(
                condition=models.Q(rate_units__in=RateUnits.values), name="user_rate_units_are_known"
            ),
            models.CheckConstraint(condition=models.Q(theme__in=Theme.values), name="user_theme_is_known"),
        )

    def __str__(self) -> str:
        return f"{self.username} ({self.role})"

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

    objects = InvitationQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="invitation_role_is_known"),
        )

    def __str__(self) -> str:
        return f"invitation {self.pk} ({self.role})"


class Throttle(models.Model):
    """A bucket of attempts within a window: sign-ins, test notices, confirmation mails (pipeline.access.throttle)."""

    key = models.CharField(max_length=200, primary_key=True)
    window_started_at = models.DateTimeField()
    attempts = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.key}: {self.attempts}"
