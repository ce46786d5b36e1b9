"""Wanted schedules of pools and hosts."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from benchapp.framework.write.conflicts import BadValue
from benchapp.models import Host, User, WantedSchedule
from benchapp.operation.configuration.hosts import read_pool
from benchapp.operation.configuration.section import (
    ConfigurationSection,
    Member,
    StoredEntry,
    Values,
    list_members,
)
from benchapp.requests.write.wanted_schedules import (
    NAMES_IN_WORDS,
    ScheduleScope,
    UnknownWantedSchedule,
    check_wanted_schedule,
    read_words,
    remove_wanted_schedule,
    save_wanted_schedule,
    write_words,
)

_IN_WORDS: Final = {
    "every": Member(str, is_required=True),
    "at": Member(str, default="00:00"),
    "splay_min": Member(int, default=0),
    "parameters": Member(str, default=""),
}


@contextmanager
def _name_members() -> Iterator[None]:
    """Name the member of the file in errors that name a column."""
    try:
        yield
    except BadValue as error:
        raise BadValue(NAMES_IN_WORDS.get(error.field, error.field), str(error)) from error


def _normalize(values: Values) -> Values:
    pool, host_name = read_pool(values["pool"]), re.sub(r"\s", "", values["host"]).lower()
    if host_name and pool:
        raise BadValue("host", "name either host or pool")
    if host_name and not Host.objects.filter(name=host_name).exists():
        raise BadValue("host", f"host {host_name[:100]!r} does not exist: enroll it first")
    with _name_members():
        wanted = read_words(values)
        check_wanted_schedule(wanted, is_of_host=bool(host_name))
    return {"pool": pool, "host": host_name, **write_words(wanted)}


def _list_stored() -> Sequence[StoredEntry]:
    rows = WantedSchedule.objects.select_related("host").order_by("pool", "host__name", "profile")
    return [StoredEntry(row, {"pool": row.pool, "host": row.host_name, **write_words(row)}) for row in rows]


def _save(values: Values, by: User | None, replaces: int | None) -> None:
    scope = ScheduleScope(values["pool"], values["host"])
    try:
        with _name_members():
            save_wanted_schedule(scope, read_words(values), by=by, replaces=replaces)
    except UnknownWantedSchedule as error:
        raise BadValue("", str(error)) from error


def _title(values: Values) -> str:
    scope = ScheduleScope(values["pool"], values["host"])
    return f"of {values['profile']} for {scope.title}"


SCHEDULES: Final = ConfigurationSection(
    name="schedules",
    noun="schedule",
    members={
        "pool": Member(str, default=""),
        "host": Member(str, default=""),
        **{
            NAMES_IN_WORDS[column]: _IN_WORDS.get(NAMES_IN_WORDS[column], member)
            for column, member in list_members(WantedSchedule).items()
        },
    },
    identify=lambda values: (values["pool"], values["host"], values["profile"]),
    title=_title,
    normalize=_normalize,
    list_stored=_list_stored,
    create=lambda values, by: _save(values, by, None),
    change=lambda stored, values, by: _save(values, by, stored.row.pk),
    remove=lambda stored, by: remove_wanted_schedule(stored.row.pk, by=by),
    is_unique=True,
)
