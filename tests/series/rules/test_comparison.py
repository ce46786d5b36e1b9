"""Two groups of values: numbers that can be checked by hand, or that a table in the literature has."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.series.rules import adjust, bound_ratio, compare, name_effect


def test_groups_that_do_not_overlap_differ_as_far_as_ranks_can_say() -> None:
    found = compare([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])

    assert (found.a.median, found.b.median, found.ratio) == (3, 8, 8 / 3)
    # 2 of the 252 ways to deal ten values to two hands of five are as far apart.
    assert found.p == pytest.approx(2 / 252)
    assert (found.delta, found.effect, found.is_significant) == (1, "large", True)


def test_the_same_values_on_both_sides_are_no_difference() -> None:
    found = compare([10, 11, 12, 13, 14, 15], [10, 11, 12, 13, 14, 15])

    assert (found.ratio, found.delta, found.effect, found.is_significant) == (1, 0, "negligible", False)
    assert found.p == pytest.approx(1.0)


def test_one_run_each_has_a_ratio_and_no_certainty() -> None:
    found = compare([200.0], [150.0])

    assert (found.ratio, found.low, found.high, found.p) == (0.75, None, None, None)
    assert not found.is_significant


@pytest.mark.parametrize(("a", "b"), [([], [1.0]), ([1.0], [])])
def test_a_side_without_values_is_refused(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="both groups need values"):
        compare(a, b)


def test_zero_before_has_no_ratio() -> None:
    assert compare([0, 0, 0], [1, 2, 3]).ratio is None


def test_constant_values_are_certain_that_nothing_moved() -> None:
    found = compare([7] * 6, [7] * 8)

    assert (found.low, found.high, found.p) == (1, 1, 1)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    st.lists(st.integers(0, 1000), min_size=2, max_size=5, unique=True),
    st.lists(st.integers(1001, 2000), min_size=2, max_size=5, unique=True),
)
def test_the_exact_test_counts_arrangements(a: list[int], b: list[int]) -> None:
    mixed = a[1:] + b[:1], b[1:] + a[:1]
    values = sorted(a + b)
    n = len(mixed[0])
    wins = sum(x < y for x in mixed[0] for y in mixed[1])
    middle = n * len(mixed[1]) / 2

    def count_wins(chosen: tuple[int, ...]) -> int:
        return sum(x < y for x in chosen for y in values if y not in chosen)

    every = [count_wins(chosen) for chosen in combinations(values, n)]
    expected = sum(abs(other - middle) >= abs(wins - middle) for other in every) / len(every)

    assert compare(*mixed).p == pytest.approx(min(1.0, expected))


def test_ties_go_to_the_approximation_with_its_correction() -> None:
    # By hand: U = 22.5 of 25; three ties of 2, one of 3: variance 25 / 12 × (11 - 42 / 90); z = 9.5 / 4.684 = 2.028.
    found = compare([1, 2, 2, 3, 4], [3, 4, 4, 5, 5])

    assert found.delta == pytest.approx(0.8)
    assert found.p == pytest.approx(0.04256, abs=0.00001)


def test_the_interval_is_that_of_a_bootstrap_drawn_whole() -> None:
    generator = np.random.default_rng(3)
    a, b = np.sort(generator.normal(100, 8, 31)), np.sort(generator.normal(90, 8, 20))
    whole = [np.median(generator.choice(b, 20)) / np.median(generator.choice(a, 31)) for _ in range(4000)]

    low, high = bound_ratio(a, b)

    assert low == pytest.approx(np.percentile(whole, 2.5), abs=0.006)
    assert high == pytest.approx(np.percentile(whole, 97.5), abs=0.006)


def test_interval_has_its_nominal_coverage() -> None:
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        a, b = (np.sort(np.exp(generator.normal(0, 0.05, n))) for n in (12, 8))
        low, high = bound_ratio(a, b)
        held += low <= 1 <= high

    assert held / 300 > 0.93


def test_the_same_values_get_the_same_interval() -> None:
    values = [3.0, 1, 4, 1, 5, 9, 2, 6], [2.0, 7, 1, 8, 2, 8]

    assert compare(*values) == compare(*values)


def test_many_tests_raise_the_bar() -> None:
    assert adjust([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.02, None, 0.04, 0.04, 0.02])


@pytest.mark.parametrize(
    ("delta", "name"), [(0.1, "negligible"), (-0.2, "small"), (0.4, "medium"), (-0.5, "large"), (1, "large")]
)
def test_the_size_of_an_effect_has_a_name(delta: float, name: str) -> None:
    assert name_effect(delta) == name
