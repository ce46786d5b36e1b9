"""Measuring methods by name, and how a plan is run with its method."""

from __future__ import annotations

from typing import Callable, Mapping

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
    jobfile = context.write_jobfile()
    if context.plan.profile.is_own:
        _check_own(context, jobfile)
    result = context.execute(jobfile)
    return MethodResult(result, jobfile, result.has_report, describe_test_file(context))


def _check_own(context: MethodContext, jobfile: str) -> None:
    from agent.measuring.jobfile import check_by_fio

    assert context.fio is not None
    context.workspace.write_file(JOBFILE, jobfile)
    check_by_fio(context.fio.path, JOBFILE, context.workspace.descriptor)
