"""Significance of simultaneous changes in one scope, with a family-wise error rate over the fleet. Pure.

The detector's confidence per series is not enough among hundreds of series: correlated noise causes "one in a million"
changes more often than that. The rate was measured; tested is the chance that noise alone causes that many simultaneous
changes, each at least as certain.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# Family-wise false-positive rate per sweep of the fleet; four sweeps a day give one false incident in 25 days.
FALSE_CHANCE: Final = 0.01
# False discovery rate of the changes that join an incident.
_FALSE_SHARE: Final = 0.1
# Rate per run at which noise causes a change of one direction in one metric of one series whose chance, according to
# the detector, is at most x: an upper bound of what was counted on realistic histories
# (benchmarks/fleet_noise.py, 89 600 runs: 0.40 in 1 000 in all; .15, .078, .039, .017 with x = 1e-3, 1e-4, 1e-5, 1e-6).
_RATE_MAXIMUM: Final = 1e-3
_RATE_FACTOR: Final = 2.5e-3
# Runs within which changes count as simultaneous: the same one, and one on either side.
_TOGETHER_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class ChangeClaim:
    """A change of one metric of one series. chance: that noise alone causes it, according to the detector.

    counts: whether it is evidence; otherwise it can only join an event of others.
    """

    key: int
    cell: int
    chance: float
    counts: bool = True


def estimate_rate(chance: float) -> float:
    """Return the rate per run of changes by noise with at most this chance, in one metric of one series."""
    return min(_RATE_FACTOR * math.cbrt(max(chance, 0.0)), _RATE_MAXIMUM)


def measure_joint_chance(claims: Iterable[ChangeClaim], *, tests: int) -> float:
    """Return the chance that noise causes this many simultaneous changes in `tests` metrics; 1 if none counts.

    The minimum over all numbers of series (Berk and Jones 1979) of the chance that one change begins at this run and
    the others within reach of it, each at least as certain (Poisson), times 1 + log₂ of the numbers tried. A series
    counts once, by its most certain metric.
    """
    strongest: dict[int, float] = {}
    for claim in claims:
        if claim.counts:
            strongest[claim.cell] = min(claim.chance, strongest.get(claim.cell, 1.0))
    if not strongest:
        return 1.0
    least = min(
        _expect(chance, tests) * _find_tail(others, _TOGETHER_RUNS * _expect(chance, tests))
        for others, chance in enumerate(sorted(strongest.values()))
    )
    return min(least * (1 + math.log2(len(strongest))), 1.0)


def filter_significant(claims: Sequence[ChangeClaim], *, tests: int, scopes: int) -> frozenset[int]:
    """Return the keys of the significant claims among simultaneous changes of one scope.

    tests: judged metrics of series in the scope; scopes: of the fleet. Empty if noise explains all of them.
    """
    if measure_joint_chance(claims, tests=tests) > FALSE_CHANCE / max(scopes, 1):
        return frozenset()
    return find_belonging(claims, tests=tests)


def find_belonging(claims: Sequence[ChangeClaim], *, tests: int) -> frozenset[int]:
    """Return the keys of the claims that belong to a significant event, at a false discovery rate of 10 %.

    Benjamini and Hochberg 1995.
    """
    ordered = sorted(claims, key=lambda claim: (claim.chance, claim.key))
    count = max(
        (
            rank
            for rank, claim in enumerate(ordered, start=1)
            if _TOGETHER_RUNS * _expect(claim.chance, tests) <= _FALSE_SHARE * rank
        ),
        default=0,
    )
    return frozenset(claim.key for claim in ordered[:count])


def _expect(chance: float, tests: int) -> float:
    """Return the expected number of changes by noise at one run with this chance or less."""
    return max(tests, 1) * estimate_rate(chance)


def _find_tail(count: int, expected: float) -> float:
    """Return the chance of `count` or more events: the upper tail of the Poisson distribution."""
    if count == 0:
        return 1.0
    if expected <= 0:
        return 0.0
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    tail, place = term, count
    while term > 1e-12 * tail and place < count + 1000:
        place += 1
        term *= expected / place
        tail += term
    return min(tail, 1.0)
