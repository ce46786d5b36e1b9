"""Make this machine a host of the server: a short-lived enrolment token becomes a token of its own."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Mapping

from agent import __version__
from agent.config import Config, check_token
from agent.delivery.client import Answer, Client, Fate, judge_answer
from agent.exit_codes import AgentError, ConfigurationError, ExitCode, TryLater
from agent.files import replace_file

# More than a token and a configuration take: a full disk is found out before the enrolment token is spent.
_TRIAL_BYTES = 16 * 1024


class EnrolmentRefused(AgentError):
    """The server understood and said no."""

    exit_code = ExitCode.REJECTED


@dataclass(frozen=True)
class Enrolment:
    """What the server knows this machine as, and where that is written down."""

    host: str
    config_path: str
    token_file: str


def read_enrolment_token(path: str | None, environ: Mapping[str, str]) -> str:
    """Return the enrolment token from a file ("-" is standard input), the environment, or standard input."""
    if path and path != "-":
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                return check_token(file.read(4096), path)
        except OSError as error:
            raise ConfigurationError(f"the enrolment token cannot be read: {error}") from None
    given = environ.get("BENCH_AGENT_ENROLL_TOKEN")
    if given and not path:
        return check_token(given, "BENCH_AGENT_ENROLL_TOKEN")
    if sys.stdin.isatty():
        import getpass

        return check_token(getpass.getpass("enrolment token: "), "your answer")
    return check_token(sys.stdin.readline(4096), "standard input")


def enroll_host(
    config: Config, url: str, *, name: str | None, enrolment_token: str, force: bool
) -> Enrolment:
    """Ask the server for a token of this host and write it down, mode 0600.

    That it can be written is tried first: an enrolment token may be good for one use only.
    """
    if os.path.exists(config.token_file) and not force:
        raise ConfigurationError(
            f"this machine is enrolled already: {config.token_file} exists; --force enrols it anew"
        )
    _prepare_directory(config.token_file)
    _prepare_directory(config.path)
    client = Client(url, enrolment_token, timeout_s=config.timeout_s, ca_file=config.ca_file)
    asked = {"name": name or os.uname().nodename, "agent_version": __version__}
    answer = client.request("POST", "/api/v1/enrollments", document=asked)
    host, token = _read_answer(answer, url)
    try:
        write_private_file(config.token_file, token + "\n")
        _write_config(config, url)
    except OSError as error:
        raise ConfigurationError(
            f"the server knows this host now, but that cannot be written down: {error}; revoke its token on the page "
            "Hosts and enrol it anew"
        ) from None
    return Enrolment(host, config.path, config.token_file)


def _read_answer(answer: Answer, url: str) -> tuple[str, str]:
    if answer.status == 201 and answer.body and isinstance(answer.body.get("token"), str):
        return str(answer.body.get("host")), check_token(answer.body["token"], "the server's answer")
    fate = judge_answer(answer, submission_id=None)
    if fate == Fate.REJECTED:
        raise EnrolmentRefused(f"the server did not enrol this host: {answer.describe()}")
    if fate == Fate.REFUSED:
        raise ConfigurationError(f"the server at {url} refused the enrolment: {answer.describe()}")
    raise TryLater(f"this host is not enrolled: {answer.describe()}")


def _prepare_directory(path: str) -> None:
    directory = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{directory} cannot be made: {error}") from None
    trial = os.path.join(directory, f".bench-agent-trial-{os.getpid()}")
    try:
        write_private_file(trial, "x" * _TRIAL_BYTES)
        os.unlink(trial)
    except OSError as error:
        raise ConfigurationError(
            f"{directory} is not writable: {error}; name another place with --config"
        ) from None


def write_private_file(path: str, text: str) -> None:
    """Replace a file with one that only this user may read, whole or not at all."""
    replace_file(path, text, mode=0o600)


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
    """Return INI text with one option set; configparser would drop the comments of whoever wrote it."""
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
