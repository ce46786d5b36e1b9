"""Register this machine with the server, and remove what the agent installed on it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from typing import Mapping, Sequence

from agent import __version__
from agent.config import Config, check_token
from agent.delivery.client import Client, DeliveryOutcome, Response, classify_response
from agent.exit_codes import ConfigurationError, ResultRejected, TryLater
from agent.files import replace_file
from agent.job_state import StateDirectory, SweepState, find_unfinished
from agent.measuring.workspace import clean_leftovers, list_leftovers, list_workspaces
from agent.running.session import Session
from agent.scheduling import schedule_command
from agent.scheduling.schedule_command import remove_schedules
from agent.trust import require_trusted

# More than token and configuration need: a full disk is detected before the enrollment token is used.
_TRIAL_BYTES = 16 * 1024


@dataclass(frozen=True)
class Uninstallation:
    """What uninstall removes. files: that exist; spool: its directory, None if it is kept.

    leftovers: directories with test files of killed runs of this spool; unknown: others that look like it, which are
    listed only, as an agent with another spool may use them.
    """

    schedules: Sequence[str]
    files: Sequence[str]
    spool: str | None
    leftovers: Sequence[str] = ()
    unknown: Sequence[str] = ()

    def describe(self) -> list[str]:
        """Return a line for each."""
        return [
            *(f"schedule  {text}" for text in self.schedules),
            *(f"file      {path}" for path in self.files),
            *(f"test file {path}" for path in self.leftovers),
            *([f"spool     {self.spool}"] if self.spool else []),
        ]


def plan_uninstallation(session: Session, *, removes_spool: bool) -> Uninstallation:
    """Return what would be removed; TryLater while an agent runs, ConfigurationError if something would be lost."""
    config, spool = session.config, session.spool
    holder = spool.find_holder()
    if holder is not None:
        raise TryLater(f"another bench-agent is running, process {holder}; nothing was removed")
    sweeps = StateDirectory(SweepState, spool.directory)
    for damaged in sweeps.read().damaged:
        raise ConfigurationError(f"{damaged.describe()}; nothing was removed")
    sweep = find_unfinished(sweeps)
    if sweep is not None:
        raise ConfigurationError(
            f"sweep {sweep.id} was interrupted, and its array or filesystem may still exist; first run "
            f"bench-agent sweep --resume {sweep.id}, or --abandon; nothing was removed"
        )
    pending = len(spool.pending())
    if removes_spool and pending:
        raise ConfigurationError(
            f"--spool: results that are not delivered: {pending}; run bench-agent flush, or leave out --spool; nothing "
            "was removed"
        )
    files = [path for path in (config.path, config.token_file) if os.path.lexists(path)]
    fixed = [path for path in files if not os.access(os.path.dirname(path), os.W_OK | os.X_OK)]
    if fixed:
        raise ConfigurationError(f"cannot remove {fixed[0]} as this user; nothing was removed")
    schedules = schedule_command.find_schedules(schedule_command.find_machine())
    has_spool = removes_spool and os.path.isdir(spool.directory)
    leftovers = list_leftovers(spool.directory)
    measured = {config.directory or "", *(one.schedule.directory for one in schedules)}
    return Uninstallation(
        [f"{one.kind}: {one.schedule.describe()}" for one in schedules],
        files,
        spool.directory if has_spool else None,
        leftovers,
        [path for path in list_workspaces(measured) if path not in leftovers],
    )


def uninstall(plan: Uninstallation, session: Session) -> list[str]:
    """Remove what was planned; return problems. Devices, and other files in measured directories, are never touched."""
    # Before the token is removed: the server must not wait for runs.
    removed = remove_schedules(session)
    problems = list(removed.problems)
    if removed.schedules and not removed.is_reported:
        problems.append("the server still expects runs: retire the host on its page")
    if plan.leftovers:
        with session.spool.lock():
            clean_leftovers(session.spool.directory)
        problems += [
            f"{path} cannot be removed; remove it by hand" for path in plan.leftovers if os.path.lexists(path)
        ]
    if plan.spool:
        with session.spool.lock():
            if not session.spool.remove_all():
                problems.append(f"{plan.spool} contains other files, or a mount, and was not removed")
    for path in plan.files:
        try:
            os.unlink(path)
        except OSError as error:
            problems.append(f"cannot remove {path}: {error.strerror or error}")
    return problems


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
