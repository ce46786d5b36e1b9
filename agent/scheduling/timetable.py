"""Start times of scheduled runs: intervals that crontab and systemd both support."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Iterable, Mapping

from agent.exit_codes import ConfigurationError
from agent.quantities import format_place, parse_duration

MINUTE_S, HOUR_S, DAY_S, WEEK_S = 60, 3600, 86400, 7 * 86400
# Only divisors of an hour or a day: cron's `*/45` starts at :00 and :45, 15 minutes apart.
_MINUTES = (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30)
_HOURS = (1, 2, 3, 4, 6, 8, 12)
_INTERVALS_S = (
    *(minutes * MINUTE_S for minutes in _MINUTES),
    *(hours * HOUR_S for hours in _HOURS),
    DAY_S,
    WEEK_S,
)
POSSIBLE = f"{', '.join(f'{n}m' for n in _MINUTES)}; {', '.join(f'{n}h' for n in _HOURS)}; 24h or 1d; 7d (on Sundays)"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)", re.ASCII)
_MARK = "# bench-agent "
# The name of the entry that asks the server; no profile may have it.
POLL = "poll"


@dataclass(frozen=True)
class Schedule:
    """The schedule of a profile in one directory, or on one device.

    at_minute: minutes after local midnight; splay_s: 0 for none.

    parameters: those that differ from their default, or of an adopted schedule as the server wants them, in base units;
    None if unknown. is_from_server: adopted. The entry that asks the server has the profile POLL and no directory.
    """

    profile: str
    directory: str
    every_s: int
    splay_s: int = 0
    at_minute: int = 0
    parameters: Mapping[str, int | str] | None = None
    is_from_server: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Return what identifies it: an installation replaces the one with the same key."""
        return self.profile, self.directory

    def is_of(self, profile: str | None, directory: str | None) -> bool:
        """Return whether it has this profile and directory; None for any."""
        return profile in (None, self.profile) and directory in (None, self.directory)

    @property
    def is_poll(self) -> bool:
        """Return whether this is the entry that asks the server."""
        return self.profile == POLL and not self.directory

    def describe(self) -> str:
        """Return the schedule as text."""
        if self.is_poll:
            return f"poll every {format_interval(self.every_s)}"
        splay = f", up to {format_interval(self.splay_s)} later" if self.splay_s else ""
        return f"{self.profile} {format_place(self.directory)} every {format_interval(self.every_s)}{splay}"


@dataclass(frozen=True)
class Slots:
    """Start times. hours: None for every hour; weekday: None for every day, 0 for Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...] | None
    weekday: int | None


def read_interval(text: str) -> int:
    """Return seconds of an interval; ConfigurationError lists the possible ones."""
    try:
        every_s = parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"--every: {error}") from None
    if every_s not in _INTERVALS_S:
        raise ConfigurationError(
            f"--every {text}: not supported by crontab and timers; available: {POSSIBLE}"
        )
    return every_s


def read_clock(text: str) -> int:
    """Return minutes after midnight of a local time of day: 02:30."""
    match = _CLOCK.fullmatch(text.strip())
    if match is None:
        raise ConfigurationError(f"--at {text}: not a time of day from 00:00 to 23:59, such as 02:30")
    return int(match.group(1)) * 60 + int(match.group(2))


def find_slots(schedule: Schedule) -> Slots:
    """Return the start times of a schedule; for intervals below a day, `at` is taken modulo the interval."""
    hour, minute = divmod(schedule.at_minute, 60)
    if schedule.every_s < HOUR_S:
        step = schedule.every_s // MINUTE_S
        return Slots(tuple(range(minute % step, 60, step)), None, None)
    if schedule.every_s < DAY_S:
        step = schedule.every_s // HOUR_S
        return Slots((minute,), None if step == 1 else tuple(range(hour % step, 24, step)), None)
    return Slots((minute,), (hour,), 0 if schedule.every_s == WEEK_S else None)


def find_next(slots: Slots, now: datetime) -> datetime:
    """Return the first slot after now; naive local times, as cron and systemd count them."""
    day = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for offset in range(9):
        date = day + timedelta(days=offset)
        if slots.weekday is not None and date.isoweekday() % 7 != slots.weekday:
            continue
        for hour in slots.hours or range(24):
            for minute in slots.minutes:
                start = date.replace(hour=hour, minute=minute)
                if start > now:
                    return start
    raise ValueError(f"{slots} has no slot within nine days")


def write_mark(schedule: Schedule) -> str:
    """Return the comment from which `schedule show` and `schedule remove` read a schedule."""
    return _MARK + json.dumps(_dump(schedule))


def _dump(schedule: Schedule) -> dict[str, Any]:
    return {
        "profile": schedule.profile,
        "directory": schedule.directory,
        "every_s": schedule.every_s,
        "splay_s": schedule.splay_s,
        "at_minute": schedule.at_minute,
        **({} if schedule.parameters is None else {"parameters": dict(schedule.parameters)}),
        **({"is_from_server": True} if schedule.is_from_server else {}),
    }


def read_mark(line: str) -> Schedule | None:
    """Return the schedule in a comment, None for any other line."""
    if not line.startswith(_MARK):
        return None
    try:
        fields: Any = json.loads(line[len(_MARK) :])
        return Schedule(
            profile=str(fields["profile"]),
            directory=str(fields["directory"]),
            every_s=int(fields["every_s"]),
            splay_s=int(fields["splay_s"]),
            at_minute=int(fields["at_minute"]),
            parameters=_read_parameters(fields.get("parameters")),
            is_from_server=fields.get("is_from_server") is True,
        )
    except (ValueError, KeyError, TypeError):
        return None


def _read_parameters(value: Any) -> dict[str, int | str] | None:
    is_valid = isinstance(value, dict) and all(type(each) in (int, str) for each in value.values())
    return dict(value) if is_valid else None


def make_entries(schedules: Iterable[Schedule]) -> list[dict[str, Any]]:
    """Return the schedules for the server, which expects no runs of polls."""
    return [
        # As in the envelope: bytes of a path that are not valid UTF-8 become "?".
        {**_dump(schedule), "directory": schedule.directory.encode("utf-8", "replace").decode()}
        for schedule in sorted(schedules, key=lambda schedule: (schedule.profile, schedule.directory))
        if not schedule.is_poll
    ]


def format_interval(seconds: int) -> str:
    """Return an interval in the largest unit without remainder: 6 h, 15 min, 7 d, 90 s."""
    for unit, length_s in (("d", DAY_S), ("h", HOUR_S), ("min", MINUTE_S)):
        if seconds >= length_s and seconds % length_s == 0:
            return f"{seconds // length_s} {unit}"
    return f"{seconds} s"
