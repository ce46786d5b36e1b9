"""Remove what the agent installed on this machine: schedules, configuration and token; the spool on request."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Sequence

from agent.exit_codes import ConfigurationError, TryLater
from agent.job_state import StateDirectory, SweepState, find_unfinished
from agent.measuring.workspace import clean_leftovers, list_leftovers, list_workspaces
from agent.running.session import Session
from agent.scheduling import schedule_command
from agent.scheduling.schedule_command import remove_schedules


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
