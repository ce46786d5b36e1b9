"""The interval that holds at every look, on generated pairs with a known ratio."""

from math import exp, log

import numpy as np
import pytest

from benchapp.layouts.rules.experiments import (
    ArmRuns,
    check_drift,
    count_required_pairs,
    evaluate_pairs,
    find_p_of_t,
    order_arms,
    pair_runs,
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


def check(order, *, drift=0.0, growth=0.0, carry=0.0, noise=0.01):
    """Return the check and the ratio of generated runs.

    drift: of all values over the experiment; growth: of B against A; carry: what the second run of a pair gains.
    """
    generator = np.random.default_rng(5)
    share = np.linspace(0, 1, len(order))
    is_b = np.array([name == "b" for name in order])
    logs = noise * generator.standard_normal(len(order)) + drift * share + growth * share * is_b
    logs += carry * (np.arange(len(order)) % 2)
    at = np.arange(len(order)) * 60_000_000
    arms = [ArmRuns(at[is_b == side], 5000 * np.exp(logs[is_b == side])) for side in (False, True)]
    pairs = pair_runs(*arms)
    return check_drift(*arms, pairs), float(np.exp(pairs.log_ratios.mean()))


def test_stable_runs_in_abba_order_have_no_caveat():
    found, ratio = check(order_arms(20))

    assert found.caveats == ()
    assert ratio == pytest.approx(1, abs=0.01)


def test_drift_of_both_arms_is_found_and_cancels():
    found, ratio = check(order_arms(20), drift=-0.1)

    assert found.caveats == ("drift",)
    assert found.drift.change == pytest.approx(np.exp(-0.1) - 1, abs=0.015)
    assert ratio == pytest.approx(1, abs=0.01)


def test_difference_that_grows_is_found():
    found, _ = check(order_arms(20), growth=0.1)

    assert "difference-drifts" in found.caveats
    assert found.difference.change == pytest.approx(np.exp(0.1) - 1, abs=0.03)


def test_effect_of_the_order_is_found_and_cancels():
    found, ratio = check(order_arms(20), carry=0.05)

    assert found.caveats == ("order",)
    assert found.order.change == pytest.approx(np.exp(-0.1) - 1, abs=0.02)
    assert ratio == pytest.approx(1, abs=0.01)


def test_one_order_of_all_pairs_and_separate_blocks_are_reported():
    assert check("ab" * 10)[0].caveats == ("unbalanced",)
    assert check("a" * 20 + "b" * 20)[0].caveats == ("not-interleaved",)
    assert check("abba")[0].drift is None


def test_values_without_spread_have_a_check():
    found, _ = check(order_arms(6), noise=0.0)

    assert found.caveats == ()
    assert found.drift.p == 1


def make_arms(order, values=None):
    """Return the arms of runs in an order like "abba", at times 0, 1, 2, …."""
    values = values or [100.0] * len(order)
    return [
        ArmRuns(
            np.array([at for at, name in enumerate(order) if name == arm]),
            np.array([value for name, value in zip(order, values, strict=True) if name == arm]),
        )
        for arm in "ab"
    ]


def test_neighbors_of_an_abba_order_are_pairs_with_the_ratio_of_b_to_a():
    pairs = pair_runs(*make_arms("abba", [100.0, 110.0, 120.0, 100.0]))

    assert (pairs.a.tolist(), pairs.b.tolist()) == ([0, 1], [0, 1])
    assert pairs.is_a_first.tolist() == [True, False]
    assert np.exp(pairs.log_ratios).tolist() == pytest.approx([1.1, 1.2])
    assert pairs.unpaired == 0


@pytest.mark.parametrize(
    ("order", "a", "b", "unpaired"),
    [
        ("aaaa", [], [], 4),
        ("aaabbb", [2], [0], 4),
        ("abb", [0], [0], 1),
        ("aabba", [1, 2], [0, 1], 1),
        ("", [], [], 0),
    ],
)
def test_runs_without_a_neighbor_of_the_other_arm_are_counted(order, a, b, unpaired):
    pairs = pair_runs(*make_arms(order))

    assert (pairs.a.tolist(), pairs.b.tolist(), pairs.unpaired) == (a, b, unpaired)


def test_further_runs_change_no_earlier_pair():
    order = "abbaabaabbbabaabbbaab"
    full = pair_runs(*make_arms(order))

    for length in range(len(order)):
        pairs = pair_runs(*make_arms(order[:length]))
        assert pairs.a.tolist() == full.a.tolist()[: len(pairs.a)]
        assert pairs.b.tolist() == full.b.tolist()[: len(pairs.b)]


def test_value_that_has_no_logarithm_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        pair_runs(*make_arms("ab", [0.0, 1.0]))


def test_planned_order_alternates_within_pairs():
    assert order_arms(4) == "abbaabba"
