"""Wanted schedules of pools and hosts."""

import re
from collections.abc import Sequence
from typing import Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Host, User, WantedSchedule
from benchapp.models.requests.request_policy import describe_parameters
from benchapp.models.schedules.timetable import INTERVALS, read_clock, write_clock, write_interval
from benchapp.operation.configuration.hosts import read_pool
from benchapp.operation.configuration.section import ConfigurationSection, Member, StoredEntry, Values
from benchapp.requests.write.wanted_schedules import (
    BadWantedSchedule,
    ScheduleScope,
    UnknownWantedSchedule,
    WantedRun,
    check_wanted_run,
    find_scope,
    find_wanted_run,
    read_parameters_text,
    remove_wanted_schedule,
    save_wanted_schedule,
)

# The names of the file, by those of the API.
_MEMBERS: Final = {"every_s": "every", "at_minute": "at", "splay_s": "splay_min"}
_NEVER: Final = "never"


def _read_run(values: Values) -> WantedRun:
    if values["every"] == _NEVER:
        return WantedRun(
            values["profile"],
            None,
            directory=values["directory"],
            parameters=read_parameters_text(values["parameters"]),
            splay_s=values["splay_min"] * 60,
        )
    if values["every"] not in INTERVALS:
        raise BadValue("every", f"use one of {', '.join(INTERVALS)}, or {_NEVER}")
    try:
        at_minute = read_clock(values["at"])
    except ValueError as error:
        raise BadValue("at", str(error)) from error
    return WantedRun(
        profile=values["profile"],
        every_s=INTERVALS[values["every"]],
        directory=values["directory"],
        parameters=read_parameters_text(values["parameters"]),
        at_minute=at_minute,
        splay_s=values["splay_min"] * 60,
    )


def _write_values(scope: ScheduleScope, wanted: WantedRun) -> Values:
    return {
        "pool": scope.pool,
        "host": scope.host_name,
        "profile": wanted.profile,
        "every": _NEVER if wanted.every_s is None else write_interval(wanted.every_s),
        "at": write_clock(wanted.at_minute),
        "splay_min": wanted.splay_s // 60,
        "directory": wanted.directory,
        "parameters": describe_parameters(wanted.parameters),
    }


def _normalize(values: Values) -> Values:
    pool, host_name = read_pool(values["pool"]), re.sub(r"\s", "", values["host"]).lower()
    if host_name and pool:
        raise BadValue("host", "name either host or pool")
    if host_name and not Host.objects.filter(name=host_name).exists():
        raise BadValue("host", f"host {host_name[:100]!r} does not exist: enroll it first")
    try:
        wanted = _read_run(values)
        check_wanted_run(wanted, is_of_host=bool(host_name))
    except BadWantedSchedule as error:
        raise BadValue(_MEMBERS.get(error.field, error.field), str(error)) from error
    return _write_values(ScheduleScope(pool, host_name), wanted)


def _list_stored() -> Sequence[StoredEntry]:
    rows = WantedSchedule.objects.select_related("host").order_by("pool", "host__name", "profile")
    return [
        StoredEntry(
            row,
            _write_values(
                find_scope(row),
                find_wanted_run(row),
            ),
        )
        for row in rows
    ]


def _save(values: Values, by: User | None, replaces: int | None) -> None:
    scope = ScheduleScope(values["pool"], values["host"])
    try:
        save_wanted_schedule(scope, _read_run(values), by=by, replaces=replaces)
    except BadWantedSchedule as error:
        raise BadValue(_MEMBERS.get(error.field, error.field), str(error)) from error
    except UnknownWantedSchedule as error:
        raise BadValue("", str(error)) from error


def _create(values: Values, by: User | None) -> None:
    _save(values, by, None)


def _change(stored: StoredEntry, values: Values, by: User | None) -> None:
    _save(values, by, stored.row.pk)


def _remove(stored: StoredEntry, by: User | None) -> None:
    remove_wanted_schedule(stored.row.pk, by=by)


def _title(values: Values) -> str:
    scope = ScheduleScope(values["pool"], values["host"])
    return f"of {values['profile']} for {scope.title}"


SCHEDULES: Final = ConfigurationSection(
    name="schedules",
    noun="schedule",
    members={
        "pool": Member(str, default=""),
        "host": Member(str, default=""),
        "profile": Member(str, is_required=True),
        "every": Member(str, is_required=True),
        "at": Member(str, default="00:00"),
        "splay_min": Member(int, default=0),
        "directory": Member(str, default=""),
        "parameters": Member(str, default=""),
    },
    identify=lambda values: (values["pool"], values["host"], values["profile"]),
    title=_title,
    normalize=_normalize,
    list_stored=_list_stored,
    create=_create,
    change=_change,
    remove=_remove,
    is_unique=True,
)
