"""The schedule that the server wants: read from its answer, and checked against what this host allows.

Nothing of it is trusted: the server may be compromised, or another service may answer at its URL.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Callable, Collection, Mapping, Sequence

from agent.exit_codes import AgentError, ConfigurationError
from agent.measuring.workspace import check_path_trusted
from agent.methods.registry import check_plan
from agent.profiles.profile import Plan
from agent.requests.request_policy import RequestedRun, RequestPolicy, describe_refusal, find_refusal
from agent.scheduling.adopted_schedules import AdoptedRun
from agent.scheduling.timetable import DAY_S, POLL, Schedule, find_slots, read_interval

# More than the server accepts for a pool and a host together.
_LINES_MAXIMUM = 100
_NAME_MAXIMUM = 100
# Each change may add a run: a server could move the start to the next minutes at each poll. As many as per_day, but
# enough for somebody who tries out a schedule that runs once a day.
_CHANGES_MINIMUM = 10
_VERSION = re.compile(r"[0-9a-f]{1,64}")
_MEMBERS = {"profile", "parameters", "directory", "every_s", "at_minute"}


@dataclass(frozen=True)
class WantedLine:
    """A schedule that the server wants. at_minute: after local midnight."""

    profile: str
    parameters: Mapping[str, int | str]
    directory: str
    every_s: int
    at_minute: int


@dataclass(frozen=True)
class RefusedLine:
    """A wanted schedule that this host does not adopt."""

    profile: str
    reason: str


def read_wanted(body: Mapping[str, Any]) -> tuple[str, tuple[WantedLine, ...]] | None:
    """Return version and lines of an answer; None if any part of it is not one."""
    version, rows = body.get("version"), body.get("wanted")
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or not isinstance(rows, list):
        return None
    lines = [_read_line(row) for row in rows] if len(rows) <= _LINES_MAXIMUM else [None]
    found = tuple(line for line in lines if line is not None)
    profiles = {line.profile for line in found}
    return (version, found) if len(found) == len(lines) == len(profiles) else None


def _read_line(row: Any) -> WantedLine | None:
    if not isinstance(row, dict) or not set(row) >= _MEMBERS:
        return None
    numbers = (row["every_s"], row["at_minute"])
    texts = (row["profile"], row["directory"])
    parameters = row["parameters"]
    is_valid = (
        all(type(number) is int and 0 <= number < 2**31 for number in numbers)
        and all(isinstance(text, str) and "\x00" not in text for text in texts)
        and len(row["profile"]) <= _NAME_MAXIMUM
        and isinstance(parameters, dict)
        and all(type(value) in (int, str) for value in parameters.values())
    )
    if not is_valid:
        return None
    return WantedLine(row["profile"], parameters, row["directory"], row["every_s"], row["at_minute"])


def choose_adopted(
    lines: Sequence[WantedLine],
    policy: RequestPolicy,
    *,
    installed: Sequence[Schedule],
    changes: int,
    trusts_directory: bool,
    check_entry: Callable[[AdoptedRun], object],
) -> tuple[list[AdoptedRun], list[RefusedLine]]:
    """Return what to install, and what not, with the reasons.

    installed: the present schedules of this host; changes: adopted ones that were installed within 24 hours.
    check_entry: raises ConfigurationError for a run that cron or systemd cannot have.
    """
    own = [schedule.profile for schedule in installed if not schedule.is_from_server]
    allowed: list[AdoptedRun] = []
    refused: list[RefusedLine] = []
    for line in sorted(lines, key=lambda line: line.profile):
        try:
            run = _check_line(line, policy, own=own, trusts_directory=trusts_directory)
            check_entry(run)
            allowed.append(run)
        except AgentError as error:
            refused.append(RefusedLine(line.profile, str(error)[:1000]))
    adopted, exceeding = _fit_into_day(
        allowed, policy, kept=_count_kept(installed, {line.profile for line in lines})
    )
    left = max(policy.per_day, _CHANGES_MINIMUM) - changes
    excess = list_changed(adopted, installed)[max(left, 0) :]
    reason = "schedules were changed too often within 24 hours, see [schedule] per_day"
    exceeding += [RefusedLine(run.schedule.profile, reason) for run in excess]
    return (
        [run for run in adopted if run not in excess],
        sorted([*refused, *exceeding], key=lambda each: each.profile),
    )


def list_changed(adopted: Sequence[AdoptedRun], installed: Sequence[Schedule]) -> list[AdoptedRun]:
    """Return those that are not installed as they are."""
    return [run for run in adopted if run.schedule not in installed]


def _count_kept(installed: Sequence[Schedule], wanted: Collection[str]) -> dict[str, int]:
    """Return the runs a day of adopted schedules by profile: each stays if its line is refused."""
    return {
        schedule.profile: _count_runs(schedule)
        for schedule in installed
        if schedule.is_from_server and schedule.profile in wanted
    }


def _count_runs(schedule: Schedule) -> int:
    return max(DAY_S // schedule.every_s, 1)


def _fit_into_day(
    allowed: Sequence[AdoptedRun], policy: RequestPolicy, *, kept: Mapping[str, int]
) -> tuple[list[AdoptedRun], list[RefusedLine]]:
    """Return the runs that do not exceed `per_day` together with those that are kept, and refuse the others."""
    runs = dict(kept)
    adopted: list[AdoptedRun] = []
    refused: list[RefusedLine] = []
    # Those that become fewer first: they make room.
    for each in sorted(
        allowed, key=lambda run: _count_runs(run.schedule) - runs.get(run.schedule.profile, 0)
    ):
        profile, count = each.schedule.profile, _count_runs(each.schedule)
        before = runs.get(profile, 0)
        if count >= before and sum(runs.values()) - before + count > policy.per_day:
            reason = f"more than {policy.per_day} scheduled runs within 24 hours, see [schedule] per_day"
            refused.append(RefusedLine(profile, reason))
            continue
        runs[profile] = count
        adopted.append(each)
    return sorted(adopted, key=lambda run: run.schedule.profile), refused


def _check_line(
    line: WantedLine, policy: RequestPolicy, *, own: Sequence[str], trusts_directory: bool
) -> AdoptedRun:
    """Return what to install; ConfigurationError with the reason if this host does not allow it."""
    requested = RequestedRun("", line.profile, line.parameters, line.directory)
    refusal = find_refusal(policy, requested)
    if refusal is not None:
        raise ConfigurationError(describe_refusal(refusal, section="schedule"))
    if line.profile == POLL:
        raise ConfigurationError(f"the name {POLL} is reserved")
    if line.profile in own:
        raise ConfigurationError(
            "the profile was scheduled on this host; the server can schedule it after "
            f"`bench-agent schedule remove --profile {line.profile}`"
        )
    try:
        read_interval(f"{line.every_s}s")
    except ConfigurationError:
        raise ConfigurationError(f"an interval of {line.every_s} s is not supported") from None
    if line.at_minute >= DAY_S // 60:
        raise ConfigurationError(f"{line.at_minute} minutes after midnight are not within a day")
    plan = requested.make_plan()
    check_plan(plan)
    _check_times(line, plan, policy)
    if not os.path.isdir(line.directory):
        raise ConfigurationError(f"{line.directory} is not a directory")
    if not trusts_directory:
        check_path_trusted(line.directory)
    schedule = Schedule(
        line.profile,
        line.directory,
        line.every_s,
        at_minute=line.at_minute,
        # Those that have their default, too: the server compares them with what it wants.
        parameters=dict(line.parameters),
        is_from_server=True,
    )
    options = [
        part for name, text in requested.write_parameters().items() for part in ("--set", f"{name}={text}")
    ]
    return AdoptedRun(schedule, options)


def _check_times(line: WantedLine, plan: Plan, policy: RequestPolicy) -> None:
    if plan.duration_s >= line.every_s:
        raise ConfigurationError(f"a run takes about {plan.duration_s:.0f} s, runs would overlap")
    slots = find_slots(
        replace(Schedule(line.profile, line.directory, line.every_s), at_minute=line.at_minute)
    )
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for hour in slots.hours or range(24):
        for minute in slots.minutes:
            start = midnight.replace(hour=hour, minute=minute)
            if policy.find_quiet_end(start, duration_s=plan.duration_s) is not None:
                raise ConfigurationError(f"the run of {start:%H:%M} touches [schedule] quiet_hours")
