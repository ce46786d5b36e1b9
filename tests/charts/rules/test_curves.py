"""When two medians are the same, and when they differ: the fixed thresholds, and the spread of their runs."""

import random
from statistics import median, pstdev, quantiles

import pytest

from benchapp.charts.rules.findings import (
    CurvePlace,
    CurvePoint,
    are_same,
    do_differ,
    does_reach,
    estimate_error,
    find_hidden,
    find_margin,
)


def point(value: float, error: float | None = None) -> CurvePoint:
    return CurvePoint(CurvePlace(0, 0, 0), value, error=error)


def quantiles_of(values: list[float]) -> tuple[float, float]:
    """Return p10 and p90 as summaries have them: interpolated between the values."""
    deciles = quantiles(values, n=10, method="inclusive")
    return deciles[0], deciles[-1]


def test_error_of_a_median_by_hand():
    # (2563 / 2.563) x 100.9 / 99 x 1.2533 / 10.
    assert estimate_error(0.0, 2563.0, 100) == pytest.approx(127.735, abs=0.001)


@pytest.mark.parametrize("n", [1, 2])
def test_of_one_run_or_two_nothing_is_known(n):
    assert estimate_error(90.0, 110.0, n) is None


@pytest.mark.parametrize("n", [3, 4, 5, 8, 12, 30, 100])
def test_error_is_how_far_medians_of_normal_runs_scatter(n):
    chance = random.Random(n)
    samples = [[chance.gauss(1000, 50) for _ in range(n)] for _ in range(4000)]

    errors = [estimate_error(*quantiles_of(sample), n) for sample in samples]
    scatter = pstdev([median(sample) for sample in samples])

    # Of an even few it is a fifth more: the mean of the two in the middle scatters less than a median of many.
    assert 0.95 <= sum(error or 0 for error in errors) / len(errors) / scatter <= 1.25


def test_margin_is_two_errors_of_the_difference():
    assert find_margin(point(100, 3.0), point(120, 4.0)) == 10.0
    assert find_margin(point(100), point(120, 4.0)) == 8.0
    assert find_margin(point(100), point(120)) == 0.0


@pytest.mark.parametrize(
    ("values", "error", "are"),
    [
        ([1000, 1030], None, True),
        ([1000, 1031], None, False),
        # 2 x sqrt(20² + 20²) = 57 may be chance.
        ([1000, 1056], 20.0, True),
        ([1000, 1058], 20.0, False),
        # However far the runs scatter, a tenth is never nothing.
        ([1000, 1100], 500.0, True),
        ([1000, 1101], 500.0, False),
        # However little they scatter, less than 3 % is no gain.
        ([1000, 1030], 0.1, True),
    ],
)
def test_values_are_the_same_within_three_per_cent_or_what_chance_may_do(values, error, are):
    assert are_same([point(value, error) for value in values]) is are


def test_values_differ_beyond_chance():
    assert do_differ(point(1000, 30.0), point(1090, 30.0))
    assert not do_differ(point(1000, 30.0), point(1080, 30.0))
    assert do_differ(point(1000), point(1001))


@pytest.mark.parametrize(
    ("value", "error", "does"),
    [(970, None, True), (969, None, False), (940, 30.0, True), (939, 30.0, False), (899, 200.0, False)],
)
def test_limit_is_reached_within_three_per_cent_or_what_chance_may_do(value, error, does):
    assert does_reach(point(value, error), 1000.0) is does


def test_step_that_may_be_chance_is_hidden_and_others_are_not():
    low, middle, high = point(1000, 60.0), point(1100, 60.0), point(1150, 60.0)

    assert find_hidden([middle, high, low]) == (low, high)
    assert find_hidden([low, point(1090, 60.0)]) is None
    assert find_hidden([low, point(1400, 60.0)]) is None
