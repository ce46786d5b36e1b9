"""Recovery: whether levels are back at those before their changes; test for suspected changes. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, log, sqrt
from statistics import median
from typing import Final, Protocol, TypeVar

import numpy as np

from benchapp.detection.changepoints.detector import LEAST_RELATIVE_CHANGE
from benchapp.detection.changepoints.estimates import describe_level
from benchapp.detection.rules.noise_profile import profile_noise

# Minimum runs that must be back; a single good run can be chance.
RUNS_MINIMUM: Final = 3
# Required runs are (this · spread / shift)²: their median is on the wrong side of the midpoint of both levels once in
# 1 000 times (its standard error is 1.25 σ/√k).
_SPREADS: Final = 8.0
# Standard error of a share over k runs, as that of their median: this · σ/√k.
_SHARE_ERROR: Final = 1.25
# Standard errors that separate the common share from the midpoint of both levels: once in 1 000 times by noise.
_SURE_ERRORS: Final = 3.0
# Spreads of a shift from which a series weighs no more: a series without noise does not decide for all.
_SPREADS_MAXIMUM: Final = 5.0
# Common share of the steps up to which they are back, and from which they are there again.
_BACK_SHARE: Final = 0.25
AGAIN_SHARE: Final = 0.75
# Share of the step by which a series may be beyond either level: one that improved does not outweigh one that is bad.
_BEYOND: Final = 0.5
# Share of a step that an improvement may leave, to be the recovery from it.
_LEFT_SHARE: Final = 0.35
# Share of a step by which a value may be beyond either level: an outlier is not evidence for the next runs, too.
_VALUE_BEYOND: Final = 1.0
# Log likelihood ratio of a return to a level that lasts. Noise alone reached it once in 7 000 runs of simulated hosts
# whose pooled level stayed 3 or 5 % lower. Ratios of 50 and 200 were reached as often; 1 000 never, but with it one of
# ten recoveries is found later.
_RETURN_LOG_RATIO: Final = log(100)
# Newest runs that are compared at most, as by the weight of the series.
RUNS_MAXIMUM: Final = 20


def is_recovery(level: float, *, before_median: float, after_median: float) -> bool:
    """Return whether a later level leaves at most 35 % of the step between two levels."""
    shift = after_median - before_median
    return bool(shift) and (level - before_median) / shift <= _LEFT_SHARE


class LevelStep(Protocol):
    """A change of one metric of one series."""

    @property
    def id(self) -> int: ...
    @property
    def is_regression(self) -> bool: ...
    @property
    def incident_id(self) -> int | None: ...
    @property
    def before_median(self) -> float: ...
    @property
    def after_median(self) -> float: ...


_Change = TypeVar("_Change", bound=LevelStep)


def find_recoveries(changes: Sequence[_Change]) -> dict[int, _Change]:
    """Return the improvements that end a regression, by id, each with the newest regression that it ends.

    changes: of one metric of one series, oldest first. An improvement with its own incident ends none.
    """
    found = {}
    for place, change in enumerate(changes):
        if change.is_regression or change.incident_id is not None:
            continue
        for earlier in reversed(changes[:place]):
            if earlier.is_regression and is_recovery(
                change.after_median, before_median=earlier.before_median, after_median=earlier.after_median
            ):
                found[change.id] = earlier
                break
    return found


def has_returned(after: Sequence[float], *, before_median: float, after_median: float, spread: float) -> bool:
    """Return whether the newest values since a change are at the level before it, or beyond it on the other side.

    after: finite values from the change on, oldest first. spread: robust standard deviation of a level, in their unit.
    3 runs are required, more if the change is small relative to the spread.
    """
    shift = after_median - before_median
    if shift == 0:
        return False
    runs = max(RUNS_MINIMUM, ceil((_SPREADS * spread / abs(shift)) ** 2))
    if len(after) <= runs:
        return False
    # Share of the step from the old to the new level.
    shares = [(value - before_median) / shift for value in after[-runs:]]
    return max(shares[-RUNS_MINIMUM:]) < 1 / 2 and median(shares) < 1 / 4


def has_regressed_again(after: Sequence[float], *, before_median: float, after_median: float) -> bool:
    """Return whether the newest three values are all nearer to the level after a change than to the one before it.

    A single bad run does not end a recovery.
    """
    middle = (before_median + after_median) / 2
    side = after_median > before_median
    return len(after) >= RUNS_MINIMUM and all((value > middle) == side for value in after[-RUNS_MINIMUM:])


def find_end(after: Sequence[float], *, before_median: float, after_median: float) -> int:
    """Return for how many values the level after a change lasts: until three in a row are nearer to the old level.

    One or two at the end count as such a row. len(after) if it still lasts.
    """
    middle = (before_median + after_median) / 2
    side = after_median > before_median
    is_old = [(value > middle) != side for value in after]
    for place in range(1, len(is_old)):
        if all(is_old[place : place + RUNS_MINIMUM]):
            return place
    return len(after)


def count_returned_runs(after: Sequence[float], *, before_median: float, after_median: float) -> int:
    """Return how many of the newest values are back: until, from the end, three in a row are nearer to the new level.

    after: finite values from the change on, oldest first.
    """
    return find_end(after[::-1], before_median=after_median, after_median=before_median)


@dataclass(frozen=True, slots=True)
class LevelReturn:
    """Whether a level is back at the one before a change, and the mean of the newest 3 runs is nearer to that one."""

    has_returned: bool
    is_nearer: bool


NOT_RETURNED: Final = LevelReturn(has_returned=False, is_nearer=False)


def measure_return(
    after: Sequence[float],
    *,
    before_median: float,
    after_median: float,
    spread: float,
    correlation: float,
) -> LevelReturn:
    """Test whether the newest runs since a change are back at the level before it, by the likelihood of both.

    after: finite values from the change on, oldest first. spread: standard deviation of the noise, in their unit;
    correlation: of consecutive runs, 0 to below 1. The newest 3 to 20 runs that differ most from the changed level must
    be 100 times as likely after a return as without one. They leave at most 35 % of the step on average, and none of
    the newest 3 more than three quarters. The noise is an autoregressive process of order 1: correlated runs follow
    each other, and rarely differ by a whole step. The first run of a return counts fully, the later ones less.
    """
    shift = after_median - before_median
    if shift == 0 or len(after) <= RUNS_MINIMUM:
        return NOT_RETURNED
    shares = [_limit_share((value - before_median) / shift) for value in after]
    newest = shares[-RUNS_MINIMUM:]
    share_spread = max(spread / abs(shift), 1 / _SPREADS_MAXIMUM)
    runs = _count_returned(shares)
    has_returned = (
        sum(shares[-runs:]) / runs <= _LEFT_SHARE
        and max(newest) <= AGAIN_SHARE
        and _compare_return(shares[-runs - 1 :], spread=share_spread, correlation=correlation)
        >= _RETURN_LOG_RATIO
    )
    return LevelReturn(has_returned, is_nearer=sum(newest) / RUNS_MINIMUM < 1 / 2)


def _limit_share(share: float) -> float:
    return min(max(share, -_VALUE_BEYOND), 1 + _VALUE_BEYOND)


def _count_returned(shares: Sequence[float]) -> int:
    """Return how many of the newest shares, 3 to 20, differ most from 1: their mean, in standard errors.

    If any number with a low mean sufficed, most levels that are half way back would soon seem to have returned.
    """
    gains, total = {}, 0.0
    for runs, share in enumerate(reversed(shares[-min(len(shares) - 1, RUNS_MAXIMUM) :]), 1):
        total += 1 - share
        gains[runs] = max(total, 0.0) ** 2 / runs
    return max(range(RUNS_MINIMUM, len(gains) + 1), key=lambda runs: gains[runs])


def _compare_return(shares: Sequence[float], *, spread: float, correlation: float) -> float:
    """Return the log likelihood ratio of a return after the first share, to a level that lasts. spread: in shares."""
    deviations = [share - 1 for share in shares]
    lasting = [new - correlation * old for old, new in pairwise(deviations)]
    # The first innovation contains the whole step, the later ones what the correlation does not explain.
    returned = [lasting[0] + 1, *(innovation + 1 - correlation for innovation in lasting[1:])]
    squares = sum(one * one for one in lasting) - sum(one * one for one in returned)
    return squares / (2 * spread**2 * (1 - correlation**2))


@dataclass(frozen=True, slots=True)
class ChangedLevel:
    """The levels around one change, with the newest values of its series, oldest first, in their unit.

    Spreads are robust standard deviations of the levels. Changes of several metrics of a series are one observation.
    """

    series_id: int
    before_median: float
    after_median: float
    before_spread: float
    after_spread: float
    newest: Sequence[float]

    @property
    def shift(self) -> float:
        """Return the difference of the levels."""
        return self.after_median - self.before_median


def have_returned(levels: Sequence[ChangedLevel]) -> bool:
    """Return whether the newest runs of changed levels are, by the weight of all, back at the levels before.

    Each change weighs by the square of its shift in spreads, at most 25, so that noisy series do not delay the others.
    The newest 3 runs must be back; more are compared if few or noisy series do not suffice. False without levels.
    """
    runs_maximum = max((len(level.newest) for level in levels), default=0)
    for runs in range(RUNS_MINIMUM, runs_maximum + 1):
        spreads = [max(level.before_spread, level.after_spread) for level in levels]
        share = _measure_share(levels, spreads, runs)
        if share is None or share.mean >= _BACK_SHARE:
            return False
        if share.mean + _SURE_ERRORS * share.error < 1 / 2:
            return True
    return False


def have_changed_again(
    levels: Sequence[ChangedLevel], *, runs: int = RUNS_MINIMUM, least_share: float = AGAIN_SHARE
) -> bool:
    """Return whether the newest runs of changed levels are, by the weight of all, at the levels after the change.

    runs: that must be there, the newest 3 of them, too; more are compared if few or noisy series do not suffice.
    least_share: of the steps that must be there.
    """
    # The noise of the level to which they had returned: that after the change may include both levels.
    spreads = [level.before_spread for level in levels]
    for compared in range(RUNS_MINIMUM, max((len(level.newest) for level in levels), default=0) + 1):
        share = _measure_share(levels, spreads, compared)
        if share is None or share.mean <= least_share:
            return False
        is_certain = share.mean - _SURE_ERRORS * share.error > _BACK_SHARE
        if compared >= runs and is_certain:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Share:
    """Share of the steps to the new levels that is left, 0 to 1, with its standard error."""

    mean: float
    error: float


def _measure_share(levels: Sequence[ChangedLevel], spreads: Sequence[float], runs: int) -> _Share | None:
    """Return the weighted share of the newest runs; None if no series has so many. spreads: of single runs."""
    weights: dict[int, list[float]] = {}
    shares: dict[int, list[float]] = {}
    for level, spread in zip(levels, spreads, strict=True):
        if level.shift == 0 or len(level.newest) < runs:
            continue
        shift_spreads = abs(level.shift) / spread if spread > 0 else _SPREADS_MAXIMUM
        weights.setdefault(level.series_id, []).append(min(shift_spreads, _SPREADS_MAXIMUM) ** 2)
        steps = [(value - level.before_median) / level.shift for value in level.newest[-runs:]]
        # Outliers, and levels beyond both, count as one step more at most.
        mean = sum(min(max(step, -1.0), 2.0) for step in steps) / runs
        shares.setdefault(level.series_id, []).append(min(max(mean, -_BEYOND), 1 + _BEYOND))
    if not weights:
        return None
    # Metrics of one series have the same noise: a series weighs as much as its most certain metric.
    total = sum(max(of) for of in weights.values())
    mean = sum(
        max(of) * sum(w * s for w, s in zip(of, shares[key], strict=True)) / sum(of)
        for key, of in weights.items()
    )
    return _Share(mean / total, _SHARE_ERROR / sqrt(runs * total))


# Minimum known runs of the current level, and the maximum that are read.
LEAST_KNOWN_RUNS: Final = 10
MOST_KNOWN_RUNS: Final = 60
# Newest runs that are tested, and how many of them must be outliers: a single one is a spike.
NEWEST_RUNS: Final = 3
FAR_RUNS: Final = 2
# Spreads. The newest and one of two earlier runs exceed it on one side once in 250 million runs for Gaussian noise,
# once in 26 000 for tails of t with 3 degrees of freedom.
FAR_SPREADS: Final = 4.0
# Runs by which the start of a change may shift without being another change.
SAME_CHANGE_RUNS: Final = 5
# Runs for which a change must be detected to be confirmed.
CONFIRMED_AFTER_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The newest runs from `index` on are outliers of the current level; relative to its median, None if that is 0."""

    index: int
    far_runs: int
    relative_change: float | None
    spreads: float


def suspect_newest(
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    least_relative_change: float = LEAST_RELATIVE_CHANGE,
) -> Suspicion | None:
    """Return a suspicion if the newest value and one of the two before are outliers of the current level on one side.

    Outliers are 4 spreads from its median, outside of the range of the level, and differ by the least relative change.
    The current level begins at the last of the changes' indices, and is tested from 10 runs on. Non-finite values are
    ignored.
    """
    finite = _find_current(values, changes)
    known, newest = finite[:-NEWEST_RUNS][-MOST_KNOWN_RUNS:], finite[-NEWEST_RUNS:]
    if len(known) < LEAST_KNOWN_RUNS or newest[-1] != len(values) - 1:
        return None
    level = np.array([values[index] for index in known], dtype=np.float64)
    median, spread = _measure_known(level)
    side = 1 if values[newest[-1]] > median else -1
    beyond = float((level * side).max())
    reach = max(FAR_SPREADS * spread, least_relative_change * abs(median))
    far = [
        index for index in newest if (values[index] - median) * side > reach and values[index] * side > beyond
    ]
    if len(far) < FAR_RUNS or far[-1] != newest[-1]:
        return None
    distance = describe_level(np.array([values[index] for index in far])).median - median
    return Suspicion(
        index=far[0],
        far_runs=len(far),
        relative_change=distance / abs(median) if median else None,
        spreads=abs(distance) / spread if spread > 0 else math.inf,
    )


def find_suspicion_band(
    values: Sequence[float],
    changes: Iterable[int] = (),
    *,
    least_relative_change: float = LEAST_RELATIVE_CHANGE,
) -> tuple[float, float] | None:
    """Return low and high outside of which the next value is an outlier of the current level; None below 10 runs."""
    known = _find_current(values, changes)[: -(NEWEST_RUNS - 1)][-MOST_KNOWN_RUNS:]
    if len(known) < LEAST_KNOWN_RUNS:
        return None
    level = np.array([values[index] for index in known], dtype=np.float64)
    median, spread = _measure_known(level)
    reach = max(FAR_SPREADS * spread, least_relative_change * abs(median))
    return min(median - reach, float(level.min())), max(median + reach, float(level.max()))


def _find_current(values: Sequence[float], changes: Iterable[int]) -> list[int]:
    """Return the indices of the finite values of the current level."""
    start = max((index for index in changes if 0 < index < len(values)), default=0)
    return [index for index in range(start, len(values)) if math.isfinite(values[index])]


def _measure_known(level: np.ndarray) -> tuple[float, float]:
    """Return the median of a level and its spread, at least a tenth of the smallest change."""
    median = describe_level(level).median
    return median, max(profile_noise(level).spread, LEAST_RELATIVE_CHANGE / 10) * abs(median)
