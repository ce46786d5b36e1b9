"""Noise profiles and detection status."""

import math

import numpy as np
import pytest

from benchapp.detection.rules.noise_profile import (
    NoiseProfile,
    SeriesState,
    StateResult,
    count_runs_needed,
    find_distinct_levels,
    find_smallest_change,
    judge_state,
    measure_residuals,
    profile_noise,
)
from benchmarks.histories import make_generator, make_history
from tests.changes import find_changes


def make_profile(spread: float, *, correlation: float = 0.0, points: int = 60) -> NoiseProfile:
    smallest = find_smallest_change(spread, correlation, old_runs=points)
    return NoiseProfile(spread, correlation, points, smallest)


def state_of(profile: NoiseProfile, *, runs: int = 60) -> StateResult:
    return judge_state(profile, runs=runs, wanted_change=0.05)


def test_median_fleet_detects_nine_percent_in_five_runs() -> None:
    """3.7 % of spread, correlation .15: 5.8 · 0.037 · √(1.353 · (1/5 + 1/60))."""
    assert find_smallest_change(0.037, 0.15, old_runs=60) == pytest.approx(0.116, abs=0.001)
    assert find_smallest_change(0.037, 0.0, old_runs=60) == pytest.approx(0.100, abs=0.001)


def test_more_runs_detect_smaller_changes_up_to_sixty() -> None:
    smallest = [find_smallest_change(0.02, 0.2, old_runs=60, new_runs=runs) for runs in (1, 5, 20, 60, 500)]

    assert smallest[0] == smallest[1] > smallest[2] > smallest[3] == smallest[4]


def test_spread_and_correlation_are_those_around_the_levels() -> None:
    generator = make_generator("profile", 1)
    noise = np.array(make_history("correlated", 600, variation=0.02, generator=generator))
    values = (noise * np.repeat([1.0, 0.8, 1.3], 200)).tolist()

    profile = profile_noise(values, [200, 400])

    assert profile.spread == pytest.approx(0.02, rel=0.15)
    assert 0.3 < profile.correlation < 0.75
    assert profile.points == 200


@pytest.mark.parametrize("seed", range(5))
def test_runs_of_an_excursion_are_no_noise(seed: int) -> None:
    noise = 1 + 0.05 * np.clip(np.random.default_rng(seed).standard_normal(40), -2, 2)
    values = noise * np.repeat([1.0, 1.43, 1.0], [14, 10, 16])

    starts = find_distinct_levels(values, smallest_change=0.2)

    assert starts == [14, 24]
    assert profile_noise(values, starts).spread == pytest.approx(0.05, rel=0.3)
    assert profile_noise(values).spread > 0.15


@pytest.mark.parametrize("kind", ["even", "tails", "spikes", "states", "skewed", "buckets"])
def test_noise_alone_has_no_distinct_levels(kind: str) -> None:
    for seed in range(20):
        generator = make_generator("distinct", kind, seed)
        values = np.array(make_history(kind, 60, variation=0.15, generator=generator))

        assert find_distinct_levels(values, smallest_change=0.2) == []


def test_uncorrelated_noise_has_hardly_any_correlation() -> None:
    values = (100 + np.random.default_rng(3).standard_normal(300)).tolist()

    assert profile_noise(values).correlation < 0.12


def test_spikes_do_not_count_and_both_of_two_states_do() -> None:
    steady = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0] * 10
    spiked = [*steady]
    spiked[7], spiked[40] = 1.0, 5000.0
    states = [100.0, 100.0, 100.0, 100.0, 80.0] * 12

    assert profile_noise(spiked).spread == pytest.approx(profile_noise(steady).spread, rel=0.05)
    assert profile_noise(states).spread == pytest.approx(0.09, abs=0.001)


def test_equal_values_have_no_noise() -> None:
    assert profile_noise([5.0] * 40) == NoiseProfile(0.0, 0.0, 40, 0.0)


@pytest.mark.parametrize(
    "values", [[], [1.0], [math.nan] * 9, [0.0] * 30, [1e308, -1e308] * 20, [5e-324, 1.0] * 9]
)
def test_any_values_are_accepted(values: list[float]) -> None:
    profile = profile_noise(values)

    assert math.isfinite(profile.spread)
    assert 0 <= profile.correlation <= 0.9


def test_quiet_series_of_many_runs_is_steady() -> None:
    assert state_of(make_profile(0.01)) == StateResult(SeriesState.STEADY, None)


def test_series_with_fewer_than_twenty_runs_is_learning() -> None:
    assert state_of(make_profile(0.01, points=14), runs=14) == StateResult(SeriesState.LEARNING, 6)


def test_level_of_four_runs_has_the_noise_of_the_levels_before() -> None:
    quiet, noisy = (profile_noise([100.0, 100.0 + size] * 15 + [80.0] * 4, [30]) for size in (1.0, 30.0))

    assert judge_state(quiet, runs=34, wanted_change=0.05) == StateResult(SeriesState.STEADY, None)
    assert judge_state(noisy, runs=34, wanted_change=0.05).state == SeriesState.TOO_NOISY


def test_too_noisy_series_has_the_runs_needed() -> None:
    result = state_of(make_profile(0.037))

    assert result.state == SeriesState.TOO_NOISY
    assert result.runs_needed == 27


def test_series_may_be_too_noisy_for_any_number_of_runs() -> None:
    assert state_of(make_profile(0.3)) == StateResult(SeriesState.TOO_NOISY, None)
    assert count_runs_needed(make_profile(0.3), 0.05) is None


@pytest.mark.parametrize("spread", [0.01, 0.02, 0.03, 0.037, 0.05, 0.3])
@pytest.mark.parametrize("points", [5, 20, 60, 200])
def test_runs_needed_are_the_fewest_that_detect_the_change(spread: float, points: int) -> None:
    profile = make_profile(spread, correlation=0.3, points=points)
    detecting = [
        runs
        for runs in range(5, 61)
        if find_smallest_change(spread, 0.3, old_runs=points, new_runs=runs) <= 0.05
    ]

    assert count_runs_needed(profile, 0.05) == (detecting[0] if detecting else None)


def test_smallest_change_is_detected_in_80_percent() -> None:
    """What the formula promises, on noise that no limit was set by."""
    found = 0
    for number in range(60):
        generator = make_generator("promise", number)
        step = find_smallest_change(0.02, 0.0, old_runs=60)
        values = make_history("even", 65, variation=0.02, generator=generator, change=(60, -step))
        found += any(abs(change.index - 60) <= 5 for change in find_changes(values))

    assert found >= 48


@pytest.mark.parametrize("seed", range(50))
def test_spread_is_that_of_the_residuals_within_five_spreads_of_numpy_quartiles(seed: int) -> None:
    chance = np.random.default_rng(seed)
    residuals = chance.standard_normal(int(chance.integers(2, 130))) * 10.0 ** int(chance.integers(-6, 6))
    residuals[0] *= 20
    low, high = np.quantile(residuals, (0.25, 0.75))
    included = residuals[np.abs(residuals) <= 5 * (high - low) / 1.349]

    spread, _ = measure_residuals(residuals)

    assert spread == np.sqrt(np.sum(included * included) / max(len(included) - 1, 1))
