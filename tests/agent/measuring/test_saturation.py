"""The knee, and the end of the steps."""

from pathlib import Path

import pytest

from agent.measuring.methods import Step, describe_knee, find_end, find_knee, find_saturation
from tests.agent.measuring.contexts import ScriptedContext

MS = 1_000_000
LIMIT = 10 * MS


def steps(*pairs: tuple[float, float | None]) -> list[Step]:
    return [Step(1 << place, 1, iops, p95) for place, (iops, p95) in enumerate(pairs)]


@pytest.mark.parametrize(
    ("made", "knee"),
    [
        (steps((100, 1 * MS)), 0),
        (steps((100, 1 * MS), (180, 2 * MS), (200, 11 * MS)), 1),
        (steps((100, 1 * MS), (180, 10 * MS)), 1),
        (steps((100, 1 * MS), (180, 2 * MS), (170, 5 * MS)), 1),
        (steps((100, 11 * MS)), None),
        (steps((100, None)), None),
        ([], None),
    ],
)
def test_knee_is_the_highest_iops_within_the_limit(made: list[Step], knee: int | None) -> None:
    assert find_knee(made, limit_ns=LIMIT) == (None if knee is None else made[knee])


@pytest.mark.parametrize(
    ("made", "end"),
    [
        (steps((100, 1 * MS)), None),
        (steps((100, 11 * MS)), "p95 exceeded 10.0 ms"),
        (steps((100, None)), "fio reported no latency"),
        (steps((100, 1 * MS), (101, 2 * MS)), None),
        (steps((100, 1 * MS), (101, 2 * MS), (104.9, 3 * MS)), "two steps gained less than 5 %"),
        (steps((100, 1 * MS), (101, 2 * MS), (105, 3 * MS)), None),
        (steps((100, 1 * MS), (110, 2 * MS), (90, 3 * MS)), None),
        (steps((100, 1 * MS), (200, 2 * MS), (190, 3 * MS), (195, 4 * MS)), "two steps gained less than 5 %"),
    ],
)
def test_steps_end_at_the_limit_or_when_gains_end(made: list[Step], end: str | None) -> None:
    assert find_end(made, limit_ns=LIMIT) == end


def test_knee_is_described() -> None:
    made = steps((100, 1 * MS), (180, 2.5 * MS))

    assert describe_knee(made[1], made, limit_ns=LIMIT, end=None) == (
        "knee: 180 IOPS at p95 2.50 ms, iodepth 2, 1 job; stopped after 2 steps: all steps completed"
    )
    assert describe_knee(None, steps((5, 20 * MS)), limit_ns=LIMIT, end="x") == (
        "no knee: p95 is 20.0 ms at the first step, limit 10.0 ms"
    )
    assert describe_knee(None, [], limit_ns=LIMIT, end="a step failed") == "no knee: the first step failed"


def saturate(directory: Path, *results: tuple[float, float] | None, **settings: str):
    context = ScriptedContext("saturation", directory, list(results), settings)
    return context, find_saturation(context)  # type: ignore[arg-type]


def test_saturation_ends_at_the_step_above_the_limit(tmp_path: Path) -> None:
    context, outcome = saturate(tmp_path, (100.0, 1 * MS), (190.0, 4 * MS), (200.0, 11 * MS), (0.0, 0))

    assert (len(context.jobfiles), outcome.facts["saturation_steps"]) == (3, 3)
    assert outcome.result.stdout.count("fio version") == 3
    assert (outcome.facts["knee_iops"], outcome.facts["knee_iodepth"]) == (190.0, 2)
    assert "[iodepth-4-jobs-1]" in context.jobfiles[2]


def test_failed_step_ends_saturation_with_the_knee_so_far(tmp_path: Path) -> None:
    _, outcome = saturate(tmp_path, (100.0, 1 * MS), None)

    assert outcome.result.exit_status == 1
    assert outcome.is_complete
    assert outcome.finding.endswith("stopped after 1 step: a step failed")
    assert outcome.facts["knee_iops"] == 100.0


def test_saturation_ends_after_the_last_step(tmp_path: Path) -> None:
    context, outcome = saturate(
        tmp_path, (100.0, MS), (200.0, MS), (400.0, MS), iodepth_maximum="2", jobs_maximum="2"
    )

    assert outcome.facts["saturation_end"] == "all steps completed"
    assert "numjobs=2" in context.jobfiles[2]
