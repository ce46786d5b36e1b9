"""Adopt the schedule that the server wants, as part of `bench-agent poll` and after scheduled runs.

Off by default. A server that cannot be reached, or whose answer is not valid, changes nothing.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from agent.adopting.adoption_store import Adoption, AdoptionStore
from agent.adopting.wanted_lines import WantedLine, choose_adopted, list_changed, read_wanted
from agent.delivery.client import DeliveryOutcome, classify_response
from agent.exit_codes import AgentError, ConfigurationError, ExitCode, TryLater
from agent.requests.adoption_result import AdoptionResult
from agent.requests.request_policy import RequestPolicy, read_request_policy
from agent.scheduling.adopted_schedules import AdoptedReplacement, check_entry, choose_kind
from agent.scheduling.installed_schedules import InstalledSchedule, Machine, find_machine, find_schedules
from agent.scheduling.schedule_command import report_schedules
from agent.scheduling.timetable import DAY_S, write_mark

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.running.session import Session

_ADDRESS = "/api/v1/hosts/me/schedule/adoption"
# Scheduled runs, not requested ones: a profile every hour.
PER_DAY_DEFAULT = 24
PER_DAY_MAXIMUM = 288
# A pool and a host want at most 20 schedules each; the server accepts as many reasons.
_REFUSED_MAXIMUM = 40


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
    if not policy.directories:
        raise ConfigurationError(
            "[schedule] allow requires a directory: set directories, or directory in [run]"
        )
    names = ", ".join(dict.fromkeys(each.profile for each in policy.profiles))
    return f"adopts {names} in {', '.join(policy.directories)}; at most {policy.per_day} runs in 24 h"


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


def _ask(client: Client, report: Mapping[str, Any]) -> tuple[str, tuple[WantedLine, ...]] | AdoptionResult:
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
    is_refused = classify_response(response, submission_id=None) == DeliveryOutcome.REFUSED
    code = ExitCode.CONFIGURATION if is_refused else ExitCode.TRY_LATER
    return AdoptionResult(
        problem=f"{response.describe()}; nothing was changed", exit_code=code, was_asked=True
    )


def _adopt(
    machine: Machine,
    version: str,
    lines: Sequence[WantedLine],
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
        wanted=[asdict(line) for line in lines],
        refused=[asdict(each) for each in refused],
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
        session.console.note(f"schedule of {each.profile} refused: {each.reason}")
    # A line that is refused leaves what is installed for its profile.
    kept = {each.profile for each in refused}
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
        for run in adopted:
            session.console.report(f"schedule of the server: {run.schedule.describe()}")
        report_schedules(machine, None, session)
    profiles = [run.schedule.profile for run in adopted]
    result = AdoptionResult(installed=profiles, refused=adoption.refused, was_asked=True)
    return changed if is_changed else adoption, result


def _choose_kind(machine: Machine, installed: Sequence[InstalledSchedule]) -> tuple[str, AgentError | None]:
    """Return "cron" or "systemd"; "" with the reason if there is none."""
    try:
        return choose_kind(machine, installed), None
    except AgentError as error:
        return "", error
