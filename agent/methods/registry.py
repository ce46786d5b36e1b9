"""Measuring methods by name, and how a plan is run with its method."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Callable, Mapping

from agent.measuring.fio import make_environment
from agent.methods.method_context import JOBFILE, MethodContext, MethodResult, describe_test_file
from agent.profiles.profile import Plan


def check_plan(plan: Plan) -> None:
    """Raise ConfigurationError if a plan lacks a value without a default."""
    from agent.methods.seqread import check_file

    if plan.profile.method == "seqread":
        check_file(plan)


def run_plan(context: MethodContext) -> MethodResult:
    """Run the plan with its method."""
    from agent.methods.saturation import find_saturation
    from agent.methods.seqread import read_in_order
    from agent.methods.smallfiles import write_and_read
    from agent.methods.steady import write_until_steady

    methods: Mapping[str, Callable[[MethodContext], MethodResult]] = {
        "jobs": _run_jobs,
        "saturation": find_saturation,
        "seqread": read_in_order,
        "smallfiles": write_and_read,
        "steady": write_until_steady,
    }
    return methods[context.plan.profile.method](context)


def _run_jobs(context: MethodContext) -> MethodResult:
    if context.plan.profile.is_own:
        return _run_own(context)
    jobfile = context.write_jobfile()
    result = context.execute(jobfile)
    return MethodResult(result, jobfile, result.has_report, describe_test_file(context))


def _run_own(context: MethodContext) -> MethodResult:
    """Run a custom job file and remove its passwords from the result."""
    from agent.measuring.jobfile import hide_secrets

    jobfile = context.write_jobfile()
    _check_own(context, jobfile)
    result = context.execute(jobfile)
    hide = partial(hide_secrets, jobfile=jobfile, environ=make_environment())
    result = replace(result, stdout=hide(result.stdout), stderr=hide(result.stderr))
    return MethodResult(result, hide(jobfile), result.has_report, describe_test_file(context))


def _check_own(context: MethodContext, jobfile: str) -> None:
    from agent.measuring.jobfile import check_by_fio

    assert context.fio is not None
    context.workspace.write_file(JOBFILE, jobfile)
    check_by_fio(context.fio.path, JOBFILE, context.workspace.descriptor)
