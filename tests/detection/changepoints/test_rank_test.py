"""The exact rank test, against numbers that can be counted by hand or looked up."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from benchapp.detection.changepoints.estimates import count_arrangements, score_ranks, score_ranks_exactly


def score(left: list[float], right: list[float]) -> float:
    return score_ranks(np.array(left), np.array(right))


def test_arrangements_of_two_and_three_are_counted() -> None:
    """Ten arrangements: U = 0, 1, 2, 2, 3, 3, 4, 4, 5, 6."""
    assert count_arrangements(2, 3).tolist() == [1, 1, 2, 2, 2, 1, 1]


@pytest.mark.parametrize(("small", "large"), [(1, 1), (3, 20), (12, 12), (12, 60)])
def test_all_arrangements_are_counted_and_none_is_negative(small: int, large: int) -> None:
    counts = count_arrangements(small, large)

    assert counts.sum() == math.comb(small + large, small)
    assert counts.min() >= 1
    assert (counts == counts[::-1]).all()


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        # One of C(6, 3) = 20 arrangements: Φ⁻¹(0.95).
        ([1, 2, 3], [4, 5, 6], 1.6449),
        # One of C(23, 3) = 1 771.
        (list(range(20)), [30, 31, 32], 3.2562),
        # One of C(25, 5) = 53 130.
        (list(range(20)), [-1, -2, -3, -4, -5], 4.1216),
        # U ≤ 1: two of 1 771.
        (list(range(20)), [18.5, 30, 31], 3.0539),
    ],
)
def test_score_is_that_of_the_counted_probability(left: list, right: list, expected: float) -> None:
    assert score(left, right) == pytest.approx(expected, abs=5e-4)


def test_sides_may_be_swapped() -> None:
    assert score([1, 2, 3, 9], [4, 5, 6, 7, 8]) == score([4, 5, 6, 7, 8], [1, 2, 3, 9])


def test_ties_count_half_and_equal_samples_score_nothing() -> None:
    assert score([5] * 10, [5] * 20) == 0
    # U = 0.5 is read as 1.
    assert score(list(range(20)), [19, 30, 31]) == pytest.approx(3.0539, abs=5e-4)


def test_complete_separation_by_ties_is_complete() -> None:
    assert score([5] * 20, [7] * 3) == score(list(range(20)), [30, 31, 32])


def test_large_samples_use_the_normal_approximation() -> None:
    """Mean 1 800, deviation √(3 600 · 121 / 12) = 190.5; U = 0 with continuity."""
    assert score(list(range(60)), list(range(60, 120))) == pytest.approx(1799.5 / 190.53, abs=1e-3)


def test_approximation_is_on_the_safe_side_of_the_exact_score() -> None:
    """12 and 13 points beyond 48 of 60; SciPy's exact probability for 12 gives 4.171."""
    left = [float(value) for value in range(60)]
    exact = score(left, [45.5 + value for value in range(12)])
    approximate = score(left, [45.5 + value for value in range(13)])

    assert exact == pytest.approx(4.171, abs=1e-3)
    assert approximate < score(left, [47.5 + value for value in range(12)])


@pytest.mark.parametrize(("new", "arrangements"), [(12, 1.534e13), (13, 8.612e13), (60, 9.661e34)])
def test_exact_score_of_points_beyond_all_others_is_that_of_one_arrangement(
    new: int, arrangements: float
) -> None:
    left, right = np.arange(60.0), np.arange(60.0, 60 + new)

    tail = math.erfc(score_ranks_exactly(left, right) / math.sqrt(2)) / 2

    assert 1 / tail == pytest.approx(arrangements, rel=2e-3)


def test_exact_score_of_large_samples_is_that_of_counted_integers() -> None:
    """Of the C(60, 30) arrangements of 30 and 30, 272 have U of 0 to 12: the partitions of these numbers."""
    left, right = np.arange(30.0), np.concatenate([np.arange(30.0, 59), [17.5]])

    # 17.5 is below the last 12 of the left side.
    partitions = [1, 1, 2, 3, 5, 7, 11, 15, 22, 30, 42, 56, 77]
    expected = -NormalDist().inv_cdf(sum(partitions) / math.comb(60, 30))
    assert score_ranks_exactly(left, right) == pytest.approx(expected, rel=1e-12)


def test_empty_side_scores_nothing() -> None:
    assert score([], [1, 2, 3]) == 0
    assert score_ranks_exactly(np.array([]), np.arange(3.0)) == 0
