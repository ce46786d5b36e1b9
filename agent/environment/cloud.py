"""Instance type and zone as a cloud's metadata service tells them: only where it was asked for, and within 200 ms.

Services answer at one link-local address, which no router passes on and no proxy is asked for. What they tell beyond
type and zone (accounts, keys, user data) is not kept. Volume type and provisioned IOPS are not theirs to tell.
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
# For all questions together: a service answers within a few milliseconds, or there is none.
LIMIT_S = 0.2
_ANSWER_MAXIMUM_BYTES = 64 * 1024
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,7})\r\n", re.IGNORECASE)
# What Microsoft writes there on every machine of Azure.
_AZURE_ASSET_TAG = "7783-7084-3265-9085-8269-3286-77"


@dataclass(frozen=True)
class Instance:
    """What a cloud calls this machine's size and place; None is unknown. provider: ec2, gcp or azure."""

    provider: str
    instance_type: str | None
    zone: str | None

    def as_facts(self) -> dict[str, str]:
        """Return facts of the environment."""
        told = {"provider": self.provider, "instance_type": self.instance_type, "zone": self.zone}
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: str


class _Service:
    """A metadata service that is asked until a deadline."""

    def __init__(self, address: tuple[str, int], limit_s: float) -> None:
        self._address = address
        self._deadline = time.monotonic() + limit_s

    def ask(self, path: str, headers: Mapping[str, str], *, method: str = "GET") -> _Answer | None:
        """Return the answer; None where there is none in time, or none that is understood."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._address[0]}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if method != "GET":
            lines.append("Content-Length: 0")
        try:
            return _parse_answer(self._exchange("\r\n".join([*lines, "", ""]).encode("ascii")))
        except OSError:
            return None

    def _exchange(self, request: bytes) -> bytes:
        """Return what is answered; each wait is cut to what is left, so that trickling gains nothing."""
        received = b""
        with socket.create_connection(self._address, timeout=self._left_s()) as connection:
            connection.sendall(request)
            while len(received) < _ANSWER_MAXIMUM_BYTES and not _is_whole(received):
                connection.settimeout(self._left_s())
                piece = connection.recv(_ANSWER_MAXIMUM_BYTES)
                if not piece:
                    break
                received += piece
        return received

    def _left_s(self) -> float:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise socket.timeout("the time for asking is over")
        return left_s


def find_instance(
    *, root: str = "/", address: tuple[str, int] = ADDRESS, limit_s: float = LIMIT_S
) -> Instance | None:
    """Return what the metadata service of EC2, Google Cloud or Azure tells; None where none answers within limit_s."""
    service = _Service(address, limit_s)
    for provider in _order_providers(root):
        instance = _PROVIDERS[provider](service)
        if instance is not None:
            return instance
    return None


def _order_providers(root: str) -> tuple[str, ...]:
    """Return whom to ask: the cloud that the firmware names; all where it names nobody, and nobody elsewhere.

    Other clouds imitate EC2's service, so that it comes last.
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
    """IMDSv2: a token first, which also keeps a service that merely looks like EC2 from being believed."""
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = service.ask("/latest/api/token", lifetime, method="PUT")
    if token is None or token.status != 200 or not re.fullmatch(r"[!-~]{1,500}", token.body):
        return None
    headers = {"X-aws-ec2-metadata-token": token.body}
    return _make_instance(
        "ec2",
        _read_word(service.ask("/latest/meta-data/instance-type", headers)),
        _read_word(service.ask("/latest/meta-data/placement/availability-zone", headers)),
    )


def _ask_gcp(service: _Service) -> Instance | None:
    """Answers are projects/NUMBER/machineTypes/TYPE; the number is the customer's and is left out."""
    words = []
    for name in ("machine-type", "zone"):
        answer = service.ask(f"/computeMetadata/v1/instance/{name}", {"Metadata-Flavor": "Google"})
        is_google = answer is not None and answer.headers.get("metadata-flavor") == "Google"
        words.append(_read_word(answer) if is_google else None)
        if words[0] is None:
            return None
    return _make_instance("gcp", *words)


def _ask_azure(service: _Service) -> Instance | None:
    path = "/metadata/instance/compute?api-version=2021-02-01&format=json"
    answer = service.ask(path, {"Metadata": "true"})
    try:
        told: Any = json.loads(answer.body) if answer and answer.status == 200 else {}
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    location, zone = _check_word(told.get("location")), _check_word(told.get("zone"))
    return _make_instance(
        "azure", _check_word(told.get("vmSize")), f"{location}-{zone}" if location and zone else location
    )


_PROVIDERS: Mapping[str, Callable[[_Service], Instance | None]] = {
    "ec2": _ask_ec2,
    "gcp": _ask_gcp,
    "azure": _ask_azure,
}


def _make_instance(provider: str, instance_type: str | None, zone: str | None) -> Instance | None:
    return Instance(provider, instance_type, zone) if instance_type else None


def _read_word(answer: _Answer | None) -> str | None:
    """Return the last part of a path that was answered; None for anything else, such as a portal's page."""
    if answer is None or answer.status != 200:
        return None
    return _check_word(answer.body.rpartition("/")[2])


def _check_word(text: Any) -> str | None:
    return text if isinstance(text, str) and _WORD.fullmatch(text) else None


def _is_whole(received: bytes) -> bool:
    """Say whether all that was announced is there: not every server closes what it was asked to."""
    head, separator, body = received.partition(b"\r\n\r\n")
    length = _LENGTH.search(head + b"\r\n")
    return bool(separator) and length is not None and len(body) >= int(length.group(1))


def _parse_answer(received: bytes) -> _Answer | None:
    from http.client import HTTPException, HTTPResponse

    try:
        response = HTTPResponse(_Received(received))  # type: ignore[arg-type]
        response.begin()
        body = response.read(_ANSWER_MAXIMUM_BYTES).decode("utf-8", "replace").strip()
    except (HTTPException, ValueError):
        return None
    return _Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


class _Received:
    """What was received, as http.client wants to read it."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
