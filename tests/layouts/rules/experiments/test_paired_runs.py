"""Pairs of runs in the order of time."""

import numpy as np
import pytest

from benchapp.layouts.rules.experiments import ArmRuns, order_arms, pair_runs


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
