"""Steady state according to SNIA's Solid State Storage Performance Test Specification (PTS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

from agent.measuring.fio import FioResult
from agent.measuring.fio_reports import join_jobfiles, join_results, read_figures
from agent.methods.method_context import MethodContext, MethodResult, describe_test_file

# SNIA PTS 2.0: over five rounds, values within 20 % of their average, and their linear fit within 10 %.
WINDOW = 5
EXCURSION_MAXIMUM = 0.20
SLOPE_MAXIMUM = 0.10
# Its workload-independent preconditioning: twice the capacity, sequential, 128 KiB blocks.
_PRECONDITION = """\
[global]
filename=bench-agent.test
size={size}
ioengine={engine}
direct={direct}

[precondition]
rw=write
bs=128k
iodepth={iodepth}
loops=2
"""


@dataclass(frozen=True)
class SteadyState:
    """Steadiness of the last five rounds.

    mean: IOPS; excursion: maximum − minimum, slope: maximum − minimum of the linear fit, both relative to the mean.
    """

    is_steady: bool
    mean: float
    excursion: float
    slope: float


def check_steady_state(values: Sequence[float]) -> SteadyState | None:
    """Check the last five values according to SNIA PTS; None before five values, or if their mean is 0."""
    window = values[-WINDOW:]
    mean = sum(window) / WINDOW
    if len(window) < WINDOW or mean <= 0:
        return None
    excursion = (max(window) - min(window)) / mean
    center = (WINDOW - 1) / 2
    spread = sum((place - center) ** 2 for place in range(WINDOW))
    per_round = sum((place - center) * value for place, value in enumerate(window)) / spread
    slope = abs(per_round) * (WINDOW - 1) / mean
    # Values at the limit are within it, despite rounding errors of binary fractions.
    is_steady = round(excursion, 9) <= EXCURSION_MAXIMUM and round(slope, 9) <= SLOPE_MAXIMUM
    return SteadyState(is_steady, mean, excursion, slope)


def describe_steadiness(state: SteadyState | None, rounds: int) -> str:
    """Return the finding as text."""
    if state is None:
        noun = "round" if rounds == 1 else "rounds"
        return f"not steady: {rounds} {noun}, at least {WINDOW} are required"
    numbers = (
        f"{state.mean:.0f} IOPS over the last {WINDOW} rounds, excursion {state.excursion * 100:.1f} % "
        f"(max. 20 %), slope {state.slope * 100:.1f} % (max. 10 %)"
    )
    return f"steady after {rounds} rounds: {numbers}" if state.is_steady else f"not steady: {numbers}"


def write_until_steady(context: MethodContext) -> MethodResult:
    """Run rounds; each is one JSON document of the submission, without preconditioning."""
    values = context.plan.values
    results: list[FioResult] = []
    jobfiles: list[str] = []
    iops: list[float] = []
    state = None
    if values["precondition"] == "yes":
        jobfile = _write_precondition(context)
        prepared = context.execute(jobfile)
        if prepared.failure:
            return MethodResult(prepared, jobfile, prepared.has_report)
    while len(iops) < values["rounds"] and not (state and state.is_steady):
        # Unique names: reports of equal jobs could be read as snapshots of one execution.
        jobfiles.append(context.write_jobfile(round=f"round-{len(iops) + 1}"))
        results.append(context.execute(jobfiles[-1]))
        figures = read_figures(results[-1])
        if figures is None:
            break
        iops.append(figures.iops)
        state = check_steady_state(iops)
    result = join_results(results)
    facts = {
        **_list_facts(state, iops),
        "preconditioned": values["precondition"],
        **describe_test_file(context),
    }
    finding = describe_steadiness(state, len(iops))
    return MethodResult(result, join_jobfiles(jobfiles), result.has_report, facts, finding)


def _write_precondition(context: MethodContext) -> str:
    """Return the job file that writes the test file twice sequentially."""
    iodepth = 1 if context.engine == "psync" else context.plan.values["iodepth"]
    jobfile = _PRECONDITION.format(
        size=context.plan.values["size"],
        engine=context.engine,
        direct=int(context.is_direct),
        iodepth=iodepth,
    )
    return context.plan.open_device(jobfile)


def _list_facts(state: SteadyState | None, iops: Sequence[float]) -> dict[str, Any]:
    return {
        "steady_attained": "yes" if state and state.is_steady else "no",
        "steady_round": len(iops),
        "steady_iops": round(state.mean, 1) if state else None,
        "steady_excursion_percent": round(state.excursion * 100, 3) if state else None,
        "steady_slope_percent": round(state.slope * 100, 3) if state else None,
    }
