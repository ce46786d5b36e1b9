"""Increases in spread, and two states between which values alternate."""

import numpy as np
import pytest

from benchapp.detection.rules.noise_profile import (
    find_spread_increase,
    find_two_states,
    is_return_to_state,
)
from benchapp.detection.write.metric import judge_metric

Array = np.typing.NDArray[np.float64]


def make_noise(runs: int, *, spread: float | Array = 0.02, seed: int = 1) -> Array:
    return 1000 * (1 + spread * np.random.default_rng(seed).standard_normal(runs))


def make_states(*stays: int, low: float = 0.85, spread: float = 0.01) -> Array:
    """Return values whose first stay is in the high state, each further one in the other."""
    is_low = np.repeat(np.arange(len(stays)) % 2, stays)
    return make_noise(len(is_low), spread=spread) * np.where(is_low, low, 1.0)


def make_wider(before: int, after: int, *, times: float = 4.0) -> Array:
    return make_noise(before + after, spread=0.02 * np.repeat([1.0, times], [before, after]))


def test_four_times_the_spread_is_an_increase_with_its_place_and_sizes() -> None:
    found = find_spread_increase(make_wider(80, 40))

    assert found is not None
    assert abs(found.index - 80) <= 5
    assert found.before == pytest.approx(0.02, rel=0.3)
    assert found.after == pytest.approx(0.08, rel=0.3)
    assert found.score >= 4.2


@pytest.mark.parametrize(
    "values",
    [
        make_noise(200),
        make_wider(120, 0),
        make_wider(80, 6),
        make_wider(80, 40, times=1.5),
        make_wider(30, 60, times=1.0)[::-1],
        np.concatenate([make_wider(80, 40), make_noise(30, seed=2)]),
        make_noise(120, spread=0.001 * np.repeat([1.0, 4.0], 60)),
        make_noise(110, spread=0.02) * np.repeat([1.0, 1.15], [90, 20]),
        np.full(100, 5.0),
        make_noise(39),
        np.zeros(100),
    ],
    ids=[
        "steady",
        "no run after it",
        "too few runs after it",
        "less than doubled",
        "steady, reversed",
        "over again",
        "below 1 %",
        "a step",
        "equal values",
        "too few runs",
        "not positive",
    ],
)
def test_no_increase_in_spread(values: Array) -> None:
    assert find_spread_increase(values) is None


def test_step_is_no_increase_in_spread_around_its_levels() -> None:
    values = make_noise(120) * np.where(np.arange(120) < 60, 1.0, 0.7)

    assert find_spread_increase(values, [60]) is None


def test_decrease_in_spread_is_no_increase() -> None:
    assert find_spread_increase(np.ascontiguousarray(make_wider(60, 60)[::-1])) is None


def test_two_states_have_their_medians_share_and_visits() -> None:
    found = find_two_states(make_states(12, 8, 15, 6, 14, 9, 20, 5, 7), smallest_change=0.05)

    assert found is not None
    assert (found.low, found.high) == (pytest.approx(850, rel=0.01), pytest.approx(1000, rel=0.01))
    assert found.high_share == pytest.approx(68 / 96)
    assert (found.visits, found.from_index) == (4, 0)


@pytest.mark.parametrize(
    "values",
    [
        make_noise(200),
        make_states(50, 50),
        make_states(30, 20, 30, 20),
        make_states(12, 8, 15, 6, 14, 9, low=0.97),
        make_states(12, 8, 15, 6, 14, 9, low=0.9, spread=0.04),
        make_states(40, 1, 40, 1, 40, 1, 40, 1, 40),
        make_states(5, 5, 5, 5, 5, 5, 5),
        np.random.default_rng(3).uniform(900, 1100, 200),
    ],
    ids=[
        "steady",
        "a step",
        "entered twice",
        "below the threshold",
        "not separate",
        "single bad runs",
        "too few runs",
        "uniform",
    ],
)
def test_no_two_states(values: Array) -> None:
    assert find_two_states(values, smallest_change=0.05) is None


def test_only_the_newest_240_values_are_examined() -> None:
    values = np.concatenate([make_states(12, 8, 15, 6, 14, 9, 20, 5, 7), make_noise(240, seed=2)])

    assert find_two_states(values, smallest_change=0.05) is None


@pytest.mark.parametrize(("stay", "is_reported"), [(10, False), (30, True)])
def test_change_to_a_state_is_reported_if_it_lasts_longer_than_ever(stay: int, is_reported: bool) -> None:
    values = make_states(20, 8, 22, 6, 25, 9, 24, 8, 20, stay)

    judged = judge_metric(values, smallest_change=0.05)

    assert judged.two_states is not None
    assert (len(values) - stay in [change.index for change in judged.changes]) == is_reported


def test_change_to_a_third_level_is_no_return() -> None:
    values = make_states(20, 8, 22, 6, 25, 9, 24, 8, 20)
    states = find_two_states(values, smallest_change=0.05)
    assert states is not None
    changed = np.concatenate([values, make_noise(10) * 0.6])

    assert is_return_to_state(changed, len(values), before_median=1000, after_median=850, states=states)
    assert not is_return_to_state(changed, len(values), before_median=1000, after_median=600, states=states)
    assert not is_return_to_state(changed, len(values), before_median=1000, after_median=1000, states=states)
