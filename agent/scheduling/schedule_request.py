"""The arguments of `schedule install`: plan, directory, times, and the scheduled command."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.exit_codes import ConfigurationError
from agent.measuring.workspace import check_path_trusted
from agent.profiles.profile import Plan, check_plan
from agent.programs import find_own_command
from agent.quantities import parse_duration
from agent.running.measure import check_device
from agent.running.run_command import choose_directory, choose_splay, make_seed, read_plan
from agent.scheduling.timetable import POLL, Schedule, read_clock, read_interval

if TYPE_CHECKING:
    from agent.running.session import Session


_POLL_EVERY = "10m"
_RUN_OPTIONS = (
    *("--splay", "--profile", "--jobfile", "--file", "--file-size", "--directory", "--device"),
    *("--time-limit", "--allow-outside", "--target-name", "--trust-directory", "--set"),
)


@dataclass(frozen=True)
class ScheduleRequest:
    """A plan and its schedule."""

    plan: Plan
    schedule: Schedule


def read_schedule_request(arguments: argparse.Namespace, session: Session) -> ScheduleRequest:
    """Return the request; ConfigurationError for missing values, and for errors that would occur in every run."""
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
    return ScheduleRequest(
        plan, Schedule(plan.profile.name, directory, every_s, splay_s, at_minute, parameters=parameters)
    )


def read_poll_request(arguments: argparse.Namespace, session: Session) -> tuple[Schedule, tuple[str, ...]]:
    """Return schedule and command of the entry that asks the server; ConfigurationError for options of a run."""
    given = [option for option in _RUN_OPTIONS if getattr(arguments, option[2:].replace("-", "_"))]
    if given:
        raise ConfigurationError(f"{given[0]} cannot be used with --poll, which measures nothing")
    every_s = read_interval(arguments.every or _POLL_EVERY)
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
    arguments: argparse.Namespace, request: ScheduleRequest, *, session: Session
) -> tuple[str, ...]:
    """Return the scheduled command with all options that differ from the configuration, without secrets."""
    schedule = request.schedule
    command = [*find_own_command(), "run"]
    if arguments.cron:
        command.append("--quiet")
    command += _name_config(arguments, session)
    command += ["--profile", schedule.profile, *_list_measurement_options(arguments, request)]
    if arguments.cron and schedule.splay_s:
        command += ["--splay", f"{schedule.splay_s}s"]
    # Profiles of a host may start in the same minute; after half the interval, the next run is due.
    return (*command, "--patience", f"{schedule.every_s // 2}s")


def _list_measurement_options(arguments: argparse.Namespace, request: ScheduleRequest) -> list[str]:
    """Return the options for what is measured and where; absolute paths, because cron has another working directory."""
    file = request.plan.values.get("file")
    place = "--device" if request.plan.device else "--directory"
    options = ["--file", file] if file else [place, request.schedule.directory]
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
