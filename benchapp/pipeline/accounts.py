"""Make accounts through one-time links, and slow down who guesses passwords."""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import connection, transaction
from django.utils import timezone

from benchapp.models import Invitation, Role, Throttle, User

LINK_LIFETIME: Final = timedelta(hours=24)
# Ten guesses in a quarter of an hour for one name from one address; a person who mistypes needs three.
SIGN_IN_WINDOW: Final = timedelta(minutes=15)
SIGN_IN_ATTEMPTS: Final = 10


class InvitationRefused(Exception):
    """A one-time link that is unknown, used or expired."""


def create_setup_link() -> str | None:
    """Return the secret of a new link that makes the first admin; None when there is one already.

    Earlier set-up links stop working: only the last one printed counts.
    """
    if User.objects.filter(role=Role.ADMIN, is_active=True).exists():
        return None
    Invitation.objects.filter(created_by__isnull=True, used_at__isnull=True).delete()
    return create_invitation(role=Role.ADMIN, created_by=None)


def create_invitation(*, role: Role, created_by: User | None) -> str:
    """Return the secret of a new one-time link that makes an account of this role within 24 hours."""
    secret = secrets.token_urlsafe(32)
    Invitation.objects.create(
        digest=_digest(secret),
        role=role,
        created_by=created_by,
        expires_at=timezone.now() + LINK_LIFETIME,
    )
    return secret


def find_invitation(secret: str) -> Invitation | None:
    """Return the invitation that this link opens now, or None."""
    return Invitation.objects.open_at(timezone.now()).filter(digest=_digest(secret)).first()


@transaction.atomic
def accept_invitation(secret: str, username: str, *, password: str) -> User:
    """Make the account and use up the link, together.

    Raises InvitationRefused, or ValidationError for the user name or the password.
    """
    now = timezone.now()
    invitation = Invitation.objects.select_for_update().open_at(now).filter(digest=_digest(secret)).first()
    if invitation is None:
        raise InvitationRefused("this link was used already, has expired, or never was one of ours")
    user = User(username=username, role=invitation.role)
    user.full_clean(exclude=["password"])
    validate_password(password, user)
    user.set_password(password)
    user.save()
    Invitation.objects.filter(pk=invitation.pk, used_at__isnull=True).update(used_at=now)
    return user


def change_role(user: User, role: Role) -> None:
    """Give a person another role; ValidationError when that would leave no admin."""
    with transaction.atomic():
        if role != Role.ADMIN:
            _require_another_admin(user)
        User.objects.filter(pk=user.pk).update(role=role)


def set_active(user: User, *, is_active: bool) -> None:
    """Let a person in again, or no longer; ValidationError when that would leave no admin."""
    with transaction.atomic():
        if not is_active:
            _require_another_admin(user)
        User.objects.filter(pk=user.pk).update(is_active=is_active)


def count_sign_in_attempt(username: str, address: str, *, now: datetime | None = None) -> bool:
    """Count one attempt of this name from this address; say whether it may go on."""
    moment = now or timezone.now()
    key = f"sign-in:{hashlib.sha256(f'{username.lower()}|{address}'.encode()).hexdigest()}"
    # One statement, so that attempts made at once are all counted.
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO benchapp_throttle AS bucket (key, window_started_at, attempts) VALUES (%s, %s, 1)"
            " ON CONFLICT (key) DO UPDATE SET"
            "  attempts = CASE WHEN bucket.window_started_at <= %s THEN 1 ELSE bucket.attempts + 1 END,"
            "  window_started_at ="
            "   CASE WHEN bucket.window_started_at <= %s THEN %s ELSE bucket.window_started_at END"
            " RETURNING attempts",
            [key, moment, moment - SIGN_IN_WINDOW, moment - SIGN_IN_WINDOW, moment],
        )
        row = cursor.fetchone()
    return row is not None and row[0] <= SIGN_IN_ATTEMPTS


def forget_old_attempts(*, now: datetime | None = None) -> int:
    """Remove the buckets whose window is over; return how many."""
    deleted, _ = Throttle.objects.filter(
        window_started_at__lte=(now or timezone.now()) - SIGN_IN_WINDOW
    ).delete()
    return deleted


def _require_another_admin(user: User) -> None:
    # Locked in the order of ids, so that two admins who demote each other cannot both succeed.
    admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
    if {admin.pk for admin in admins} == {user.pk}:
        raise ValidationError(f"{user.username} is the last admin: make another one first")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
