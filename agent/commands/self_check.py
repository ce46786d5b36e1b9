"""Say in words what is missing before a run can be made and delivered."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping

from agent.config import Config
from agent.delivery.client import Client, Fate, judge_answer
from agent.delivery.spool import Spool
from agent.exit_codes import AgentError, ConfigurationError, ExitCode
from agent.measuring.fio import choose_engine, find_fio, prefer_engine
from agent.measuring.resources import check_resources
from agent.measuring.workspace import Workspace
from agent.profiles.profiles import load_profile, make_plan
from agent.running.session import Session

# Charts are ordered by the host's clock; more than this is seen in them.
_CLOCK_DIFFERENCE_MAXIMUM_S = 30.0


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; exit_code is OK where it is as it should be."""

    name: str
    exit_code: ExitCode
    detail: str


def check_everything(
    session: Session, *, directory: str | None, trusts_directory: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each thing that a run needs, in the order in which a run needs them."""
    config = session.config
    read = "read" if config.is_read else "not there; defaults are used"
    yield Finding("configuration", ExitCode.OK, f"{config.path} ({read})")
    yield _look("spool", lambda: _check_spool(session.spool))
    yield _look("fio", lambda: _check_fio(config))
    if directory:
        yield _look(
            "directory", lambda: _check_directory(directory, session, trusts_directory=trusts_directory)
        )
    yield _look("schedule", _check_schedule)
    try:
        client = session.make_client()
    except ConfigurationError as error:
        yield Finding("server", error.exit_code, str(error))
        return
    yield from _check_server(client)


def _look(name: str, check: Callable[[], str]) -> Finding:
    try:
        return Finding(name, ExitCode.OK, check())
    except AgentError as error:
        return Finding(name, error.exit_code, str(error))


def _check_spool(spool: Spool) -> str:
    spool.prepare()
    spool.check_room()
    return f"{spool.directory}, {len(spool.pending())} waiting, {len(spool.rejected())} rejected"


def _check_fio(config: Config) -> str:
    fio = find_fio(config.fio)
    engine = choose_engine(fio)
    missing = "" if engine == prefer_engine() else f" (this fio has no {prefer_engine()})"
    return f"{fio.version} at {fio.path}, engine {engine}{missing}"


def _check_directory(directory: str, session: Session, *, trusts_directory: bool) -> str:
    # What this host runs by itself; others may need far more.
    plan = make_plan(load_profile(session.config.profile or "quick"), {})
    check_resources(directory, plan.needs, reserve_bytes=session.config.reserve_bytes)
    with Workspace(
        directory,
        session.spool.directory,
        run_id=f"check-{os.getpid()}",
        trusts_parent=trusts_directory or session.config.trusts_directory,
    ) as workspace:
        is_direct = workspace.has_direct_io()
    return f"{directory} is writable, " + ("O_DIRECT works" if is_direct else "O_DIRECT is refused: direct=0")


def _check_schedule() -> str:
    """Return what runs by itself; nothing is no fault, but what is installed needs somebody who starts it."""
    from agent.scheduling.scheduled import find_machine, find_schedules

    found = find_schedules(find_machine())
    idle = sorted({one.kind for one in found if one.is_running is False})
    words = "; ".join(f"{one.kind}: {one.schedule.describe()}" for one in found)
    if idle:
        raise ConfigurationError(f"{words}; {' and '.join(idle)} is not running here: nothing starts it")
    return words or "none; `bench-agent schedule install` makes one"


def _check_server(client: Client) -> Iterator[Finding]:
    asked_at = time.time()
    answer = client.request("GET", "/api/v1/hosts/me")
    answered_at = time.time()
    body = answer.body or {}
    if answer.status == 200 and "name" in body:
        pool = f", pool {body['pool']}" if body.get("pool") else ""
        yield Finding("server", ExitCode.OK, f"{client.url} knows this host as {body['name']}{pool}")
        yield _check_clock(body, (asked_at + answered_at) / 2)
        return
    is_later = judge_answer(answer, submission_id=None) == Fate.LATER
    code = ExitCode.TRY_LATER if is_later else ExitCode.CONFIGURATION
    yield Finding("server", code, f"{client.url}: {answer.describe()}")


def _check_clock(body: Mapping[str, Any], now: float) -> Finding:
    from datetime import datetime

    try:
        server_time = datetime.fromisoformat(str(body.get("server_time")).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return Finding("clock", ExitCode.OK, "the server does not tell its time")
    difference_s = now - server_time
    direction = "ahead of" if difference_s > 0 else "behind"
    detail = f"{abs(difference_s):.1f} s {direction} the server"
    if abs(difference_s) > _CLOCK_DIFFERENCE_MAXIMUM_S:
        return Finding("clock", ExitCode.CONFIGURATION, f"{detail}: set it, charts go by it")
    return Finding("clock", ExitCode.OK, detail)
