"""A/B experiments: pairs of runs, an interval that holds at every look, drift. Pure.

The ratio of two arms with an interval that holds at every number of pairs at once. The logarithms of the ratios of
pairs are taken as normal, with unknown mean and variance. For each possible mean, the Bayes factor of a normally
distributed standardized difference against none is a martingale if that mean is true (Lai 1976; Wang and Ramdas,
"Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance", 2023). By Ville's
inequality the probability that it ever reaches 1 / error rate is at most the error rate. The interval has the means
for which it is below that. It therefore holds however often one looks, and whenever one stops.
"""

from dataclasses import dataclass
from math import erfc, exp, inf, log, sqrt
from statistics import NormalDist
from typing import Annotated, Final, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
# Variance of the standardized difference (difference / standard deviation of a pair) in the alternative. It must not
# depend on the values. 1 needs the fewest pairs for differences near one standard deviation.
_ALTERNATIVE_VARIANCE: Final = 1.0
POWER: Final = 0.8
# Of a plan: about two months of ten runs a day.
PLANNED_PAIRS_MAXIMUM: Final = 300
# The interval is finite from here on at an error rate of 0.05, and later for smaller ones.
PAIRS_MINIMUM: Final = 5

Outcome = Literal["different", "equivalent", "undecided"]


@dataclass(frozen=True, slots=True)
class Look:
    """What was known after so many pairs. low, high: interval of the ratio; None while it is unbounded."""

    pairs: int
    ratio: Annotated[float, Meta(description="geometric mean of B / A")]
    low: Annotated[float | None, Meta(description="of its interval; null as `ratio_low`")]
    high: float | None


@dataclass(frozen=True, slots=True)
class PairedResult:
    """Two arms after all pairs.

    looks: after each pair from the first. spread: standard deviation of the logarithms of the ratios; None for fewer
    than two pairs. effect: difference of the logarithms / spread; None without a spread. p: smallest error rate at
    which some interval so far excludes 1; valid at any time. outcome: different if the interval excludes 1,
    equivalent if it lies within the difference to detect in both directions. decided_after: number of pairs from which
    on the outcome is what it is; None while undecided.
    """

    looks: tuple[Look, ...]
    spread: float | None
    effect: float | None
    p: float
    outcome: Outcome
    decided_after: int | None

    @property
    def last(self) -> Look:
        """Return what is known now."""
        return self.looks[-1]


def evaluate_pairs(log_ratios: _Floats, *, error_rate: float, difference: float) -> PairedResult:
    """Evaluate the logarithms of ratios of at least one pair, in the order of time; shape (n,).

    difference: relative, above 0 and below 1. error_rate: that the interval misses the ratio at any look.
    """
    if not len(log_ratios):
        raise ValueError("no pairs")
    counts = np.arange(1, len(log_ratios) + 1)
    means = np.cumsum(log_ratios) / counts
    # Around the first value, so that the difference of the squares keeps its digits.
    shifted = log_ratios - log_ratios[0]
    squares = np.cumsum(shifted**2) - np.cumsum(shifted) ** 2 / counts
    deviations = np.sqrt(np.maximum(squares, 0) / np.maximum(counts - 1, 1))
    radii = [
        _find_threshold(n, error_rate) * deviation / sqrt(n) if n >= PAIRS_MINIMUM else inf
        for n, deviation in zip(counts.tolist(), deviations.tolist(), strict=True)
    ]
    looks = tuple(
        _make_look(n, mean, radius)
        for n, mean, radius in zip(counts.tolist(), means.tolist(), radii, strict=True)
    )
    outcomes = [_judge(look, difference) for look in looks]
    outcome = outcomes[-1]
    since = next((n for n in range(len(outcomes), 0, -1) if outcomes[n - 1] != outcome), 0)
    spread = float(deviations[-1]) if len(log_ratios) > 1 else None
    return PairedResult(
        looks=looks,
        spread=spread,
        effect=float(means[-1]) / spread if spread else None,
        p=_find_p(counts, means, deviations),
        outcome=outcome,
        decided_after=None if outcome == "undecided" else since + 1,
    )


def count_required_pairs(spread: float, *, error_rate: float, difference: float) -> int | None:
    """Return the number of pairs that finds a relative difference with a probability of POWER.

    spread: standard deviation of the logarithm of the ratio of a pair, √2 times the relative one of a run. As many as
    the interval needs to be finite, also if it is 0. None if more than PLANNED_PAIRS_MAXIMUM are required.
    """
    distance = log(1 + difference) / spread if spread > 0 else inf
    quantile = NormalDist().inv_cdf(POWER)
    for pairs in range(PAIRS_MINIMUM, PLANNED_PAIRS_MAXIMUM + 1):
        threshold = _find_threshold(pairs, error_rate)
        # The standard deviation of a noncentral t is above 1, as that of the pairs is estimated as well.
        needed = threshold + quantile * sqrt(1 + threshold**2 / (2 * pairs))
        if needed < inf and sqrt(pairs) * distance >= needed:
            return pairs
    return None


def _make_look(pairs: int, mean: float, radius: float) -> Look:
    if not radius < inf:
        return Look(pairs, exp(mean), None, None)
    return Look(pairs, exp(mean), exp(mean - radius), exp(mean + radius))


def _judge(look: Look, difference: float) -> Outcome:
    if look.low is None or look.high is None:
        return "undecided"
    if not look.low <= 1 <= look.high:
        return "different"
    return "equivalent" if 1 - difference < look.low and look.high < 1 + difference else "undecided"


def _find_threshold(pairs: int, error_rate: float) -> float:
    """Return the |t| of so many pairs at which the Bayes factor reaches 1 / error_rate; inf if none does."""
    shrink = 1 / (1 + pairs * _ALTERNATIVE_VARIANCE)
    growth = exp(2 / pairs * (-log(error_rate) - log(shrink) / 2))
    if growth * shrink >= 1:
        return inf
    return sqrt((pairs - 1) * (growth - 1) / (1 - growth * shrink))


def _find_p(counts: NDArray[np.int64], means: _Floats, deviations: _Floats) -> float:
    """Return 1 / the largest Bayes factor so far of a difference against none, at most 1."""
    is_known = (counts >= PAIRS_MINIMUM) & ((deviations > 0) | (means != 0))
    n, shift, spread = counts[is_known], means[is_known], deviations[is_known]
    if not len(n):
        return 1.0
    shrink = 1 / (1 + n * _ALTERNATIVE_VARIANCE)
    # t² / (n - 1) = n mean² / squares, as shares of both, so that a spread of 0 is no division by 0.
    between, within = n * shift**2, (n - 1) * spread**2
    logs = np.log(shrink) / 2 + n / 2 * (np.log(within + between) - np.log(within + shrink * between))
    return float(min(1.0, np.exp(-logs.max())))


def find_p_of_t(t: float, degrees: int) -> float:
    """Return the two-sided p of Student's t for degrees of freedom from 3 on, within a tenth of it.

    Normal approximation of Wallace (1959).
    """
    scale = (8 * degrees + 1) / (8 * degrees + 3)
    return erfc(scale * sqrt(degrees * log(1 + t * t / degrees) / 2))


_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ArmRuns:
    """The runs of one arm. at: times in any unit, the same for both arms; values: above 0, in any unit; both (n,)."""

    at: NDArray[np.int64] | _Floats
    values: _Floats


@dataclass(frozen=True, slots=True)
class RunPairs:
    """Neighbors in time, one of each arm, in the order of time; each array (n,).

    a, b: indices of the runs in their arms. log_ratios: ln(value of B / value of A). is_a_first: the order within the
    pair. unpaired: runs without a neighbor of the other arm.
    """

    a: _Integers
    b: _Integers
    log_ratios: _Floats
    is_a_first: NDArray[np.bool_]
    unpaired: int


def pair_runs(a: ArmRuns, b: ArmRuns) -> RunPairs:
    """Pair each run with the next run if that is of the other arm, each run once.

    Of several runs of one arm in succession only the last can be paired with the next of the other arm: those before
    are further away in time. A pair depends on no later run, so that more runs do not change earlier pairs. Raises
    ValueError for values that are not above 0.
    """
    for arm in (a, b):
        if not np.all(np.isfinite(arm.values) & (arm.values > 0)):
            raise ValueError("the values of an arm are above 0")
    arms = np.concatenate((np.zeros(len(a.at), dtype=np.int64), np.ones(len(b.at), dtype=np.int64)))
    places = np.concatenate((np.arange(len(a.at)), np.arange(len(b.at))))
    order = np.argsort(np.concatenate((a.at, b.at)), kind="stable")
    found: list[tuple[int, int, bool]] = []
    waiting: tuple[int, int] | None = None
    for arm, place in zip(arms[order].tolist(), places[order].tolist(), strict=True):
        if waiting is None or waiting[0] == arm:
            waiting = arm, place
            continue
        found.append((waiting[1], place, True) if arm else (place, waiting[1], False))
        waiting = None
    first, second = (np.array([pair[side] for pair in found], dtype=np.int64) for side in (0, 1))
    return RunPairs(
        a=first,
        b=second,
        log_ratios=np.log(b.values[second] / a.values[first]),
        is_a_first=np.array([pair[2] for pair in found], dtype=bool),
        unpaired=len(order) - 2 * len(found),
    )


def order_arms(pairs: int) -> str:
    """Return the arms of so many pairs in ABBA order: "abbaabba" for four.

    The order within the pairs alternates, so that a linear drift cancels over two pairs.
    """
    return "".join("ba" if place % 2 else "ab" for place in range(pairs))


# Of each check. They are three, and made at every look: a stricter limit than that of a single test.
CHECK_LIMIT: Final = 0.01
# Below, a check has too few values to find anything.
_PAIRS_MINIMUM: Final = 5
# Share of pairs in the same order from which on a linear drift does not cancel.
_SAME_ORDER_MAXIMUM: Final = 2 / 3

Caveat = Literal["not-interleaved", "unbalanced", "drift", "difference-drifts", "order"]


@dataclass(frozen=True, slots=True)
class ArmDrift:
    """A relative change, 0.02 for +2 %, and its two-sided p in one look."""

    change: float
    p: float

    @property
    def is_present(self) -> bool:
        """Return whether it is more than chance."""
        return self.p < CHECK_LIMIT


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """drift: of both arms over the experiment, which pairs in ABBA order cancel. difference: of B / A over the
    experiment. order: of B / A if B is first against A first. Each None for fewer than five pairs, or if all pairs
    have one order or time.
    """

    drift: ArmDrift | None
    difference: ArmDrift | None
    order: ArmDrift | None
    caveats: tuple[Caveat, ...]


def check_drift(a: ArmRuns, b: ArmRuns, pairs: RunPairs) -> DriftCheck:
    """Look for drift in the values of both arms, in their ratio, and by the order within pairs."""
    drift = difference = order = None
    if len(pairs.a) >= _PAIRS_MINIMUM:
        first, second = a.at[pairs.a].astype(float), b.at[pairs.b].astype(float)
        drift = _fit_trend((first, np.log(a.values[pairs.a])), (second, np.log(b.values[pairs.b])))
        difference = _fit_trend(((first + second) / 2, pairs.log_ratios))
        order = _compare_orders(pairs)
    return DriftCheck(drift, difference, order, tuple(_list_caveats(pairs, drift, difference, order)))


def _list_caveats(
    pairs: RunPairs, drift: ArmDrift | None, difference: ArmDrift | None, order: ArmDrift | None
) -> list[Caveat]:
    found: list[Caveat] = []
    count = len(pairs.a)
    if pairs.unpaired > 2 * count:
        found.append("not-interleaved")
    first = int(pairs.is_a_first.sum())
    if count >= _PAIRS_MINIMUM and max(first, count - first) > _SAME_ORDER_MAXIMUM * count:
        found.append("unbalanced")
    checks: tuple[tuple[Caveat, ArmDrift | None], ...] = (
        ("drift", drift),
        ("difference-drifts", difference),
        ("order", order),
    )
    return found + [name for name, shift in checks if shift is not None and shift.is_present]


def _fit_trend(*groups: tuple[_Floats, _Floats]) -> ArmDrift | None:
    """Return the change over the whole span by a common slope of groups with separate means; None without a span."""
    times = np.concatenate([at for at, _ in groups])
    span = float(times.max() - times.min())
    if span <= 0:
        return None
    x = np.concatenate([(at - at.mean()) / span for at, _ in groups])
    y = np.concatenate([values - values.mean() for _, values in groups])
    width = float((x**2).sum())
    if width <= 0:
        return None
    slope = float((x * y).sum()) / width
    degrees = len(x) - len(groups) - 1
    variance = float(((y - slope * x) ** 2).sum()) / degrees / width
    return _make_drift(slope, variance, degrees)


def _compare_orders(pairs: RunPairs) -> ArmDrift | None:
    """Return the ratio of pairs with B first against those with A first; None for fewer than two of either."""
    groups = [pairs.log_ratios[pairs.is_a_first == is_first] for is_first in (True, False)]
    if min(map(len, groups)) < 2:
        return None
    degrees = len(pairs.log_ratios) - 2
    pooled = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / degrees
    distance = float(groups[1].mean() - groups[0].mean())
    return _make_drift(distance, pooled * sum(1 / len(group) for group in groups), degrees)


def _make_drift(log_change: float, variance: float, degrees: int) -> ArmDrift:
    # Exact values, as of a counter: any change is a change.
    if variance <= 1e-24:
        return ArmDrift(exp(log_change) - 1, 0.0 if abs(log_change) > 1e-9 else 1.0)
    return ArmDrift(exp(log_change) - 1, find_p_of_t(log_change / sqrt(variance), degrees))
