"""Adopt the schedule that the server wants, as part of `bench-agent poll` and after scheduled runs.

Off by default. A server that cannot be reached, or whose answer is not valid, changes nothing.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Collection, Mapping, Sequence

from agent.delivery.client import find_exit_code
from agent.exit_codes import AgentError, ConfigurationError, ExitCode, TryLater
from agent.files import replace_file
from agent.measuring.workspace import check_path_trusted
from agent.profiles.profile import Plan, check_plan
from agent.programs import find_own_command
from agent.requests.request_policy import (
    RequestedRun,
    RequestPolicy,
    describe_refusal,
    find_refusal,
    read_request_policy,
)
from agent.scheduling import crontab, systemd
from agent.scheduling.adoption import Adoption, AdoptionStore
from agent.scheduling.schedule_command import (
    InstalledSchedule,
    Machine,
    find_machine,
    find_schedules,
    report_schedules,
    write_units,
)
from agent.scheduling.timetable import DAY_S, POLL, Schedule, find_slots, read_interval, write_mark

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.running.session import Session

_ADDRESS = "/api/v1/hosts/me/schedule/adoption"
# Scheduled runs, not requested ones: a profile every hour.
PER_DAY_DEFAULT = 24
PER_DAY_MAXIMUM = 288
# A pool and a host want at most 20 schedules each; the server accepts as many reasons.
_REFUSED_MAXIMUM = 40
# More than the server accepts for a pool and a host together.
_LINES_MAXIMUM = 100
_NAME_MAXIMUM = 100
# Each change may add a run: a server could move the start to the next minutes at each poll. As many as per_day, but
# enough for somebody who tries out a schedule that runs once a day.
_CHANGES_MINIMUM = 10
_VERSION = re.compile(r"[0-9a-f]{1,64}")
_MEMBERS = ("profile", "parameters", "directory", "every_s", "at_minute")


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
    """Return "cron" or "systemd", as schedules are installed (the poll first), else as the host runs."""
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


@dataclass(frozen=True)
class AdoptionResult:
    """The result of one adoption. installed: profiles; refused: [{profile, reason}].

    problem: why the server was not asked, or nothing installed; "" without one.
    """

    installed: Sequence[str] = ()
    refused: Sequence[Mapping[str, str]] = ()
    problem: str = ""
    exit_code: ExitCode = ExitCode.OK
    was_asked: bool = False

    def dump(self) -> dict[str, Any]:
        """Return the result for --json."""
        return {
            "installed": list(self.installed),
            "refused": [dict(each) for each in self.refused],
            "problem": self.problem or None,
        }


def adopt_schedule(session: Session) -> AdoptionResult:
    """Report what this host adopts, and install what is wanted and allowed. TryLater if an agent is running.

    Nothing is sent if nothing is adopted, and was not before.
    """
    config = session.config
    store = AdoptionStore(session.spool.directory)
    last = store.read() or Adoption()
    if not config.adopts_schedules and not last.is_allowed:
        return AdoptionResult()
    policy = read_adoption_policy(session)
    client, machine = session.make_client(), find_machine()
    with session.spool.lock():
        answer = _ask(client, _describe(policy, last, is_allowed=config.adopts_schedules))
        if isinstance(answer, AdoptionResult):
            return answer
        if not config.adopts_schedules:
            store.write(replace(last, is_allowed=False))
            session.console.warn(
                "schedules of the server are not adopted any more; those that are installed stay: see "
                "`bench-agent schedule show`"
            )
            return AdoptionResult(was_asked=True)
        version, lines = answer
        adoption, result = _adopt(machine, version, lines, policy=policy, store=store, session=session)
        store.write(adoption)
        if _describe(policy, adoption, is_allowed=True) != _describe(policy, last, is_allowed=True):
            # Otherwise the server would show this result after the next poll only.
            _ask(client, _describe(policy, adoption, is_allowed=True))
    return result


def adopt_after_run(session: Session) -> None:
    """Adopt after a scheduled run; a failure does not fail the run."""
    try:
        result = adopt_schedule(session)
    except TryLater:
        return
    except AgentError as error:
        session.console.note(f"schedule of the server: {error}")
        return
    if result.problem:
        session.console.note(f"schedule of the server: {result.problem}")


def read_adoption_policy(session: Session) -> RequestPolicy:
    """Return what the section [schedule] allows; ConfigurationError names the key."""
    return read_request_policy(
        session.config.schedule,
        directory=session.config.directory,
        section="schedule",
        per_day_default=PER_DAY_DEFAULT,
        per_day_maximum=PER_DAY_MAXIMUM,
    )


def describe_adoption_policy(session: Session) -> str:
    """Return what this host adopts, for `check`; ConfigurationError if it is not valid."""
    policy = read_adoption_policy(session)
    if not session.config.adopts_schedules:
        return "from_server is not set: schedules of the server are not adopted"
    if not policy.profiles:
        raise ConfigurationError("[schedule] from_server requires allow: without it nothing is adopted")
    return f"adopts {policy.describe(section='schedule')} runs in 24 h"


def find_adoption_warning(session: Session) -> str | None:
    """Return why this host cannot install what it adopts; None if it can, or adopts nothing."""
    machine = find_machine()
    _, problem = _choose_kind(machine, find_schedules(machine))
    return str(problem) if problem and session.config.adopts_schedules else None


def _describe(policy: RequestPolicy, last: Adoption, *, is_allowed: bool) -> dict[str, Any]:
    """Return the report to the server."""
    return {
        "is_allowed": is_allowed,
        **policy.dump(),
        "version": last.version,
        "refused": [dict(each) for each in last.refused][:_REFUSED_MAXIMUM],
        "problem": last.problem[:1000],
    }


def _ask(client: Client, report: Mapping[str, Any]) -> tuple[str, tuple[Schedule, ...]] | AdoptionResult:
    """Send a report; return version and lines that are wanted, or the problem."""
    response = client.request("POST", _ADDRESS, document=report)
    if response.status == 200:
        wanted = read_wanted(response.body or {})
        if wanted is not None:
            return wanted
        problem = "the server sent a schedule that is not valid; nothing was changed"
        return AdoptionResult(problem=problem, exit_code=ExitCode.CONFIGURATION, was_asked=True)
    if response.status == 404:
        return AdoptionResult(
            problem="the server has no schedules for hosts; nothing was changed", was_asked=True
        )
    problem = f"{response.describe()}; nothing was changed"
    return AdoptionResult(problem=problem, exit_code=find_exit_code(response), was_asked=True)


def _adopt(
    machine: Machine,
    version: str,
    lines: Sequence[Schedule],
    *,
    policy: RequestPolicy,
    store: AdoptionStore,
    session: Session,
) -> tuple[Adoption, AdoptionResult]:
    last, installed = store.read() or Adoption(), find_schedules(machine)
    schedules = [one.schedule for one in installed]
    kind, problem = _choose_kind(machine, installed)
    now = time.time()
    changed_at = [at for at in last.changed_at if now - DAY_S < at <= now]
    adopted, refused = choose_adopted(
        lines,
        policy,
        installed=schedules,
        changes=len(changed_at),
        trusts_directory=session.config.trusts_directory,
        check_entry=partial(check_entry, kind=kind, machine=machine, session=session),
    )
    adoption = Adoption(
        is_allowed=True,
        version=version,
        wanted=[{name: getattr(line, name) for name in _MEMBERS} for line in lines],
        refused=refused,
        previous=last.previous,
        replaced_at=last.replaced_at,
        changed_at=changed_at,
    )
    changed = replace(
        adoption,
        previous=[write_mark(schedule) for schedule in schedules if schedule.is_from_server],
        replaced_at=now,
        changed_at=[*changed_at, *[now] * len(list_changed(adopted, schedules))],
    )
    if last.is_changing:
        # A killed agent changed some of them.
        changed = replace(changed, previous=last.previous)
    for each in refused:
        session.console.note(f"schedule of {each['profile']} refused: {each['reason']}")
    # A line that is refused leaves what is installed for its profile.
    kept = {each["profile"] for each in refused}
    replacement = AdoptedReplacement(
        machine,
        kind,
        adopted,
        keeps=kept,
        repairs=last.is_changing,
        begin=partial(store.write, replace(changed, version=last.version, is_changing=True)),
    )
    try:
        if problem and adopted:
            raise problem
        # Without cron and systemd nothing is installed that could be removed.
        is_changed = problem is None and replacement.install(session)
    except AgentError as error:
        # The previous ones are installed again, if that is possible.
        is_changing = (store.read() or Adoption()).is_changing
        return replace(adoption, problem=str(error), is_changing=is_changing), AdoptionResult(
            refused=adoption.refused, problem=str(error), exit_code=error.exit_code, was_asked=True
        )
    if is_changed:
        for schedule in adopted:
            session.console.report(f"schedule of the server: {schedule.describe()}")
        report_schedules(machine, None, session)
    profiles = [schedule.profile for schedule in adopted]
    result = AdoptionResult(installed=profiles, refused=refused, was_asked=True)
    return changed if is_changed else adoption, result


def _choose_kind(machine: Machine, installed: Sequence[InstalledSchedule]) -> tuple[str, AgentError | None]:
    """Return "cron" or "systemd"; "" with the reason if there is none."""
    try:
        return choose_kind(machine, installed), None
    except AgentError as error:
        return "", error


def read_wanted(body: Mapping[str, Any]) -> tuple[str, tuple[Schedule, ...]] | None:
    """Return version and lines of an answer; None if any part of it is not one."""
    version, rows = body.get("version"), body.get("wanted")
    if not isinstance(version, str) or not _VERSION.fullmatch(version) or not isinstance(rows, list):
        return None
    lines = [_read_line(row) for row in rows] if len(rows) <= _LINES_MAXIMUM else [None]
    found = tuple(line for line in lines if line is not None)
    profiles = {line.profile for line in found}
    return (version, found) if len(found) == len(lines) == len(profiles) else None


def _read_line(row: Any) -> Schedule | None:
    if not isinstance(row, dict) or not set(row) >= set(_MEMBERS):
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
    # Parameters that have their default, too: the server compares them with what it wants.
    return Schedule(**{name: row[name] for name in _MEMBERS}, is_from_server=True)


def choose_adopted(
    lines: Sequence[Schedule],
    policy: RequestPolicy,
    *,
    installed: Sequence[Schedule],
    changes: int,
    trusts_directory: bool,
    check_entry: Callable[[Schedule], object],
) -> tuple[list[Schedule], list[dict[str, str]]]:
    """Return what to install, and what not: [{profile, reason}].

    installed: the present schedules of this host; changes: adopted ones that were installed within 24 hours.
    check_entry: raises ConfigurationError for a run that cron or systemd cannot have.
    """
    own = [schedule.key for schedule in installed if not schedule.is_from_server]
    allowed: list[Schedule] = []
    refused: list[dict[str, str]] = []
    for line in sorted(lines, key=lambda line: line.profile):
        try:
            _check_line(line, policy, own=own, trusts_directory=trusts_directory)
            check_entry(line)
            allowed.append(line)
        except AgentError as error:
            refused.append({"profile": line.profile, "reason": str(error)[:1000]})
    adopted, exceeding = _fit_into_day(
        allowed, policy, kept=_count_kept(installed, {line.profile for line in lines})
    )
    left = max(policy.per_day, _CHANGES_MINIMUM) - changes
    excess = list_changed(adopted, installed)[max(left, 0) :]
    reason = "schedules were changed too often within 24 hours, see [schedule] per_day"
    exceeding += [{"profile": line.profile, "reason": reason} for line in excess]
    return (
        [line for line in adopted if line not in excess],
        sorted([*refused, *exceeding], key=lambda each: each["profile"]),
    )


def list_changed(adopted: Sequence[Schedule], installed: Sequence[Schedule]) -> list[Schedule]:
    """Return those that are not installed as they are."""
    return [schedule for schedule in adopted if schedule not in installed]


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
    allowed: Sequence[Schedule], policy: RequestPolicy, *, kept: Mapping[str, int]
) -> tuple[list[Schedule], list[dict[str, str]]]:
    """Return the schedules that do not exceed `per_day` together with those that are kept, and refuse the others."""
    runs = dict(kept)
    adopted: list[Schedule] = []
    refused: list[dict[str, str]] = []
    # Those that become fewer first: they make room.
    for each in sorted(allowed, key=lambda line: _count_runs(line) - runs.get(line.profile, 0)):
        count, before = _count_runs(each), runs.get(each.profile, 0)
        if count >= before and sum(runs.values()) - before + count > policy.per_day:
            reason = f"more than {policy.per_day} scheduled runs within 24 hours, see [schedule] per_day"
            refused.append({"profile": each.profile, "reason": reason})
            continue
        runs[each.profile] = count
        adopted.append(each)
    return sorted(adopted, key=lambda line: line.profile), refused


def _check_line(
    line: Schedule, policy: RequestPolicy, *, own: Sequence[tuple[str, str]], trusts_directory: bool
) -> None:
    """Raise ConfigurationError with the reason if this host does not allow a schedule."""
    requested = request_run(line)
    refusal = find_refusal(policy, requested)
    if refusal is not None:
        raise ConfigurationError(describe_refusal(refusal, section="schedule"))
    if line.profile == POLL:
        raise ConfigurationError(f"the name {POLL} is reserved")
    if line.key in own:
        raise ConfigurationError(
            "the profile was scheduled on this host in this directory; the server can schedule it after "
            f"`bench-agent schedule remove --profile {line.profile} --directory {line.directory}`"
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


def _check_times(line: Schedule, plan: Plan, policy: RequestPolicy) -> None:
    if plan.duration_s >= line.every_s:
        raise ConfigurationError(f"a run takes about {plan.duration_s:.0f} s, runs would overlap")
    slots = find_slots(line)
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for hour in slots.hours or range(24):
        for minute in slots.minutes:
            start = midnight.replace(hour=hour, minute=minute)
            if policy.find_quiet_end(start, duration_s=plan.duration_s) is not None:
                raise ConfigurationError(f"the run of {start:%H:%M} touches [schedule] quiet_hours")
