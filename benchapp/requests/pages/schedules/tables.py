"""Rows of the tables of schedules."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from benchapp.framework.times import format_clock, format_day
from benchapp.models import AuditRecord, InstalledSchedule, ScheduleAdoption, WantedSchedule
from benchapp.models.request_policy import describe_parameters, find_first_minute, write_clock
from benchapp.requests.read.wanted_schedules import (
    ComparedSchedule,
    LineState,
    ScheduledHost,
    ScheduleStatus,
    predict_refusal,
)

_UNITS: Final = ((86_400, "day"), (3_600, "h"), (60, "min"))
_STATES: Final = {
    LineState.INSTALLED: ("installed", "good"),
    LineState.MISSING: ("missing", "waiting"),
    LineState.DIFFERENT: ("different", "waiting"),
    LineState.REFUSED: ("refused", "bad"),
    LineState.OBSOLETE: ("obsolete", "waiting"),
    LineState.OWN: ("set on the host", ""),
}


def make_wanted_lines(rows: Sequence[WantedSchedule]) -> list[dict[str, Any]]:
    """Return the rows of the table of wanted schedules."""
    return [
        {"row": row, "times": _describe_wanted(row), "parameters": describe_parameters(row.parameters)}
        for row in rows
    ]


def make_status_lines(
    hosts: Sequence[ScheduledHost], statuses: Mapping[int, ScheduleStatus], *, predicts: bool = False
) -> list[dict[str, Any]]:
    """Return the rows of the table of hosts. predicts: of a preview, with what the host would refuse."""
    lines = []
    for host in hosts:
        status = statuses[host.id]
        for number, line in enumerate(status.lines):
            lines.append(_make_status_line(host.name, line, status.adoption, number == 0, predicts))
    return lines


def make_schedule_change_lines(records: Sequence[AuditRecord]) -> list[dict[str, Any]]:
    """Return the rows of the table of changes."""
    lines = []
    for record in records:
        before, after = record.before or {}, record.after or {}
        names = sorted({*before, *after})
        lines.append(
            {
                "record": record,
                "changes": tuple((name, before.get(name, ""), after.get(name, "")) for name in names),
            }
        )
    return lines


def format_interval(seconds: int) -> str:
    """Return "every 6 h", "every day"."""
    for length, unit in _UNITS:
        count, rest = divmod(seconds, length)
        if count and not rest:
            if unit == "day":
                return "every day" if count == 1 else "every week" if count == 7 else f"every {count} days"
            return f"every {count} {unit}"
    return f"every {seconds} s"


def _describe_wanted(row: WantedSchedule) -> str:
    if row.every_s is None:
        return "not on this host"
    splay = f", spread over {row.splay_s // 60} min" if row.splay_s else ""
    return f"{format_interval(row.every_s)} at {write_clock(row.at_minute)}{splay}"


def _make_status_line(
    host_name: str, line: ComparedSchedule, adoption: ScheduleAdoption | None, is_first: bool, predicts: bool
) -> dict[str, Any]:
    state, css = _STATES[line.state]
    reason = line.reason
    if line.wanted is not None and not reason and (predicts or line.state != LineState.INSTALLED):
        reason = predict_refusal(line, adoption)
    wanted = line.wanted
    return {
        "host_name": host_name,
        "is_first": is_first,
        "profile": line.profile,
        "state": state,
        "css": css,
        "reason": reason,
        "wanted": _describe_times(wanted.every_s, wanted.at_minute, wanted.directory) if wanted else "",
        "installed": _describe_installed(line.installed) if line.installed else "",
        "starts": _describe_starts(line.starts_at),
    }


def _describe_times(every_s: int, at_minute: int, directory: str) -> str:
    clock = write_clock(find_first_minute(every_s, at_minute))
    return f"{format_interval(every_s)} at {clock}, in {directory}"


def _describe_installed(entry: InstalledSchedule) -> str:
    if entry.at_minute is not None:
        return _describe_times(entry.every_s, entry.at_minute, entry.directory)
    return f"{format_interval(entry.every_s)}, in {entry.directory}"


def _describe_starts(starts: Sequence[datetime]) -> str:
    """Return "24 Nov 02:17, 08:17; 25 Nov 02:17" in the time zone of the reader."""
    days = groupby(starts, key=lambda start: format_day(start, has_year=False))
    return "; ".join(f"{day} {', '.join(map(format_clock, found))}" for day, found in days)
