"""The end of a sweep or experiment: finished before, or by --abandon."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Mapping

from agent.exit_codes import ConfigurationError, ExitCode
from agent.job_state import JobState, State, StateDirectory
from agent.running.result_sender import ResultSender
from agent.running.session import Session


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
