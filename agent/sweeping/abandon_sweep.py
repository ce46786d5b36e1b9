"""The command `sweep --abandon`: end a sweep that was stopped or killed."""

from __future__ import annotations

import argparse

from agent.exit_codes import ExitCode
from agent.job_state import StateDirectory
from agent.running.job_end import abandon_job, refuse_options, report_ended
from agent.running.result_sender import ResultSender
from agent.running.session import Session
from agent.sweeping.sweep_state import NEW_OPTIONS, SweepState


def abandon_sweep(arguments: argparse.Namespace, session: Session) -> ExitCode:
    """Remove the stripe of a sweep, and record that it is not continued; its results stay."""
    refuse_options(arguments, {**NEW_OPTIONS, "dry_run": False}, reason="--abandon measures nothing")
    states = StateDirectory(SweepState, session.spool.directory)
    return report_ended(abandon_job(states, arguments.abandon, session=session, clean_up=_clean_up), session)


def _clean_up(state: SweepState, sender: ResultSender) -> None:
    if state.round_number is None:
        sender.recover(state)
        return
    from agent.sweeping.sweep_command import clean_up_sweep

    clean_up_sweep(state, sender)
