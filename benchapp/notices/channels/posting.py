"""Post JSON to a URL of a subscription; with a secret, signed by Standard Webhooks (standardwebhooks.com, 1.0).

The connection goes to the checked address, with the name in TLS and in the header Host; redirects are not followed and
no proxy of the environment is used. The total limit, from name resolution to the last byte read, is 10 s.
"""

import base64
import hashlib
import hmac
import http.client
import json
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from django.conf import settings

from benchapp import __version__
from benchapp.models import Subscription
from benchapp.notices.channels.message import Message
from benchapp.notices.channels.ssrf_guard import (
    NameUnknown,
    WebhookUrl,
    read_url,
    refuse_private_number,
    resolve_address,
)
from benchapp.notices.channels.transport import AddressRefused, NotDelivered, Transport

LIMIT_S: Final = 10.0
ANSWER_BYTES_MAXIMUM: Final = 64 * 2**10
SECRET_PREFIX: Final = "whsec_"
# As long as the longest delay between our own attempts (delivery_times).
_RETRY_AFTER_MAXIMUM: Final = timedelta(hours=6)
_GONE: Final = 410
# These may have Retry-After: too many requests, service unavailable.
_BUSY: Final = (429, 503)


def read_retry_after(text: str | None, *, now: datetime) -> timedelta | None:
    """Return the delay of a header Retry-After, at most six hours; None if it is missing or invalid.

    Seconds, or an HTTP date (RFC 9110, 10.2.3); None for a date in the past.
    """
    value = (text or "").strip()[:100]
    if value.isascii() and value.isdigit():
        return timedelta(seconds=min(int(value[:9]), _RETRY_AFTER_MAXIMUM.total_seconds()))
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    wait = moment.replace(tzinfo=moment.tzinfo or UTC) - now
    return min(wait, _RETRY_AFTER_MAXIMUM) if wait > timedelta(0) else None


class PostingTransport(Transport):
    """A channel whose address is a URL of http or https, which gets JSON."""

    address_help = "webhook URL (https://…)"

    def check_address(self, address: str) -> None:
        """Raise AddressRefused for a URL that the settings do not allow; names are resolved on each delivery."""
        url = read_url(address, ports=settings.WEBHOOK_PORTS)
        refuse_private_number(url, allowed=settings.WEBHOOK_ALLOW_PRIVATE)

    def send(
        self, subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
    ) -> str:
        """Post the messages as one body, signed if the subscription has a secret. Raises NotDelivered."""
        body = self.render(messages, at=at)
        return post_json(subscription.address, body, message_id=message_id, secret=subscription.secret)

    def render(self, messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
        """Return messages as one body. at: creation time of the first."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Answer:
    """The relevant parts of an answer. retry_after: the header or None."""

    status: int
    retry_after: str | None


def make_secret() -> str:
    """Return a new secret that signs webhooks: whsec_ and 32 random bytes in base64."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def sign(secret: str, message_id: str, *, timestamp_s: int, body: bytes) -> str:
    """Return the header webhook-signature: v1 and the HMAC-SHA256 of id.timestamp.body in base64."""
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def post_json(address: str, document: Mapping[str, Any], *, message_id: str, secret: str) -> str:
    """Post a document to a URL that the settings allow and return the outcome for the log. Raises NotDelivered.

    secret: the signing key; "" for none. message_id: the same for all attempts, so that a receiver can drop duplicates.
    """
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": f"benchapp/{__version__}",
        "Accept": "*/*",
        "Connection": "close",
    }
    if secret:
        timestamp_s = int(time.time())
        headers["webhook-id"] = message_id
        headers["webhook-timestamp"] = str(timestamp_s)
        headers["webhook-signature"] = sign(secret, message_id, timestamp_s=timestamp_s, body=body)
    deadline = time.monotonic() + LIMIT_S
    try:
        url = read_url(address, ports=settings.WEBHOOK_PORTS)
        found = resolve_address(url, allowed=settings.WEBHOOK_ALLOW_PRIVATE, timeout_s=LIMIT_S)
    except AddressRefused as error:
        raise NotDelivered(f"refused: {error}") from error
    except NameUnknown as error:
        raise NotDelivered(str(error)) from error
    return _evaluate_answer(_exchange(url, found, body=body, headers=headers, deadline=deadline))


def _evaluate_answer(answer: _Answer) -> str:
    """Return the outcome of an answer. Its body is not logged: it may come from an internal network."""
    status = answer.status
    if 200 <= status < 300:
        return f"delivered: answered {status}"
    if 300 <= status < 400:
        raise NotDelivered(
            f"answered {status}: redirects are not followed; subscribe with the target address"
        )
    if status == _GONE:
        raise NotDelivered("answered 410 Gone: the receiver refuses further notices", is_final=True)
    if status in _BUSY:
        asked = read_retry_after(answer.retry_after, now=datetime.now(UTC))
        text = f" with Retry-After {asked.total_seconds():.0f} s" if asked else ""
        raise NotDelivered(f"answered {status}{text}", retry_after=asked)
    raise NotDelivered(f"answered {status}")


def _exchange(
    url: WebhookUrl, addresses: Sequence[str], *, body: bytes, headers: Mapping[str, str], deadline: float
) -> _Answer:
    """Send the request and return the answer. The next address is tried only if connecting failed."""
    reached = _connect(url, addresses, deadline=deadline)
    # The timeout of a read does not end an answer that arrives byte by byte: this one does. A duplicated handle,
    # because TLS detaches the first one.
    handle = reached.dup()
    watchdog = threading.Timer(max(deadline - time.monotonic(), 0.0), _shut, args=[handle])
    watchdog.daemon = True
    watchdog.start()
    connection = http.client.HTTPConnection(url.host, url.port)
    try:
        connection.sock = _encrypt(reached, url) if url.scheme == "https" else reached
        connection.request("POST", url.path, body=body, headers={"Host": url.host_header, **headers})
        answer = connection.getresponse()
        answer.read(ANSWER_BYTES_MAXIMUM)
        return _Answer(answer.status, answer.getheader("Retry-After"))
    except (OSError, http.client.HTTPException, ValueError) as error:
        if time.monotonic() >= deadline:
            raise NotDelivered(f"no answer within {LIMIT_S:.0f} s") from error
        raise NotDelivered(f"no answer: {_format_error(error)}") from error
    finally:
        watchdog.cancel()
        connection.close()
        reached.close()
        handle.close()


def _connect(url: WebhookUrl, addresses: Sequence[str], *, deadline: float) -> socket.socket:
    problem: OSError = TimeoutError("no time left")
    for address in addresses:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            break
        try:
            return socket.create_connection((address, url.port), timeout=left_s)
        except OSError as error:
            problem = error
    raise NotDelivered(f"cannot connect: {_format_error(problem)}") from problem


def _encrypt(plain: socket.socket, url: WebhookUrl) -> ssl.SSLSocket:
    return ssl.create_default_context().wrap_socket(plain, server_hostname=url.host)


def _shut(reached: socket.socket) -> None:
    with suppress(OSError):
        reached.shutdown(socket.SHUT_RDWR)


def _format_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {LIMIT_S:.0f} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:150]
