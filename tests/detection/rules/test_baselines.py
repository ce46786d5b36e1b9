"""Current and accepted baselines, and drift from them."""

import math

import numpy as np
import pytest

from benchapp.detection.changepoints.detector import change_indices
from benchapp.detection.rules.baselines import (
    compare_to_baseline,
    find_steady_baseline,
    measure_drift,
    measure_trend,
    pin_baseline,
    remove_trend,
)
from benchapp.detection.rules.noise_profile import profile_noise

STEADY = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0] * 5


def test_steady_baseline_starts_at_the_last_change() -> None:
    baseline = find_steady_baseline([50.0] * 20 + STEADY, [20])

    assert baseline is not None
    assert (baseline.start, baseline.level.median, baseline.level.points) == (20, 100.0, 30)


def test_steady_baseline_is_of_the_newest_sixty_runs() -> None:
    baseline = find_steady_baseline([1.0] * 40 + [2.0] * 60)

    assert baseline is not None
    assert (baseline.level.median, baseline.level.points) == (2.0, 60)


def test_accepted_baseline_has_its_first_sixty_runs() -> None:
    baseline = pin_baseline([1.0] * 10 + [2.0] * 60 + [3.0] * 60, 10)

    assert baseline is not None
    assert (baseline.start, baseline.level.median, baseline.level.points) == (10, 2.0, 60)


def test_accepted_baseline_may_end() -> None:
    baseline = pin_baseline([1.0] * 10 + [2.0] * 10, 5, end=9)

    assert baseline is not None
    assert baseline.values == (1.0, 1.0, 1.0, 1.0)


def test_two_runs_are_not_a_baseline() -> None:
    assert pin_baseline([1.0, math.nan, 2.0], 0) is None
    assert find_steady_baseline([1.0] * 20 + [2.0] * 2, [20]) is None


def test_slow_drift_from_a_baseline_is_detected() -> None:
    """1 % in 20 runs is no change; over 300 runs it is 15 %."""
    noise = np.random.default_rng(2).standard_normal(300)
    values = (100 - 0.05 * np.arange(300) + noise).tolist()
    baseline = pin_baseline(values, 0, end=20)
    assert baseline is not None

    drift = measure_drift(baseline, values, change_indices(values), tolerated_change=0.05)

    assert drift is not None
    assert drift.is_beyond
    assert drift.shift.relative == pytest.approx(-0.13, abs=0.02)


def test_series_on_its_baseline_has_not_drifted() -> None:
    baseline = pin_baseline(STEADY, 0, end=15)
    assert baseline is not None

    drift = measure_drift(baseline, STEADY)

    assert drift is not None
    assert not drift.is_beyond
    assert drift.shift.relative == 0


def test_drift_within_the_tolerated_change_is_not_beyond() -> None:
    baseline = pin_baseline(STEADY, 0)
    assert baseline is not None
    lower = [value * 0.96 for value in STEADY]

    drifts = [measure_drift(baseline, lower, tolerated_change=share) for share in (0.05, 0.02)]

    assert [drift.is_beyond for drift in drifts if drift] == [False, True]


def test_drift_from_a_level_of_zero_has_no_size() -> None:
    baseline = pin_baseline([0.0] * 20, 0)
    assert baseline is not None

    drift = measure_drift(baseline, STEADY)

    assert drift is not None
    assert (drift.shift.relative, drift.is_beyond) == (None, False)


def test_current_level_of_two_runs_is_not_compared() -> None:
    baseline = pin_baseline(STEADY, 0)
    assert baseline is not None

    assert measure_drift(baseline, [*STEADY, 50.0, 50.0], [30]) is None


def make_slope(runs: int) -> list[float]:
    """Return 0.05 % less with every run, around which the same six values wobble."""
    return [STEADY[index % 6] * (1 - 0.0005 * index) for index in range(runs)]


def test_drift_is_stated_from_the_level_before_the_slope_to_the_newest_runs() -> None:
    held = compare_to_baseline(STEADY + make_slope(200), tolerated_change=0.05)

    assert held is not None
    assert held.change is not None
    assert (held.accepted.level.points, held.drift.now.points) == (60, 60)
    assert (held.drift.is_beyond, held.is_back) == (True, False)
    assert held.change.first == pytest.approx(30, abs=6)
    assert (held.change.newest, held.change.continues) == (225, True)
    assert held.change.drift.shift.relative == pytest.approx(-0.0985, abs=0.005)


def test_steady_level_is_at_its_baseline() -> None:
    held = compare_to_baseline(STEADY * 4, tolerated_change=0.05)

    assert held is not None
    assert (held.drift.is_beyond, held.is_back) == (False, True)


def test_level_between_half_and_all_of_the_tolerated_change_is_neither() -> None:
    held = compare_to_baseline(STEADY * 2 + [value * 0.965 for value in STEADY * 2], tolerated_change=0.05)

    assert held is not None
    assert (held.drift.is_beyond, held.is_back) == (False, False)


@pytest.mark.parametrize("runs", [0, 1, 12, 23])
def test_few_runs_are_not_compared(runs: int) -> None:
    assert compare_to_baseline(make_slope(runs), tolerated_change=0.05) is None


def test_current_level_starts_at_the_last_change_and_has_five_runs() -> None:
    values = STEADY * 3 + [value * 0.9 for value in STEADY[:5]]

    assert compare_to_baseline(values[:-1], [90], tolerated_change=0.05) is None
    held = compare_to_baseline(values, [90], tolerated_change=0.05)

    assert held is not None
    assert (held.drift.now.points, held.drift.now.median) == (5, 90.0)


def make_noisy_slope(*, size: float, runs: int, spread: float, seed: int) -> list[float]:
    noise = np.random.default_rng(seed).normal(0, spread, runs)
    return (1000 * (1 - size * np.arange(runs) / runs) * (1 + noise)).tolist()


@pytest.mark.parametrize("spread", [0.01, 0.03])
@pytest.mark.parametrize("runs", [40, 60, 120])
def test_slope_through_a_whole_history_is_a_clear_drift(runs: int, spread: float) -> None:
    """Each half has half of the slope in it, so that comparing the halves alone shows nothing."""
    comparison = compare_to_baseline(
        make_noisy_slope(size=0.2, runs=runs, spread=spread, seed=runs), tolerated_change=0.05
    )

    assert comparison is not None
    assert (comparison.drift.is_beyond, comparison.drift.is_clear) == (True, True)
    shift = comparison.drift.shift
    assert shift.relative == pytest.approx(-0.105, abs=0.02)
    assert shift.low is not None
    assert shift.high is not None
    assert shift.low < shift.relative < shift.high < -0.05


def test_slope_below_the_tolerated_change_is_no_drift() -> None:
    comparison = compare_to_baseline(
        make_noisy_slope(size=0.06, runs=80, spread=0.01, seed=3), tolerated_change=0.05
    )

    assert comparison is not None
    assert not comparison.drift.is_beyond


def test_correlated_noise_widens_the_interval_of_a_trend() -> None:
    chance = np.random.default_rng(7)
    shocks = chance.normal(0, 0.02, 80)
    independent, wandering = [], []
    state = 0.0
    for shock in shocks:
        state = 0.9 * state + math.sqrt(1 - 0.81) * shock
        independent.append(1000 * math.exp(shock))
        wandering.append(1000 * math.exp(state))
    widths = []
    for values in (independent, wandering):
        trend = measure_trend(values)
        assert trend is not None
        assert trend.low is not None
        assert trend.high is not None
        widths.append(trend.high - trend.low)

    assert widths[1] > 2 * widths[0]


@pytest.mark.parametrize("runs", [40, 120, 200])
def test_slope_is_removed_from_the_noise_of_a_level(runs: int) -> None:
    noise = 1 + 0.01 * np.random.default_rng(9).standard_normal(runs)
    falling = 1000 * noise * np.exp(-0.2 * np.arange(runs) / runs)

    flat = profile_noise(remove_trend(falling, tolerated_change=0.05))

    assert profile_noise(falling).correlation > 0.8
    assert flat.correlation < 0.3
    assert flat.spread == pytest.approx(0.01, rel=0.6)


def test_level_without_a_slope_beyond_the_tolerance_is_kept() -> None:
    values = 1000 * (1 + 0.01 * np.random.default_rng(9).standard_normal(80))

    assert remove_trend(values, tolerated_change=0.05) is values


@pytest.mark.parametrize("values", [[100.0] * 23, [100.0] * 23 + [0.0], [100.0] * 23 + [-1.0]])
def test_trend_needs_24_positive_values(values: list[float]) -> None:
    assert measure_trend(values) is None


def test_equal_values_have_a_trend_of_zero() -> None:
    trend = measure_trend([100.0] * 40)

    assert trend is not None
    assert (trend.relative, trend.low, trend.high) == (0.0, 0.0, 0.0)
