"""State files of sweeps."""

import time
from pathlib import Path

import pytest

from agent.job_state import StateDirectory, SweepState, load_left


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call of the clock a second later."""
    seconds = iter(range(1_800_000_000, 1_800_001_000))
    monkeypatch.setattr(time, "time", lambda: float(next(seconds)))


@pytest.fixture
def states(tmp_path: Path) -> StateDirectory[SweepState]:
    return StateDirectory(SweepState, str(tmp_path))


def create(states: StateDirectory[SweepState], number: int) -> SweepState:
    return states.create(
        f"sweep-{number:02}",
        request={},
        steps=[{"label": "1 stripe"}],
        sizes={"/dev/a": 2**30},
        approved_contents={},
        accepted={},
        left={},
        round=None,
    )


def list_names(states: StateDirectory[SweepState]) -> list[str]:
    return sorted(path.stem for path in Path(states.path).iterdir())


def test_last_20_finished_sweeps_are_stored_with_the_contents_of_their_devices(
    states: StateDirectory[SweepState],
) -> None:
    for number in range(22):
        state = create(states, number)
        state.end_round({"/dev/a": f"digest-{number}"})
        state.finish()

    create(states, 22)

    assert list_names(states)[:2] == ["sweep-02", "sweep-03"]
    assert len(list_names(states)) == 21
    assert "digest-1" not in load_left(states)
    assert "digest-2" in load_left(states)


def test_unfinished_sweeps_are_not_removed(states: StateDirectory[SweepState]) -> None:
    for number in range(25):
        create(states, number)

    assert len(list_names(states)) == 25
