"""Calendar profiles: learned from what recurs, and removed."""

from collections.abc import Callable

import numpy as np
import pytest

from benchapp.detection.rules.evaluation_points import learn_profiles, remove_profiles

Array = np.typing.NDArray[np.float64]
Times = np.typing.NDArray[np.int64]
HOUR_US = 3_600_000_000


def make_times(days: int, *, every_h: int = 6) -> Times:
    """Return times from Saturday, 1 January 2000 on."""
    return np.arange(0, 24 * days, every_h, dtype=np.int64) * HOUR_US


def make_noise(times: Times, *, seed: int = 1) -> Array:
    return 1000 * (1 + 0.02 * np.random.default_rng(seed).standard_normal(len(times)))


def is_weekend(times: Times) -> np.typing.NDArray[np.bool_]:
    return times // HOUR_US // 24 % 7 < 2


def is_night(times: Times) -> np.typing.NDArray[np.bool_]:
    return times // HOUR_US % 24 == 0


def test_weekends_have_their_factor_and_are_removed() -> None:
    times = make_times(42)
    values = make_noise(times) * np.where(is_weekend(times), 0.85, 1.0)

    (profile,) = learn_profiles(times, values)

    assert profile.season == "weekday"
    assert profile.factors == pytest.approx((1, 1, 1, 1, 1, 0.85, 0.85), abs=0.02)
    without = remove_profiles(times, values, [profile])
    assert without == pytest.approx(make_noise(times), rel=0.03)


def test_hour_of_the_day_has_its_factor() -> None:
    times = make_times(20)
    values = make_noise(times) * np.where(is_night(times), 0.8, 1.0)

    (profile,) = learn_profiles(times, values)

    assert profile.season == "hour"
    assert {hour: factor for hour, factor in enumerate(profile.factors) if abs(factor - 1) > 0.03} == {
        0: pytest.approx(0.8, abs=0.02)
    }


def test_hours_and_weekdays_are_learned_one_after_the_other() -> None:
    times = make_times(42)
    pattern = np.where(is_night(times), 0.8, 1.0) * np.where(is_weekend(times), 0.85, 1.0)

    profiles = learn_profiles(times, make_noise(times) * pattern)

    assert [profile.season for profile in profiles] == ["hour", "weekday"]
    assert remove_profiles(times, pattern, profiles) == pytest.approx(np.ones(len(times)), abs=0.03)


def test_step_does_not_become_a_profile_and_does_not_hide_one() -> None:
    times = make_times(42)
    step = np.where(np.arange(len(times)) < 100, 1.0, 0.7)
    assert learn_profiles(times, make_noise(times) * step) == ()

    weekends = np.where(is_weekend(times), 0.85, 1.0)
    (profile,) = learn_profiles(times, make_noise(times) * step * weekends)
    assert profile.factors == pytest.approx((1, 1, 1, 1, 1, 0.85, 0.85), abs=0.03)


@pytest.mark.parametrize(
    "change",
    [
        lambda times, values: values,
        lambda times, values: values * np.where(is_weekend(times) & (times < 9 * 24 * HOUR_US), 0.5, 1.0),
        lambda times, values: values * np.where(is_weekend(times), 0.99, 1.0),
        lambda times, values: values * np.where(times // HOUR_US // 24 // 7 % 2, 0.8, 1.0),
        lambda times, values: values - values[0],
    ],
    ids=["noise", "one weekend", "1 %", "every second week", "not positive"],
)
def test_nothing_is_learned_from(change: Callable[[Times, Array], Array]) -> None:
    times = make_times(42)

    assert learn_profiles(times, change(times, make_noise(times))) == ()


def test_too_short_a_history_has_no_profile() -> None:
    times = make_times(20)
    values = make_noise(times) * np.where(is_weekend(times), 0.7, 1.0)

    assert learn_profiles(times, values) == ()
    assert learn_profiles(times[:0], values[:0]) == ()


def test_old_pattern_is_forgotten() -> None:
    times = make_times(7 * 40, every_h=24)
    values = make_noise(times) * np.where(is_weekend(times) & (times < 7 * 13 * 24 * HOUR_US), 0.8, 1.0)

    assert learn_profiles(times, values) == ()
