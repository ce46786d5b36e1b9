"""Steady state according to SNIA PTS: five rounds, excursion 20 %, slope 10 %."""

from pathlib import Path

import pytest

from agent.measuring.methods import check_steady_state, describe_steadiness, write_until_steady
from tests.agent.measuring.contexts import ScriptedContext


@pytest.mark.parametrize(
    ("rounds", "excursion", "slope", "is_steady"),
    [
        ([100, 100, 100, 100, 100], 0.0, 0.0, True),
        # Only the last five count.
        ([900, 500, 100, 100, 100, 100, 100], 0.0, 0.0, True),
        # 20 % from lowest to highest, without a direction: at the limit is within it.
        ([110, 90, 100, 90, 110], 0.20, 0.0, True),
        ([111, 90, 100, 90, 109], 0.21, 0.016, False),
        # A falling line: its slope is its excursion.
        ([105, 102.5, 100, 97.5, 95], 0.10, 0.10, True),
        ([106, 103, 100, 97, 94], 0.12, 0.12, False),
        # A rising line is not steady either.
        ([94, 97, 100, 103, 106], 0.12, 0.12, False),
        # One outlier in the middle has no slope, but an excursion.
        ([100, 100, 130, 100, 100], 30 / 106, 0.0, False),
    ],
)
def test_steadiness_of_rounds_is_calculated(
    rounds: list[float], excursion: float, slope: float, is_steady: bool
) -> None:
    state = check_steady_state(rounds)

    assert state is not None
    assert state.excursion == pytest.approx(excursion)
    assert state.slope == pytest.approx(slope)
    assert state.is_steady is is_steady


@pytest.mark.parametrize("rounds", [[], [100.0], [100.0] * 4, [0.0] * 5])
def test_fewer_than_five_rounds_or_a_mean_of_zero_are_undecided(rounds: list[float]) -> None:
    assert check_steady_state(rounds) is None


def test_steadiness_is_described() -> None:
    assert describe_steadiness(check_steady_state([100.0] * 5), 5) == (
        "steady after 5 rounds: 100 IOPS over the last 5 rounds, excursion 0.0 % (max. 20 %), "
        "slope 0.0 % (max. 10 %)"
    )
    assert describe_steadiness(check_steady_state([10.0, 20.0, 30.0, 40.0, 50.0]), 25).startswith(
        "not steady: 30 IOPS"
    )
    assert describe_steadiness(None, 3) == "not steady: 3 rounds, at least 5 are required"


def make_rounds(directory: Path, *iops: float, **settings: str) -> ScriptedContext:
    results = [(each, 1.0) if each else None for each in iops]
    return ScriptedContext("snia-steady", directory, results, settings)


def test_rounds_end_when_they_are_steady(tmp_path: Path) -> None:
    context = make_rounds(tmp_path, 900.0, 500.0, *[100.0] * 20)

    outcome = write_until_steady(context)  # type: ignore[arg-type]

    assert (outcome.facts["steady_attained"], outcome.facts["steady_round"]) == ("yes", 7)
    assert outcome.facts["steady_iops"] == 100.0
    assert ["[round-1]" in context.jobfiles[0], "[round-7]" in context.jobfiles[6]] == [True, True]


def test_rounds_end_at_their_maximum(tmp_path: Path) -> None:
    context = make_rounds(tmp_path, *range(100, 2600, 100))

    outcome = write_until_steady(context)  # type: ignore[arg-type]

    assert (outcome.facts["steady_attained"], outcome.facts["steady_round"]) == ("no", 25)
    assert outcome.finding.startswith("not steady: 2300 IOPS")


def test_failed_round_ends_the_run(tmp_path: Path) -> None:
    outcome = write_until_steady(make_rounds(tmp_path, 100.0, 0.0))  # type: ignore[arg-type]

    assert outcome.result.exit_status == 1
    assert outcome.finding == "not steady: 1 round, at least 5 are required"


def test_preconditioning_is_not_a_round(tmp_path: Path) -> None:
    context = make_rounds(tmp_path, 5.0, *[100.0] * 5, precondition="yes")

    outcome = write_until_steady(context)  # type: ignore[arg-type]

    assert "loops=2" in context.jobfiles[0]
    assert (outcome.facts["steady_round"], outcome.facts["preconditioned"]) == (5, "yes")
    assert outcome.result.stdout.count("fio version") == 5


def test_failed_preconditioning_ends_the_run(tmp_path: Path) -> None:
    outcome = write_until_steady(make_rounds(tmp_path, 0.0, precondition="yes"))  # type: ignore[arg-type]

    assert outcome.result.exit_status == 1
