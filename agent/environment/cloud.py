"""Instance type and zone from a cloud's metadata service: opt-in, limited to 200 ms.

The services use one link-local address, without a router or proxy. Other data that they offer (accounts, keys, user
data) are not stored. They do not offer volume type and provisioned IOPS.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from agent.delivery.client import Client, Response
from agent.storage.sysfs import keep_known, read_line, read_text

ADDRESS = ("169.254.169.254", 80)
# For all requests together: a service responds within a few milliseconds, or there is none.
LIMIT_S = 0.2
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
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
        return keep_known(**vars(self))


class _Service:
    """Requests to a metadata service until a deadline."""

    def __init__(self, address: tuple[str, int], limit_s: float) -> None:
        host, port = address
        # Without the port in the header Host, which a service may compare.
        url = f"http://{host}" if port == 80 else f"http://{host}:{port}"
        self._client = Client(url, "", timeout_s=limit_s, uses_proxy=False)
        self._deadline = time.monotonic() + limit_s

    def request(self, path: str, headers: Mapping[str, str], *, method: str = "GET") -> Response:
        """Return the response; without a status if it is late or invalid."""
        limit_s = self._deadline - time.monotonic()
        # Not JSON, which the client asks the server for: these values are words.
        return self._client.request(method, path, headers={"Accept": "*/*", **headers}, limit_s=limit_s)


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
    word = _read_text(token)
    if not re.fullmatch(r"[!-~]{1,500}", word):
        return None
    headers = {"X-aws-ec2-metadata-token": word}
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
        is_google = response.headers.get("metadata-flavor") == "Google"
        words.append(_read_word(response) if is_google else None)
        if words[0] is None:
            return None
    return _make_instance("gcp", *words)


def _ask_azure(service: _Service) -> Instance | None:
    path = "/metadata/instance/compute?api-version=2021-02-01&format=json"
    response = service.request(path, {"Metadata": "true"})
    document = (response.body if response.status == 200 else None) or {}
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


def _read_text(response: Response) -> str:
    return response.content.decode("utf-8", "replace").strip() if response.status == 200 else ""


def _read_word(response: Response) -> str | None:
    """Return the last part of the path in the response; None for anything else, such as a portal's page."""
    return _check_word(_read_text(response).rpartition("/")[2])


def _check_word(text: Any) -> str | None:
    return text if isinstance(text, str) and _WORD.fullmatch(text) else None
