"""Links for lost passwords: an admin passes them on, or the server sends them to the address of the account."""

import re
from datetime import timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.crypto import salted_hmac

from benchapp.accounts.write.accounts import LINK_LIFETIME, InvitationRefused, network_of, record_account
from benchapp.accounts.write.throttle import LimitReached, count_attempt
from benchapp.framework.write.audit import record_write
from benchapp.models import AuditKind, Role, User

# A person who does not find the mail asks again; more would fill a mailbox of somebody else.
REQUESTS_OF_LOGIN_PER_HOUR: Final = 3
# An office behind one address.
REQUESTS_OF_ADDRESS_PER_HOUR: Final = 20
ADDRESSES_PER_DAY: Final = 5
_ADDRESS_SALT: Final = "benchapp.accounts.write.password_reset.address"


class _ResetTokens(PasswordResetTokenGenerator):
    """Tokens of links for lost passwords. creator: the admin, or the user of the link if it is sent by e-mail."""

    key_salt = "benchapp.accounts.write.accounts.reset"

    def __init__(self, creator: User) -> None:
        super().__init__()
        self._creator = creator

    def _make_hash_value(self, user: Any, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}|{self._creator.pk}"


def create_reset_link(user: User, *, created_by: User) -> str:
    """Return the secret of a link with which this user sets a new password within 24 hours, once.

    created_by: an admin, or the user for a link that is sent to the user's own address. Django derives it from the
    password, the last sign-in and the e-mail address: a change of one makes it invalid. So does a creator who is no
    longer an active admin. Raises ValidationError for a deactivated account.
    """
    if not user.is_active:
        raise ValidationError(f"{user.username} is deactivated: activate the account first")
    record_account(user, "password_reset_link_created", None, None)
    return f"{user.pk}-{created_by.pk}-{_ResetTokens(created_by).make_token(user)}"


def find_reset_user(secret: str) -> User | None:
    """Return the user whose password this link sets now, or None."""
    found = re.fullmatch(r"(\d{1,18})-(\d{1,18})-(.+)", secret, re.ASCII)
    if found is None:
        return None
    user = User.objects.filter(pk=int(found[1]), is_active=True).first()
    creator = User.objects.filter(pk=int(found[2]), is_active=True).first()
    if user is None or creator is None or (creator != user and creator.role != Role.ADMIN):
        return None
    return user if _ResetTokens(creator).check_token(user, found[3]) else None


@transaction.atomic
def reset_password(secret: str, password: str) -> User:
    """Set the password of the user of a link, which becomes invalid, as do the sessions of the user.

    Raises InvitationRefused, or ValidationError for the password.
    """
    found = find_reset_user(secret)
    if found is not None:
        # Locked and checked again: of two requests with the same link the second fails.
        User.objects.select_for_update().get(pk=found.pk)
        found = find_reset_user(secret)
    if found is None:
        raise InvitationRefused("this link was already used, has expired, or is not valid")
    validate_password(password, found)
    found.set_password(password)
    found.save(update_fields=["password"])
    record_write(AuditKind.ACCOUNT, "password_reset", object_id=found.pk, name=found.username, by=found)
    return found


def has_reset_by_email() -> bool:
    """Return whether the server sends links: it has passwords, a mail server, an address that no request can forge."""
    return settings.LOCAL_SIGN_IN and settings.EMAIL_SERVER is not None and bool(settings.PUBLIC_URL)


@transaction.atomic
def count_reset_request(login: str, address: str) -> None:
    """Count a request for a link, whether or not the account exists. Raises LimitReached.

    login: as typed; address: of the client.
    """
    now, hour = timezone.now(), timedelta(hours=1)
    for kind, who, maximum in (
        ("reset address", network_of(address), REQUESTS_OF_ADDRESS_PER_HOUR),
        ("reset login", login.lower(), REQUESTS_OF_LOGIN_PER_HOUR),
    ):
        counted = count_attempt(kind, who, window=hour, now=now)
        if counted.count > maximum:
            raise LimitReached("too many requests for a link", counted.seconds_left)


def list_reset_users(login: str) -> list[User]:
    """Return the users who get a link for what was typed: a user name, or a confirmed address of one or several.

    Users without a password sign in elsewhere and get none.
    """
    if not login:
        return []
    typed = User.objects.filter(Q(username=login) | Q(email__iexact=login), is_active=True)
    return [user for user in typed.exclude(email="").order_by("pk") if user.has_usable_password()]


def count_address_request(user: User) -> None:
    """Count a request to confirm an address. Raises LimitReached."""
    counted = count_attempt("reset e-mail", str(user.pk), window=timedelta(days=1), now=timezone.now())
    if counted.count > ADDRESSES_PER_DAY:
        raise LimitReached(f"{ADDRESSES_PER_DAY} addresses a day can be confirmed", counted.seconds_left)


def sign_address(user: User, address: str) -> str:
    """Return the secret of the link that confirms an address of a user within 24 hours."""
    return signing.dumps([user.pk, address, _digest_state(user)], salt=_ADDRESS_SALT)


def read_signed_address(secret: str, user: User) -> str | None:
    """Return the address that a link confirms for this user, or None; a change of password or address ends it."""
    try:
        user_id, address, state = signing.loads(secret, salt=_ADDRESS_SALT, max_age=LINK_LIFETIME)
    except (signing.BadSignature, ValueError, TypeError):
        return None
    return str(address) if user_id == user.pk and state == _digest_state(user) else None


@transaction.atomic
def set_email_address(user: User, address: str) -> None:
    """Set the confirmed address to which links for a lost password are sent; "" for none."""
    record_account(user, "email_changed", {"email": user.email}, {"email": address})
    user.email = address
    user.save(update_fields=["email"])


def _digest_state(user: User) -> str:
    return salted_hmac(_ADDRESS_SALT, f"{user.password}|{user.email}", algorithm="sha256").hexdigest()[:32]
