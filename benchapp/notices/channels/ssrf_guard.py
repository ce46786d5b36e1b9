"""Allowed webhook addresses: the public internet, and networks in the settings.

Subscribers make this server connect to an address from inside its network. Therefore a name is resolved once, all its
addresses are checked, and the connection goes to a checked address: a later change of the name (DNS rebinding) has no
effect. docs/notifications.md lists what is refused.
"""

import queue
import re
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from benchapp.notices.channels.transport import AddressRefused

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
