"""Slope or steps: which of both explains the values of a series better."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from benchapp.detection.changepoints.detector import judge_values
from benchapp.detection.rules.baselines import (
    SLOPE_ADVANTAGE_MINIMUM,
    DetectedStep,
    find_slope,
    measure_slope_advantage,
)

Array = npt.NDArray[np.float64]

RUNS = 200
# 20 % less from run 60 to 160.
SLOPE = 1 - 0.2 * np.clip((np.arange(RUNS) - 60) / 100, 0, 1)
NOISE = 1 + 0.01 * np.random.default_rng(1).standard_normal(RUNS)


def measure_steps(*places: int) -> float | None:
    """Return the advantage of a slope for steps of −8 % at these places, which are detected."""
    lower = sum((np.arange(RUNS) >= place).astype(float) for place in places)
    return measure_slope_advantage(1000 * 0.92**lower * NOISE, places)


def measure_slope(first: int, last: int, *, steps: Sequence[int] = ()) -> float | None:
    share = np.clip((np.arange(RUNS) - first) / (last - first), 0, 1)
    return measure_slope_advantage(1000 * (1 - 0.2 * share) * NOISE, steps)


@pytest.mark.parametrize("places", [(100,), (70, 130), (60, 100, 140)])
def test_steps_are_no_slope(places: tuple[int, ...]) -> None:
    advantage = measure_steps(*places)

    assert advantage is not None
    assert advantage < 0


@pytest.mark.parametrize(("first", "last"), [(0, 199), (60, 180), (80, 120)])
def test_slope_is_one_although_steps_were_detected(first: int, last: int) -> None:
    third = (last - first) // 3

    advantage = measure_slope(first, last, steps=[first + third, last - third])

    assert advantage is not None
    assert advantage > SLOPE_ADVANTAGE_MINIMUM


def test_spikes_do_not_decide() -> None:
    values = 1000 * (1 - 0.001 * np.arange(RUNS)) * NOISE
    values[[40, 90, 150]] *= 10

    advantage = measure_slope_advantage(values, ())

    assert advantage is not None
    assert advantage > SLOPE_ADVANTAGE_MINIMUM


def test_long_history_is_fitted_in_groups_of_runs() -> None:
    runs = np.arange(2000)
    slope = 1000 * (1 - 0.2 * np.clip((runs - 500) / 1000, 0, 1))
    step = np.where(runs < 1000, 1000.0, 900.0)

    by_slope, by_step = measure_slope_advantage(slope, (800,)), measure_slope_advantage(step, (1000,))

    assert by_slope is not None
    assert by_step is not None
    assert by_slope > SLOPE_ADVANTAGE_MINIMUM > by_step


@pytest.mark.parametrize("values", [[1000.0] * 19, [1000.0] * 30 + [0.0], []])
def test_few_values_or_zero_are_unknown(values: list[float]) -> None:
    assert measure_slope_advantage(np.array(values), ()) is None


def test_equal_values_are_no_slope() -> None:
    advantage = measure_slope_advantage(np.full(60, 1000.0), ())

    assert advantage is not None
    assert advantage < 0


def make_correlated(spread: float, correlation: float, *, seed: int) -> Array:
    """Return an autoregressive factor around 1."""
    factors, state = np.empty(RUNS), 0.0
    for place, shock in enumerate(np.random.default_rng(seed).standard_normal(RUNS)):
        state = correlation * state + np.sqrt(1 - correlation**2) * shock
        factors[place] = 1 + spread * state
    return factors


@pytest.mark.parametrize("seed", range(4))
def test_slope_is_not_explained_by_steps_that_follow_correlated_noise(seed: int) -> None:
    values = 1000 * SLOPE * make_correlated(0.04, 0.7, seed=seed)

    advantage = measure_slope_advantage(
        values, [change.index for change in judge_values(values.tolist()).changes]
    )

    assert advantage is not None
    assert advantage > SLOPE_ADVANTAGE_MINIMUM


@pytest.mark.parametrize("seed", range(4))
def test_step_in_correlated_noise_is_no_slope(seed: int) -> None:
    values = np.where(np.arange(RUNS) < 100, 1000.0, 850.0) * make_correlated(0.04, 0.7, seed=seed)

    advantage = measure_slope_advantage(values, [100])

    assert advantage is not None
    assert advantage < SLOPE_ADVANTAGE_MINIMUM


@pytest.mark.parametrize("seed", [3, 5])
def test_slope_in_noise_is_not_explained_by_more_parameters(seed: int) -> None:
    values = 1000 * SLOPE * (1 + 0.07 * np.random.default_rng(seed).standard_normal(RUNS))

    advantage = measure_slope_advantage(values, (110,))

    assert advantage is not None
    assert advantage > SLOPE_ADVANTAGE_MINIMUM


@pytest.mark.parametrize(
    ("steps", "first"),
    [
        ([], 0),
        ([DetectedStep(80, is_rise=False), DetectedStep(120, is_rise=False)], 0),
        (
            [
                DetectedStep(20, is_rise=True),
                DetectedStep(80, is_rise=False),
                DetectedStep(120, is_rise=False),
            ],
            20,
        ),
    ],
)
def test_slope_begins_with_the_newest_step_of_the_other_direction(
    steps: list[DetectedStep], first: int
) -> None:
    slope = find_slope(1000 * SLOPE * NOISE, steps, tolerated_change=0.05)

    assert slope is not None
    assert slope.first == first


def test_slope_within_the_tolerated_change_is_none() -> None:
    assert find_slope(1000 * SLOPE * NOISE, [DetectedStep(110, is_rise=False)], tolerated_change=0.3) is None
