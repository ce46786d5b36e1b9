"""One function per command; slow imports are inside the command that needs them."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Iterator

from agent import __version__
from agent.console import Console
from agent.exit_codes import ExitCode, worst
from agent.quantities import format_duration, format_size, format_time
from agent.running.session import open_session

if TYPE_CHECKING:
    from agent.job_state import JobState
    from agent.profiles.parameters import Needs
    from agent.profiles.profile import Profile


def run_run(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Measure, store the result, and deliver it with all pending results."""
    from agent.running.run_command import run_profile

    if not console.is_terminal:
        console.set_unattended()
    session = open_session(arguments, console)
    code = run_profile(arguments, session)
    if session.config.schedule and not console.is_terminal and not arguments.no_send:
        from agent.requests.adopt_schedule import adopt_after_run

        adopt_after_run(session)
    # A person at a terminal asked for one run.
    if session.config.requests and not console.is_terminal and not arguments.no_send:
        from agent.requests.poll_command import poll_after_run

        poll_after_run(session, budget_s=arguments.budget)
    session.note_newer_version()
    return code


def run_poll(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Run what the server requests and this host allows."""
    from agent.requests import poll_command

    if not console.is_terminal:
        console.set_unattended()
    session = open_session(arguments, console)
    session.open_log(arguments.log)
    code = poll_command.run_poll(session, budget_s=arguments.budget)
    session.note_newer_version()
    return code


def run_gate(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Submit results and compare them with a baseline on the server."""
    from agent.running import gate_command

    return gate_command.run_gate(arguments, open_session(arguments, console))


def run_sweep(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Vary stripes, file sizes or parameters step by step."""
    from agent.sweeping import sweep_command

    return sweep_command.run_sweep(arguments, open_session(arguments, console))


def run_experiment(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Measure two arms in ABBA order."""
    from agent.running import experiment_command

    return experiment_command.run_experiment(arguments, open_session(arguments, console))


def run_schedule(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Install, remove, show or report schedules."""
    from agent.scheduling import schedule_command

    return schedule_command.run_schedule(arguments, open_session(arguments, console))


def run_flush(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Deliver pending results."""
    session = open_session(arguments, console)
    client = session.make_client()
    with session.spool.lock():
        if arguments.retry_rejected:
            console.note(f"retrying {session.spool.restore_rejected()} rejected results")
        delivery = session.deliver(client, budget_s=arguments.budget)
    rejected = f", {len(delivery.rejected)} rejected" if delivery.rejected else ""
    console.report(f"{len(delivery.urls)} delivered{rejected}, {delivery.remaining} pending")
    document = {
        "delivered": sorted(delivery.urls),
        "rejected": delivery.rejected,
        "rejected_after_receipt": delivery.rejections,
        "remaining": delivery.remaining,
        "problem": delivery.problem if delivery.remaining else None,
    }
    code = session.finish(delivery.exit_code, document)
    session.note_newer_version()
    return code


def run_enroll(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Register this machine as a host with the server."""
    from agent.commands.installation import enroll_host, read_enrollment_token
    from agent.config import check_url, is_loopback

    session = open_session(arguments, console, must_exist=False)
    url = check_url(arguments.url)
    if url.startswith("http://") and not is_loopback(url):
        console.warn(f"{url} is not encrypted: tokens and results can be read in transit; use https")
    token = read_enrollment_token(arguments.token_file, os.environ)
    enrollment = enroll_host(
        session.config, url, name=arguments.name, enrollment_token=token, force=arguments.force
    )
    console.report(f"enrolled as {enrollment.host}; configuration: {enrollment.config}")
    return session.finish(ExitCode.OK, asdict(enrollment))


def run_check(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Check configuration, spool, fio and server."""
    from agent.commands.self_check import check_everything

    results = []
    for result in check_everything(arguments, console):
        results.append(result)
        if result.exit_code == ExitCode.OK:
            mark = "warning" if result.is_warning else "ok"
            console.report(f"{mark:<9}{result.name:<14}{result.detail}")
        else:
            console.report(f"FAILED   {result.name:<14}{result.detail}")
            if console.is_quiet:
                console.warn(f"{result.name}: {result.detail}")
    document = {
        "checks": [
            {
                "name": result.name,
                "ok": result.exit_code == ExitCode.OK,
                "warning": result.is_warning,
                "detail": result.detail,
            }
            for result in results
        ]
    }
    code = worst(*(result.exit_code for result in results))
    console.emit({"command": arguments.command, "exit_code": int(code), **document})
    return code


def run_profiles(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """List the profiles and their parameters."""
    from agent.profiles.profile import list_profiles, make_plan

    session = open_session(arguments, console)
    documents = []
    for profile in list_profiles():
        needs = make_plan(profile, {}).needs
        for line in describe_profile(profile, needs):
            console.report(line)
        documents.append(dump_profile(profile, needs))
    return session.finish(ExitCode.OK, {"profiles": documents})


def run_status(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Show pending, rejected and dropped results, and interrupted sweeps; does not contact the server."""
    from agent.delivery.spool import describe_rejections
    from agent.job_state import ExperimentState, StateDirectory, SweepState
    from agent.scheduling.adoption import describe_adoption

    session = open_session(arguments, console)
    config, spool = session.config, session.spool
    pending, rejected, holder = spool.pending(), spool.rejected(), spool.find_holder()
    writer = spool.describe_writer()
    if writer:
        console.warn(writer)
    size_bytes = sum(entry.size_bytes for entry in pending)
    oldest = format_time(pending[0].made_at) if pending else None
    console.report(f"server    {config.url or 'not configured; run `bench-agent enroll URL`'}")
    console.report(f"spool     {spool.directory}")
    since = f", oldest from {oldest}" if oldest else ""
    console.report(f"pending   {len(pending)} ({format_size(size_bytes)}){since}")
    console.report(f"rejected  {len(rejected)}")
    for refused in rejected[-10:]:
        detail = refused.reason.get("detail") or refused.reason.get("code") or refused.reason.get("status")
        console.report(f"  {refused.id}  {detail}")
    rejections = spool.read_rejections()
    if rejections:
        console.report(f"  {describe_rejections(rejections)}")
    dropped = spool.read_dropped()
    console.report(
        f"dropped   {dropped.count}"
        + (f", last at {dropped.last_at}: the spool was larger than max_bytes" if dropped.count else "")
    )
    adoption_lines, adoption = describe_adoption(session)
    for line in adoption_lines:
        console.report(f"schedule  {line}")
    console.report("running   " + ("no" if holder is None else f"yes, process {holder}"))
    sweeps = StateDirectory(SweepState, spool.directory).read()
    experiments = StateDirectory(ExperimentState, spool.directory).read()
    # A running process is this sweep or experiment, or waits until it ends.
    interrupted = [] if holder is not None else sweeps.list_unfinished()
    for state in interrupted:
        over = len(state.steps()) - len(state.list_waiting())
        console.report(f"sweep     {state.id}: interrupted after {over} of {len(state.steps())} steps")
        _report_continuation(state, console)
    unfinished = [] if holder is not None else experiments.list_unfinished()
    for experiment in unfinished:
        waiting = len(experiment.list_waiting())
        console.report(f"experiment {experiment.id}: {waiting} of {len(experiment.arms)} runs are left")
        _report_continuation(experiment, console)
    damaged = [*sweeps.damaged, *experiments.damaged]
    for each in damaged:
        console.report(f"damaged   {each.path}: {each.reason}")
        console.report(f"          {each.remedy}")
    document = {
        "server": config.url,
        "spool": spool.directory,
        "pending": [entry.id for entry in pending],
        "pending_bytes": size_bytes,
        "oldest_at": oldest,
        "rejected": [{"id": refused.id, "reason": dict(refused.reason)} for refused in rejected],
        "rejected_after_receipt": rejections or None,
        "dropped": dropped.count,
        "last_dropped_at": dropped.last_at,
        "schedule_from_server": adoption,
        "running_process": holder,
        "interrupted_experiments": [{"id": each.id, "runs": each.steps()} for each in unfinished],
        "interrupted_sweeps": [{"id": state.id, "steps": state.steps()} for state in interrupted],
        "damaged_states": [asdict(each) for each in damaged],
    }
    return session.finish(ExitCode.OK, document)


def _report_continuation(state: JobState, console: Console) -> None:
    console.report(f"          continue with: bench-agent {state.kind} --resume {state.id}")
    console.report(f"          end it with: bench-agent {state.kind} --abandon {state.id}")


def run_uninstall(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Remove schedules, configuration and token, and the spool on request."""
    from agent.commands.installation import plan_uninstallation, uninstall
    from agent.programs import find_own_command

    session = open_session(arguments, console)
    plan = plan_uninstallation(session, removes_spool=arguments.spool)
    problems = [] if arguments.dry_run else uninstall(plan, session)
    verb = "would remove" if arguments.dry_run else "removed"
    for line in plan.describe() or ["nothing"]:
        console.report(f"{verb}  {line}")
    for problem in problems:
        console.warn(problem)
    for path in plan.unknown:
        console.report(f"left     {path}: test files of another spool; remove it if no agent uses it")
    if not arguments.dry_run:
        if not plan.spool:
            console.report(f"the spool is left in {session.spool.directory}")
        console.report(f"the program is left: {find_own_command()[-1]}")
        console.report("the token is valid until it is revoked or the host is retired, on the host's page")
    document = {
        "schedules": list(plan.schedules),
        "files": list(plan.files),
        "spool": plan.spool,
        "test_files": list(plan.leftovers),
        "other_test_files": list(plan.unknown),
        "problems": problems,
    }
    return session.finish(ExitCode.CONFIGURATION if problems else ExitCode.OK, document)


def run_version(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Print the version."""
    from agent.delivery.envelope import python_version

    console.report(f"bench-agent {__version__} (Python {python_version()})")
    console.emit({"command": "version", "exit_code": 0, "version": __version__, "python": python_version()})
    return ExitCode.OK


def describe_profile(profile: Profile, needs: Needs) -> Iterator[str]:
    """Yield the lines of text; needs: with default parameters."""
    yield f"{profile.name}: {profile.summary}"
    yield f"  good for: {profile.purpose}"
    yield f"  jobs {', '.join(profile.steps)}; {_describe_needs(profile, needs)}"
    for parameter in profile.parameters:
        default = parameter.describe_default()
        yield f"  --set {parameter.name + '=':<20}{parameter.description} (default: {default})"


def dump_profile(profile: Profile, needs: Needs) -> dict[str, Any]:
    """Return the JSON document, in base units; duration_s is null if it depends on the file to read."""
    return {
        "name": profile.name,
        "summary": profile.summary,
        "purpose": profile.purpose,
        "needs_fio": profile.uses_fio,
        "jobs": list(profile.steps),
        "duration_s": None if profile.is_read_only else needs.duration_s,
        "file_size_bytes": needs.space_bytes,
        "memory_bytes": needs.memory_bytes,
        "parameters": {parameter.name: parameter.default for parameter in profile.parameters},
        "parameter_details": [
            {
                "name": parameter.name,
                "default": parameter.default,
                "unit": parameter.unit,
                "description": parameter.description,
            }
            for parameter in profile.parameters
        ],
    }


def _describe_needs(profile: Profile, needs: Needs) -> str:
    if profile.is_read_only:
        return "duration depends on the file; needs no space"
    most = "up to" if profile.is_bounded else "about"
    return f"takes {most} {format_duration(needs.duration_s)} and {format_size(needs.space_bytes)}"
