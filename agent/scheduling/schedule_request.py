"""What `schedule install` asks for: a profile or a job file, where and when, and the command that does it."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.exit_codes import ConfigurationError
from agent.measuring.workspace import check_path_trusted
from agent.methods.registry import check_plan
from agent.profiles.profiles import Plan
from agent.quantities import parse_duration
from agent.running.run import choose_directory, read_plan
from agent.scheduling.own_command import find_own_command
from agent.scheduling.timetable import Schedule, read_clock, read_interval

if TYPE_CHECKING:
    from agent.running.session import Session


@dataclass(frozen=True)
class ScheduleRequest:
    """What is to run by itself, and when."""

    plan: Plan
    schedule: Schedule


def read_schedule_request(arguments: argparse.Namespace, session: Session) -> ScheduleRequest:
    """Return what was asked for; ConfigurationError says what is missing or would fail at every run."""
    plan = read_plan(arguments, session)
    check_plan(plan)
    directory = os.path.abspath(choose_directory(arguments, session, plan=plan))
    if not os.path.isdir(directory):
        raise ConfigurationError(f"{directory} is no directory: name an existing one with --directory")
    is_trusted = arguments.trust_directory or session.config.trusts_directory
    # What only reads writes nothing there, and --user runs it as somebody else than root.
    if not (is_trusted or plan.profile.is_read_only or arguments.user):
        check_path_trusted(directory)
    every_s = read_interval(arguments.every)
    try:
        splay_s = parse_duration(arguments.splay) if arguments.splay else 0
    except ValueError as error:
        raise ConfigurationError(f"--splay: {error}") from None
    if plan.duration_s + splay_s >= every_s:
        raise ConfigurationError(
            f"--every {arguments.every}: {plan.profile.name} takes about {plan.duration_s:.0f} s and may start "
            f"{splay_s} s late, so that one run would reach into the next"
        )
    at_minute = read_clock(arguments.at) if arguments.at else 0
    return ScheduleRequest(plan, Schedule(plan.profile.name, directory, every_s, splay_s, at_minute))


def write_command(
    arguments: argparse.Namespace, request: ScheduleRequest, *, session: Session
) -> tuple[str, ...]:
    """Return the command that is scheduled: all that the next shell cannot know is in it, and nothing secret."""
    schedule = request.schedule
    command = [*find_own_command(), "run"]
    if arguments.cron:
        command.append("--quiet")
    if arguments.config or os.environ.get("BENCH_AGENT_CONFIG"):
        command += ["--config", os.path.abspath(session.config.path)]
    command += ["--profile", schedule.profile, *_say_what(arguments, request)]
    if arguments.cron and schedule.splay_s:
        command += ["--splay", f"{schedule.splay_s}s"]
    # Profiles of one host may fall on one minute; half an interval later it is the next run's turn.
    return (*command, "--patience", f"{schedule.every_s // 2}s")


def _say_what(arguments: argparse.Namespace, request: ScheduleRequest) -> list[str]:
    """Return the options that say what is measured and where; paths are absolute, as cron stands elsewhere."""
    file = request.plan.values.get("file")
    options = ["--file", file] if file else ["--directory", request.schedule.directory]
    if arguments.jobfile:
        options += ["--jobfile", os.path.abspath(arguments.jobfile)]
    if arguments.allow_outside:
        options.append("--allow-outside")
    if arguments.trust_directory:
        options.append("--trust-directory")
    for option, value in (("--file-size", arguments.file_size), ("--time-limit", arguments.time_limit)):
        options += [option, value] if value else []
    for pair in arguments.set:
        if pair.partition("=")[0].strip() != "file":
            options += ["--set", pair]
    return options
