"""The command `poll`: ask the server for requested runs, and run those that this host allows.

The id of a request is the id of its result. The server stores an id once, so a request whose run was killed after the
result was spooled is delivered, not repeated.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Mapping, Sequence
from urllib.parse import urljoin

from agent.delivery.client import Response, find_exit_code
from agent.exit_codes import AgentError, CannotMeasure, ExitCode, Interrupted, TryLater, worst
from agent.files import read_json, write_durably
from agent.measuring.load import BusyLimits, TooBusy
from agent.profiles.profile import check_plan
from agent.quantities import format_time
from agent.requests.adopt_schedule import AdoptionResult, adopt_schedule
from agent.requests.request_policy import (
    RequestedRun,
    RequestPolicy,
    describe_refusal,
    find_refusal,
    read_request_policy,
    read_requested_run,
)

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.profiles.profile import Plan
    from agent.running.measure import SpooledRun
    from agent.running.session import Session

# Runs of one poll: a scheduled run that is due meanwhile waits for them.
_RUNS_MAXIMUM = 3
# A request that ended the agent twice, or the machine, is not started again.
_STARTS_MAXIMUM = 2
_OWN = "/api/v1/hosts/me/requests"
_LEDGER_FILE = "requests.json"
_DAY_S = 86400.0


@dataclass
class PollResult:
    """The result of a poll. outcomes: of the requests by id; problem: why the server was not asked.

    details: by id, the URL of a delivered result, and the reason of a run that was postponed.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    details: dict[str, str] = field(default_factory=dict)
    exit_code: ExitCode = ExitCode.OK
    problem: str | None = None


@dataclass(frozen=True)
class StartedRequest:
    """A start of a request; at: seconds since the epoch, by this host's clock. has_ended: with or without a result."""

    id: str
    at: float
    has_ended: bool = False


class RequestLedger:
    """The starts of requests in a spool; requires its lock."""

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, _LEDGER_FILE)

    @property
    def exists(self) -> bool:
        """Return whether this host reported to the server that it allows requests."""
        return os.path.exists(self._path)

    def list_started(self, now: float) -> list[StartedRequest]:
        """Return the starts within 24 hours, oldest first.

        One that is further in the future is from a clock that was wrong.
        """
        try:
            rows = read_json(self._path)["started"]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        found = [_read_row(row) for row in rows] if isinstance(rows, list) else []
        return sorted((row for row in found if row and abs(now - row.at) < _DAY_S), key=lambda row: row.at)

    def find_quota_end(self, now: float, *, per_day: int) -> float | None:
        """Return when the next run is allowed; None if it is now."""
        started = self.list_started(now)
        return started[-per_day].at + _DAY_S if len(started) >= per_day else None

    def count_starts(self, request_id: str, now: float) -> int:
        """Return how often a request was started."""
        return sum(row.id == request_id for row in self.list_started(now))

    def is_interrupted(self, request_id: str, now: float) -> bool:
        """Return whether a request was started and did not end: its agent was stopped."""
        starts = [row for row in self.list_started(now) if row.id == request_id]
        return bool(starts) and not any(row.has_ended for row in starts)

    def end(self, request_id: str, now: float) -> None:
        """Store that a started request has ended: it is not started again beyond the quota."""
        started = self.list_started(now)
        try:
            self._write([replace(row, has_ended=row.has_ended or row.id == request_id) for row in started])
        except CannotMeasure:
            # On a full disk it counts as interrupted, and the number of its starts is limited nevertheless.
            return

    def add(self, request_id: str, now: float) -> None:
        """Store a start durably, before it happens: one that is killed counts."""
        self._write([*self.list_started(now), StartedRequest(request_id, now)])

    def remove_last(self, request_id: str, now: float) -> None:
        """Remove the last start of a request that did not begin to measure."""
        started = self.list_started(now)
        starts = [row for row in started if row.id == request_id]
        self._write([row for row in started if row is not starts[-1]] if starts else started)

    def create(self) -> None:
        """Create the file, whose existence means that a policy was reported."""
        if not self.exists:
            self._write([])

    def remove(self) -> None:
        """Remove the file after the report that nothing is allowed."""
        if self.exists:
            os.unlink(self._path)

    def _write(self, started: Sequence[StartedRequest]) -> None:
        try:
            write_durably(self._path, json.dumps({"started": [asdict(row) for row in started]}).encode())
        except OSError as error:
            raise CannotMeasure(f"cannot write {self._path}: {error}") from None


@dataclass(frozen=True)
class _Poller:
    """What one poll needs."""

    session: Session
    client: Client
    policy: RequestPolicy
    ledger: RequestLedger
    budget_s: float


def run_poll(session: Session, *, budget_s: float) -> ExitCode:
    """Run the command `poll`. Another agent that is running polls after its run."""
    adoption: AdoptionResult | None = None
    try:
        # Before requested runs, which may take hours.
        adoption = adopt_schedule(session)
        result = poll_requests(session, budget_s=budget_s)
    except TryLater as busy:
        session.console.note(str(busy))
        result = PollResult(problem=str(busy))
    else:
        if result.problem:
            session.console.warn(result.problem)
        elif not result.outcomes:
            session.console.report("no requests")
        for request_id, outcome in result.outcomes.items():
            detail = f", {result.details[request_id]}" if request_id in result.details else ""
            session.console.report(f"request {request_id}: {outcome}{detail}")
    if adoption is not None and adoption.problem:
        session.console.warn(f"schedule of the server: {adoption.problem}")
        result.exit_code = worst(result.exit_code, adoption.exit_code)
    document = {
        "requests": result.outcomes,
        "problem": result.problem,
        "schedule": adoption.dump() if adoption is not None and adoption.was_asked else None,
    }
    return session.finish(result.exit_code, document)


def poll_after_run(session: Session, *, budget_s: float) -> None:
    """Poll after a scheduled run; a failure does not fail the run."""
    try:
        result = poll_requests(session, budget_s=budget_s)
    except Interrupted:
        raise
    except AgentError as error:
        session.console.note(f"requests: {error}")
        return
    if result.problem:
        session.console.note(f"requests: {result.problem}")


def poll_requests(session: Session, *, budget_s: float) -> PollResult:
    """Report what this host allows, and run what is requested: at most three runs. TryLater if an agent is running.

    Nothing is sent if nothing is allowed, and no other policy was reported before.
    """
    config = session.config
    policy = read_request_policy(config.requests, directory=config.directory)
    ledger = RequestLedger(session.spool.directory)
    if not policy.profiles and not ledger.exists:
        return PollResult()
    poller = _Poller(session, session.make_client(), policy, ledger, budget_s)
    with session.spool.lock():
        # The result of a request whose agent was killed: the server would offer the request again.
        delivery = session.deliver(poller.client, budget_s=budget_s)
        result = PollResult()
        if delivery.exit_code == ExitCode.REJECTED:
            result.exit_code = delivery.exit_code
        for _ in range(_RUNS_MAXIMUM):
            requested = _ask(poller, result)
            if requested is None or not _settle(poller, requested, result):
                break
        if not policy.profiles and result.problem is None:
            ledger.remove()
    return result


def _ask(poller: _Poller, result: PollResult) -> RequestedRun | None:
    """Report the policy; return the next request, None without one or after a problem."""
    if poller.policy.profiles:
        poller.ledger.create()
    response = poller.client.request(
        "POST", f"{_OWN}/next", document={**poller.policy.dump(), **_describe_wait(poller)}
    )
    body = response.body or {}
    if response.status == 200 and "request" in body:
        document = body["request"]
        requested = read_requested_run(document)
        if document is not None and requested is None:
            result.problem = "the server sent a request that this version cannot read; update bench-agent"
            result.exit_code = worst(result.exit_code, ExitCode.CONFIGURATION)
        return requested
    result.problem = f"requests: {response.describe()}"
    result.exit_code = worst(result.exit_code, find_exit_code(response))
    return None


def _describe_wait(poller: _Poller) -> dict[str, Any]:
    """Return why and until when this host starts nothing; null members if it starts a run now."""
    now = time.time()
    quota_end = poller.ledger.find_quota_end(now, per_day=poller.policy.per_day)
    if quota_end is not None:
        return {"waits_for": "quota", "waits_until": format_time(quota_end)}
    quiet_end = poller.policy.find_quiet_end(datetime.now())
    if quiet_end is not None:
        return {"waits_for": "quiet-hours", "waits_until": format_time(quiet_end.timestamp())}
    return {"waits_for": None, "waits_until": None}


def _settle(poller: _Poller, requested: RequestedRun, result: PollResult) -> bool:
    """Run one request and report its outcome; return whether to ask for another."""
    console = poller.session.console
    plan, refusal = _check(poller, requested)
    if plan is None:
        console.warn(f"request {requested.id} declined: {refusal}")
        result.outcomes[requested.id] = "declined"
        return _report(poller, requested, {"state": "declined", "reason": refusal}).status == 200
    if any(entry.id == requested.id for entry in poller.session.spool.pending()):
        result.outcomes[requested.id] = "done"
        console.note(f"request {requested.id}: its result is in the spool for the next delivery")
        return False
    if poller.ledger.count_starts(requested.id, time.time()) >= _STARTS_MAXIMUM:
        result.outcomes[requested.id] = "failed"
        reason = f"the agent was stopped {_STARTS_MAXIMUM} times during this run"
        return _report(poller, requested, {"state": "failed", "reason": reason}).status == 200
    now = datetime.now()
    if poller.policy.find_quiet_end(now, duration_s=plan.duration_s) is not None:
        return _postpone(poller, requested, "the run would end in quiet hours", result=result)
    # Here, too: a server that ignores what this host waits for starts nothing more than what was interrupted.
    is_interrupted = poller.ledger.is_interrupted(requested.id, time.time())
    quota_end = poller.ledger.find_quota_end(time.time(), per_day=poller.policy.per_day)
    if quota_end is not None and not is_interrupted:
        return _postpone(poller, requested, "the host allows no more runs within 24 hours", result=result)
    # Before the report: a run that is killed at any instant counts.
    poller.ledger.add(requested.id, time.time())
    response = _report(poller, requested, {"state": "running", "duration_s": plan.duration_s})
    if response.status != 200:
        poller.ledger.remove_last(requested.id, time.time())
        console.note(f"request {requested.id} is not started: {response.describe()}")
        return False
    # Of the time of the check: the report may have taken until quiet hours began.
    quiet_start = poller.policy.find_quiet_start(now)
    return _measure(poller, requested, plan, quiet_start=quiet_start, result=result)


def _check(poller: _Poller, requested: RequestedRun) -> tuple[Plan | None, str]:
    """Return the plan of an allowed request, or None and the reason."""
    refusal = find_refusal(poller.policy, requested)
    if refusal is not None:
        return None, describe_refusal(refusal, section="requests")
    try:
        plan = requested.make_plan()
        check_plan(plan)
    except AgentError as error:
        return None, str(error)
    if not poller.policy.has_time_for(plan.duration_s):
        return None, "the run takes longer than the time between quiet hours"
    return plan, ""


def _measure(
    poller: _Poller, requested: RequestedRun, plan: Plan, *, quiet_start: datetime | None, result: PollResult
) -> bool:
    """Run a plan, until quiet hours begin at the latest, and report its outcome."""
    # Most polls measure nothing, and should cost nothing.
    from agent.running.measure import RunRequest, measure

    session, config = poller.session, poller.session.config
    session.console.note(f"request {requested.id}: {requested.profile} in {requested.directory}")
    request = RunRequest(
        plan=plan,
        directory=requested.directory,
        target={},
        labels={},
        time_limit_s=None,
        latest_end=quiet_start.timestamp() if quiet_start else None,
        run_id=requested.id,
        limits=BusyLimits(load=config.max_load, busy_percent=config.busy_percent, is_quiet=True),
    )
    try:
        run = measure(request, session)
    except TooBusy as busy:
        poller.ledger.remove_last(requested.id, time.time())
        return _postpone(poller, requested, str(busy), result=result)
    except Interrupted:
        raise
    except AgentError as error:
        poller.ledger.end(requested.id, time.time())
        session.console.warn(f"request {requested.id} failed: {error}")
        result.outcomes[requested.id] = "failed"
        result.exit_code = worst(result.exit_code, error.exit_code)
        return _report(poller, requested, {"state": "failed", "reason": str(error)}).status == 200
    poller.ledger.end(requested.id, time.time())
    return _deliver(poller, requested, run, result=result)


def _deliver(poller: _Poller, requested: RequestedRun, run: SpooledRun, *, result: PollResult) -> bool:
    """Deliver the result; the server settles the request when it has stored it, now or later."""
    delivery = poller.session.deliver(poller.client, budget_s=poller.budget_s, first_id=run.entry.id)
    result.exit_code = worst(result.exit_code, delivery.exit_code)
    if requested.id in delivery.rejected:
        result.outcomes[requested.id] = "failed"
        reason = f"the server rejected the result: {delivery.rejected[requested.id]}"
        return _report(poller, requested, {"state": "failed", "reason": reason}).status == 200
    result.outcomes[requested.id] = "failed" if run.failure else "done"
    if run.failure:
        poller.session.console.warn(f"request {requested.id} failed: {run.failure}")
        result.exit_code = worst(result.exit_code, ExitCode.NOT_MEASURED)
    if requested.id not in delivery.urls:
        return False
    url = urljoin(f"{poller.session.config.url}/", delivery.urls[requested.id])
    result.details[requested.id] = url
    return True


def _postpone(poller: _Poller, requested: RequestedRun, reason: str, *, result: PollResult) -> bool:
    """Leave a request for a later poll, with the reason; return that this poll asks for no other."""
    result.outcomes[requested.id], result.details[requested.id] = "waiting", reason
    _report(poller, requested, {"state": "pending", "reason": reason})
    return False


def _report(poller: _Poller, requested: RequestedRun, document: Mapping[str, Any]) -> Response:
    shortened = {name: value[:1000] if isinstance(value, str) else value for name, value in document.items()}
    return poller.client.request("PATCH", f"{_OWN}/{requested.id}", document=shortened)


def describe_policy(session: Session) -> str:
    """Return what this host allows, for `check`; ConfigurationError if it is not valid."""
    config = session.config
    policy = read_request_policy(config.requests, directory=config.directory)
    if not policy.profiles:
        return "none allowed; see [requests] allow"
    return f"{policy.describe(section='requests')} in 24 h"


def _read_row(row: Any) -> StartedRequest | None:
    if not isinstance(row, dict) or not isinstance(row.get("at"), (int, float)):
        return None
    return StartedRequest(
        re.sub(r"[^0-9a-f-]", "", str(row.get("id"))), float(row["at"]), row.get("has_ended") is True
    )
