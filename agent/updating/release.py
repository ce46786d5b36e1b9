"""The agent that the server ships: what it announces, and the verified download."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from dataclasses import dataclass
from typing import Any, Mapping

from agent.config import is_loopback
from agent.delivery.client import Client, DeliveryOutcome, Response, classify_response
from agent.exit_codes import AgentError, ConfigurationError, ExitCode, TryLater

_RELEASE = "/api/v1/agent"
_ARCHIVE = "/agent/bench-agent.pyz"
_VERSION = re.compile(r"\d{1,6}(\.\d{1,6}){1,3}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class UpdateRefused(AgentError):
    """What the server ships is not installed; the installed version is unchanged or restored."""

    exit_code = ExitCode.CONFIGURATION


@dataclass(frozen=True)
class AgentRelease:
    """What the server ships. sha256: hexadecimal; is_offered: whether the roll-out has reached this host."""

    version: str
    sha256: str
    size_bytes: int
    signature: bytes | None
    is_offered: bool


def is_newer(version: str, installed: str) -> bool:
    """Return whether a version of numbers and dots is newer; False for anything else."""
    if not (_VERSION.fullmatch(version) and _VERSION.fullmatch(installed)):
        return False
    return [int(part) for part in version.split(".")] > [int(part) for part in installed.split(".")]


def check_transport(url: str, *, key: bytes | None) -> None:
    """Raise ConfigurationError if somebody on the network could replace the agent unnoticed."""
    if url.startswith("https:") or is_loopback(url) or key is not None:
        return
    raise ConfigurationError(
        f"{url} is not encrypted: anybody on the network between could send another program; use https, or set "
        "[update] public_key"
    )


def read_release(client: Client) -> AgentRelease:
    """Return what the server ships; TryLater or ConfigurationError without a valid answer."""
    response = client.request("GET", _RELEASE)
    if response.status != 200 or response.body is None:
        raise _explain(response, f"the server does not describe its agent: {response.describe()}")
    try:
        return _parse_release(response.body)
    except (KeyError, TypeError, ValueError):
        raise TryLater(
            f"the answer of {client.url}{_RELEASE} is not that of benchapp; is another service running at this URL?"
        ) from None


def download_release(client: Client, release: AgentRelease, *, key: bytes | None) -> bytes:
    """Return the archive, which is what the server announced and, with a key, what its owner signed."""
    response = client.request("GET", _ARCHIVE)
    if response.status != 200 or response.problem:
        raise _explain(response, f"cannot download the agent: {response.describe()}")
    content = response.content
    digest = hashlib.sha256(content).hexdigest()
    if digest != release.sha256 or len(content) != release.size_bytes:
        # During an update of several servers, one may announce what another does not ship yet.
        raise TryLater(
            f"the downloaded file is not the announced one: SHA-256 {digest}, {len(content)} bytes, instead of "
            f"{release.sha256}, {release.size_bytes} bytes; nothing was installed"
        )
    if key is not None:
        _check_signature(content, release.signature, key=key)
    found = read_archive_version(content)
    if found != release.version:
        raise UpdateRefused(
            f"the downloaded file is version {found or 'unknown'}, the server announced {release.version}; nothing was "
            "installed"
        )
    return content


def read_archive_version(content: bytes) -> str | None:
    """Return the version of an archive of the agent; None if it is not a complete one."""
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_complete = archive.testzip() is None and "__main__.py" in archive.namelist()
            source = archive.read("agent/__init__.py").decode()
    except (zipfile.BadZipFile, KeyError, ValueError, OSError, EOFError, NotImplementedError):
        return None
    found = re.search(r'^__version__ = "([^"]+)"$', source, re.MULTILINE)
    return found.group(1) if found and is_complete else None


def _check_signature(content: bytes, signature: bytes | None, *, key: bytes) -> None:
    from agent.ed25519 import is_valid_signature

    if signature is None:
        raise UpdateRefused(
            "[update] public_key is set, but the server has no signature of its agent (BENCHAPP_AGENT_SIGNATURE); "
            "nothing was installed"
        )
    if not is_valid_signature(key, content, signature):
        raise UpdateRefused(
            "the signature of the downloaded file does not match [update] public_key; nothing was installed"
        )


def _parse_release(body: Mapping[str, Any]) -> AgentRelease:
    """Return a release; KeyError, TypeError or ValueError for another document."""
    version, sha256, size_bytes = body["version"], body["sha256"], body["size_bytes"]
    if not (_VERSION.fullmatch(version) and _DIGEST.fullmatch(sha256) and isinstance(size_bytes, int)):
        raise ValueError(version)
    signature = body["signature"]
    return AgentRelease(
        version=version,
        sha256=sha256,
        size_bytes=size_bytes,
        signature=None if signature is None else base64.b64decode(signature, validate=True),
        is_offered=body["is_offered"] is True,
    )


def _explain(response: Response, text: str) -> AgentError:
    is_later = classify_response(response, submission_id=None) == DeliveryOutcome.LATER
    return TryLater(text) if is_later else ConfigurationError(text)
