"""Find the knee: raise what is in flight until latency passes a limit or IOPS gain no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Sequence

from agent.measuring.rounds import join_jobfiles, join_results, read_figures
from agent.profiles.shipped import list_saturation_steps
from agent.quantities import format_latency

if TYPE_CHECKING:
    from agent.methods.bench import Bench, Outcome

# Two steps are two doublings of what is in flight: whoever gains less than this from them is full.
_GAIN_MINIMUM = 1.05


@dataclass(frozen=True)
class Step:
    """One execution: what was in flight and what came of it; p95_ns: None where fio did not tell."""

    iodepth: int
    jobs: int
    iops: float
    p95_ns: float | None


def find_knee(steps: Sequence[Step], *, limit_ns: int) -> Step | None:
    """Return the step with the most IOPS whose p95 is at the limit or below; None where there is none."""
    within = [step for step in steps if step.p95_ns is not None and step.p95_ns <= limit_ns]
    return max(within, key=lambda step: step.iops, default=None)


def find_end(steps: Sequence[Step], *, limit_ns: int) -> str | None:
    """Return why no further step is needed, None while one is."""
    last = steps[-1]
    if last.p95_ns is None:
        return "fio told no latency"
    if last.p95_ns > limit_ns:
        return f"p95 passed {format_latency(limit_ns)}"
    if len(steps) > 2:
        before, after = (max(step.iops for step in part) for part in (steps[:-2], steps[-2:]))
        if after < before * _GAIN_MINIMUM:
            return "two more steps gained less than 5 %"
    return None


def describe_knee(knee: Step | None, steps: Sequence[Step], *, limit_ns: int, end: str | None) -> str:
    """Return the finding in words."""
    if not steps:
        return "no knee: the first step failed"
    why = end or "all steps were made"
    if knee is None:
        first = steps[0].p95_ns
        found = "unknown" if first is None else format_latency(first)
        return f"no knee: p95 is {found} already at the first step, the limit is {format_latency(limit_ns)}"
    assert knee.p95_ns is not None
    jobs = "1 job" if knee.jobs == 1 else f"{knee.jobs} jobs"
    return (
        f"knee: {knee.iops:.0f} IOPS at p95 {format_latency(knee.p95_ns)}, with iodepth {knee.iodepth} and {jobs}; "
        f"ended after {len(steps)} step{'' if len(steps) == 1 else 's'}: {why}"
    )


def find_saturation(bench: Bench) -> Outcome:
    """Make step after step; each is one document of the submission."""
    from agent.methods.bench import Outcome, describe_test_file

    values = bench.plan.values
    limit_ns = values["limit"]
    ladder = list_saturation_steps(
        values["iodepth_maximum"], values["jobs_maximum"], is_synchronous=bench.engine == "psync"
    )
    steps: list[Step] = []
    results, jobfiles, end = [], [], None
    for iodepth, jobs in ladder:
        jobfiles.append(
            bench.write_jobfile(step=f"iodepth-{iodepth}-jobs-{jobs}", iodepth=iodepth, jobs=jobs)
        )
        results.append(bench.execute(jobfiles[-1]))
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
        "saturation_end": end or "all steps were made",
        "knee_iops": round(knee.iops, 1) if knee else None,
        "knee_p95_ns": knee.p95_ns if knee else None,
        "knee_iodepth": knee.iodepth if knee else None,
        "knee_jobs": knee.jobs if knee else None,
        **describe_test_file(bench),
    }
    words = describe_knee(knee, steps, limit_ns=limit_ns, end=end)
    return Outcome(result, join_jobfiles(jobfiles), result.has_report, facts, words)
