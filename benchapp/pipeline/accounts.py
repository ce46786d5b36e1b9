"""Make accounts through one-time links, and slow down who guesses passwords."""

import hashlib
import secrets
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from benchapp.models import ApiToken, Invitation, Role, Scope, User
from benchapp.pipeline.throttle import count_attempt

LINK_LIFETIME: Final = timedelta(hours=24)
# Ten guesses in a quarter of an hour for one name from one address; a person who mistypes needs three.
SIGN_IN_WINDOW: Final = timedelta(minutes=15)
SIGN_IN_ATTEMPTS: Final = 10
# An office behind one address signs in on a Monday; a list of names is longer.
SIGN_IN_ATTEMPTS_OF_ADDRESS: Final = 50


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
            _take_keys(user)
        User.objects.filter(pk=user.pk).update(role=role)


def set_active(user: User, *, is_active: bool) -> None:
    """Let a person in again, or no longer; ValidationError when that would leave no admin."""
    with transaction.atomic():
        if not is_active:
            _require_another_admin(user)
            _take_keys(user)
        User.objects.filter(pk=user.pk).update(is_active=is_active)


def count_sign_in_attempt(username: str, address: str, *, now: datetime | None = None) -> bool:
    """Count one attempt of this name from this address; say whether it may go on.

    Two buckets: the name from the address, and the address with any name (of IPv6 its /64, which one person has).
    """
    moment = now or timezone.now()
    network = network_of(address)
    by_name = count_attempt("sign-in", f"{username.lower()}|{network}", window=SIGN_IN_WINDOW, now=moment)
    by_address = count_attempt("sign-in", f"|{network}", window=SIGN_IN_WINDOW, now=moment)
    return by_name.count <= SIGN_IN_ATTEMPTS and by_address.count <= SIGN_IN_ATTEMPTS_OF_ADDRESS


def network_of(address: str) -> str:
    """Return what one person has of addresses: of IPv6 its /64, else the address itself."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    return str(ip_network(f"{address}/64", strict=False)) if parsed.version == 6 else address


def _take_keys(user: User) -> None:
    """End the links and tokens that a person made as admin; those of hosts stay, as hosts go on measuring."""
    now = timezone.now()
    Invitation.objects.filter(created_by=user, used_at__isnull=True).update(expires_at=now)
    ApiToken.objects.filter(created_by=user, revoked_at__isnull=True).exclude(scope=Scope.INGEST).update(
        revoked_at=now
    )


def _require_another_admin(user: User) -> None:
    # Locked in the order of ids, so that two admins who demote each other cannot both succeed.
    admins = User.objects.select_for_update().filter(role=Role.ADMIN, is_active=True).order_by("pk")
    if {admin.pk for admin in admins} == {user.pk}:
        raise ValidationError(f"{user.username} is the last admin: make another one first")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
