"""The command `experiment --abandon`: end an experiment that is not finished."""

from __future__ import annotations

import argparse

from agent.exit_codes import ExitCode
from agent.experiments.experiment_state import NEW_OPTIONS, ExperimentState
from agent.job_state import StateDirectory
from agent.running.job_end import abandon_job, refuse_options, report_ended
from agent.running.session import Session


def abandon_experiment(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Record that an experiment is not continued; its results stay."""
    session.open_log(arguments.log)
    refuse_options(arguments, NEW_OPTIONS, reason="--abandon measures nothing")
    states = StateDirectory(ExperimentState, session.spool.directory)
    state = abandon_job(
        states, arguments.abandon, session=session, clean_up=lambda left, sender: sender.recover(left)
    )
    if state.is_abandoned and state.arm:
        session.console.note(f"the host is left as arm {state.arm}")
    return report_ended(state, session)
