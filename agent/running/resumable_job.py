"""What sweeps and experiments share: delivery between steps, recovery after a kill, and their end by --abandon."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Mapping
from urllib.parse import urljoin

from agent.exit_codes import ConfigurationError, ExitCode, worst
from agent.job_state import JobState, State, StateDirectory
from agent.measuring.workspace import clean_leftovers
from agent.running.session import Session

if TYPE_CHECKING:
    from agent.delivery.client import Client
    from agent.delivery.deliver import Delivery

# After a failed delivery, the next attempt is made after this time, not after each step.
_DELIVERY_PAUSE_S = 600.0
# Of a delivery between two steps, which waits for nothing.
_BUDGET_S = 60.0


@dataclass
class ResultSender:
    """Delivers results between steps, without retries if the server is not reachable."""

    session: Session
    client: Client | None
    urls: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    exit_code: ExitCode = ExitCode.OK
    _not_before: float = float("-inf")

    def deliver(self) -> None:
        """Post pending results, one attempt each, and trim the spool."""
        if self.client is not None and time.monotonic() >= self._not_before:
            self._post(self.client)
        self.session.trim()

    def _post(self, client: Client) -> None:
        from agent.delivery.deliver import deliver

        delivery = deliver(
            self.session.spool, client, console=self.session.console, budget_s=_BUDGET_S, retries=False
        )
        self._note(delivery)
        if delivery.remaining:
            self._not_before = time.monotonic() + _DELIVERY_PAUSE_S
            self.session.console.note(f"{delivery.problem}; results stay in the spool, measuring continues")

    def deliver_all(self, *, budget_s: float) -> ExitCode:
        """Post pending results within the budget; return the exit code."""
        if self.client is None:
            return ExitCode.OK
        delivery = self.session.deliver(self.client, budget_s=budget_s)
        self._note(delivery)
        return worst(self.exit_code, delivery.exit_code)

    def _note(self, delivery: Delivery) -> None:
        self.urls.update(delivery.urls)
        self.rejected.update(delivery.rejected)
        if delivery.exit_code == ExitCode.REJECTED:
            self.exit_code = ExitCode.REJECTED

    def is_spooled(self, run_id: str) -> bool:
        """Return whether a result is in the spool."""
        spool = self.session.spool
        return any(entry.id == run_id for entry in (*spool.pending(), *spool.rejected()))

    def is_known(self, run_id: str) -> bool:
        """Return whether a result is in the spool or on the server: cron may have delivered it."""
        if self.is_spooled(run_id) or self.client is None:
            return self.is_spooled(run_id)
        response = self.client.request("GET", f"/api/v1/submissions/{run_id}")
        return response.status == 200 and (response.body or {}).get("id") == run_id

    def recover(self, state: JobState) -> None:
        """Clean up after a killed run, and record whether its result was stored."""
        for note in clean_leftovers(self.session.spool.directory):
            self.session.console.note(note)
        running = state.running()
        if running is not None:
            number, run_id = running
            state.end_interrupted(number, is_spooled=self.is_known(run_id))


def abandon_job(
    states: StateDirectory[State],
    name: str,
    *,
    session: Session,
    clean_up: Callable[[State, ResultSender], object],
) -> State:
    """End the job of that id, or "last", unless it is finished; return it. clean_up: removes what a killed one left."""
    states.report_damaged(session.console.warn, named=name)
    with session.spool.lock():
        state = states.load(name, option="--abandon")
        if not state.is_finished:
            # The server need not answer: a result that was delivered is there in any case.
            clean_up(state, ResultSender(session, None))
            state.abandon()
    return state


def describe_job(state: JobState, sender: ResultSender) -> tuple[str, dict[str, Any], ExitCode]:
    """Return how many steps were completed as text, the job for --json, and its exit code."""
    counts = {name: state.count_steps(name) for name in ("done", "failed", "waiting")}
    failed = f", {counts['failed']} failed" if counts["failed"] else ""
    base = f"{sender.session.config.url}/"
    urls = {run_id: urljoin(base, url) for run_id, url in sender.urls.items()}
    steps = [{**step, "url": urls.get(step["run_id"] or "")} for step in state.steps()]
    text = f"{state.kind} {state.id}: {counts['done']} of {len(steps)} {state.steps_member} completed{failed}"
    document = {
        "id": state.id,
        **counts,
        state.steps_member: steps,
        "rejected": sender.rejected,
        "remaining": len(sender.session.spool.pending()),
    }
    return text, document, ExitCode.NOT_MEASURED if counts["failed"] else ExitCode.OK


def refuse_options(arguments: argparse.Namespace, defaults: Mapping[str, Any], *, reason: str) -> None:
    """Raise ConfigurationError for options that are not as by default."""
    given = [name for name, default in defaults.items() if getattr(arguments, name) != default]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ConfigurationError(f"{reason}; leave out {options}")


def report_ended(state: JobState, session: Session) -> ExitCode:
    """Report that a job has ended, or was finished before; its results stay."""
    steps, done = state.steps(), state.count_steps("done")
    if state.is_abandoned:
        counts = f"{done} of {len(steps)} {state.steps_member} completed"
        stay = ", their results stay" if done else ""
        session.console.report(f"{state.kind} {state.id} is abandoned: {counts}{stay}")
    else:
        session.console.report(f"{state.kind} {state.id} is finished")
    document = {"id": state.id, "is_abandoned": state.is_abandoned, state.steps_member: steps}
    return session.finish(ExitCode.OK, document)
