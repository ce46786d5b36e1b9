"""Register this machine with the server: exchange a short-lived enrollment token for a host token."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Mapping

from agent import __version__
from agent.config import Config, check_token
from agent.delivery.client import Client, DeliveryOutcome, Response, classify_response
from agent.exit_codes import ConfigurationError, ResultRejected, TryLater
from agent.files import replace_file
from agent.trust import require_trusted

# More than token and configuration need: a full disk is detected before the enrollment token is used.
_TRIAL_BYTES = 16 * 1024


@dataclass(frozen=True)
class Enrollment:
    """The name of this host on the server, and the files that were written."""

    host: str
    config: str
    token_file: str


def read_enrollment_token(path: str | None, environ: Mapping[str, str]) -> str:
    """Return the enrollment token from a file ("-" is standard input), the environment, or standard input."""
    if path and path != "-":
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                return check_token(file.read(4096), path)
        except OSError as error:
            raise ConfigurationError(f"cannot read the enrollment token: {error}") from None
    given = environ.get("BENCH_AGENT_ENROLL_TOKEN")
    if given and not path:
        return check_token(given, "BENCH_AGENT_ENROLL_TOKEN")
    if sys.stdin.isatty():
        import getpass

        return check_token(getpass.getpass("enrollment token: "), "the prompt")
    return check_token(sys.stdin.readline(4096), "standard input")


def enroll_host(
    config: Config, url: str, *, name: str | None, enrollment_token: str, force: bool
) -> Enrollment:
    """Request a host token from the server and store it with mode 0600.

    Writing is tried first: an enrollment token may be valid only once.
    """
    if os.path.exists(config.token_file) and not force:
        raise ConfigurationError(
            f"this machine is already enrolled: {config.token_file} exists; use --force to enroll again"
        )
    for path in (config.token_file, config.path):
        require_trusted(path)
        _prepare_directory(path)
    client = Client(
        url, enrollment_token, timeout_s=config.timeout_s, ca_file=config.ca_file, proxy=config.proxy
    )
    document = {"name": name or os.uname().nodename, "agent_version": __version__}
    response = client.request("POST", "/api/v1/enrollments", document=document)
    host, token = _read_response(response, url)
    try:
        replace_file(config.token_file, token + "\n", mode=0o600)
        _write_config(config, url)
    except OSError as error:
        raise ConfigurationError(
            f"the server created this host, but its token cannot be stored: {error}; revoke the token on the Hosts "
            "page and enroll again"
        ) from None
    return Enrollment(host, config.path, config.token_file)


def _read_response(response: Response, url: str) -> tuple[str, str]:
    if response.status == 201 and response.body and isinstance(response.body.get("token"), str):
        return str(response.body.get("host")), check_token(response.body["token"], "the server's response")
    outcome = classify_response(response, submission_id=None)
    if outcome == DeliveryOutcome.REJECTED:
        raise ResultRejected(f"the server rejected the enrollment: {response.describe()}")
    if outcome == DeliveryOutcome.REFUSED:
        raise ConfigurationError(f"the server at {url} refused the enrollment: {response.describe()}")
    raise TryLater(f"enrollment failed: {response.describe()}")


def _prepare_directory(path: str) -> None:
    directory = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot create {directory}: {error}") from None
    trial = os.path.join(directory, f".bench-agent-trial-{os.getpid()}")
    try:
        replace_file(trial, "x" * _TRIAL_BYTES, mode=0o600)
        os.unlink(trial)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} is not writable: {error}; choose another location with --config"
        ) from None


def _write_config(config: Config, url: str) -> None:
    text = ""
    mode = 0o644
    if config.is_read:
        with open(config.path, encoding="utf-8") as file:
            text = file.read()
            mode = os.fstat(file.fileno()).st_mode & 0o777
    text = set_option(text, "server", key="url", value=url)
    text = set_option(text, "server", key="token_file", value=config.token_file)
    replace_file(config.path, text, mode=mode)


def set_option(text: str, section: str, *, key: str, value: str) -> str:
    """Return INI text with one option set; configparser would drop comments."""
    lines = text.splitlines()
    header = re.compile(r"\s*\[(.+)\]")
    sections = [
        (number, match.group(1)) for number, line in enumerate(lines) if (match := header.match(line))
    ]
    start = next((number for number, name in sections if name == section), None)
    if start is None:
        blank = [""] if lines and lines[-1].strip() else []
        return "\n".join([*lines, *blank, f"[{section}]", f"{key} = {value}", ""])
    end = next((number for number, _ in sections if number > start), len(lines))
    option = re.compile(rf"{re.escape(key)}\s*[=:]")
    found = [number for number in range(start + 1, end) if option.match(lines[number])]
    if found:
        lines[found[0]] = f"{key} = {value}"
    else:
        lines.insert(start + 1, f"{key} = {value}")
    return "\n".join([*lines, ""])
