"""Messages as e-mails, through the SMTP server of the settings."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from benchapp.models import Subscription
from benchapp.notices.channels.email.html import render_html
from benchapp.notices.channels.email.smtp import (
    NotificationEmail,
    read_email_address,
    send_email,
)
from benchapp.notices.channels.message import Message, join_subjects, render_text
from benchapp.notices.channels.transport import NotDelivered, Transport


class EmailTransport(Transport):
    """A person; the address must be confirmed (email_confirmation.py)."""

    address_help = "E-mail address (must be confirmed)"

    def check_address(self, address: str) -> None:
        """Raise AddressRefused for anything but one bare address."""
        read_email_address(address)

    def send(
        self, subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
    ) -> str:
        """Send the messages as one e-mail, in the thread of the first."""
        thread = messages[0].thread or "notices"
        return send_messages(subscription.address, messages, message_id=message_id, thread=thread, at=at)


def send_messages(
    address: str, messages: Sequence[Message], *, message_id: str, thread: str, at: datetime
) -> str:
    """Send messages as one e-mail and return the outcome for the log. Raises NotDelivered."""
    if settings.EMAIL_SERVER is None:
        raise NotDelivered("e-mail is not configured: set BENCHAPP_EMAIL_URL")
    subject = join_subjects(messages)
    domain = urlsplit(settings.PUBLIC_URL).hostname or "benchapp.invalid"
    email = NotificationEmail(
        sender=settings.EMAIL_FROM,
        to=address,
        subject=f"[benchapp] {subject}",
        text=render_text(messages),
        html=render_html(messages, title=subject),
        message_id=f"{message_id}@{domain}",
        thread_id=f"{thread}@{domain}",
        sent_at=at,
    )
    return send_email(email, settings.EMAIL_SERVER)


TRANSPORT: Final = EmailTransport()
