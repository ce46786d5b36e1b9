"""At which runs a series is evaluated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.detection.rules.evaluation_points import find_evaluation_points

Array = np.typing.NDArray[np.float64]


def make_steady(runs: int, *, spread: float = 0.02, seed: int = 1) -> Array:
    return 1000 * (1 + spread * np.random.default_rng(seed).standard_normal(runs))


def find_ends(rows: Array, *, smallest_change: float = 0.05) -> tuple[int, ...]:
    positions = np.arange(1, rows.shape[1] + 1)
    return find_evaluation_points(rows, positions, smallest_changes=[smallest_change] * len(rows))


def find_end(values: Array, *, smallest_change: float = 0.05) -> int:
    (end,) = find_ends(values[np.newaxis], smallest_change=smallest_change)
    return end


@pytest.mark.parametrize("runs", [0, 1, 15, 47])
def test_young_series_is_evaluated_with_every_run(runs: int) -> None:
    assert find_end(make_steady(runs)) == runs


def test_steady_series_is_evaluated_at_every_16th_run() -> None:
    assert [find_end(make_steady(runs)) for runs in (95, 96, 97, 111, 112)] == [80, 96, 96, 96, 112]


def test_grid_does_not_depend_on_runs_that_are_left_out() -> None:
    """Of maintenance: the 80th to the 96th run."""
    values = make_steady(101)
    positions = np.concatenate([np.arange(1, 80), np.arange(97, 119)])

    assert find_evaluation_points(values[np.newaxis], positions, smallest_changes=[0.05]) == (95,)


@pytest.mark.parametrize("size", [-0.1, 0.1])
def test_run_that_may_be_the_third_of_a_new_level_is_evaluated(size: float) -> None:
    values = make_steady(105)
    values[100:] *= 1 + size

    assert find_end(values[:103]) == 103
    assert find_end(values) == 105


def test_single_outlier_is_quiet() -> None:
    values = make_steady(105)
    values[100] *= 0.3

    assert find_end(values) == 96


def test_shift_below_the_threshold_is_quiet() -> None:
    values = make_steady(110, spread=0.001)
    values[100:] *= 0.98

    assert find_end(values) == 96
    assert find_end(values, smallest_change=0.01) == 110


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_value_without_a_logarithm_is_evaluated(value: float) -> None:
    values = make_steady(100)
    values[98] = value

    assert find_end(values) == 99


def test_metric_without_values_is_ignored_until_it_has_one() -> None:
    missing = np.full(100, np.nan)
    assert find_ends(np.stack([make_steady(100), missing])) == (96, 96)

    missing[99] = 5.0
    assert find_ends(np.stack([make_steady(100), missing])) == (96, 100)


def test_metric_has_the_points_of_its_own_values() -> None:
    values = make_steady(105)
    values[100:] *= 0.9

    assert find_ends(np.stack([make_steady(105, seed=2), values])) == (96, 105)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), place=st.integers(30, 160), size=st.sampled_from([0.0, -0.05, 0.1, -0.4]))
def test_point_of_a_history_is_the_last_one_of_its_beginnings(seed: int, place: int, size: float) -> None:
    values = make_steady(170, seed=seed)
    values[place:] *= 1 + size

    ends = [find_end(values[:runs]) for runs in range(1, 171)]

    reached = [end for runs, end in enumerate(ends, start=1) if end == runs]
    assert ends == [max(end for end in reached if end <= runs) for runs in range(1, 171)]
