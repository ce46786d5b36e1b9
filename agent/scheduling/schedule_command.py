"""The command `schedule`: scheduled runs by crontab entries or systemd timers, and those that are installed."""

from __future__ import annotations

import argparse
import os
import pwd
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from agent.delivery.deliver import send_pending_schedule, store_pending_schedule
from agent.exit_codes import ConfigurationError, ExitCode
from agent.measuring.workspace import check_path_trusted
from agent.profiles.profile import Plan, check_plan
from agent.programs import find_own_command, find_temporary_path
from agent.quantities import parse_duration
from agent.scheduling import crontab, systemd
from agent.scheduling.adoption import describe_adoption
from agent.scheduling.timetable import (
    POLL,
    Schedule,
    find_next,
    find_slots,
    format_interval,
    make_entries,
    read_clock,
    read_interval,
)

if TYPE_CHECKING:
    from agent.running.session import Session

_POLL_EVERY = "10m"
_RUN_OPTIONS = (
    *("--splay", "--profile", "--jobfile", "--file", "--file-size", "--directory", "--device"),
    *("--time-limit", "--allow-outside", "--target-name", "--trust-directory", "--set"),
)
_PROXIES = ("https_proxy", "HTTPS_PROXY", "http_proxy")
_ENVIRONMENT = ("BENCH_AGENT_URL", "BENCH_AGENT_TOKEN", "BENCH_AGENT_SPOOL")


def read_schedule_request(
    arguments: argparse.Namespace, session: Session
) -> tuple[Schedule, tuple[str, ...]]:
    """Return schedule and command; ConfigurationError for missing values, and errors that every run would have."""
    # What measures is loaded for an installation only: `schedule show` and polls need none of it.
    from agent.running.measure import check_device
    from agent.running.run_command import choose_directory, read_plan

    plan = read_plan(arguments, session)
    check_plan(plan)
    directory = os.path.abspath(choose_directory(arguments, session, plan=plan))
    if plan.device:
        check_device(plan, session)
    elif not os.path.isdir(directory):
        raise ConfigurationError(f"{directory} is not a directory; set --directory to an existing one")
    is_trusted = arguments.trust_directory or session.config.trusts_directory
    # A read-only profile writes nothing there, and with --user the run is not root's.
    if not (is_trusted or plan.profile.is_read_only or plan.device or arguments.user):
        check_path_trusted(directory)
    if not arguments.every:
        raise ConfigurationError("--every is required, for example --every 6h")
    every_s = read_interval(arguments.every)
    try:
        splay_s = parse_duration(arguments.splay) if arguments.splay else 0
    except ValueError as error:
        raise ConfigurationError(f"--splay: {error}") from None
    if plan.duration_s + splay_s >= every_s:
        raise ConfigurationError(
            f"--every {arguments.every}: {plan.profile.name} takes about {plan.duration_s:.0f} s plus up to "
            f"{splay_s} s splay; runs would overlap, use a longer interval"
        )
    at_minute = read_clock(arguments.at) if arguments.at else 0
    if plan.profile.name == POLL:
        raise ConfigurationError(f"--profile {POLL}: this name is reserved; choose another one")
    parameters = None if plan.profile.is_own else dict(plan.given)
    name = plan.profile.name
    schedule = Schedule(name, directory, every_s, splay_s, at_minute, parameters=parameters)
    return schedule, write_command(arguments, plan, schedule, session=session)


def read_poll_request(arguments: argparse.Namespace, session: Session) -> tuple[Schedule, tuple[str, ...]]:
    """Return schedule and command of the entry that asks the server; ConfigurationError for options of a run."""
    given = [option for option in _RUN_OPTIONS if getattr(arguments, option[2:].replace("-", "_"))]
    if given:
        raise ConfigurationError(f"{given[0]} cannot be used with --poll, which measures nothing")
    every_s = read_interval(arguments.every or _POLL_EVERY)
    from agent.running.run_command import choose_splay, make_seed

    # Hosts of a fleet ask at different minutes, each always at the same one.
    minutes = int(choose_splay(every_s // 60, seed=make_seed(POLL, ""), day=""))
    at_minute = read_clock(arguments.at) if arguments.at else minutes
    quiet = ["--quiet"] if arguments.cron else []
    command = (*find_own_command(), POLL, *quiet, *_name_config(arguments, session))
    return Schedule(POLL, "", every_s, at_minute=at_minute), command


def _name_config(arguments: argparse.Namespace, session: Session) -> list[str]:
    is_named = arguments.config or os.environ.get("BENCH_AGENT_CONFIG")
    return ["--config", os.path.abspath(session.config.path)] if is_named else []


def write_command(
    arguments: argparse.Namespace, plan: Plan, schedule: Schedule, *, session: Session
) -> tuple[str, ...]:
    """Return the scheduled command with all options that differ from the configuration, without secrets."""
    command = [*find_own_command(), "run"]
    if arguments.cron:
        command.append("--quiet")
    command += _name_config(arguments, session)
    command += ["--profile", schedule.profile, *_list_measurement_options(arguments, plan, schedule)]
    if arguments.cron and schedule.splay_s:
        command += ["--splay", f"{schedule.splay_s}s"]
    # Profiles of a host may start in the same minute; after half the interval, the next run is due.
    return (*command, "--patience", f"{schedule.every_s // 2}s")


def _list_measurement_options(arguments: argparse.Namespace, plan: Plan, schedule: Schedule) -> list[str]:
    """Return the options for what is measured and where; absolute paths, because cron has another working directory."""
    file = plan.values.get("file")
    place = "--device" if plan.device else "--directory"
    options = ["--file", file] if file else [place, schedule.directory]
    if arguments.jobfile:
        options += ["--jobfile", os.path.abspath(arguments.jobfile)]
    if arguments.allow_outside:
        options.append("--allow-outside")
    if arguments.trust_directory:
        options.append("--trust-directory")
    for option in ("--file-size", "--target-name", "--time-limit"):
        value = getattr(arguments, option[2:].replace("-", "_"))
        options += [option, value] if value else []
    for pair in arguments.set:
        if pair.partition("=")[0].strip() != "file":
            options += ["--set", pair]
    return options


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


def run_schedule(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Install, remove, show or report schedules."""
    actions = {"install": _install, "remove": _remove, "show": _show, "report": _report}
    return actions[arguments.action](arguments, session)


def _install(arguments: argparse.Namespace, session: Session) -> ExitCode:
    machine, user = find_machine(), _read_user(arguments.user)
    schedule, command = (read_poll_request if arguments.poll else read_schedule_request)(arguments, session)
    kind, plan = ("cron", _plan_cron) if arguments.cron else ("systemd", _plan_systemd)
    replaced = []
    for one in find_schedules(machine, user):
        if one.schedule.key == schedule.key and (one.kind, one.schedule) != (kind, schedule):
            session.console.note(f"replaces the schedule of {one.kind}: {one.schedule.describe()}")
            replaced.append(one.schedule)
        elif one.schedule.profile == schedule.profile and one.schedule.key != schedule.key:
            session.console.note(
                f"stays: {one.schedule.describe()}; remove it with `bench-agent schedule remove --profile "
                f"{schedule.profile} --directory {one.schedule.directory}`"
            )
    _warn_about_environment(session, command)
    session.check_paths(of_user=user is not None)
    if arguments.dry_run:
        return session.finish(
            ExitCode.OK, {"would_write": plan(machine, schedule, command, user=user, session=session)}
        )
    install = _install_cron if arguments.cron else _install_systemd
    places, problems = install(machine, schedule, command, user=user, session=session)
    _remove_other_kind(machine, schedule, user, is_cron=arguments.cron, session=session)
    for problem in problems:
        session.console.warn(problem)
    session.console.report(f"{schedule.describe()}: {', '.join(places)}")
    next_at = find_next(find_slots(schedule), datetime.now())
    session.console.report(f"next run: {next_at:%Y-%m-%d %H:%M} local time{_format_splay(schedule)}")
    document = {
        **_describe(kind, schedule, next_at=next_at),
        "written": list(places),
        "replaced": make_entries(replaced),
        "is_reported": report_schedules(machine, user, session) == ExitCode.OK,
        "problems": problems,
    }
    return session.finish(ExitCode.CONFIGURATION if problems else ExitCode.OK, document)


@dataclass(frozen=True)
class RemovedSchedules:
    """What was removed. is_reported: the server knows; problems: of systemd."""

    schedules: Sequence[Schedule]
    is_reported: bool
    problems: Sequence[str]


def remove_schedules(
    session: Session, *, profile: str | None = None, directory: str | None = None, user: str | None = None
) -> RemovedSchedules:
    """Remove the schedules of a profile and directory from the crontab and systemd, and report those that are left.

    None for any; user: for whom root acts, None for the current one.
    """
    machine = find_machine()
    removed = _remove_cron(machine, profile, directory, user=user)
    of_systemd, problems = systemd.remove_units(machine.find_units(), profile, directory)
    is_reported = report_schedules(machine, user, session) == ExitCode.OK
    return RemovedSchedules([*removed, *of_systemd], is_reported, problems)


def _remove(arguments: argparse.Namespace, session: Session) -> ExitCode:
    directory = arguments.directory and os.path.abspath(arguments.directory)
    user = _read_user(arguments.user)
    found = remove_schedules(session, profile=arguments.profile, directory=directory, user=user)
    for schedule in found.schedules:
        session.console.report(f"removed: {schedule.describe()}")
    if not found.schedules:
        profile = f" for {arguments.profile}" if arguments.profile else ""
        session.console.report(f"no schedule found{profile}" + (f" in {directory}" if directory else ""))
    for problem in found.problems:
        session.console.warn(problem)
    document = {
        "removed": make_entries(found.schedules),
        "is_reported": found.is_reported,
        "problems": list(found.problems),
    }
    return session.finish(ExitCode.CONFIGURATION if found.problems else ExitCode.OK, document)


def _show(arguments: argparse.Namespace, session: Session) -> ExitCode:
    found = find_schedules(find_machine(), _read_user(arguments.user))
    now = datetime.now()
    documents = []
    for one in found:
        origin = ", from the server" if one.schedule.is_from_server else ""
        next_at = None if one.is_running is False else find_next(find_slots(one.schedule), now)
        when = f"next {next_at:%Y-%m-%d %H:%M} local time{_format_splay(one.schedule)}" if next_at else ""
        session.console.report(
            f"{one.kind:<9}{one.schedule.describe()}{origin}; {when or f'{one.kind} is not running'}"
        )
        documents.append(_describe(one.kind, one.schedule, next_at=next_at))
    if not found:
        session.console.report("no schedules; see `bench-agent schedule install --help`")
    lines, adoption = describe_adoption(session)
    for line in lines:
        session.console.report(line)
    return session.finish(ExitCode.OK, {"schedules": documents, "from_server": adoption})


def _report(arguments: argparse.Namespace, session: Session) -> ExitCode:
    code = report_schedules(find_machine(), None, session)
    texts = {
        ExitCode.OK: "schedules reported to the server",
        ExitCode.TRY_LATER: "schedules will be reported with the next run",
        ExitCode.REJECTED: "the server rejected the schedules",
    }
    session.console.report(texts[code])
    return session.finish(code, {"is_reported": code == ExitCode.OK})


def _read_user(user: str | None) -> str | None:
    """Return the user for whom root acts, None for the current one."""
    if user is None:
        return None
    try:
        wanted = pwd.getpwnam(user)
    except KeyError:
        raise ConfigurationError(f"--user {user}: unknown user") from None
    if wanted.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise ConfigurationError(f"--user {user}: only root can manage schedules of other users")
    return wanted.pw_name


def _plan_cron(
    machine: Machine, schedule: Schedule, command: Sequence[str], *, user: str | None, session: Session
) -> dict[str, str]:
    table = machine.find_table(user)
    text = crontab.put_schedule(crontab.read_table(table), schedule, command, table=table)
    # Lines of others are not shown.
    block = crontab.find_block(text)
    session.console.report(f"would write to {table.title}:\n{block}")
    return {table.name: block}


def _plan_systemd(
    machine: Machine, schedule: Schedule, command: Sequence[str], *, user: str | None, session: Session
) -> dict[str, str]:
    units = machine.find_units()
    texts = {
        os.path.join(units.directory, systemd.name_unit(units, schedule, kind)): text
        for kind, text in write_units(units, schedule, command, user=user, session=session).items()
    }
    for path, text in texts.items():
        session.console.report(f"would write {path}:\n{text}")
    return texts


def _install_cron(
    machine: Machine, schedule: Schedule, command: Sequence[str], *, user: str | None, session: Session
) -> tuple[tuple[str, ...], list[str]]:
    table = machine.find_table(user)
    before = crontab.read_table(table)
    text = crontab.put_schedule(before, schedule, command, table=table)
    if text != before:
        crontab.write_table(table, text)
    if crontab.find_mail_recipient(text) == "":
        session.console.note('MAILTO="" is set: cron will not mail errors; set [run] log')
    if crontab.is_cron_running(machine.root) is False:
        session.console.warn("cron is not running: scheduled runs will not start")
    return (table.name,), []


def _install_systemd(
    machine: Machine, schedule: Schedule, command: Sequence[str], *, user: str | None, session: Session
) -> tuple[tuple[str, ...], list[str]]:
    units = machine.find_units()
    texts = write_units(units, schedule, command, user=user, session=session)
    if not units.is_running:
        session.console.warn(
            "systemd is not running: the unit files are written; enable the timer later with "
            f"`{'systemctl --user' if units.is_user else 'systemctl'} enable --now "
            f"{systemd.name_unit(units, schedule, 'timer')}`"
        )
    elif units.is_user:
        session.console.note("runs only while you are logged in; enable others with `loginctl enable-linger`")
    return systemd.install_units(units, schedule, service=texts["service"], timer=texts["timer"])


def write_units(
    units: systemd.Units, schedule: Schedule, command: Sequence[str], *, user: str | None, session: Session
) -> dict[str, str]:
    written = [session.config.spool_directory, *([session.config.log] if session.config.log else [])]
    service = systemd.write_service(
        schedule,
        command,
        written=written,
        user=user,
        is_user=units.is_user,
        units_directory=units.directory if session.config.adopts_schedules else None,
    )
    return {"service": service, "timer": systemd.write_timer(schedule)}


def _remove_cron(
    machine: Machine, profile: str | None, directory: str | None, *, user: str | None
) -> list[Schedule]:
    try:
        table = machine.find_table(user)
    except ConfigurationError:
        return []
    text = crontab.read_table(table)
    removed = [one for one in crontab.list_schedules(text) if one.is_of(profile, directory)]
    if removed:
        crontab.write_table(table, crontab.remove_schedule(text, profile, directory, table=table))
    return removed


def _remove_other_kind(
    machine: Machine, schedule: Schedule, user: str | None, *, is_cron: bool, session: Session
) -> None:
    """Remove the schedule of the other kind, so that it does not run twice."""
    if not is_cron:
        _remove_cron(machine, *schedule.key, user=user)
        return
    for problem in systemd.remove_units(machine.find_units(), *schedule.key)[1]:
        session.console.warn(problem)


def report_schedules(machine: Machine, user: str | None, session: Session) -> ExitCode:
    """Report the installed schedules to the server, or store them for the next delivery."""
    if user is not None:
        session.console.note(
            f"to report the schedules to the server, run `bench-agent schedule report` as {user}"
        )
        return ExitCode.TRY_LATER
    store_pending_schedule(session.spool, make_entries(found.schedule for found in find_schedules(machine)))
    try:
        client = session.make_client()
    except ConfigurationError as error:
        session.console.note(f"the schedules are not reported: {error}; each delivery tries again")
        return ExitCode.TRY_LATER
    return send_pending_schedule(session.spool, client, console=session.console)


def _warn_about_environment(session: Session, command: Sequence[str]) -> None:
    """Warn about conditions of this shell that do not apply to scheduled runs."""
    for name in _ENVIRONMENT:
        if os.environ.get(name):
            session.console.note(f"{name} is not set in scheduled runs; set it in {session.config.path}")
    proxies = [name for name in _PROXIES if os.environ.get(name)]
    if proxies and not session.config.proxy:
        session.console.warn(f"{proxies[0]} is not set in scheduled runs; set proxy in {session.config.path}")
    temporary = find_temporary_path(command)
    if temporary:
        session.console.warn(f"{temporary} may be removed at the next boot; move it to another directory")


def _describe(kind: str, schedule: Schedule, *, next_at: datetime | None) -> dict[str, Any]:
    return {
        "kind": kind,
        **(
            {"profile": POLL, "every_s": schedule.every_s}
            if schedule.is_poll
            else make_entries([schedule])[0]
        ),
        "next_at": next_at.isoformat(timespec="minutes") if next_at else None,
    }


def _format_splay(schedule: Schedule) -> str:
    return f", or up to {format_interval(schedule.splay_s)} later" if schedule.splay_s else ""
