"""Send a notice as an e-mail with text and HTML, through the operator's SMTP server."""

import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from benchapp.framework.env import EmailServer
from benchapp.notices.channels.transport import AddressRefused, NotDelivered

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
