"""Find the knee: increase the I/Os in flight until latency exceeds a limit or IOPS level off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

from agent.measuring.fio_reports import join_jobfiles, join_results, read_figures
from agent.methods.method_context import MethodContext, MethodResult, describe_test_file
from agent.profiles.shipped import list_saturation_steps
from agent.quantities import format_value

# Two steps double the I/Os in flight twice; a smaller gain means saturation.
_GAIN_MINIMUM = 1.05


@dataclass(frozen=True)
class Step:
    """One execution: I/Os in flight and results; p95_ns: None if fio did not report it."""

    iodepth: int
    jobs: int
    iops: float
    p95_ns: float | None


def find_knee(steps: Sequence[Step], *, limit_ns: int) -> Step | None:
    """Return the step with the most IOPS whose p95 is within the limit; None without one."""
    within = [step for step in steps if step.p95_ns is not None and step.p95_ns <= limit_ns]
    return max(within, key=lambda step: step.iops, default=None)


def find_end(steps: Sequence[Step], *, limit_ns: int) -> str | None:
    """Return the reason to stop, None to continue."""
    last = steps[-1]
    if last.p95_ns is None:
        return "fio reported no latency"
    if last.p95_ns > limit_ns:
        return f"p95 exceeded {format_value(limit_ns, 'ns')}"
    if len(steps) > 2:
        before, after = (max(step.iops for step in part) for part in (steps[:-2], steps[-2:]))
        if after < before * _GAIN_MINIMUM:
            return "two steps gained less than 5 %"
    return None


def describe_knee(knee: Step | None, steps: Sequence[Step], *, limit_ns: int, end: str | None) -> str:
    """Return the finding as text."""
    if not steps:
        return "no knee: the first step failed"
    reason = end or "all steps completed"
    if knee is None:
        first = steps[0].p95_ns
        found = "unknown" if first is None else format_value(first, "ns")
        return f"no knee: p95 is {found} at the first step, limit {format_value(limit_ns, 'ns')}"
    assert knee.p95_ns is not None
    jobs = "1 job" if knee.jobs == 1 else f"{knee.jobs} jobs"
    return (
        f"knee: {knee.iops:.0f} IOPS at p95 {format_value(knee.p95_ns, 'ns')}, iodepth {knee.iodepth}, {jobs}; "
        f"stopped after {len(steps)} step{'' if len(steps) == 1 else 's'}: {reason}"
    )


def find_saturation(context: MethodContext) -> MethodResult:
    """Run the steps; each is one JSON document of the submission."""
    values = context.plan.values
    limit_ns = values["limit"]
    ladder = list_saturation_steps(
        values["iodepth_maximum"], values["jobs_maximum"], is_synchronous=context.engine == "psync"
    )
    steps: list[Step] = []
    results, jobfiles, end = [], [], None
    for iodepth, jobs in ladder:
        jobfiles.append(
            context.write_jobfile(step=f"iodepth-{iodepth}-jobs-{jobs}", iodepth=iodepth, jobs=jobs)
        )
        results.append(context.execute(jobfiles[-1]))
        figures = read_figures(results[-1])
        if figures is None:
            end = "a step failed"
            break
        steps.append(Step(iodepth, jobs, figures.iops, figures.p95_ns))
        end = find_end(steps, limit_ns=limit_ns)
        if end:
            break
    knee = find_knee(steps, limit_ns=limit_ns)
    result = join_results(results)
    facts = {
        "saturation_limit_ns": limit_ns,
        "saturation_steps": len(steps),
        "saturation_end": end or "all steps completed",
        "knee_iops": round(knee.iops, 1) if knee else None,
        "knee_p95_ns": knee.p95_ns if knee else None,
        "knee_iodepth": knee.iodepth if knee else None,
        "knee_jobs": knee.jobs if knee else None,
        **describe_test_file(context),
    }
    finding = describe_knee(knee, steps, limit_ns=limit_ns, end=end)
    return MethodResult(result, join_jobfiles(jobfiles), result.has_report, facts, finding)
