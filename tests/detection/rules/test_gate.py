"""The gate of one series and metric."""

import numpy as np
import pytest

from benchapp.detection.rules.significance import find_t_quantile, pass_gate

ERROR_RATE = 0.001


def make_baseline(*, n: int = 40, spread: float = 0.01, seed: int = 1) -> list[float]:
    return (1000 * (1 + np.random.default_rng(seed).normal(0, spread, n))).tolist()


def gate(values, baseline=None, *, is_higher_better=True, limit=0.05):
    return pass_gate(
        make_baseline() if baseline is None else baseline,
        values,
        is_higher_better=is_higher_better,
        limit=limit,
        error_rate=ERROR_RATE,
    )


@pytest.mark.parametrize(
    ("values", "is_higher_better", "outcome"),
    [
        ([1000.0], True, "passed"),
        ([1300.0], True, "passed"),
        ([800.0], True, "regressed"),
        ([940.0], True, "undecided"),
        ([1000.0], False, "passed"),
        ([800.0], False, "passed"),
        ([1200.0], False, "regressed"),
        ([1060.0], False, "undecided"),
    ],
)
def test_outcome_follows_the_bounds(values, is_higher_better, outcome) -> None:
    result = gate(values, is_higher_better=is_higher_better)

    assert result.outcome == outcome
    assert result.reason == ("too-noisy" if outcome == "undecided" else "")
    assert result.change == pytest.approx(values[0] / 1000 - 1, abs=0.005)
    losses = [(-1 if is_higher_better else 1) * bound for bound in (result.best, result.change, result.worst)]
    assert losses == sorted(losses)
    assert (losses[0] > 0.05) == (outcome == "regressed")
    assert (losses[2] <= 0.05) == (outcome == "passed")


def test_more_runs_decide_as_announced() -> None:
    first = gate([930.0])
    assert first.outcome == "undecided"
    assert first.runs_needed is not None

    later = gate([930.0] * (1 + first.runs_needed))
    before = gate([930.0] * first.runs_needed)

    assert (before.outcome, before.runs_needed) == ("undecided", 1)
    assert (later.outcome, later.runs_needed) == ("regressed", None)


def test_change_of_just_the_limit_is_never_decided() -> None:
    baseline = make_baseline()
    at_limit = float(np.median(baseline)) * 0.95

    result = gate([at_limit], baseline)

    assert (result.outcome, result.reason, result.runs_needed) == ("undecided", "too-noisy", None)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_few_runs_are_not_a_baseline(n: int) -> None:
    result = gate([500.0], make_baseline(n=n))

    assert (result.outcome, result.reason, result.baseline_n) == ("undecided", "no-baseline", n)
    assert (result.value, result.change, result.runs_needed) == (500.0, None, None)


def test_run_without_a_valid_value_is_undecided() -> None:
    result = gate([])

    assert (result.outcome, result.reason, result.n, result.value) == ("undecided", "no-value", 0, None)
    assert result.baseline_n == 40


def test_value_of_zero_has_regressed() -> None:
    assert gate([0.0]).outcome == "regressed"


def test_baseline_of_zeros_has_no_relative_change() -> None:
    assert gate([5.0], [0.0] * 10).reason == "no-baseline"


def test_equal_values_have_a_least_deviation() -> None:
    assert gate([999.0], [1000.0] * 10).outcome == "passed"
    assert gate([900.0], [1000.0] * 10).outcome == "regressed"


def test_bad_runs_in_the_baseline_do_not_hide_a_regression() -> None:
    baseline = make_baseline()
    baseline[10] = baseline[30] = 200.0

    assert gate([880.0], baseline).outcome == "regressed"


def test_run_at_the_limit_is_reported_at_most_at_the_error_rate() -> None:
    """5 000 runs whose true change is the limit; 5 expected at most."""
    chance = np.random.default_rng(5)
    count = 0
    for _ in range(5_000):
        baseline = 1000 * (1 + chance.normal(0, 0.02, 20))
        value = 950 * (1 + chance.normal(0, 0.02))
        count += gate([value], baseline).outcome == "regressed"

    assert count <= 12


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    # Tables of Student's t.
    [(0.05, 4, 2.1318), (0.001, 4, 7.1732), (0.05, 9, 1.8331), (0.001, 9, 4.2968), (0.0001, 39, 4.094)],
)
def test_quantiles_of_t_are_not_too_small(tail: float, freedom: int, expected: float) -> None:
    assert expected <= find_t_quantile(tail, freedom) * 1.0005
    assert find_t_quantile(tail, freedom) <= 1.04 * expected
