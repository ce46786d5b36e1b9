"""When a series is evaluated and from which values: evaluation points, repetitions, calendar profile, first runs. Pure.

Evaluation points: a metric of a series is evaluated at every 16th run, and at each run that ends a window of runs that
is far enough from those before it to be a candidate for a change. This depends on its values alone: a series that is
evaluated run by run, and one that is evaluated once with all runs, are evaluated at the same points.

Repetitions: ten runs of one night are one observation if they agree with each other and differ from those of the next
night; as ten observations they would make a level of every night.

First runs: below 6 runs before a change no rank test can reach a useful score, and a t test of so few runs depends on
their own spread, which is often too small by chance. The usual spread of comparable series is the prior.

Calendar profile: it is used only where odd and even days or weeks agree, so that neither noise nor a single event
becomes one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from benchapp.detection.changepoints.detector import LEAST_SPREAD
from benchapp.detection.changepoints.estimates import SPIKE_SPREADS, measure_spread
from benchapp.detection.changepoints.segmentation import (
    DEVIATIONS_PER_MEDIAN,
    LEAST_LEVEL,
    Groups,
    arrange_groups,
    normalize_t_score,
    take_group_medians,
    take_median,
)

Array = NDArray[np.float64]

# Runs after which a series is evaluated at the latest.
EVALUATED_EVERY: Final = 16
# Runs up to which every run is evaluated: the windows before the newest runs are too short.
ALWAYS_EVALUATED: Final = 48
# Runs up to a point of the grid from which its reference is measured.
_REFERENCE_RUNS: Final = 128
# The newest 3 to 64 runs are compared with the 64 before them, and with as many before them.
_WINDOW: Final = 64
_EQUAL_WINDOWS: Final = (3, 5, 8, 16, 32)
_NEWEST: Final = np.array([*range(LEAST_LEVEL, _WINDOW + 1), *_EQUAL_WINDOWS])
_BEFORE: Final = np.array([*(_WINDOW for _ in range(LEAST_LEVEL, _WINDOW + 1)), *_EQUAL_WINDOWS])
# Difference of the means in standard errors. Of 70 changes that the detector found for the first time as a simulated
# fleet grew run by run, 69 were at such a run; in 12 % of the runs without a change one of three metrics is.
_CONTRAST_MINIMUM: Final = 3.5
# Share of the threshold of the metric that the means must differ by: less than 1, because a change is measured at the
# place with the largest difference.
_CHANGE_SHARE: Final = 0.8
# Multiple of the threshold beyond which a single value counts no more: less than three times the share above, so that
# one bad run is quiet.
_MOST_CHANGES: Final = 2.0
_ERRORS: Final = np.sqrt(1 / _NEWEST + 1 / _BEFORE)


@dataclass(frozen=True, slots=True)
class Reference:
    """Median and spread of the logarithms of a metric before a point of the grid."""

    median: float
    spread: float


def find_evaluation_points(
    values: Array, positions: NDArray[np.int64], *, smallest_changes: Sequence[float]
) -> tuple[int, ...]:
    """Return of each metric how many runs its last evaluation point has.

    values: a row for each metric, a column for each run, oldest first; NaN where unknown. positions: of the runs in the
    series, ascending. smallest_changes: threshold of each metric.
    """
    metrics, count = values.shape
    grid = np.flatnonzero(np.diff(positions // EVALUATED_EVERY))
    end = int(grid[-1]) + 2 if len(grid) else 0
    first = max(end - _REFERENCE_RUNS, 0)
    references = _measure_references(values[:, first:end]) if end >= ALWAYS_EVALUATED else None
    if references is None or end == count:
        return tuple([count] * metrics)
    flags = _flag_runs(values[:, first:], references, start=end - first, smallest_changes=smallest_changes)
    ends: list[int] = np.where(flags.any(axis=1), count - flags[:, ::-1].argmax(axis=1), end).tolist()
    return tuple(ends)


def _flag_runs(
    values: Array,
    references: Sequence[Reference | None],
    *,
    start: int,
    smallest_changes: Sequence[float],
) -> NDArray[np.bool_]:
    """Return for each metric, a row, and each run from `start` on whether it is evaluated; otherwise it is quiet.

    values: from the first run of the references on, a row for each metric.
    """
    # A metric without a reference is evaluated with its first value.
    flags: NDArray[np.bool_] = np.isfinite(values[:, start:])
    known = [number for number, reference in enumerate(references) if reference is not None]
    limits = np.array(
        [
            (reference.median, reference.spread, math.log1p(smallest))
            for reference, smallest in zip(references, smallest_changes, strict=True)
            if reference is not None
        ]
    ).reshape(-1, 3)
    sums = np.pad(np.cumsum(_take_clipped_ratios(values[known], limits), axis=1), ((0, 0), (1, 0)))
    newest = values[known, start:]
    flags[known] = _find_contrasts(sums, start, limits) | ~(newest > 0) | ~np.isfinite(newest)
    return flags


def _take_clipped_ratios(values: Array, limits: Array) -> Array:
    """Return the logarithms relative to the median, clipped so that one bad run is quiet; a row for each limit."""
    median, spread, least = limits.T[:, :, np.newaxis]
    limit = np.maximum(SPIKE_SPREADS * spread, _MOST_CHANGES * least)
    # An evaluated run may be 0 or unknown.
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Array = np.clip(np.log(values) - median, -limit, limit)
    return ratios


def _find_contrasts(sums: Array, start: int, limits: Array) -> NDArray[np.bool_]:
    """Return for each row and each run from `start` on whether windows that end with it are far apart.

    sums: running sums of the clipped ratios of all runs, from 0.
    """
    ends = np.arange(start + 1, sums.shape[1])[:, np.newaxis]
    places = ends - _NEWEST
    before = np.minimum(_BEFORE, places)
    is_short = before < LEAST_LEVEL
    before = np.maximum(before, 1)
    here = sums[:, np.maximum(places, 0)]
    contrasts = np.abs(
        (sums[:, ends] - here) / _NEWEST - (here - sums[:, np.maximum(places - before, 0)]) / before
    )
    errors = np.where(before < _BEFORE, np.sqrt(1 / _NEWEST + 1 / before), _ERRORS)
    spread, least = limits[:, 1:2, np.newaxis], limits[:, 2:, np.newaxis]
    needed = np.maximum(_CHANGE_SHARE * least, _CONTRAST_MINIMUM * spread * errors)
    far: NDArray[np.bool_] = ((contrasts >= needed) & ~is_short).any(axis=2)
    return far


def _measure_references(values: Array) -> tuple[Reference | None, ...] | None:
    """Return the reference of each metric; None if only some of its values are known, or one is not positive."""
    references: list[Reference | None] = []
    for row in values:
        if np.isnan(row).all():
            references.append(None)
        elif np.isfinite(row).all() and row.min() > 0:
            ratios = np.log(row)
            spread = measure_spread(ratios, least=LEAST_SPREAD)
            references.append(Reference(take_median(ratios), spread))
        else:
            return None
    return tuple(references)


Times = NDArray[np.int64]
Places = NDArray[np.intp]

# Usual intervals between runs from which a pause begins another group.
_PAUSE_INTERVALS: Final = 4.0
# Minimum groups, and average runs in them.
_GROUPS_MINIMUM: Final = 5
_GROUP_RUNS_MINIMUM: Final = 3.0
# Squared differences of neighbors between groups, in multiples of those within: 1 for independent runs; 4 if three
# quarters of the variance are between groups. Medians, so that changes of level do not count.
_RATIO_MINIMUM: Final = 4.0


def find_repetitions(times: Times, values: Array) -> Places | None:
    """Return the index of the first run of each group of repetitions; None if runs are not repetitions.

    times: of the runs, ascending; values: finite, of the same length.
    """
    is_pause = _find_pauses(times)
    if is_pause is None:
        return None
    squares = np.diff(values) ** 2
    between, within = float(np.median(squares[is_pause])), float(np.median(squares[~is_pause]))
    if between <= _RATIO_MINIMUM * within:
        return None
    return np.concatenate([np.zeros(1, np.intp), np.flatnonzero(is_pause) + 1])


def may_have_repetitions(times: Times) -> bool:
    """Return whether runs are in groups that may be repetitions, whatever their values."""
    return _find_pauses(times) is not None


def _find_pauses(times: Times) -> NDArray[np.bool_] | None:
    """Return for each interval whether it separates two groups; None if runs are not in groups."""
    intervals = np.diff(times)
    if len(intervals) < _GROUPS_MINIMUM * _GROUP_RUNS_MINIMUM - 1:
        return None
    is_pause: NDArray[np.bool_] = intervals > _PAUSE_INTERVALS * take_median(intervals)
    groups = int(np.count_nonzero(is_pause)) + 1
    is_grouped = groups >= _GROUPS_MINIMUM and len(times) >= _GROUP_RUNS_MINIMUM * groups
    return is_pause if is_grouped else None


def merge_repetitions(values: Array, starts: Places) -> Array:
    """Return the median of each group."""
    return np.array([np.median(group) for group in np.split(values, starts[1:])])


# Runs of a series from which only the detector decides.
YOUNG_RUNS: Final = 15
# Minimum runs before and after a change. With 4 runs before it, almost twice as many changes were false.
BEFORE_MINIMUM: Final = 5
AFTER_MINIMUM: Final = 3
# Points of noise with the usual spread that are added to those of the series. The other limits are minimum
# requirements: normal score, shift in spreads, gap between both sides as share of the shift. Of series whose spreads
# vary as those of real histories, 0.5 % have a false change in their first 14 runs (benchmarks/detection.py).
_PRIOR_POINTS: Final = 8.0
_SCORE_MINIMUM: Final = 4.0
_SPREADS_MINIMUM: Final = 5.0
_GAP_MINIMUM: Final = 0.25


@dataclass(frozen=True, slots=True)
class YoungChange:
    """The first value of a new level of a young series. t_score: normal score; gap: as share of the shift."""

    index: int
    t_score: float
    gap: float


def find_young_change(
    values: Array, *, usual_spread: float, least_relative_change: float
) -> YoungChange | None:
    """Return the most certain change of 8 to 14 positive values, oldest first; None without one.

    usual_spread: relative, of series with the same workload. A t test whose variance is moderated by a prior: Smyth
    2004.
    """
    count = len(values)
    if not BEFORE_MINIMUM + AFTER_MINIMUM <= count < YOUNG_RUNS or values.min() <= 0:
        return None
    ratios = np.log(values)
    found = [
        change
        for place in range(BEFORE_MINIMUM, count - AFTER_MINIMUM + 1)
        if (
            change := _test_place(
                ratios, place, spread=usual_spread, least_shift=math.log1p(least_relative_change)
            )
        )
    ]
    return max(found, key=lambda change: change.t_score, default=None)


def _test_place(ratios: Array, place: int, *, spread: float, least_shift: float) -> YoungChange | None:
    before, after = ratios[:place], ratios[place:]
    shift = abs(float(after.mean() - before.mean()))
    gap = max(float(after.min() - before.max()), float(before.min() - after.max()))
    if shift < least_shift or gap < _GAP_MINIMUM * shift:
        return None
    freedom = len(ratios) - 2 + _PRIOR_POINTS
    squares = float(((before - before.mean()) ** 2).sum() + ((after - after.mean()) ** 2).sum())
    variance = (squares + _PRIOR_POINTS * spread * spread) / freedom
    if shift < _SPREADS_MINIMUM * math.sqrt(variance):
        return None
    t_squared = shift * shift / (variance * (1 / len(before) + 1 / len(after)))
    score = normalize_t_score(t_squared, freedom)
    return YoungChange(place, score, gap / shift) if score >= _SCORE_MINIMUM else None


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
    factors: Annotated[
        tuple[float, ...],
        Meta(description="relative to the usual run: 24 hours in UTC, or 7 weekdays from Monday"),
    ]


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
