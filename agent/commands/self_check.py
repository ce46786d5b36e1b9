"""Check everything that a run and its delivery need."""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable, Iterator, Mapping

from agent.config import Config
from agent.console import Console
from agent.delivery.client import Client, DeliveryOutcome, classify_response
from agent.delivery.spool import Spool
from agent.exit_codes import AgentError, ConfigurationError, ExitCode
from agent.measuring.fio import choose_engine, find_fio, prefer_engine
from agent.measuring.workspace import Workspace, check_resources
from agent.profiles.profile import check_plan
from agent.programs import (
    find_own_command,
    find_program,
    require_trusted_interpreter,
    require_trusted_program,
)
from agent.quantities import format_size
from agent.running.measure import check_device
from agent.running.run_command import choose_directory, read_plan
from agent.running.session import Session, open_session
from agent.storage.layout import describe_storage
from agent.trust import require_trusted

# Charts are ordered by the host's clock; larger differences are visible.
_CLOCK_DIFFERENCE_MAXIMUM_S = 30.0
# What runs and schedules start besides fio. A sweep checks its tools before it starts.
_TOOLS = ("crontab", "systemctl", "dmsetup", "zpool", "filefrag", "xfs_bmap", "xfs_db")


@dataclass(frozen=True)
class CheckResult:
    """The result of one check; exit_code is OK if it passed. is_warning: it passed, with a limitation."""

    name: str
    exit_code: ExitCode
    detail: str
    is_warning: bool = False


def check_everything(arguments: argparse.Namespace, console: Console) -> Iterator[CheckResult]:
    """Yield one result per check, in the order in which a run needs them; only one for an unusable configuration."""
    try:
        session = open_session(arguments, console)
    except ConfigurationError as error:
        yield CheckResult("configuration", error.exit_code, str(error))
        return
    config = session.config
    read = "read" if config.is_read else "not found; defaults are used"
    yield CheckResult("configuration", ExitCode.OK, f"{config.path} ({read})")
    yield _check_trust("program", require_trusted_program, shown=find_own_command()[-1])
    yield _check_trust("interpreter", require_trusted_interpreter, shown=sys.executable)
    yield _run_check("tools", _check_tools)
    if config.log:
        yield _check_trust("log", partial(require_trusted, config.log), shown=config.log)
    yield _run_check("spool", lambda: _check_spool(session.spool))
    yield _run_check("fio", lambda: _check_fio(config))
    place = arguments.device or arguments.directory or arguments.file or config.directory
    if place or arguments.profile or arguments.jobfile:
        yield _run_check(
            "device" if arguments.device else "directory", lambda: _check_place(arguments, session)
        )
        warning = _find_storage_warning(place) if place and os.path.exists(place) else None
        if warning:
            yield CheckResult("storage", ExitCode.OK, warning, is_warning=True)
    yield _run_check("schedule", _check_schedule)
    if config.requests:
        from agent.requests.poll_command import describe_policy

        yield _run_check("requests", lambda: describe_policy(session))
    if config.schedule:
        from agent.requests.adopt_schedule import describe_adoption_policy, find_adoption_warning

        result = _run_check("from_server", lambda: describe_adoption_policy(session))
        warning = find_adoption_warning(session)
        if warning and result.exit_code == ExitCode.OK:
            result = replace(result, detail=f"{result.detail}; {warning}", is_warning=True)
        yield result
    try:
        client = session.make_client()
    except ConfigurationError as error:
        yield CheckResult("server", error.exit_code, str(error))
        return
    yield from _check_server(client)
    newer = client.describe_newer()
    if newer:
        yield CheckResult("version", ExitCode.OK, newer, is_warning=True)


def _run_check(name: str, check: Callable[[], str]) -> CheckResult:
    try:
        return CheckResult(name, ExitCode.OK, check())
    except AgentError as error:
        return CheckResult(name, error.exit_code, str(error))


def _check_trust(name: str, require: Callable[[], None], *, shown: str) -> CheckResult:
    """Check that root can trust something; shown: its path."""

    def check() -> str:
        require()
        return shown

    return _run_check(name, check)


def _check_tools() -> str:
    """Return which programs of a list are installed; ConfigurationError if another user can change one."""
    return ", ".join(tool for tool in _TOOLS if find_program(tool)) or "none installed"


def _check_spool(spool: Spool) -> str:
    spool.prepare()
    spool.check_room()
    return f"{spool.directory}, {len(spool.pending())} pending, {len(spool.rejected())} rejected"


def _check_fio(config: Config) -> str:
    fio = find_fio(config.fio)
    engine = choose_engine(fio)
    missing = "" if engine == prefer_engine() else f" ({prefer_engine()} is not available in this fio)"
    return f"{fio.version} at {fio.path}, engine {engine}{missing}"


def _check_place(arguments: argparse.Namespace, session: Session) -> str:
    """Make the checks of a run with the same options; by default of a small profile."""
    if not (arguments.jobfile or arguments.profile or session.config.profile):
        arguments.profile = "saturation" if arguments.device and not arguments.destructive else "quick"
    plan = read_plan(arguments, session)
    check_plan(plan)
    place = choose_directory(arguments, session, plan=plan)
    if plan.device:
        size = format_size(check_device(plan, session).size_bytes)
        return f"{place} has {size}; profile {plan.profile.name} {'writes to' if plan.writes else 'only reads'} it"
    if plan.profile.is_read_only:
        return f"{plan.values['file']} can be read"
    check_resources(place, plan.needs, reserve_bytes=session.config.reserve_bytes)
    with Workspace(
        place,
        session.spool.directory,
        run_id=f"check-{os.getpid()}",
        trusts_parent=arguments.trust_directory or session.config.trusts_directory,
    ) as workspace:
        is_direct = workspace.has_direct_io()
    return f"{place} is writable, " + (
        "O_DIRECT works" if is_direct else "O_DIRECT is not supported: direct=0"
    )


def _find_storage_warning(directory: str) -> str | None:
    """Return why results of a directory would not be those of the storage; None if nothing speaks against it."""
    storage = describe_storage(os.path.realpath(directory))
    memory = storage.facts.get("memory_filesystem")
    if memory:
        return (
            f"{directory} is on {memory}, in memory: a run measures memory, not storage, and gets the badge "
            "memory-filesystem; set --directory to one on the storage under test"
        )
    if storage.target.get("filesystem") == "overlay":
        return (
            f"{directory} is on an overlay, the layers of a container: a run measures the disk of the runtime "
            "and the copying between layers; mount a volume of the storage under test"
        )
    return None


def _check_schedule() -> str:
    """Return the installed schedules; none is valid, but cron or systemd must run for those installed."""
    from agent.scheduling.schedule_command import find_machine, find_schedules

    found = find_schedules(find_machine())
    idle = sorted({one.kind for one in found if one.is_running is False})
    text = "; ".join(f"{one.kind}: {one.schedule.describe()}" for one in found)
    if idle:
        raise ConfigurationError(f"{text}; {' and '.join(idle)} is not running: scheduled runs do not start")
    return text or "none; `bench-agent schedule install` creates one"


def _check_server(client: Client) -> Iterator[CheckResult]:
    sent_at = time.time()
    response = client.request("GET", "/api/v1/hosts/me")
    received_at = time.time()
    body = response.body or {}
    if response.status == 200 and "name" in body:
        pool = f", pool {body['pool']}" if body.get("pool") else ""
        yield CheckResult("server", ExitCode.OK, f"{client.url} knows this host as {body['name']}{pool}")
        yield _check_clock(body, (sent_at + received_at) / 2)
        return
    is_later = classify_response(response, submission_id=None) == DeliveryOutcome.LATER
    code = ExitCode.TRY_LATER if is_later else ExitCode.CONFIGURATION
    yield CheckResult("server", code, f"{client.url}: {response.describe()}")


def _check_clock(body: Mapping[str, Any], now: float) -> CheckResult:
    from datetime import datetime

    try:
        server_time = datetime.fromisoformat(str(body.get("server_time")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return CheckResult("clock", ExitCode.OK, "the server does not report its time")
    difference_s = now - server_time
    direction = "ahead of" if difference_s > 0 else "behind"
    detail = f"{abs(difference_s):.1f} s {direction} the server"
    if abs(difference_s) > _CLOCK_DIFFERENCE_MAXIMUM_S:
        return CheckResult(
            "clock", ExitCode.CONFIGURATION, f"{detail}; synchronize the clock, charts are ordered by it"
        )
    return CheckResult("clock", ExitCode.OK, detail)
