"""State files of sweeps."""

import time
from pathlib import Path

import pytest

from agent.sweeping.sweep_state import SweepState, create_state, load_left


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each call of the clock a second later."""
    seconds = iter(range(1_800_000_000, 1_800_001_000))
    monkeypatch.setattr(time, "time", lambda: float(next(seconds)))


def create(directory: Path, number: int) -> SweepState:
    return create_state(
        str(directory),
        f"sweep-{number:02}",
        request={},
        labels=["1 stripe"],
        sizes={"/dev/a": 2**30},
        approved_contents={},
        accepted={},
    )


def test_last_20_finished_sweeps_are_stored_with_the_contents_of_their_devices(tmp_path: Path) -> None:
    for number in range(22):
        state = create(tmp_path, number)
        state.end_round({"/dev/a": f"digest-{number}"})
        state.finish()

    create(tmp_path, 22)

    assert sorted(path.stem for path in tmp_path.iterdir())[:2] == ["sweep-02", "sweep-03"]
    assert len(list(tmp_path.iterdir())) == 21
    assert "digest-1" not in load_left(str(tmp_path))
    assert "digest-2" in load_left(str(tmp_path))


def test_unfinished_sweeps_are_not_removed(tmp_path: Path) -> None:
    for number in range(25):
        create(tmp_path, number)

    assert len(list(tmp_path.iterdir())) == 25
