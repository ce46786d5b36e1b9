"""Drift, on generated runs with a known one."""

import numpy as np
import pytest

from benchapp.layouts.rules.experiments import ArmRuns, check_drift, order_arms, pair_runs


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
