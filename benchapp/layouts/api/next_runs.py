"""What to measure next, as a member of an answer."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from benchapp.framework.api.answers import ApiAnswer, Time, build
from benchapp.framework.api.parameters import ChoiceParameter
from benchapp.layouts.read.next_runs import NextRun, NextRuns
from benchapp.layouts.read.run_commands import RunCommand
from benchapp.layouts.rules.next_runs import RunReason


class NextMeasurementAnswer(ApiAnswer, kw_only=True, frozen=True):
    title: str
    iodepth: int | None
    numjobs: int | None
    reasons: Sequence[RunReason]
    runs: Annotated[int, Meta(description="further runs; 0: more than 30 would be needed")]
    n: Annotated[int, Meta(description="runs so far")]
    iops: Annotated[float | None, Meta(description="median at this load")]
    last_at: Annotated[Time | None, Meta(description="of the newest run")]
    is_possible: Annotated[bool, Meta(description="false: needs a new host or volume")]


class NextRunsAnswer(ApiAnswer, kw_only=True, frozen=True):
    measurements: Sequence[NextMeasurementAnswer]
    commands: Sequence[RunCommand]
    more: Annotated[int, Meta(description="measurements that are not listed")]
    duration_s: Annotated[float | None, Meta(description="of all commands; null if one is unknown")]


def next_runs_parameter() -> ChoiceParameter:
    """Return the field that asks for a plan."""
    return ChoiceParameter(choices=("1",), required=False, help_text="also what to measure next, JSON only")


def describe_next_runs(plan: NextRuns) -> NextRunsAnswer:
    """Return a plan as the API has it."""
    return NextRunsAnswer(
        measurements=[_describe_measurement(each) for each in plan.measurements],
        commands=plan.commands,
        more=plan.more,
        duration_s=plan.duration_s,
    )


def _describe_measurement(measured: NextRun) -> NextMeasurementAnswer:
    return build(
        NextMeasurementAnswer,
        measured,
        reasons=measured.reasons,
    )
