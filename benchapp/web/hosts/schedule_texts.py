"""What a host is expected to do by itself, in words."""

from dataclasses import dataclass
from typing import Final

from benchapp.queries.hosts import HostRow, ScheduledProfile

_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """One line of a host's table of what it runs by itself."""

    entry: ScheduledProfile
    interval: str
    splay: str


def list_lines(host: HostRow) -> list[ScheduleLine]:
    """Return the lines of a host's table; none where nothing is scheduled, or nothing is known."""
    if host.schedule is None:
        return []
    return [
        ScheduleLine(
            entry, f"every {say_span(entry.every_s)}", say_span(entry.splay_s) if entry.splay_s else ""
        )
        for entry in host.schedule.entries
    ]


def say_span(seconds: int) -> str:
    """Say an interval in the largest unit that it fills: 6 h, 15 min, day, 7 days, 90 s."""
    for length, unit in _UNITS:
        count, rest = divmod(seconds, length)
        if count and not rest:
            if unit == "day":
                return "day" if count == 1 else f"{count} days"
            return f"{count} {unit}"
    return f"{seconds} s"


def say_why_not_expected(host: HostRow) -> str:
    """Say why no run is expected of a host, "" where one is, or one is missed."""
    if host.retired_at is not None:
        return "it is retired"
    if host.schedule is None:
        return "it told no schedule; runs come when somebody or some other scheduler starts them"
    if not host.schedule.entries:
        return "it runs nothing by itself"
    return ""
