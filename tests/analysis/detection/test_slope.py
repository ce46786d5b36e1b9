"""Slope or steps: which of both explains the values of a series better."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchapp.analysis.detection.slope import SLOPE_ADVANTAGE_MINIMUM, measure_slope_advantage

RUNS = 200
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
    assert measure_slope_advantage(np.full(60, 1000.0), ()) == 0.0
