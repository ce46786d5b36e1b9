"""Slope and correlation, on generated points with a known slope."""

import numpy as np
import pytest

from benchapp.series.rules import DEPENDENCE_POINTS_MAXIMUM, fit_dependence


def make_points(generator, *, slope, n=40, spread=3.0):
    """Return points with heavy-tailed noise, several at the same x."""
    x = generator.integers(1, 30, n).astype(float)
    return x, 50 + slope * x + spread * generator.standard_t(3, n)


def test_interval_has_the_true_slope_in_nine_of_ten():
    generator = np.random.default_rng(3)
    found = [fit_dependence(*make_points(generator, slope=0.8)) for _ in range(200)]

    assert sum(one.low <= 0.8 <= one.high for one in found) >= 180
    assert sum(one.is_significant for one in found) >= 190


def test_points_without_a_dependence_have_one_in_at_most_seven_of_hundred():
    generator = np.random.default_rng(4)

    found = [fit_dependence(*make_points(generator, slope=0.0)) for _ in range(200)]

    assert sum(one.is_significant for one in found) <= 14


def test_line_through_exact_points_is_exact():
    x = np.arange(10.0)

    found = fit_dependence(x, 7 - 2 * x)

    assert (found.slope, found.low, found.high, found.intercept, found.tau) == (-2, -2, -2, 7, -1)
    assert found.p < 0.001
    assert found.is_significant


def test_as_many_points_lie_above_the_line_as_below():
    generator = np.random.default_rng(5)
    # Skewed: the medians of x and y are no point of the line.
    x = generator.exponential(100, 41)
    y = 90 - 0.1 * x + generator.normal(0, 4, 41)

    found = fit_dependence(x, y)

    beside = y - found.intercept - found.slope * x
    assert (np.count_nonzero(beside > 1e-9), np.count_nonzero(beside < -1e-9)) == (20, 20)


@pytest.mark.parametrize(
    ("x", "y"),
    [(np.arange(7.0), np.arange(7.0)), (np.ones(20), np.arange(20.0)), (np.arange(20.0), np.ones(20))],
)
def test_too_few_points_or_a_single_value_have_no_slope(x, y):
    assert fit_dependence(x, y) is None


def test_more_points_than_are_fitted_are_refused():
    many = np.arange(DEPENDENCE_POINTS_MAXIMUM + 1.0)

    with pytest.raises(ValueError, match="at most 500"):
        fit_dependence(many, many)
