"""Replace the schedules that this host adopted from the server, all or none."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Collection, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import replace_file
from agent.scheduling import crontab, systemd
from agent.scheduling.agent_command import find_own_command
from agent.scheduling.installed_schedules import InstalledSchedule, Machine, find_schedules
from agent.scheduling.schedule_command import write_units
from agent.scheduling.timetable import Schedule

if TYPE_CHECKING:
    from agent.running.session import Session


@dataclass(frozen=True)
class AdoptedRun:
    """A schedule and the options of its command that name what is measured."""

    schedule: Schedule
    options: Sequence[str]

    def write_command(self, *, is_cron: bool, config_path: str) -> tuple[str, ...]:
        """Return the scheduled command."""
        return (
            *find_own_command(),
            "run",
            *(["--quiet"] if is_cron else []),
            *("--config", config_path, "--profile", self.schedule.profile),
            *("--directory", self.schedule.directory, *self.options),
            *("--patience", f"{self.schedule.every_s // 2}s"),
        )


def choose_kind(machine: Machine, installed: Sequence[InstalledSchedule]) -> str:
    """Return "cron" or "systemd": that of the installed schedules, the poll first; else the one that is running."""
    ordered = sorted(installed, key=lambda one: (not one.schedule.is_poll, not one.schedule.is_from_server))
    if ordered:
        return ordered[0].kind
    if crontab.is_cron_running(machine.root) is not False:
        try:
            machine.find_table(None)
        except ConfigurationError:
            pass
        else:
            return "cron"
    if machine.find_units().is_running:
        return "systemd"
    raise ConfigurationError("neither cron nor systemd is running: no schedule can be installed")


def replace_adopted(
    machine: Machine, kind: str, wanted: Sequence[AdoptedRun], *, keeps: Collection[str], session: Session
) -> tuple[Schedule, ...] | None:
    """Install these schedules, and remove others that were adopted; return the previous ones, None without a change.

    keeps: profiles whose adopted schedules stay as they are. ConfigurationError if that fails; then the previous ones
    are installed.
    """
    before = tuple(one.schedule for one in find_schedules(machine) if one.schedule.is_from_server)
    replace = _replace_in_crontab if kind == "cron" else _replace_units
    is_changed = replace(machine, wanted, keeps, session)
    other = {
        one.kind
        for one in find_schedules(machine)
        if one.schedule.is_from_server and one.schedule.profile not in keeps
    } - {kind}
    if other:
        # The host has changed from cron to systemd, or back: otherwise profiles would run twice.
        (_replace_units if kind == "cron" else _replace_in_crontab)(machine, (), keeps, session)
    return before if is_changed or other else None


def _replace_in_crontab(
    machine: Machine, wanted: Sequence[AdoptedRun], keeps: Collection[str], session: Session
) -> bool:
    """Replace the entries by one write of the crontab."""
    table = machine.find_table(None)
    before = crontab.read_table(table)
    profiles = {*keeps, *(each.schedule.profile for each in wanted)}
    text = before
    for schedule in crontab.list_schedules(before):
        if schedule.is_from_server and schedule.profile not in profiles:
            text = crontab.remove_schedule(text, schedule.profile, table=table)
    known = {schedule.profile: schedule for schedule in crontab.list_schedules(text)}
    for each in wanted:
        command = each.write_command(is_cron=True, config_path=os.path.abspath(session.config.path))
        line = crontab.write_line(each.schedule, command, user=table.user if table.is_system else "")
        if known.get(each.schedule.profile) != each.schedule or line not in text.split("\n"):
            text = crontab.put_schedule(text, each.schedule, command, table=table)
    if text == before:
        return False
    crontab.write_table(table, text)
    return True


def _replace_units(
    machine: Machine, wanted: Sequence[AdoptedRun], keeps: Collection[str], session: Session
) -> bool:
    """Replace the units; after a failure, restore those that were there."""
    units = machine.find_units()
    profiles = {*keeps, *(each.schedule.profile for each in wanted)}
    removed = [
        schedule.profile
        for schedule in systemd.list_schedules(units)
        if schedule.is_from_server and schedule.profile not in profiles
    ]
    changed = []
    for each in wanted:
        command = each.write_command(is_cron=False, config_path=os.path.abspath(session.config.path))
        texts = write_units(units, each.schedule, command, user=None, session=session)
        if texts != _read_units(units, each.schedule.profile):
            changed.append((each.schedule, texts))
    saved = {
        profile: _read_units(units, profile)
        for profile in [*removed, *(schedule.profile for schedule, _ in changed)]
    }
    try:
        for schedule, texts in changed:
            _, problems = systemd.install_units(
                units, schedule, service=texts["service"], timer=texts["timer"]
            )
            if problems:
                raise ConfigurationError("; ".join(problems))
        for profile in removed:
            systemd.remove_units(units, profile)
    except ConfigurationError as error:
        _restore_units(units, saved)
        raise ConfigurationError(
            f"{error}; if the directory is read-only, install the timer of `poll` again, or run poll from cron"
        ) from None
    return bool(changed or removed)


def _read_units(units: systemd.Units, profile: str) -> dict[str, str]:
    """Return the texts of the units that exist."""
    texts = {}
    for kind in ("service", "timer"):
        try:
            path = os.path.join(units.directory, systemd.name_unit(profile, kind))
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                texts[kind] = file.read()
        except OSError:
            continue
    return texts


def _restore_units(units: systemd.Units, saved: dict[str, dict[str, str]]) -> None:
    for profile, texts in saved.items():
        try:
            if set(texts) != {"service", "timer"}:
                systemd.remove_units(units, profile)
                continue
            for kind, text in texts.items():
                path = os.path.join(units.directory, systemd.name_unit(profile, kind))
                if _read_units(units, profile).get(kind) != text:
                    replace_file(path, text, mode=0o644)
            systemd.reload_units(units, profile)
        except (OSError, ConfigurationError):
            # What made the installation fail makes this fail, too: nothing was written.
            continue
