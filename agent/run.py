"""The command `run`: measure, keep the result, deliver it, and say where it is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Sequence
from urllib.parse import urljoin

from agent.delivery import Delivery, Settlement, wait_until_settled
from agent.measure import Request, SpooledRun, measure
from agent.outcome import ConfigurationError, ExitCode, worst
from agent.profiles import load_profile, make_plan
from agent.quantities import parse_duration

if TYPE_CHECKING:
    from agent.client import Client
    from agent.session import Session


def run_profile(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Measure, keep the result, deliver it and what waits beside it."""
    request = _read_request(arguments, session)
    client = None if arguments.no_send else _find_client(session)
    with session.spool.lock():
        run = measure(request, session)
        if client is None:
            session.trim()
            verdict = ExitCode.OK if arguments.no_send else ExitCode.CONFIGURATION
            delivery = Delivery(remaining=len(session.spool.pending()), verdict=verdict)
        else:
            delivery = session.deliver(client, budget_s=arguments.budget, first_id=run.entry.id)
    settlement = None
    if client is not None and arguments.wait > 0 and run.entry.id in delivery.urls:
        settlement = wait_until_settled(client, run.entry.id, timeout_s=arguments.wait)
        if settlement.state == "received":
            session.console.note(f"not stored yet after {arguments.wait:.0f} s")
    return _report(session, run, delivery=delivery, settlement=settlement)


def _read_request(arguments: argparse.Namespace, session: Session) -> Request:
    directory = arguments.directory or session.config.directory
    if not directory:
        raise ConfigurationError("measure where? name a directory on the storage under test with --directory")
    profile = arguments.profile or session.config.profile
    if not profile:
        raise ConfigurationError(
            "measure what? name a profile with --profile; `bench-agent profiles` lists them"
        )
    try:
        time_limit_s = parse_duration(arguments.time_limit) if arguments.time_limit else None
    except ValueError as error:
        raise ConfigurationError(f"--time-limit: {error}") from None
    return Request(
        plan=make_plan(load_profile(profile), _read_pairs(arguments.set, "--set")),
        directory=directory,
        target=_read_pairs(arguments.target, "--target"),
        labels=_read_pairs(arguments.label, "--label"),
        time_limit_s=time_limit_s,
    )


def _read_pairs(pairs: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise ConfigurationError(f"{option} {pair}: write it as key=value")
        found[name.strip()] = value.strip()
    return found


def _find_client(session: Session) -> Client | None:
    """Return the client, or None with a word about it: a bad token must not cost the measurement."""
    try:
        return session.make_client()
    except ConfigurationError as error:
        session.console.warn(f"{error}; the result will wait in the spool")
        return None


def _report(
    session: Session, run: SpooledRun, *, delivery: Delivery, settlement: Settlement | None
) -> ExitCode:
    base = f"{session.config.url}/"
    url = urljoin(base, delivery.urls[run.entry.id]) if run.entry.id in delivery.urls else None
    pages = [urljoin(base, page) for page in (settlement.pages if settlement else ())]
    state = _name_state(run, delivery=delivery, settlement=settlement)
    codes = [delivery.exit_code]
    if run.failure:
        session.console.warn(run.failure)
        codes.append(ExitCode.NOT_MEASURED)
    if settlement and settlement.state == "rejected":
        session.console.warn(f"the server rejected the result: {settlement.reason}")
        codes.append(ExitCode.REJECTED)
    for line in pages or [url or f"{state}: {run.entry.id}"]:
        session.console.say(line)
    document = {
        "id": run.entry.id,
        "state": state,
        "url": url,
        "pages": pages,
        "fio_exit_status": run.exit_status,
        "failure": run.failure,
        "remaining": delivery.remaining,
        "problem": delivery.problem if delivery.remaining else None,
    }
    return session.finish(worst(*codes), document)


def _name_state(run: SpooledRun, *, delivery: Delivery, settlement: Settlement | None) -> str:
    if run.entry.id in delivery.rejected:
        return "rejected"
    if run.entry.id not in delivery.urls:
        return "waiting in the spool"
    return settlement.state if settlement else "received"
