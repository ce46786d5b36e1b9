"""Suspected changes."""

import math

import numpy as np
import pytest

from benchapp.detection.rules.recovery import find_suspicion_band, suspect_newest

STEADY = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0] * 4


def test_two_newest_outliers_are_suspected() -> None:
    suspicion = suspect_newest([*STEADY, 80.0, 81.0])

    assert suspicion is not None
    assert (suspicion.index, suspicion.far_runs) == (24, 2)
    assert suspicion.relative_change == pytest.approx(-0.195)


def test_two_of_the_three_newest_suffice() -> None:
    suspicion = suspect_newest([*STEADY, 80.0, 100.0, 81.0])

    assert suspicion is not None
    assert suspicion.index == 24


@pytest.mark.parametrize(
    "newest",
    [
        [80.0],  # one is a spike
        [80.0, 100.0],  # it is over
        [80.0, 120.0],  # to both sides
        [97.5, 97.4],  # no farther than before
        [80.0, 81.0, math.nan],  # the newest is no number
    ],
)
def test_less_is_not_suspected(newest: list[float]) -> None:
    assert suspect_newest([*STEADY, *newest]) is None


def test_state_within_the_range_of_the_level_is_not_suspected() -> None:
    level = [*STEADY]
    level[5] = 80.0

    assert suspect_newest([*level, 80.5, 81.0]) is None


def test_change_below_the_threshold_is_not_suspected() -> None:
    level = [100.0, 100.1] * 10

    assert suspect_newest([*level, 97.0, 97.0], least_relative_change=0.05) is None
    assert suspect_newest([*level, 97.0, 97.0], least_relative_change=0.02) is not None


def test_only_the_current_level_counts() -> None:
    values = [50.0] * 20 + STEADY + [50.0, 50.0]

    assert suspect_newest(values) is None
    assert suspect_newest(values, [20]) is not None


@pytest.mark.parametrize("spread", [0.001, 0.03])
def test_values_outside_of_the_band_are_suspected_and_within_it_are_not(spread: float) -> None:
    values = (1000 * (1 + spread * np.random.default_rng(5).standard_normal(40))).tolist()
    band = find_suspicion_band(values)
    assert band is not None

    # The two newest runs before the next one are not among those that it is compared with.
    for end, step in zip(band, (-1, 1), strict=True):
        assert suspect_newest([*values[:-1], end + step, end + step]) is not None
        assert suspect_newest([*values[:-1], end - step, end - step]) is None


def test_band_needs_ten_known_runs() -> None:
    assert find_suspicion_band([1000.0] * 11) is None
    assert find_suspicion_band([1000.0] * 12, least_relative_change=0.05) == (950.0, 1050.0)


def test_under_ten_known_runs_nothing_is_suspected() -> None:
    assert suspect_newest([100.0] * 9 + [100.0, 50.0, 50.0]) is None
    assert suspect_newest([100.0] * 10 + [100.0, 50.0, 50.0]) is not None


@pytest.mark.parametrize("values", [[], [1.0], [0.0] * 40, [math.nan] * 40, [0.0] * 20 + [1e308, 1e308]])
def test_any_values_are_accepted(values: list[float]) -> None:
    suspicion = suspect_newest(values)

    assert suspicion is None or suspicion.relative_change is None


def test_suspicion_is_rare_in_heavy_tails() -> None:
    values = (100 + np.random.default_rng(5).standard_t(3, 400)).tolist()

    assert sum(suspect_newest(values[:count]) is not None for count in range(30, 400)) <= 2
