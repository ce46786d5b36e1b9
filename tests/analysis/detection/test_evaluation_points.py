"""At which runs a series is evaluated."""

from collections.abc import Sequence
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.analysis.detection.evaluation_points import (
    QuietCriteria,
    Reference,
    are_quiet,
    find_evaluation_point,
    flag_runs,
    is_grid_point,
)
from benchapp.analysis.detection.growing_levels import (
    grow_levels,
    grow_quantiles,
    keep_levels,
    keep_quantiles,
)
from benchapp.analysis.detection.levels import describe_values

Array = np.typing.NDArray[np.float64]


def make_steady(runs: int, *, spread: float = 0.02, seed: int = 1) -> Array:
    return 1000 * (1 + spread * np.random.default_rng(seed).standard_normal(runs))


def find_ends(rows: Array, *, smallest_change: float = 0.05) -> tuple[int, ...]:
    positions = np.arange(1, rows.shape[1] + 1)
    return find_evaluation_point(rows, positions, smallest_changes=[smallest_change] * len(rows)).ends


def find_end(values: Array, *, smallest_change: float = 0.05) -> int:
    (end,) = find_ends(values[np.newaxis], smallest_change=smallest_change)
    return end


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


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    known=st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=120),
    added=st.lists(st.integers(-60, 60).map(float), min_size=1, max_size=15),
)
def test_grown_level_has_the_statistics_of_all_values(known: list[float], added: list[float]) -> None:
    # With unknown values, beside another level.
    rows = np.full((2, 15), np.nan)
    rows[0, -len(added) :], rows[1, 3] = added, 7.0

    grown = grow_levels(keep_levels([np.array(known), np.array([5.0, 6.0])]), rows)

    expected = describe_values(np.array([*known, *added]), 0, len(known) + len(added))
    of_other = describe_values(np.array([5.0, 6.0, 7.0]), 0, 3)
    for field in fields(grown):
        both = getattr(grown, field.name).tolist()
        assert both == [getattr(expected, field.name), getattr(of_other, field.name)]


def test_grown_quantile_without_added_values_is_as_before() -> None:
    quantiles = keep_quantiles([np.array([1.0, 2.0, 4.0, 8.0])], 0.5)

    assert grow_quantiles(quantiles, 0.5, np.zeros((1, 0))).tolist() == [3.0]
    assert grow_quantiles(quantiles, 0.5, np.full((1, 2), np.nan)).tolist() == [3.0]


def make_runs(chance: np.random.Generator, *, start: int, added: int, known: Sequence[int]) -> Array:
    """Return three metrics with a shift, an unknown value or a zero at times; of those not known none."""
    values = 1000 * (1 + 0.02 * chance.standard_normal((3, start + added)))
    if chance.random() < 0.4:
        values[0, start - 4 :] *= 1 + chance.normal(scale=0.15)
    if added and chance.random() < 0.2:
        values[-1, -1] = chance.choice([0.0, np.nan])
    if start > 20 and chance.random() < 0.2:
        values[1, start - 3] = chance.choice([0.0, np.nan])
    # A metric without a reference may have its first values.
    unknown = [number for number in range(3) if number not in known]
    values[unknown, : start if chance.random() < 0.1 else None] = np.nan
    return values


@pytest.mark.parametrize(
    ("start", "added", "known"),
    [(20, 0, [0, 1, 2]), (20, 2, [0, 2]), (127, 1, [0, 1, 2]), (128, 3, [0, 1, 2]), (143, 15, [1])],
)
def test_series_are_as_quiet_together_as_each_alone(start: int, added: int, known: list[int]) -> None:
    chance = np.random.default_rng(5)
    series = [make_runs(chance, start=start, added=added, known=known) for _ in range(200)]
    criteria = [
        QuietCriteria(
            tuple(Reference(np.log(1000), 0.02) if number in known else None for number in range(3)),
            tuple(chance.choice([0.03, 0.05, 0.2], 3).tolist()),
        )
        for _ in series
    ]

    alone = [
        (
            ~flag_runs(values, of.references, start=start, smallest_changes=of.smallest_changes).any(axis=1)
        ).tolist()
        for values, of in zip(series, criteria, strict=True)
    ]

    sums = np.stack([of.sum_ratios(values[:, :start]) for values, of in zip(series, criteria, strict=True)])
    together = are_quiet(criteria, sums, np.stack(series)[:, :, start:])
    assert together.tolist() == alone
    assert [len(set(of_metric)) for of_metric in zip(*alone, strict=True)] == [2 if added else 1] * 3
    assert sums.shape == (200, len(known), min(start + 1, 128))


def test_no_series_is_quiet_or_not() -> None:
    assert are_quiet([], np.zeros((0, 3, 128)), np.zeros((0, 3, 1))).shape == (0, 3)
