"""The gate of one series and metric."""

from dataclasses import replace

import numpy as np
import pytest

from benchapp.detection.rules.significance import (
    UNKNOWN_SHARED_VARIANCE,
    GateSample,
    combine_outcomes,
    find_t_quantile,
    judge_build,
    measure_shared_variance,
    pass_gate,
)

ERROR_RATE = 0.001


def make_baseline(*, n: int = 40, spread: float = 0.01, seed: int = 1) -> list[float]:
    return (1000 * (1 + np.random.default_rng(seed).normal(0, spread, n))).tolist()


def gate(values, baseline=None, *, is_higher_better=True, limit=0.05):
    sample = make_sample(values, baseline, is_higher_better=is_higher_better, limit=limit)
    return pass_gate(sample, error_rate=ERROR_RATE)


def make_sample(values, baseline=None, *, metric="iops", is_higher_better=True, limit=0.05) -> GateSample:
    known = make_baseline() if baseline is None else baseline
    return GateSample(
        metric,
        dict(enumerate(known)),
        dict(enumerate(values, 1000)),
        is_higher_better=is_higher_better,
        limit=limit,
    )


@pytest.mark.parametrize(
    ("values", "is_higher_better", "outcome"),
    [
        ([1000.0], True, "passed"),
        ([1300.0], True, "passed"),
        ([800.0], True, "regressed"),
        ([900.0], True, "regressed"),
        ([955.0], True, "undecided"),
        ([1000.0], False, "passed"),
        ([800.0], False, "passed"),
        ([1200.0], False, "regressed"),
        ([1100.0], False, "regressed"),
        ([1045.0], False, "undecided"),
    ],
)
def test_outcome_follows_the_bounds(values, is_higher_better, outcome) -> None:
    result = gate(values, make_baseline(spread=0.02), is_higher_better=is_higher_better)

    assert result.outcome == outcome
    assert result.reason == ("too-noisy" if outcome == "undecided" else "")
    assert result.change == pytest.approx(values[0] / 1000 - 1, abs=0.01)
    losses = [(-1 if is_higher_better else 1) * bound for bound in (result.best, result.change, result.worst)]
    assert losses == sorted(losses)
    assert (losses[2] <= 0.05) == (outcome == "passed")
    assert (losses[0] > 0) == (outcome == "regressed")


def test_more_runs_decide_as_announced() -> None:
    baseline = make_baseline(spread=0.02)
    first = gate([940.0], baseline)
    assert first.outcome == "undecided"
    assert first.runs_needed is not None

    later = gate([940.0] * (1 + first.runs_needed), baseline)
    before = gate([940.0] * first.runs_needed, baseline)

    assert (before.outcome, before.runs_needed) == ("undecided", 1)
    assert (later.outcome, later.runs_needed) == ("regressed", None)


def test_small_certain_loss_within_the_limit_never_regresses() -> None:
    """Further runs only make a loss of a tenth of the limit more certain."""
    assert gate([995.0] * 100).outcome == "passed"


def test_common_loss_is_found_where_each_series_is_undecided() -> None:
    samples = [make_sample([954.0], make_baseline(seed=seed, spread=0.015)) for seed in range(1, 9)]

    results, together = judge_build(samples, error_rate=0.01)

    assert {result.outcome for result in results} == {"undecided"}
    ((pooled, result, count),) = together
    assert (result.outcome, count, pooled.limit) == ("regressed", 8, pytest.approx(0.05))
    assert result.change == pytest.approx(-0.046, abs=0.005)
    assert result.baseline_median == pytest.approx(100, abs=1)


def test_noise_that_series_have_in_common_is_not_averaged_out() -> None:
    baseline = make_baseline(spread=0.02)

    _, together = judge_build([make_sample([954.0], baseline) for _ in range(8)], error_rate=0.01)

    assert together[0][1].outcome == "undecided"


@pytest.mark.parametrize(
    "samples",
    [
        [make_sample([900.0])],
        [make_sample([900.0]), make_sample([1100.0], metric="latency_p99_ns", is_higher_better=False)],
        [make_sample([900.0]), make_sample([])],
        [make_sample([900.0]), make_sample([900.0], [0.0] * 10)],
        [
            make_sample([900.0]),
            GateSample("iops", dict.fromkeys(range(100, 120), 1.0), {7: 1.0}, True, 0.05),
        ],
    ],
    ids=["one", "other-metric", "no-value", "no-median", "other-runs"],
)
def test_series_without_common_runs_are_not_together(samples) -> None:
    assert judge_build(samples, error_rate=0.01)[1] == []


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


def test_new_series_does_not_part_the_others() -> None:
    samples = [make_sample([954.0], make_baseline(seed=seed, spread=0.015)) for seed in range(1, 9)]

    _, together = judge_build([*samples, make_sample([954.0], make_baseline(n=3))], error_rate=0.01)

    assert [count for *_, count in together] == [8]


def test_files_of_one_build_are_together_each() -> None:
    samples = [make_sample([954.0], make_baseline(seed=seed)) for seed in range(1, 5)]
    others = [replace(each, values={2000: 1000.0}) for each in samples]

    _, together = judge_build([*samples, *others], error_rate=0.01)

    assert [count for *_, count in together] == [4, 4]


def test_what_repetitions_have_in_common_does_not_average_out() -> None:
    """Builds differ by 3 %, repetitions of one by a tenth of it: more of them say nothing new."""
    chance = np.random.default_rng(3)
    values = [
        build * (1 + chance.normal(0, 0.003)) for build in chance.normal(1000, 30, 20) for _ in range(2)
    ]
    builds = {run: f"commit {run // 2}" for run in range(40)}

    sample = replace(make_sample([930.0] * 5, values), builds=builds)
    shared = measure_shared_variance([sample])
    alike = pass_gate(sample, error_rate=0.001, shared=shared)
    single = pass_gate(sample, error_rate=0.001, shared=0.0)

    assert (alike.outcome, alike.baseline_n) == ("undecided", 20)
    assert alike.best is not None
    assert single.best is not None
    assert abs(alike.best) > abs(single.best)
    assert shared == pytest.approx(0.99, abs=0.02)
    assert measure_shared_variance([make_sample([930.0], values)]) == UNKNOWN_SHARED_VARIANCE


def test_runs_of_few_builds_are_no_baseline() -> None:
    sample = replace(make_sample([900.0]), builds={run: f"commit {run // 10}" for run in range(40)})

    assert pass_gate(sample, error_rate=0.001).reason == "no-baseline"


def test_error_rate_of_very_many_rows_has_a_quantile() -> None:
    assert find_t_quantile(1e-20, 39) > find_t_quantile(1e-12, 39)


def test_build_without_a_loss_is_reported_at_most_at_the_error_rate_however_often_it_is_asked() -> None:
    """2 000 builds of two series with up to five runs; 20 expected at most."""
    chance = np.random.default_rng(5)
    count = 0
    for _ in range(2_000):
        baselines = 1000 * (1 + chance.normal(0, 0.03, (2, 20)))
        values = 1000 * (1 + chance.normal(0, 0.03, (2, 5)))
        for runs in range(1, 6):
            samples = [make_sample(new[:runs], old) for new, old in zip(values, baselines, strict=True)]
            results, together = judge_build(samples, error_rate=0.01, asks=5)
            rows = [*results, *(result for _, result, _ in together)]
            if (outcome := combine_outcomes([each.outcome for each in rows])) != "undecided":
                count += outcome == "regressed"
                break

    assert count <= 30


@pytest.mark.parametrize(
    ("tail", "freedom", "expected"),
    # Tables of Student's t.
    [(0.05, 4, 2.1318), (0.001, 4, 7.1732), (0.05, 9, 1.8331), (0.001, 9, 4.2968), (0.0001, 39, 4.094)],
)
def test_quantiles_of_t_are_not_too_small(tail: float, freedom: int, expected: float) -> None:
    assert expected <= find_t_quantile(tail, freedom) * 1.0005
    assert find_t_quantile(tail, freedom) <= 1.04 * expected
