"""The schedules installed on this machine, and whether cron or systemd is running."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping

from agent.exit_codes import ConfigurationError
from agent.scheduling import crontab, systemd
from agent.scheduling.timetable import Schedule


@dataclass(frozen=True)
class Machine:
    """Where schedules are stored; values other than those of find_machine are for tests."""

    root: str
    is_root: bool
    environ: Mapping[str, str]

    def find_table(self, user: str | None) -> crontab.Table:
        """Return the crontab; ConfigurationError without cron."""
        return crontab.find_table(user=user, is_root=self.is_root, environ=self.environ, root=self.root)

    def find_units(self) -> systemd.Units:
        """Return the location of units."""
        return systemd.find_units(is_root=self.is_root, environ=self.environ, root=self.root)


@dataclass(frozen=True)
class InstalledSchedule:
    """An installed schedule; kind: "cron" or "systemd"; is_running: whether that is running, None if unknown."""

    kind: str
    schedule: Schedule
    is_running: bool | None


def find_machine() -> Machine:
    """Return this machine."""
    return Machine("/", os.geteuid() == 0, os.environ)


def find_schedules(machine: Machine, user: str | None = None) -> list[InstalledSchedule]:
    """Return the schedules of the current user, or in the crontab of a user: first cron's, then systemd's."""
    units = machine.find_units()
    is_cron_running = crontab.is_cron_running(machine.root)
    try:
        text = crontab.read_table(machine.find_table(user))
    except ConfigurationError:
        text = ""  # no cron, no crontab
    return [
        *(InstalledSchedule("cron", schedule, is_cron_running) for schedule in crontab.list_schedules(text)),
        *(
            InstalledSchedule("systemd", schedule, units.is_running)
            for schedule in systemd.list_schedules(units)
        ),
    ]
