"""The ratio of two arms with an interval that holds at every number of pairs at once.

The logarithms of the ratios of pairs are taken as normal, with unknown mean and variance. For each possible mean, the
Bayes factor of a normally distributed standardized difference against none is a martingale if that mean is true
(Lai 1976; Wang and Ramdas, "Anytime-valid t-tests and confidence sequences for Gaussian means with unknown variance",
2023). By Ville's inequality the probability that it ever reaches 1 / error rate is at most the error rate. The interval
has the means for which it is below that. It therefore holds however often one looks, and whenever one stops.
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
