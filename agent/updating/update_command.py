"""The command `self-update`, and the update after a run: download, verify, replace, roll back."""

from __future__ import annotations

import argparse
import errno
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent import __version__
from agent.exit_codes import AgentError, ConfigurationError, ExitCode, TryLater
from agent.scheduling.agent_command import find_own_command
from agent.updating.candidate_check import find_new_failures, read_version
from agent.updating.program_file import ProgramFile, find_program_file
from agent.updating.refused_release import find_refusal, store_refusal
from agent.updating.release import (
    AgentRelease,
    UpdateRefused,
    check_transport,
    download_release,
    is_newer,
    read_archive_version,
    read_release,
)

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.running.session import Session


_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class UpdateResult:
    """What an update did. state: current, not-offered, refused, available or installed; version: then installed."""

    state: str
    version: str
    release: AgentRelease | None
    text: str


def run_self_update(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Install the version that the server ships, or the previous one; never while an agent measures."""
    program = find_program_file(find_own_command())
    with session.spool.lock():
        if arguments.rollback:
            result = _roll_back(program, session, is_dry_run=arguments.dry_run)
        else:
            result = _update(session, session.make_client(), arguments)
    session.console.report(result.text)
    document = {
        "state": result.state,
        "version": result.version,
        "server_version": result.release.version if result.release else None,
        "path": program.path,
        "previous": program.previous_path if result.state == "installed" else None,
    }
    return session.finish(ExitCode.OK, document)


def update_after_delivery(session: Session) -> None:
    """Install a newer version that the server announced and offers this host, if [update] auto is set.

    Errors do not fail the command. What is not temporary is printed once for each release and day.
    """
    announced = session.announcements.shipped_version
    if announced is None or not is_newer(announced, __version__):
        return
    if not session.config.updates_automatically:
        if session.console.is_terminal:
            session.console.note(f"the server ships bench-agent {announced}: run bench-agent self-update")
        return
    try:
        with session.spool.lock():
            session.console.note(_update_if_offered(session, session.make_client()).text)
    except TryLater as error:
        session.console.note(f"not updated: {error}")
    except (AgentError, OSError) as error:
        session.console.warn(f"not updated: {error}")


def _update(session: Session, client: Client, arguments: argparse.Namespace) -> UpdateResult:
    if arguments.staged and not arguments.dry_run:
        return _update_if_offered(session, client)
    release = read_release(client)
    result = _choose(release, session, is_staged=arguments.staged, is_forced=arguments.force)
    if result is None and arguments.dry_run:
        text = f"would install {release.version}; installed: {__version__}"
        return UpdateResult("available", __version__, release, text)
    return result or _install(release, client, session=session)


def _update_if_offered(session: Session, client: Client) -> UpdateResult:
    """Install the release that the server offers this host; its refusal is stored."""
    release = read_release(client)
    result = _choose(release, session, is_staged=True, is_forced=False)
    if result is not None:
        return result
    try:
        return _install(release, client, session=session)
    except TryLater:
        raise
    except AgentError as error:
        store_refusal(session.spool, release.sha256, str(error))
        raise


def _choose(
    release: AgentRelease, session: Session, *, is_staged: bool, is_forced: bool
) -> UpdateResult | None:
    """Return why a release is not installed; None if it is to be installed."""
    if not (is_forced or is_newer(release.version, __version__)):
        text = f"bench-agent {__version__} is installed, the server ships {release.version}"
        return UpdateResult("current", __version__, release, text)
    if not is_staged:
        return None
    if not release.is_offered:
        text = f"the server does not offer {release.version} to this host yet"
        return UpdateResult("not-offered", __version__, release, text)
    reason = find_refusal(session.spool, release.sha256)
    if reason is not None:
        text = f"{release.version} was refused before: {reason}"
        return UpdateResult("refused", __version__, release, text)
    return None


def _install(release: AgentRelease, client: Client, *, session: Session) -> UpdateResult:
    """Download, verify and activate a release."""
    check_transport(client.url, key=session.config.update_key)
    program = find_program_file(find_own_command())
    with program.lock():
        if hashlib.sha256(program.read()).hexdigest() == release.sha256:
            # By another agent, since this process started.
            text = f"bench-agent {release.version} is installed already"
            return UpdateResult("current", release.version, release, text)
        content = download_release(client, release, key=session.config.update_key)
        _replace(program, content, release.version, session=session)
    text = f"updated from {__version__} to {release.version}; the previous version is {program.previous_path}"
    return UpdateResult("installed", release.version, release, text)


def _replace(program: ProgramFile, content: bytes, version: str, *, session: Session) -> None:
    """Replace the program by a version that passes what the program passes, and starts from its place."""
    options = ("--config", session.config.path) if session.config.is_read else ()
    try:
        candidate = program.stage(content)
        failures = find_new_failures(program, candidate, options=options)
        if failures:
            found = "; ".join(f"{name}: {detail}" for name, detail in failures.items())
            raise UpdateRefused(f"version {version} fails a check that {__version__} passes: {found}")
        program.activate(candidate)
    except OSError as error:
        kind = TryLater if error.errno in _FULL else ConfigurationError
        raise kind(f"cannot replace {program.path}: {error}; the installed version is unchanged") from None
    problem = _find_start_problem(program, version)
    if problem:
        program.restore()
        raise UpdateRefused(f"{problem}; {__version__} is restored")


def _find_start_problem(program: ProgramFile, version: str) -> str | None:
    try:
        started = read_version(program.python, program.path)
    except UpdateRefused as error:
        return str(error)
    return None if started == version else f"{program.path} reports version {started} instead of {version}"


def _roll_back(program: ProgramFile, session: Session, *, is_dry_run: bool) -> UpdateResult:
    """Exchange the program and its previous version; automatic updates do not install the program again."""
    with program.lock():
        content = program.read_previous()
        version = read_archive_version(content)
        if version is None:
            raise UpdateRefused(f"{program.previous_path} is not a complete archive; nothing was changed")
        if is_dry_run:
            text = f"would install {version} again; installed: {__version__}"
            return UpdateResult("available", __version__, None, text)
        replaced = hashlib.sha256(program.read()).hexdigest()
        _replace(program, content, version, session=session)
    store_refusal(session.spool, replaced, "it was rolled back", is_final=True)
    text = f"rolled back from {__version__} to {version}; {__version__} is {program.previous_path}"
    return UpdateResult("installed", version, None, text)
