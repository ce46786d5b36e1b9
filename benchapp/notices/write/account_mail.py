"""Mails of accounts: the link for a lost password, and the one that confirms the address for it."""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.utils import timezone

from benchapp.accounts.write.password_reset import create_reset_link, list_reset_users, sign_address
from benchapp.models import User
from benchapp.notices.channels.email.transport import send_messages
from benchapp.notices.channels.message import Message

_VALID: Final = ("Valid for", "24 hours, once")


def send_reset_links(login: str) -> int:
    """Send a link to each user whom a user name or address means; return their number. Raises NotDelivered."""
    users = list_reset_users(login)
    for user in users:
        secret = create_reset_link(user, created_by=user)
        _send(
            user.email,
            Message(
                kind="account.password_reset",
                subject=f"New password for {user.username}",
                sentence=f"Somebody asked for a new password of {user.username} at {settings.PUBLIC_URL}.",
                details=(
                    ("Not requested by you?", "Ignore this mail: the password does not change."),
                    _VALID,
                ),
                url=f"{settings.PUBLIC_URL}/reset-password/{secret}/",
                link_text="Set a new password",
            ),
        )
    return len(users)


def send_address_link(user_id: int, address: str) -> bool:
    """Send the link that confirms an address of a user; False for an unknown user. Raises NotDelivered."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return False
    _send(
        address,
        Message(
            kind="account.email",
            subject="Confirm this e-mail address",
            sentence=(
                f"User {user.username} of benchapp at {settings.PUBLIC_URL} wants to get links for a lost password at"
                " this address."
            ),
            details=(("Not requested by you?", "Ignore this mail: the address is not used."), _VALID),
            url=f"{settings.PUBLIC_URL}/account/email/{sign_address(user, address)}/",
            link_text="Confirm the address",
        ),
    )
    return True


def _send(address: str, message: Message) -> None:
    if settings.EMAIL_SERVER is not None:
        send_messages(address, [message], message_id=str(uuid4()), thread="account", at=timezone.now())
