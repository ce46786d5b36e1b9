"""Messages as e-mails, through the SMTP server of the settings."""

import smtplib
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from html import escape
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings

from benchapp.framework.env import EmailServer
from benchapp.models import Subscription
from benchapp.notices.channels.transport import (
    AddressRefused,
    Message,
    MessageLevel,
    NotDelivered,
    Transport,
    join_subjects,
    render_text,
)

# Text and background colors are not set, so that mail clients can use dark mode. All set colors have a contrast of at
# least 3 on white and on #15181b.
_FONT: Final = (
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:14px;line-height:20px"
)
_MUTED: Final = "color:#767b80"
_LINK: Final = "color:#2f81c7"
_BEFORE: Final = "#8a9096"
_REGRESSION: Final = "#d04a3b"
_IMPROVEMENT: Final = "#2e9e5b"
_RULE_STYLE: Final = "border:0;border-top:1px solid #8a909666;margin:20px 0"


def render_html(messages: Sequence[Message], *, title: str) -> str:
    """Return the messages as one HTML document, one below the other."""
    body = f'<hr style="{_RULE_STYLE}">'.join(_render(message) for message in messages)
    settings_url = messages[0].settings_url
    end = f" · {_link(settings_url, 'notification settings')}" if settings_url else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">'
        f"<title>{escape(title)}</title></head>"
        f'<body style="margin:0;padding:16px"><div style="max-width:640px;{_FONT}">{body}'
        f'<p style="{_MUTED};font-size:12px;margin:24px 0 0">benchapp{end}</p></div></body></html>'
    )


def _render(message: Message) -> str:
    parts = [
        f'<h1 style="font-size:18px;line-height:24px;margin:0 0 8px">{escape(message.subject)}</h1>',
        f'<p style="margin:0 0 12px">{escape(message.sentence)}</p>',
    ]
    if message.levels:
        parts.append(_render_levels(message))
    if message.suspects:
        items = "".join(f"<li>{escape(suspect)}</li>" for suspect in message.suspects)
        parts.append(
            _heading("Possible causes") + f'<ul style="margin:0 0 12px;padding-left:20px">{items}</ul>'
        )
    if message.details:
        parts.append(_render_details(message))
    if message.url:
        parts.append(f'<p style="margin:12px 0 0">{_link(message.url, message.link_text)}</p>')
    return "".join(parts)


def _render_levels(message: Message) -> str:
    rows = "".join(_render_level(level) for level in message.levels)
    more = ""
    if message.more_levels:
        more = f'<p style="{_MUTED};margin:4px 0 0">and {message.more_levels} more</p>'
    table = f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="{_FONT}">{rows}</table>'
    return _heading("Affected series") + table + more


def _render_level(level: MessageLevel) -> str:
    """Render both levels as bars from zero, made of table cells, which no mail client blocks."""
    longest = max(level.before, level.after) or 1.0
    after = _REGRESSION if level.is_regression else _IMPROVEMENT
    word = "regression" if level.is_regression else "improvement"
    name = _link(level.url, level.name) if level.url else escape(level.name)
    head = (
        f'<tr><td colspan="2" style="padding:8px 0 2px">{name}: <strong>{escape(level.text)}</strong> '
        f'<span style="{_MUTED}">{word}</span></td></tr>'
    )
    return (
        head
        + _render_bar("before", level.before / longest, level.before_text, color=_BEFORE)
        + _render_bar("after", level.after / longest, level.after_text, color=after)
    )


def _render_bar(name: str, share: float, text: str, *, color: str) -> str:
    """Render one bar; share: 0 to 1 of the longer one."""
    width = min(max(round(share * 100), 1), 100)
    rest = f'<td width="{100 - width}%" style="font-size:0"></td>' if width < 100 else ""
    bar = (
        '<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr>'
        f'<td width="{width}%" height="12" bgcolor="{color}" '
        f'style="background:{color};height:12px;font-size:0;line-height:12px">&nbsp;</td>{rest}</tr></table>'
    )
    return (
        f'<tr><td style="padding:1px 12px 1px 0">{bar}</td>'
        f'<td width="170" style="white-space:nowrap;font-size:12px">{escape(name)} {escape(text)}</td></tr>'
    )


def _render_details(message: Message) -> str:
    rows = "".join(
        f'<tr><td style="{_MUTED};padding:1px 12px 1px 0;vertical-align:top;white-space:nowrap">{escape(name)}</td>'
        f'<td style="padding:1px 0">{escape(value)}</td></tr>'
        for name, value in message.details
    )
    return f'<table cellpadding="0" cellspacing="0" style="{_FONT}">{rows}</table>'


def _heading(text: str) -> str:
    return f'<h2 style="font-size:14px;line-height:20px;margin:12px 0 4px">{escape(text)}</h2>'


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}" style="{_LINK}">{escape(text)}</a>'


LIMIT_S: Final = 20.0
_ADDRESS_MAXIMUM: Final = 254


@dataclass(frozen=True, slots=True)
class NotificationEmail:
    """One e-mail. sender: "benchapp <bench@example.org>". message_id, thread_id: without angle brackets; message_id is
    the same for all attempts.
    """

    sender: str
    to: str
    subject: str
    text: str
    html: str
    message_id: str
    thread_id: str
    sent_at: datetime


def read_email_address(text: str) -> str:
    """Return one bare address: name@domain. Raises AddressRefused for a list, a display name, or a line break."""
    address = text.strip()
    if len(address) > _ADDRESS_MAXIMUM or any(each in address for each in '\r\n\x00,;<>"() \t'):
        raise AddressRefused("write one address, name@example.org, without a name before it")
    try:
        parsed = Address(addr_spec=address)
    except Exception as error:  # the parser of the standard library raises many types
        raise AddressRefused(f"{address[:80]!r} is not a valid e-mail address") from error
    if not parsed.username or "." not in parsed.domain.strip(".") or not address.isascii():
        raise AddressRefused(f"{address[:80]!r} is not a valid e-mail address")
    return address


def make_message(email: NotificationEmail) -> EmailMessage:
    """Return the message with both parts; line breaks in headers are removed."""
    message = EmailMessage(policy=SMTP)
    message["From"] = email.sender
    message["To"] = read_email_address(email.to)
    message["Subject"] = " ".join(email.subject.split())[:200]
    message["Date"] = format_datetime(email.sent_at)
    message["Message-ID"] = f"<{email.message_id}>"
    message["References"] = f"<{email.thread_id}>"
    # No automatic replies: RFC 3834.
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message.set_content(email.text)
    message.add_alternative(email.html, subtype="html")
    return message


def send_email(email: NotificationEmail, server: EmailServer) -> str:
    """Send an e-mail over the SMTP server and return the outcome for the log. Raises NotDelivered."""
    try:
        _transmit(make_message(email), server)
    except smtplib.SMTPRecipientsRefused as error:
        code, reply = next(iter(error.recipients.values()), (0, b""))
        raise NotDelivered(f"the mail server refused the address: {code} {_to_text(reply)}") from error
    except smtplib.SMTPResponseException as error:
        raise NotDelivered(
            f"the mail server answered {error.smtp_code}: {_to_text(error.smtp_error)}"
        ) from error
    except (OSError, smtplib.SMTPException, AddressRefused, ValueError) as error:
        raise NotDelivered(f"no e-mail sent: {_to_text(error)}") from error
    return "delivered: accepted by the mail server"


def _transmit(message: EmailMessage, server: EmailServer) -> None:
    connection = _connect(server)
    try:
        if server.security == "starttls":
            connection.starttls(context=ssl.create_default_context())
        if server.user:
            connection.login(server.user, server.password)
        connection.send_message(message)
    finally:
        # Errors after acceptance are ignored: the e-mail must not be sent again.
        with suppress(OSError, smtplib.SMTPException):
            connection.quit()
        connection.close()


def _connect(server: EmailServer) -> smtplib.SMTP:
    name = socket.gethostname()
    if server.security == "tls":
        return smtplib.SMTP_SSL(
            server.host,
            server.port,
            local_hostname=name,
            timeout=LIMIT_S,
            context=ssl.create_default_context(),
        )
    return smtplib.SMTP(server.host, server.port, local_hostname=name, timeout=LIMIT_S)


def _to_text(reply: object) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    return " ".join(text.split())[:200] or "no reason given"


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
