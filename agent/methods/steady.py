"""Steady state as SNIA's Solid State Storage Performance Test Specification (PTS) has it: rounds until it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Sequence

from agent.measuring.rounds import join_jobfiles, join_results, read_figures

if TYPE_CHECKING:
    from agent.measuring.fio import FioResult
    from agent.methods.bench import Bench, Outcome

# SNIA PTS 2.0: over five rounds the values lie within 20 % of their average, and the line through them within 10 %.
WINDOW = 5
EXCURSION_MAXIMUM = 0.20
SLOPE_MAXIMUM = 0.10
# Workload-independent preconditioning of the same: twice the capacity, in order, 128 KiB blocks.
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
class Verdict:
    """How steady the last five rounds are.

    mean: of them; excursion: highest − lowest of them, slope: highest − lowest of the straight line through them, both
    as a share of the mean.
    """

    is_steady: bool
    mean: float
    excursion: float
    slope: float


def judge_rounds(values: Sequence[float]) -> Verdict | None:
    """Judge the last five values after SNIA PTS; None before there are five, or where their mean is 0."""
    window = values[-WINDOW:]
    mean = sum(window) / WINDOW
    if len(window) < WINDOW or mean <= 0:
        return None
    excursion = (max(window) - min(window)) / mean
    centre = (WINDOW - 1) / 2
    spread = sum((place - centre) ** 2 for place in range(WINDOW))
    per_round = sum((place - centre) * value for place, value in enumerate(window)) / spread
    slope = abs(per_round) * (WINDOW - 1) / mean
    # Values that lie at the limit are within it, also where their binary shape is a hair above.
    is_steady = round(excursion, 9) <= EXCURSION_MAXIMUM and round(slope, 9) <= SLOPE_MAXIMUM
    return Verdict(is_steady, mean, excursion, slope)


def describe_steadiness(verdict: Verdict | None, rounds: int) -> str:
    """Return the finding in words."""
    if verdict is None:
        return f"not steady: too few rounds to tell, {rounds} instead of {WINDOW}"
    numbers = (
        f"{verdict.mean:.0f} IOPS over the last {WINDOW} rounds, excursion {verdict.excursion * 100:.1f} % "
        f"(20 % at most), slope {verdict.slope * 100:.1f} % (10 % at most)"
    )
    return f"steady after {rounds} rounds: {numbers}" if verdict.is_steady else f"not steady: {numbers}"


def write_until_steady(bench: Bench) -> Outcome:
    """Make round after round; each is one document of the submission, preconditioning is none."""
    from agent.methods.bench import Outcome, describe_test_file

    values = bench.plan.values
    results: list[FioResult] = []
    jobfiles: list[str] = []
    iops: list[float] = []
    verdict = None
    if values["precondition"] == "yes":
        prepared = _precondition(bench)
        if not prepared.is_success:
            return Outcome(prepared, prepared_jobfile(bench), prepared.has_report)
    while len(iops) < values["rounds"] and not (verdict and verdict.is_steady):
        # Each by a name of its own: reports of the same jobs could be taken for snapshots of one execution.
        jobfiles.append(bench.write_jobfile(round=f"round-{len(iops) + 1}"))
        results.append(bench.execute(jobfiles[-1]))
        figures = read_figures(results[-1])
        if figures is None:
            break
        iops.append(figures.iops)
        verdict = judge_rounds(iops)
    result = join_results(results)
    facts = {
        **_list_facts(verdict, iops),
        "preconditioned": values["precondition"],
        **describe_test_file(bench),
    }
    words = describe_steadiness(verdict, len(iops))
    return Outcome(result, join_jobfiles(jobfiles), result.has_report, facts, words)


def prepared_jobfile(bench: Bench) -> str:
    """Return the job file that writes the test file twice, in order."""
    iodepth = 1 if bench.engine == "psync" else bench.plan.values["iodepth"]
    return _PRECONDITION.format(
        size=bench.plan.values["size"], engine=bench.engine, direct=int(bench.is_direct), iodepth=iodepth
    )


def _precondition(bench: Bench) -> FioResult:
    return bench.execute(prepared_jobfile(bench))


def _list_facts(verdict: Verdict | None, iops: Sequence[float]) -> dict[str, Any]:
    return {
        "steady_attained": "yes" if verdict and verdict.is_steady else "no",
        "steady_round": len(iops),
        "steady_iops": round(verdict.mean, 1) if verdict else None,
        "steady_excursion_percent": round(verdict.excursion * 100, 3) if verdict else None,
        "steady_slope_percent": round(verdict.slope * 100, 3) if verdict else None,
    }
