"""At which runs a series is evaluated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.analysis.detection.evaluation_points import (
    AddedRuns,
    Reference,
    are_quiet,
    find_evaluation_point,
    find_unusual_run,
    is_grid_point,
)
from benchapp.analysis.detection.growing_levels import grow_level, keep_level
from benchapp.analysis.detection.levels import LevelStatistics, describe_values

Array = np.typing.NDArray[np.float64]


def make_steady(runs: int, *, spread: float = 0.02, seed: int = 1) -> Array:
    return 1000 * (1 + spread * np.random.default_rng(seed).standard_normal(runs))


def find_end(values: Array, *, smallest_change: float = 0.05) -> int:
    rows = np.atleast_2d(values)
    positions = np.arange(1, rows.shape[1] + 1)
    return find_evaluation_point(rows, positions, smallest_changes=[smallest_change] * len(rows)).end


@pytest.mark.parametrize("runs", [0, 1, 15, 47])
def test_young_series_is_evaluated_with_every_run(runs: int) -> None:
    assert find_end(make_steady(runs)) == runs


def test_steady_series_is_evaluated_at_every_16th_run() -> None:
    assert [find_end(make_steady(runs)) for runs in (95, 96, 97, 111, 112)] == [80, 96, 96, 96, 112]


def test_grid_does_not_depend_on_runs_that_are_left_out() -> None:
    assert (is_grid_point(16, 15), is_grid_point(17, 15), is_grid_point(17, 16)) == (True, True, False)


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
    assert find_end(np.stack([make_steady(100), missing])) == 96

    missing[99] = 5.0
    assert find_end(np.stack([make_steady(100), missing])) == 100


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), place=st.integers(30, 160), size=st.sampled_from([0.0, -0.05, 0.1, -0.4]))
def test_point_of_a_history_is_the_last_one_of_its_beginnings(seed: int, place: int, size: float) -> None:
    values = make_steady(170, seed=seed)
    values[place:] *= 1 + size

    ends = [find_end(values[:runs]) for runs in range(1, 171)]

    reached = [end for runs, end in enumerate(ends, start=1) if end == runs]
    assert ends == [max(end for end in reached if end <= runs) for runs in range(1, 171)]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    known=st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=120),
    added=st.lists(st.integers(-60, 60).map(float), min_size=1, max_size=15),
)
def test_grown_level_has_the_statistics_of_all_values(known: list[float], added: list[float]) -> None:
    grown = grow_level(keep_level(np.array(known)), added)

    expected = describe_values(np.array([*known, *added]), 0, len(known) + len(added))
    assert isinstance(grown, LevelStatistics)
    assert grown == expected


def make_added(chance: np.random.Generator) -> AddedRuns:
    """Return up to three metrics with a shift, an unknown value or a zero at times, or without a reference."""
    metrics, start, added = (int(chance.integers(least, most)) for least, most in ((1, 4), (20, 24), (0, 4)))
    values = 1000 * (1 + 0.02 * chance.standard_normal((metrics, start + added)))
    if chance.random() < 0.4:
        values[0, start - 4 :] *= 1 + chance.normal(scale=0.15)
    if added and chance.random() < 0.2:
        values[-1, -1] = chance.choice([0.0, np.nan])
    has_reference = chance.random(metrics) < 0.9
    values[~has_reference] = np.nan
    references = tuple(Reference(float(np.log(1000)), 0.02) if known else None for known in has_reference)
    return AddedRuns(values, references, start, tuple(chance.choice([0.03, 0.05, 0.2], metrics).tolist()))


def test_series_are_as_quiet_together_as_each_alone() -> None:
    chance = np.random.default_rng(5)
    series = [make_added(chance) for _ in range(1000)]

    alone = [
        find_unusual_run(
            each.values, each.references, start=each.start, smallest_changes=each.smallest_changes
        )
        is None
        for each in series
    ]

    assert are_quiet(series) == alone
    assert 300 < sum(alone) < 900
    assert are_quiet([]) == []
