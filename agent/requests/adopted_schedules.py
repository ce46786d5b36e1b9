"""Replace the schedules that this host adopted from the server, all or none."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Callable, Collection, Sequence

from agent.exit_codes import ConfigurationError
from agent.files import replace_file
from agent.programs import find_own_command
from agent.requests.request_policy import RequestedRun
from agent.scheduling import crontab, systemd
from agent.scheduling.schedule_command import InstalledSchedule, Machine, find_schedules, write_units
from agent.scheduling.timetable import Schedule

if TYPE_CHECKING:
    from agent.running.session import Session


def request_run(schedule: Schedule) -> RequestedRun:
    """Return what a schedule of the server runs, which is checked as a requested run."""
    return RequestedRun("", schedule.profile, schedule.parameters or {}, schedule.directory)


def _write_command(schedule: Schedule, session: Session, *, is_cron: bool) -> tuple[str, ...]:
    parameters = request_run(schedule).write_parameters()
    return (
        *find_own_command(),
        "run",
        *(["--quiet"] if is_cron else []),
        *("--config", os.path.abspath(session.config.path), "--profile", schedule.profile),
        *("--directory", schedule.directory),
        *(part for name, text in parameters.items() for part in ("--set", f"{name}={text}")),
        *("--patience", f"{schedule.every_s // 2}s"),
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


def check_entry(schedule: Schedule, *, kind: str, machine: Machine, session: Session) -> None:
    """Raise ConfigurationError if cron or systemd cannot have the command of a schedule; kind: "" for neither."""
    if kind == "cron":
        _write_cron_line(schedule, machine.find_table(None), session)
    elif kind:
        _write_unit_texts(schedule, machine.find_units(), session)


@dataclass(frozen=True)
class AdoptedReplacement:
    """What replaces the adopted schedules of this host; kind: "cron" or "systemd".

    keeps: profiles whose adopted schedules stay as they are; repairs: an agent was killed while it changed them, and
    systemd may not know what is written; begin: called before the first change.
    """

    machine: Machine
    kind: str
    wanted: Sequence[Schedule]
    keeps: Collection[str]
    repairs: bool
    begin: Callable[[], object]

    def install(self, session: Session) -> bool:
        """Install these schedules, and remove others that were adopted; return whether there was a change.

        ConfigurationError if that fails; then the previous ones are installed.
        """
        if self.wanted:
            session.check_paths()
        is_cron = self.kind == "cron"
        is_changed = self._write_crontab(session) if is_cron else self._write_units(session)
        other = {
            one.kind
            for one in find_schedules(self.machine)
            if one.schedule.is_from_server and one.schedule.profile not in self.keeps
        } - {self.kind}
        if other:
            # The host has changed from cron to systemd, or back: otherwise profiles would run twice.
            removal = replace(self, wanted=())
            is_changed = removal._write_units(session) if is_cron else removal._write_crontab(session)
        return is_changed or bool(other) or self.repairs

    def _write_crontab(self, session: Session) -> bool:
        """Replace the entries by one write of the crontab."""
        table = self.machine.find_table(None)
        before = crontab.read_table(table)
        text = before
        for schedule in self._list_dropped(crontab.list_schedules(before)):
            text = crontab.remove_schedule(text, *schedule.key, table=table)
        known = {schedule.key: schedule for schedule in crontab.list_schedules(text)}
        for each in self.wanted:
            command, line = _write_cron_line(each, table, session)
            if known.get(each.key) != each or line not in text.split("\n"):
                text = crontab.put_schedule(text, each, command, table=table)
        if text == before:
            return False
        self.begin()
        crontab.write_table(table, text)
        return True

    def _write_units(self, session: Session) -> bool:
        """Replace the units; after a failure, restore those that were there."""
        units = self.machine.find_units()
        removed = self._list_dropped(systemd.list_schedules(units))
        changed = []
        for each in self.wanted:
            texts = _write_unit_texts(each, units, session)
            if self.repairs or texts != _read_units(units, each):
                changed.append((each, texts))
        if not changed and not removed:
            return False
        self.begin()
        saved = [(each, _read_units(units, each)) for each in [*removed, *(each for each, _ in changed)]]
        try:
            for schedule, texts in changed:
                _, problems = systemd.install_units(
                    units, schedule, service=texts["service"], timer=texts["timer"]
                )
                if problems:
                    raise ConfigurationError("; ".join(problems))
            for schedule in removed:
                systemd.remove_units(units, *schedule.key)
        except ConfigurationError as error:
            _restore_units(units, saved)
            raise ConfigurationError(
                f"{error}; if the directory is read-only, install the timer of `poll` again, or run poll from cron"
            ) from None
        return True

    def _list_dropped(self, installed: Sequence[Schedule]) -> list[Schedule]:
        """Return the adopted schedules that are not wanted any more."""
        adopted = [each for each in installed if each.is_from_server and each.profile not in self.keeps]
        return [each for each in adopted if each.key not in {wanted.key for wanted in self.wanted}]


def _write_cron_line(schedule: Schedule, table: crontab.Table, session: Session) -> tuple[Sequence[str], str]:
    """Return the command of a schedule and its line of the crontab."""
    command = _write_command(schedule, session, is_cron=True)
    return command, crontab.write_line(schedule, command, user=table.user if table.is_system else "")


def _write_unit_texts(schedule: Schedule, units: systemd.Units, session: Session) -> dict[str, str]:
    """Return the texts of service and timer."""
    command = _write_command(schedule, session, is_cron=False)
    return write_units(units, schedule, command, user=None, session=session)


def _read_units(units: systemd.Units, schedule: Schedule) -> dict[str, str]:
    """Return the texts of the units that exist."""
    texts = {}
    for kind in ("service", "timer"):
        try:
            path = os.path.join(units.directory, systemd.name_unit(units, schedule, kind))
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                texts[kind] = file.read()
        except OSError:
            continue
    return texts


def _restore_units(units: systemd.Units, saved: Sequence[tuple[Schedule, dict[str, str]]]) -> None:
    for schedule, texts in saved:
        try:
            if set(texts) != {"service", "timer"}:
                systemd.remove_units(units, *schedule.key)
                continue
            for kind, text in texts.items():
                path = os.path.join(units.directory, systemd.name_unit(units, schedule, kind))
                if _read_units(units, schedule).get(kind) != text:
                    replace_file(path, text, mode=0o644)
            systemd.reload_units(units, schedule)
        except (OSError, ConfigurationError):
            # What made the installation fail makes this fail, too: nothing was written.
            continue
