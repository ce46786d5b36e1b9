"""Store the schedules that the server wants of pools and hosts, and what hosts report about them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.framework.write.audit import record_write
from benchapp.framework.write.conflicts import BadValue, retry_conflicts
from benchapp.models import WANTED_SCHEDULES_MAXIMUM, AuditKind, Host, ScheduleAdoption, User, WantedSchedule
from benchapp.models.requests import (
    DAY_MINUTES,
    DAY_S,
    INTERVALS,
    WEEK_S,
    ParameterValue,
    describe_parameters,
    is_number,
    parse_parameter,
    read_clock,
    write_clock,
    write_interval,
)

POOL_MAXIMUM: Final = 100
PROFILE_MAXIMUM: Final = 100
DIRECTORY_MAXIMUM: Final = 4096
PARAMETERS_MAXIMUM: Final = 50
VALUE_MAXIMUM: Final = 200
# In form and file: a host does not run the profile of its pool.
NEVER: Final = "never"
_PROFILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_NUMBER_MAXIMUM: Final = 2**63 - 1


class UnknownWantedSchedule(Exception):
    """There is no such wanted schedule, or no such host."""


@dataclass(frozen=True, slots=True)
class ScheduleScope:
    """A pool ("" for hosts without one), or one host by its name."""

    pool: str = ""
    host_name: str = ""

    @property
    def text(self) -> str:
        """Return the id of the scope in the audit record."""
        return f"host:{self.host_name}"[:253] if self.host_name else f"pool:{self.pool}"

    @property
    def title(self) -> str:
        """Return the scope in words."""
        if self.host_name:
            return f"host {self.host_name}"
        return f"pool {self.pool}" if self.pool else "hosts without a pool"


def check_wanted_schedule(wanted: WantedSchedule, *, is_of_host: bool) -> None:
    """Raise BadValue for values that `save_wanted_schedule` refuses."""
    if len(wanted.profile) > PROFILE_MAXIMUM or not _PROFILE.fullmatch(wanted.profile):
        raise BadValue(
            "profile", f"use 1 to {PROFILE_MAXIMUM} letters, digits, dots, hyphens and underscores"
        )
    if wanted.every_s is None:
        if not is_of_host:
            raise BadValue("every_s", "is required for a pool")
        nothing = WantedSchedule()
        if any(getattr(wanted, name) != getattr(nothing, name) for name in WantedSchedule.of_a_run):
            raise BadValue(
                "every_s", "without an interval the host does not run the profile: leave out everything else"
            )
        return
    if wanted.every_s not in INTERVALS.values():
        raise BadValue("every_s", f"crontab and timers support these intervals: {', '.join(INTERVALS)}")
    _check_times(wanted, wanted.every_s)
    _check_measured(wanted)


def _check_times(wanted: WantedSchedule, every_s: int) -> None:
    if not 0 <= wanted.at_minute < DAY_MINUTES:
        raise BadValue("at_minute", "is not from 0 to 1439 minutes after midnight")
    if not 0 <= wanted.splay_s < min(every_s, DAY_S) or wanted.splay_s % 60:
        raise BadValue("splay_s", "use whole minutes, less than the interval, and less than a day")
    if every_s == WEEK_S and wanted.at_minute + wanted.splay_s // 60 > DAY_MINUTES:
        raise BadValue("splay_s", "a weekly run starts on Sunday: all hosts must start before midnight")


def _check_measured(wanted: WantedSchedule) -> None:
    directory = wanted.directory
    if not directory.startswith("/") or len(directory) > DIRECTORY_MAXIMUM:
        raise BadValue("directory", f"use an absolute path of at most {DIRECTORY_MAXIMUM} characters")
    if re.search(r"[\x00-\x1f\x7f]", directory) or ".." in directory.split("/"):
        raise BadValue("directory", "must not contain control characters or `..`")
    if len(wanted.parameters) > PARAMETERS_MAXIMUM:
        raise BadValue("parameters", f"at most {PARAMETERS_MAXIMUM} parameters")
    for name, value in wanted.parameters.items():
        if not _PARAMETER.fullmatch(name):
            raise BadValue("parameters", f"{name[:80]!r} is not the name of a parameter")
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise BadValue("parameters", f"{name}: use a whole number in the base unit, or text")
        if isinstance(value, int) and abs(value) > _NUMBER_MAXIMUM:
            raise BadValue("parameters", f"{name}: the number is too large")
        if isinstance(value, str) and is_number(name):
            raise BadValue("parameters", f"{name}: use a whole number in the base unit")
        if isinstance(value, str) and (
            len(value) > VALUE_MAXIMUM or not re.fullmatch(r"[\x21-\x7e]+", value)
        ):
            raise BadValue(
                "parameters",
                f"{name}: use 1 to {VALUE_MAXIMUM} printable ASCII characters without spaces",
            )


def read_parameters_text(text: str) -> dict[str, ParameterValue]:
    """Return the parameters of "runtime=10 size=64m rw=randread", in base units. Raises BadValue."""
    parameters: dict[str, ParameterValue] = {}
    for word in text.split():
        name, separator, value = word.partition("=")
        if not separator or not value:
            raise BadValue("parameters", f"{word[:80]!r} is not NAME=VALUE")
        if name in parameters:
            raise BadValue("parameters", f"{name[:80]} is named twice")
        try:
            parameters[name] = parse_parameter(name, value)
        except ValueError as error:
            raise BadValue("parameters", f"{name[:80]}: {error}") from None
    return parameters


def _read_interval(text: str) -> int | None:
    if text != NEVER and text not in INTERVALS:
        raise BadValue("every_s", f"use one of {', '.join(INTERVALS)}, or {NEVER}")
    return INTERVALS.get(text)


def _read_start(text: str) -> int:
    try:
        return read_clock(text)
    except ValueError as error:
        raise BadValue("at_minute", str(error)) from error


# The columns that form and configuration file have in words: their name there, how they are read and written.
_WORDS: Final[Mapping[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    "every_s": (
        "every",
        _read_interval,
        lambda every_s: NEVER if every_s is None else write_interval(every_s),
    ),
    "at_minute": ("at", _read_start, write_clock),
    "splay_s": ("splay_min", lambda minutes: minutes * 60, lambda seconds: seconds // 60),
    "parameters": ("parameters", read_parameters_text, describe_parameters),
}
NAMES_IN_WORDS: Final = {name: _WORDS[name][0] if name in _WORDS else name for name in WantedSchedule.given}


def read_words(values: Mapping[str, Any]) -> WantedSchedule:
    """Return a wanted schedule, not saved, from what form or file give. Raises BadValue with the name of a column."""
    return WantedSchedule(
        **{
            column: _WORDS[column][1](values[name]) if column in _WORDS else values[name]
            for column, name in NAMES_IN_WORDS.items()
            if name in values
        }
    )


def write_words(row: WantedSchedule) -> dict[str, Any]:
    """Return the given columns of a wanted schedule as form and file have them."""
    return {
        name: _WORDS[column][2](getattr(row, column)) if column in _WORDS else getattr(row, column)
        for column, name in NAMES_IN_WORDS.items()
    }


@retry_conflicts
def save_wanted_schedule(
    scope: ScheduleScope, wanted: WantedSchedule, *, by: User | None, replaces: int | None = None
) -> WantedSchedule:
    """Store the given columns of a wanted schedule and return it.

    wanted: not saved. replaces: the id of the one of this scope that is changed; None for a new one. Raises BadValue,
    UnknownWantedSchedule.
    """
    check_wanted_schedule(wanted, is_of_host=bool(scope.host_name))
    if len(scope.pool) > POOL_MAXIMUM or "\x00" in scope.pool:
        raise BadValue("pool", f"at most {POOL_MAXIMUM} characters, without NUL")
    try:
        return _save(scope, wanted, by=by, replaces=replaces)
    except IntegrityError as error:
        # Two new ones of the same pool at the same time: no row of the pool was there to lock.
        raise _make_duplicate(scope, wanted) from error


@transaction.atomic
def _save(
    scope: ScheduleScope, wanted: WantedSchedule, *, by: User | None, replaces: int | None
) -> WantedSchedule:
    rows, host = _lock_scope(scope)
    known = next((row for row in rows if row.pk == replaces), None)
    if replaces is not None and known is None:
        raise UnknownWantedSchedule(f"{scope.title} has no wanted schedule {replaces}")
    others = [row for row in rows if row is not known]
    if any(row.profile == wanted.profile for row in others):
        raise _make_duplicate(scope, wanted)
    if known is None and len(rows) >= WANTED_SCHEDULES_MAXIMUM:
        raise BadValue(
            "profile", f"{scope.title} has {WANTED_SCHEDULES_MAXIMUM} wanted schedules, the maximum"
        )
    stored = known or WantedSchedule(pool="" if host else scope.pool, host=host)
    before = _describe_row(known) if known else {}
    for name in WantedSchedule.given:
        setattr(stored, name, getattr(wanted, name))
    stored.updated_by = by
    after = _describe_row(stored)
    if before != after:
        stored.save()
        _record(scope, "changed" if known else "created", before=before, after=after, by=by)
    return stored


@retry_conflicts
def remove_wanted_schedule(wanted_id: int, *, by: User | None) -> None:
    """Remove a wanted schedule. Hosts that adopted it remove it at their next poll. Raises UnknownWantedSchedule."""
    with transaction.atomic():
        rows = WantedSchedule.objects.select_for_update(of=("self",)).select_related("host")
        row = rows.filter(pk=wanted_id).first()
        if row is None:
            raise UnknownWantedSchedule(f"wanted schedule {wanted_id} does not exist")
        scope, before = ScheduleScope(row.pool, row.host_name), _describe_row(row)
        row.delete()
        _record(scope, "removed", before=before, after={}, by=by)


@retry_conflicts
def note_adoption(host_id: int, values: Mapping[str, Any]) -> None:
    """Store what a host reports about the schedules that are wanted of it. values: columns of `ScheduleAdoption`."""
    with transaction.atomic():
        host = Host.objects.select_for_update(no_key=True).get(pk=host_id)
        known = ScheduleAdoption.objects.filter(host=host).first()
        ScheduleAdoption.objects.update_or_create(
            host=host, defaults={**values, "reported_at": timezone.now()}
        )
        record_write(
            AuditKind.HOST,
            "schedule_adoption_reported",
            object_id=host.name,
            name=host.name,
            before={name: getattr(known, name) for name in values} if known else {},
            after=values,
        )


def _make_duplicate(scope: ScheduleScope, wanted: WantedSchedule) -> BadValue:
    return BadValue(
        "profile", f"{scope.title} already has a wanted schedule of {wanted.profile}: change that one"
    )


def _lock_scope(scope: ScheduleScope) -> tuple[list[WantedSchedule], Host | None]:
    """Return the rows of a scope, and its host. Two new rows of one pool are ordered by their unique constraint."""
    rows = WantedSchedule.objects.select_for_update(of=("self",)).select_related("host").order_by("pk")
    if not scope.host_name:
        return list(rows.filter(host=None, pool=scope.pool)), None
    host = Host.objects.select_for_update(no_key=True).filter(name=scope.host_name).first()
    if host is None:
        raise UnknownWantedSchedule(f"host {scope.host_name[:100]!r} does not exist")
    return list(rows.filter(host=host)), host


def _describe_row(row: WantedSchedule) -> dict[str, str]:
    return {row.profile: row.describe()}


def _record(
    scope: ScheduleScope, action: str, *, before: Mapping[str, str], after: Mapping[str, str], by: User | None
) -> None:
    record_write(
        AuditKind.SCHEDULE,
        action,
        object_id=scope.text,
        name=scope.title,
        before=before,
        after=after,
        by=by,
    )
