"""Instance type and zone from a cloud's metadata service: opt-in, limited to 200 ms.

The services use one link-local address, without a router or proxy. Other data that they offer (accounts, keys, user
data) are not stored. They do not offer volume type and provisioned IOPS.
"""

from __future__ import annotations

import io
import json
import re
import socket
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from agent.storage.sysfs import read_line, read_text

ADDRESS = ("169.254.169.254", 80)
# For all requests together: a service responds within a few milliseconds, or there is none.
LIMIT_S = 0.2
_RESPONSE_MAXIMUM_BYTES = 64 * 1024
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,7})\r\n", re.IGNORECASE)
# The same on every machine of Azure.
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"


@dataclass(frozen=True)
class Instance:
    """Instance type and zone; None if unknown. provider: ec2, gcp or azure."""

    provider: str
    instance_type: str | None
    zone: str | None

    def as_facts(self) -> dict[str, str]:
        """Return facts of the environment."""
        facts = {"provider": self.provider, "instance_type": self.instance_type, "zone": self.zone}
        return {name: value for name, value in facts.items() if value is not None}


@dataclass(frozen=True)
class _Response:
    status: int
    headers: Mapping[str, str]
    body: str


class _Service:
    """Requests to a metadata service until a deadline."""

    def __init__(self, address: tuple[str, int], limit_s: float) -> None:
        self._address = address
        self._deadline = time.monotonic() + limit_s

    def request(self, path: str, headers: Mapping[str, str], *, method: str = "GET") -> _Response | None:
        """Return the response; None if it is late or invalid."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address[0]}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if method != "GET":
            lines.append("Content-Length: 0")
        try:
            return _parse_response(self._exchange("\r\n".join([*lines, "", ""]).encode("ascii")))
        except OSError:
            return None

    def _exchange(self, request: bytes) -> bytes:
        """Return the received bytes; each wait is limited to the remaining time."""
        received = b""
        with socket.create_connection(self._address, timeout=self._left_s()) as connection:
            connection.sendall(request)
            while len(received) < _RESPONSE_MAXIMUM_BYTES and not _is_whole(received):
                connection.settimeout(self._left_s())
                piece = connection.recv(_RESPONSE_MAXIMUM_BYTES)
                if not piece:
                    break
                received += piece
        return received

    def _left_s(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise socket.timeout("the time limit has passed")
        return left_s


def find_instance(
    *, root: str = "/", address: tuple[str, int] = ADDRESS, limit_s: float = LIMIT_S
) -> Instance | None:
    """Return the instance from EC2, Google Cloud or Azure; None if no service responds within limit_s."""
    service = _Service(address, limit_s)
    for provider in _order_providers(root):
        instance = _PROVIDERS[provider](service)
        if instance is not None:
            return instance
    return None


def _order_providers(root: str) -> tuple[str, ...]:
    """Return the services to query: the one that DMI names, all without DMI, none for other vendors.

    EC2 comes last because other clouds imitate its service.
    """
    firmware = "sys/class/dmi/id"
    vendor = read_text(root, firmware, "sys_vendor")
    if vendor == "Amazon EC2" or "amazon" in read_text(root, firmware, "bios_version"):
        return ("ec2",)
    if vendor == "Google" or read_text(root, firmware, "product_name") == "Google Compute Engine":
        return ("gcp",)
    if read_line(root, firmware, "chassis_asset_tag") == _AZURE_ASSET_TAG:
        return ("azure",)
    return () if vendor else ("gcp", "azure", "ec2")


def _ask_ec2(service: _Service) -> Instance | None:
    """Use IMDSv2: its token also excludes services that only imitate IMDSv1."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = service.request("/latest/api/token", lifetime, method="PUT")
    if token is None or token.status != 200 or not re.fullmatch(r"[!-~]{1,500}", token.body):
        return None
    headers = {"X-aws-ec2-metadata-token": token.body}
    return _make_instance(
        "ec2",
        _read_word(service.request("/latest/meta-data/instance-type", headers)),
        _read_word(service.request("/latest/meta-data/placement/availability-zone", headers)),
    )


def _ask_gcp(service: _Service) -> Instance | None:
    """Responses are projects/NUMBER/machineTypes/TYPE; the customer's number is removed."""
    words = []
    for name in ("machine-type", "zone"):
        response = service.request(f"/computeMetadata/v1/instance/{name}", {"Metadata-Flavor": "Google"})
        is_google = response is not None and response.headers.get("metadata-flavor") == "Google"
        words.append(_read_word(response) if is_google else None)
        if words[0] is None:
            return None
    return _make_instance("gcp", *words)


def _ask_azure(service: _Service) -> Instance | None:
    path = "/metadata/instance/compute?api-version=2021-02-01&format=json"
    response = service.request(path, {"Metadata": "true"})
    try:
        document: Any = json.loads(response.body) if response and response.status == 200 else {}
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    location, zone = _check_word(document.get("location")), _check_word(document.get("zone"))
    return _make_instance(
        "azure", _check_word(document.get("vmSize")), f"{location}-{zone}" if location and zone else location
    )


_PROVIDERS: Mapping[str, Callable[[_Service], Instance | None]] = {
    "ec2": _ask_ec2,
    "gcp": _ask_gcp,
    "azure": _ask_azure,
}


def _make_instance(provider: str, instance_type: str | None, zone: str | None) -> Instance | None:
    return Instance(provider, instance_type, zone) if instance_type else None


def _read_word(response: _Response | None) -> str | None:
    """Return the last part of the path in the response; None for anything else, such as a portal's page."""
    if response is None or response.status != 200:
        return None
    return _check_word(response.body.rpartition("/")[2])


def _check_word(text: Any) -> str | None:
    return text if isinstance(text, str) and _WORD.fullmatch(text) else None


def _is_whole(received: bytes) -> bool:
    """Return whether Content-Length bytes arrived: not every server closes the connection as requested."""
    head, separator, body = received.partition(b"\r\n\r\n")
    length = _LENGTH.search(head + b"\r\n")
    return bool(separator) and length is not None and len(body) >= int(length.group(1))


def _parse_response(received: bytes) -> _Response | None:
    from http.client import HTTPException, HTTPResponse

    try:
        response = HTTPResponse(_Received(received))  # type: ignore[arg-type]
        response.begin()
        body = response.read(_RESPONSE_MAXIMUM_BYTES).decode("utf-8", "replace").strip()
    except (HTTPException, ValueError):
        return None
    return _Response(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


class _Received:
    """Received bytes with the interface that http.client reads from."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
