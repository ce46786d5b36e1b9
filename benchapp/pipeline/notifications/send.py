"""Send messages to one subscription over its channel."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from benchapp.models import Channel, Subscription
from benchapp.pipeline.notifications.channels.apprise_service import send_to_service
from benchapp.pipeline.notifications.channels.email import Mailbox, NotificationEmail, send_email
from benchapp.pipeline.notifications.channels.webhook import NotDelivered, WebhookPolicy, post_json
from benchapp.pipeline.notifications.email_confirmation import MESSAGE_KIND, add_link
from benchapp.pipeline.notifications.incident_message import CLOSING_KINDS
from benchapp.pipeline.notifications.message import Message
from benchapp.pipeline.notifications.render import (
    join_subjects,
    render_event,
    render_html,
    render_slack,
    render_text,
)

# Kinds of messages that report the end of a problem.
RESOLUTIONS: Final = frozenset(
    {f"incident.{kind}" for kind in CLOSING_KINDS} | {"host.back", "threshold.met", "threshold.unmatched"}
)


def deliver(subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime) -> str:
    """Send messages as one and return the outcome for the log. Raises NotDelivered.

    message_id: the same for all attempts; at: creation time of the first message.
    """
    if subscription.channel == Channel.EMAIL:
        return _send_email(subscription, messages, message_id=message_id, at=at)
    if subscription.channel == Channel.APPRISE:
        return send_to_service(
            subscription.address,
            title=join_subjects(messages),
            text=render_text(messages),
            hosts=settings.APPRISE_HOSTS,
            is_problem=any(message.kind not in RESOLUTIONS for message in messages),
        )
    is_slack = subscription.channel == Channel.SLACK
    document = render_slack(messages) if is_slack else render_event(messages, at=at)
    return post_json(
        subscription.address,
        document,
        message_id=message_id,
        secret="" if is_slack else subscription.secret,
        policy=read_policy(),
    )


def read_policy() -> WebhookPolicy:
    """Return the allowed webhook addresses, from the settings."""
    return WebhookPolicy(ports=settings.WEBHOOK_PORTS, allowed=settings.WEBHOOK_ALLOW_PRIVATE)


def read_mailbox() -> Mailbox | None:
    """Return the SMTP server of the settings or None."""
    server = settings.EMAIL_SERVER
    if server is None:
        return None
    return Mailbox(
        host=server.host,
        port=server.port,
        user=server.user,
        password=server.password,
        security=server.security,
        sender=settings.EMAIL_FROM,
    )


def _send_email(
    subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
) -> str:
    mailbox = read_mailbox()
    if mailbox is None:
        raise NotDelivered("e-mail is not configured: set BENCHAPP_EMAIL_URL")
    messages = [
        add_link(message, subscription) if message.kind == MESSAGE_KIND else message for message in messages
    ]
    subject = join_subjects(messages)
    domain = urlsplit(settings.PUBLIC_URL).hostname or "benchapp.invalid"
    email = NotificationEmail(
        to=subscription.address,
        subject=f"[benchapp] {subject}",
        text=render_text(messages),
        html=render_html(messages, title=subject),
        message_id=f"{message_id}@{domain}",
        thread_id=f"{messages[0].thread or 'notices'}@{domain}",
        sent_at=at,
    )
    return send_email(email, mailbox)
