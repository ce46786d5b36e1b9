"""The interval that holds at every look, on generated pairs with a known ratio."""

from math import exp, log

import numpy as np
import pytest

from benchapp.layouts.rules.experiments import (
    count_required_pairs,
    evaluate_pairs,
    find_p_of_t,
)


def evaluate(log_ratios, *, error_rate=0.05, difference=0.05):
    return evaluate_pairs(np.array(log_ratios), error_rate=error_rate, difference=difference)


@pytest.mark.parametrize("kind", ["normal", "heavy tails"])
def test_equal_arms_differ_at_some_look_in_at_most_one_of_twenty(kind):
    generator = np.random.default_rng(7)
    wrong = 0
    for _ in range(200):
        draws = generator.standard_normal(120) if kind == "normal" else generator.standard_t(3, 120)
        found = evaluate(0.04 * draws)
        wrong += any(look.low is not None and not look.low <= 1 <= look.high for look in found.looks)

    assert wrong <= 10


def test_interval_has_the_true_ratio_at_every_look_in_nineteen_of_twenty():
    generator = np.random.default_rng(8)
    missed = 0
    for _ in range(200):
        found = evaluate(generator.normal(log(1.07), 0.05, 100))
        missed += any(look.low is not None and not look.low <= 1.07 <= look.high for look in found.looks)

    assert missed <= 10


@pytest.mark.parametrize(
    ("spread", "difference", "pairs"), [(0.05, 0.05, 21), (0.1, 0.05, 75), (0.05, 0.02, 114)]
)
def test_required_pairs_find_the_difference_in_four_of_five(spread, difference, pairs):
    assert count_required_pairs(spread, error_rate=0.05, difference=difference) == pairs
    generator = np.random.default_rng(9)
    found = 0
    for _ in range(100):
        looks = evaluate(generator.normal(log(1 + difference), spread, pairs), difference=difference).looks
        found += any(look.low is not None and look.low > 1 for look in looks)

    assert found >= 80


def test_difference_that_is_too_small_for_the_spread_has_no_plan():
    assert count_required_pairs(0.2, error_rate=0.05, difference=0.01) is None
    assert count_required_pairs(0.0, error_rate=0.05, difference=0.01) == 5
    few = count_required_pairs(0.0, error_rate=0.001, difference=0.01)
    assert evaluate([0.1, 0.11] * 10, error_rate=0.001).looks[few - 1].low is not None
    assert evaluate([0.1, 0.11] * 10, error_rate=0.001).looks[few - 2].low is None


def test_outcome_is_different_equivalent_or_undecided():
    generator = np.random.default_rng(10)
    different = evaluate(generator.normal(log(0.9), 0.02, 40))
    equivalent = evaluate(generator.normal(0, 0.02, 40))
    undecided = evaluate(generator.normal(0.02, 0.1, 12))

    assert [one.outcome for one in (different, equivalent, undecided)] == [
        "different",
        "equivalent",
        "undecided",
    ]
    assert different.last.high < 1
    assert different.last.ratio == pytest.approx(0.9, abs=0.02)
    assert different.p < 0.001 < 0.05 < undecided.p
    assert undecided.decided_after is None
    before = different.looks[different.decided_after - 2]
    assert before.low is None or before.low <= 1 <= before.high


def test_there_is_no_interval_below_five_pairs_and_none_for_a_small_error_rate_at_five():
    ratios = [0.1, 0.11, 0.09, 0.1, 0.1]

    assert evaluate(ratios[:4]).last.low is None
    assert evaluate(ratios[:4]).p == 1
    assert evaluate(ratios).last.low == pytest.approx(exp(0.1), abs=0.05)
    assert evaluate(ratios, error_rate=0.001).last.low is None


def test_equal_ratios_have_an_interval_without_width():
    same = evaluate([0.0] * 6)
    other = evaluate([log(1.2)] * 6)

    assert (same.last.low, same.last.high, same.outcome, same.p) == (1, 1, "equivalent", 1)
    assert (other.outcome, other.effect) == ("different", None)
    assert other.p < 0.05


def test_p_and_interval_agree():
    generator = np.random.default_rng(11)
    for shift in (0.0, 0.02, 0.03):
        found = evaluate(generator.normal(shift, 0.04, 60))
        excluded = any(look.low is not None and not look.low <= 1 <= look.high for look in found.looks)
        assert excluded == (found.p <= 0.05)


# Two-sided p of Student's t from tables.
@pytest.mark.parametrize(
    ("t", "degrees", "p"),
    [(3.182, 3, 0.05), (5.841, 3, 0.01), (2.228, 10, 0.05), (2.75, 30, 0.01), (0, 5, 1)],
)
def test_p_of_t_agrees_with_tables(t, degrees, p):
    assert find_p_of_t(t, degrees) == pytest.approx(p, rel=0.1)
