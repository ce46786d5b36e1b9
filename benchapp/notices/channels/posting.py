"""Post JSON to a URL of a subscription; with a secret, signed by Standard Webhooks (standardwebhooks.com, 1.0).

Allowed webhook addresses: the public internet, and networks in the settings. Subscribers make this server connect to
an address from inside its network. Therefore a name is resolved once, all its addresses are checked, and the
connection goes to a checked address: a later change of the name (DNS rebinding) has no effect. docs/notifications.md
lists what is refused.

The connection goes to the checked address, with the name in TLS and in the header Host; redirects are not followed and
no proxy of the environment is used. The total limit, from name resolution to the last byte read, is 10 s.
"""

import base64
import hashlib
import hmac
import http.client
import json
import queue
import re
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
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings

from benchapp import __version__
from benchapp.models import Subscription
from benchapp.notices.channels.transport import AddressRefused, Message, NotDelivered, Transport

URL_MAXIMUM: Final = 500
_PRINTABLE: Final = re.compile(r"[\x21-\x7e]+")
_STANDARD_PORTS: Final = {"http": 80, "https": 443}
# The only public range of IPv6 (IANA, IPv6 Global Unicast Address Assignments).
_GLOBAL_UNICAST: Final = ip_network("2000::/3")
# IANA, Special-Purpose Address Registries of IPv4 and IPv6 (2025): networks that some Python version considers global.
# 3fff::/20 is RFC 9637. 6to4 and Teredo can lead to any address of IPv4.
_SPECIAL: Final = tuple(
    ip_network(text)
    for text in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.175.48.0/24",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
# Metadata services of clouds, some of which provide credentials: AWS, Google, Azure and others at 169.254.169.254;
# Azure's wire server at a public address; AWS containers; Oracle; Alibaba; AWS and Google over IPv6.
_CLOUD_METADATA: Final = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "168.63.129.16",
        "169.254.170.2",
        "169.254.170.23",
        "192.0.0.192",
        "100.100.100.200",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)
_NAT64: Final = (ip_network("64:ff9b::/96"), ip_network("64:ff9b:1::/48"))

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class NameUnknown(Exception):
    """A name that cannot be resolved at present."""


@dataclass(frozen=True, slots=True)
class WebhookUrl:
    """A parsed URL. host: as typed, for TLS and the header; path: with its query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        """Return the value of the header Host."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == _STANDARD_PORTS[self.scheme] else f"{name}:{self.port}"


def read_url(text: str, *, ports: Sequence[int]) -> WebhookUrl:
    """Return a URL of http or https without user and fragment, on one of the ports. Raises AddressRefused."""
    if len(text) > URL_MAXIMUM:
        raise AddressRefused(f"the URL has {len(text)} characters; at most {URL_MAXIMUM} are allowed")
    if not _PRINTABLE.fullmatch(text):
        raise AddressRefused("a URL has no spaces, control or non-ASCII characters; percent-encode them")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise AddressRefused(f"not a valid URL: {error}") from error
    if parts.scheme not in _STANDARD_PORTS:
        raise AddressRefused("the URL must begin with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("a URL with user and password is not allowed: put the secret into its path")
    host = (parts.hostname or "").rstrip(".")
    if not host or "%" in host or "\\" in text:
        raise AddressRefused("the URL has no host")
    port = _STANDARD_PORTS[parts.scheme] if port is None else port
    if port not in ports:
        known = ", ".join(str(each) for each in ports)
        raise AddressRefused(f"port {port} is not allowed (BENCHAPP_WEBHOOK_PORTS: {known})")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebhookUrl(parts.scheme, host, port, path)


def resolve_address(url: WebhookUrl, *, allowed: Sequence[Network], timeout_s: float) -> tuple[str, ...]:
    """Return the addresses to connect to, in the resolver's order. Raises AddressRefused, NameUnknown.

    Raised if any address is not allowed, because the owner of the name controls the order.
    """
    found = tuple(dict.fromkeys(_look_up(url.host, url.port, timeout_s=timeout_s)))
    _refuse_private(found, allowed=allowed)
    return found


def refuse_private_number(url: WebhookUrl, *, allowed: Sequence[Network]) -> None:
    """Refuse a URL whose host is a number ("10.0.0.1", "[::1]", "127.1") that is not allowed. Raises AddressRefused.

    Without name resolution: names are accepted here, and checked on each delivery.
    """
    try:
        rows = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return
    _refuse_private([str(row[4][0]).partition("%")[0] for row in rows], allowed=allowed)


def is_allowed(address: Address, *, allowed: Sequence[Network]) -> bool:
    """Return whether a webhook may connect to an address: it is public, or in an allowed network.

    The metadata service of a cloud is only allowed by its exact address. A mapped IPv6 address is treated as its IPv4
    address; one of NAT64, 6to4 or Teredo must be in an allowed network, and the IPv4 address in it allowed too.
    """
    plain = _unwrap(address)
    if plain in _CLOUD_METADATA:
        return any(network.num_addresses == 1 and plain in network for network in allowed)
    if _is_within(plain, allowed):
        embedded = _read_embedded(plain)
        return embedded is None or is_allowed(embedded, allowed=allowed)
    if _is_within(plain, _SPECIAL):
        return False
    if isinstance(plain, IPv6Address) and plain not in _GLOBAL_UNICAST:
        return False
    return plain.is_global and not (
        plain.is_multicast or plain.is_reserved or plain.is_loopback or plain.is_link_local
    )


def _is_within(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _read_embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address in an IPv6 address of NAT64, 6to4 or Teredo; else None."""
    if isinstance(address, IPv4Address):
        return None
    if _is_within(address, _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour or (address.teredo[1] if address.teredo else None)


def _refuse_private(addresses: Sequence[str], *, allowed: Sequence[Network]) -> None:
    if not all(is_allowed(ip_address(address), allowed=allowed) for address in addresses):
        raise AddressRefused(
            "the address is not public; an operator can allow its network (BENCHAPP_WEBHOOK_ALLOW_PRIVATE)"
        )


def _unwrap(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _look_up(host: str, port: int, *, timeout_s: float) -> list[str]:
    """Resolve in a separate thread: the resolver has no configurable timeout."""
    answers: queue.SimpleQueue[list[str] | OSError | UnicodeError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            answers.put(error)
        else:
            # A zone ("fe80::1%eth0") names a local interface: such an address is never public.
            answers.put([str(row[4][0]).partition("%")[0] for row in rows])

    threading.Thread(target=ask, daemon=True, name="webhook-resolver").start()
    try:
        answer = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise NameUnknown(f"{host[:80]} was not resolved within {timeout_s:.0f} s") from None
    if isinstance(answer, Exception) or not answer:
        raise NameUnknown(f"{host[:80]} cannot be resolved")
    return answer


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
