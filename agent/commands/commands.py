"""What each command does, with everything that is slow to import left to the command that needs it."""

from __future__ import annotations

import argparse
import os
import sys

from agent import __version__
from agent.console import Console
from agent.exit_codes import ExitCode, worst
from agent.quantities import format_size, format_time
from agent.running.session import open_session


def run_run(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Measure, keep the result, deliver it and what waits beside it."""
    from agent.running.run import run_profile

    if not sys.stderr.isatty():
        console.expect_nobody()
    return run_profile(arguments, open_session(arguments, console))


def run_sweep(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Measure over stripes, file sizes or parameters, step by step."""
    from agent.sweeping.sweep import run_sweep as make_sweep

    return make_sweep(arguments, open_session(arguments, console))


def run_schedule(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Let profiles run by themselves, or no longer, or show which do."""
    from agent.scheduling.schedule import run_schedule as act

    return act(arguments, open_session(arguments, console))


def run_flush(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Deliver what waits in the spool."""
    session = open_session(arguments, console)
    client = session.make_client()
    with session.spool.lock():
        if arguments.retry_rejected:
            console.note(f"{session.spool.restore_rejected()} rejected results are tried again")
        delivery = session.deliver(client, budget_s=arguments.budget)
    rejected = f", {len(delivery.rejected)} rejected" if delivery.rejected else ""
    console.say(f"{len(delivery.urls)} delivered{rejected}, {delivery.remaining} left")
    document = {
        "delivered": sorted(delivery.urls),
        "rejected": delivery.rejected,
        "remaining": delivery.remaining,
        "problem": delivery.problem if delivery.remaining else None,
    }
    return session.finish(delivery.exit_code, document)


def run_enroll(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Make this machine a host of the server."""
    from agent.commands.enroll import enroll_host, read_enrolment_token
    from agent.config import check_url

    session = open_session(arguments, console, must_exist=False)
    url = check_url(arguments.url)
    if url.startswith("http://") and not _is_loopback(url):
        console.warn(f"{url} is not encrypted: tokens and results can be read on the way")
    token = read_enrolment_token(arguments.token_file, os.environ)
    enrolment = enroll_host(
        session.config, url, name=arguments.name, enrolment_token=token, force=arguments.force
    )
    console.say(f"enrolled as {enrolment.host}; configuration {enrolment.config_path}")
    document = {"host": enrolment.host, "config": enrolment.config_path, "token_file": enrolment.token_file}
    return session.finish(ExitCode.OK, document)


def run_check(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Say what is missing, in words."""
    from agent.commands.self_check import check_everything

    session = open_session(arguments, console)
    findings = []
    for finding in check_everything(
        session,
        directory=arguments.directory or session.config.directory,
        trusts_directory=arguments.trust_directory,
    ):
        findings.append(finding)
        if finding.exit_code == ExitCode.OK:
            console.say(f"ok       {finding.name:<14}{finding.detail}")
        else:
            console.say(f"WRONG    {finding.name:<14}{finding.detail}")
            if console.is_quiet:
                console.warn(f"{finding.name}: {finding.detail}")
    document = {
        "findings": [
            {"name": finding.name, "ok": finding.exit_code == ExitCode.OK, "detail": finding.detail}
            for finding in findings
        ]
    }
    return session.finish(worst(*(finding.exit_code for finding in findings)), document)


def run_profiles(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """List the profiles and what can be adjusted."""
    from agent.commands.profile_list import describe_profile, dump_profile
    from agent.profiles.profiles import list_profiles, make_plan

    session = open_session(arguments, console)
    documents = []
    for profile in list_profiles():
        needs = make_plan(profile, {}).needs
        for line in describe_profile(profile, needs):
            console.say(line)
        documents.append(dump_profile(profile, needs))
    return session.finish(ExitCode.OK, {"profiles": documents})


def run_status(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Show what waits, what was rejected and what was dropped; asks no server."""
    session = open_session(arguments, console)
    config, spool = session.config, session.spool
    pending, rejected, holder = spool.pending(), spool.rejected(), spool.find_holder()
    size_bytes = sum(entry.size_bytes for entry in pending)
    oldest = format_time(pending[0].made_at) if pending else None
    console.say(f"server    {config.url or 'none; `bench-agent enroll URL` sets it'}")
    console.say(f"spool     {spool.directory}")
    since = f", the oldest of {oldest}" if oldest else ""
    console.say(f"waiting   {len(pending)} ({format_size(size_bytes)}){since}")
    console.say(f"rejected  {len(rejected)}")
    for refused in rejected[-10:]:
        detail = refused.reason.get("detail") or refused.reason.get("code") or refused.reason.get("status")
        console.say(f"  {refused.entry.id}  {detail}")
    console.say(f"dropped   {spool.count_dropped()}")
    console.say("working   " + ("no" if holder is None else f"yes, process {holder}"))
    document = {
        "server": config.url,
        "spool": spool.directory,
        "waiting": [entry.id for entry in pending],
        "waiting_bytes": size_bytes,
        "oldest_at": oldest,
        "rejected": [{"id": refused.entry.id, "reason": dict(refused.reason)} for refused in rejected],
        "dropped": spool.count_dropped(),
        "working_process": holder,
    }
    return session.finish(ExitCode.OK, document)


def run_version(arguments: argparse.Namespace, console: Console) -> ExitCode:
    """Print the version."""
    from agent.delivery.envelope import python_version

    console.say(f"bench-agent {__version__} (Python {python_version()})")
    console.emit({"command": "version", "exit_code": 0, "version": __version__, "python": python_version()})
    return ExitCode.OK


def _is_loopback(url: str) -> bool:
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
