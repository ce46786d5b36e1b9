"""Texts about the schedule of a host."""

from dataclasses import dataclass
from typing import Final

from benchapp.requests.read.schedules import ScheduledProfile
from benchapp.storage.read.hosts import HostRow

_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """One row of a host's schedule table."""

    entry: ScheduledProfile
    interval: str
    splay: str


def list_lines(host: HostRow) -> list[ScheduleLine]:
    """Return the rows of a host's schedule; empty without a schedule."""
    if host.schedule is None:
        return []
    return [
        ScheduleLine(
            entry,
            f"every {format_run_interval(entry.every_s)}",
            format_run_interval(entry.splay_s) if entry.splay_s else "",
        )
        for entry in host.schedule.entries
    ]


def format_run_interval(seconds: int) -> str:
    """Format an interval in the largest unit that divides it: 6 h, 15 min, day, 7 days, 90 s."""
    for length, unit in _UNITS:
        count, rest = divmod(seconds, length)
        if count and not rest:
            if unit == "day":
                return "day" if count == 1 else f"{count} days"
            return f"{count} {unit}"
    return f"{seconds} s"


def explain_no_schedule(host: HostRow) -> str:
    """Return why no run of a host is expected; "" if one is expected or overdue."""
    if host.retired_at is not None:
        return "host is retired"
    if host.schedule is None:
        return "no schedule reported"
    if not host.schedule.entries:
        return "empty schedule"
    return ""
