"""Calendar profile: what recurs with the hour of the day or the day of the week, and is removed before detection. Pure.

A profile is used only where odd and even days or weeks agree, so that neither noise nor a single event becomes one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.changepoints.segmentation import (
    DEVIATIONS_PER_MEDIAN,
    Groups,
    arrange_groups,
    take_group_medians,
    take_median,
)

Array = NDArray[np.float64]
Times = NDArray[np.int64]
Season = Literal["hour", "weekday"]

_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
# 1 January 2000, from which times count, was a Saturday; weekdays count from Monday.
_FIRST_WEEKDAY: Final = 5
_PHASES: Final[dict[Season, int]] = {"hour": 24, "weekday": 7}
# Days from the first run to the last that are needed, and the newest days or weeks that are used: an old pattern is
# forgotten.
_DAYS_MINIMUM: Final[dict[Season, int]] = {"hour": 7, "weekday": 21}
_PERIODS_MAXIMUM: Final[dict[Season, int]] = {"hour": 60, "weekday": 26}
# Runs of a phase in odd and in even periods from which it has a factor, and the fewest phases with one.
_PHASE_RUNS_MINIMUM: Final = 2
_PHASES_MINIMUM: Final = 2
# Correlation of the phases of odd and even periods, and share of the variance that the profile removes.
_AGREEMENT_MINIMUM: Final = 0.7
_REMOVED_MINIMUM: Final = 1 / 3
# Distance from the profile in spreads beyond which a value is a bad run.
_FAR_SPREADS: Final = 5.0
# Smallest range of the factors; smaller ones do not matter to a change of 5 %.
_RANGE_MINIMUM: Final = 0.02


@dataclass(frozen=True, slots=True)
class CalendarProfile:
    """Factors of the phases of a season, relative to the usual run: 0.85 is 15 % less.

    hour: of the day in UTC, 24 phases; weekday: from Monday, 7 phases. 1 for a phase without enough runs.
    """

    season: Season
    factors: tuple[float, ...]


def learn_profiles(times: Times, values: Array) -> tuple[CalendarProfile, ...]:
    """Return the profiles of a history, that of the hour first; () without any, or if values are not all positive.

    times: µs since 2000, ascending; values: of the same length.
    """
    if not len(values) or values.min() <= 0:
        return ()
    ratios = np.log(values)
    found: list[CalendarProfile] = []
    for season in _PHASES:
        profile = _learn(times, ratios, season)
        if profile is not None:
            found.append(profile)
            ratios = ratios - _list_ratios(times, profile)
    return tuple(found)


def remove_profiles(times: Times, values: Array, profiles: Sequence[CalendarProfile]) -> Array:
    """Return the values as they would be at the usual hour and weekday."""
    for profile in profiles:
        values = values * np.exp(-_list_ratios(times, profile))
    return values


@dataclass(frozen=True, slots=True)
class _Calendar:
    """Which values of a history belong together, by their times; of the values from the index `first` on.

    places: number of the period of each value; periods: values by it. phases: phase of each value; by_side: values by
    it in even periods, then in odd ones. is_known: of each phase, whether it has enough values in both.
    """

    first: int
    places: NDArray[np.int64]
    periods: Groups
    phases: NDArray[np.int64]
    by_side: Groups
    is_known: NDArray[np.bool_]


@lru_cache(maxsize=64)  # the metrics of a series have the same times; at most 100 KB each
def _arrange(packed_times: bytes, season: Season) -> _Calendar | None:
    """Return the calendar of these times; None if they are too few for a profile."""
    times = np.frombuffer(packed_times, np.int64)
    if times[-1] - times[0] < _DAYS_MINIMUM[season] * _DAY_US:
        return None
    days = times // _DAY_US
    # Weeks begin on Monday.
    periods = days if season == "hour" else (days + _FIRST_WEEKDAY) // 7
    first = int(np.searchsorted(periods, periods[-1] - _PERIODS_MAXIMUM[season], side="right"))
    periods, phases, count = periods[first:], _find_phases(times[first:], season), _PHASES[season]
    by_side = arrange_groups(periods % 2 * count + phases, count=2 * count)
    is_known: NDArray[np.bool_] = np.all(by_side.sizes.reshape(2, count) >= _PHASE_RUNS_MINIMUM, axis=0)
    if np.count_nonzero(is_known) < _PHASES_MINIMUM:
        return None
    places = np.cumsum(np.diff(periods, prepend=periods[0]) != 0)
    return _Calendar(
        first,
        places,
        arrange_groups(places, count=int(places[-1]) + 1),
        phases,
        by_side,
        is_known,
    )


def _learn(times: Times, ratios: Array, season: Season) -> CalendarProfile | None:
    calendar = _arrange(times.tobytes(), season)
    if calendar is None:
        return None
    ratios, is_known = ratios[calendar.first :], calendar.is_known
    # Distances from the median of the period, so that levels do not matter.
    around = ratios - take_group_medians(ratios, calendar.periods)[calendar.places]
    even, odd = take_group_medians(around, calendar.by_side).reshape(2, -1)[:, is_known]
    if not _agree(odd, even):
        return None
    phases = calendar.phases
    # Not kept in the calendar: few histories get here.
    by_phase = arrange_groups(phases, count=len(is_known))
    factors = np.where(is_known, take_group_medians(around, by_phase), 0.0)
    if np.ptp(factors[is_known]) < _RANGE_MINIMUM or not _removes_variance(around, around - factors[phases]):
        return None
    # Relative to the usual run, so that levels stay where they are.
    factors -= take_median(factors[phases])
    return CalendarProfile(season, tuple(np.exp(np.where(is_known, factors, 0.0)).tolist()))


def _find_phases(times: Times, season: Season) -> NDArray[np.int64]:
    if season == "hour":
        return times % _DAY_US // _HOUR_US
    return (times // _DAY_US + _FIRST_WEEKDAY) % 7


def _list_ratios(times: Times, profile: CalendarProfile) -> Array:
    """Return the logarithm of the factor of each time."""
    ratios: Array = np.log(np.array(profile.factors))[_find_phases(times, profile.season)]
    return ratios


def _agree(odd: Array, even: Array) -> bool:
    """Return whether the phases of odd and even periods correlate."""
    first, second = odd - odd.mean(), even - even.mean()
    norm = math.sqrt(float(first @ first) * float(second @ second))
    return norm > 0 and float(first @ second) >= _AGREEMENT_MINIMUM * norm


def _removes_variance(around: Array, left: Array) -> bool:
    """Return whether what is left without the profile varies clearly less; values far from it do not count."""
    apart = np.abs(left - take_median(left))
    spread = DEVIATIONS_PER_MEDIAN * take_median(apart)
    is_usual = apart <= _FAR_SPREADS * spread
    before, after = (float(np.var(values[is_usual])) for values in (around, left))
    return after <= (1 - _REMOVED_MINIMUM) * before
