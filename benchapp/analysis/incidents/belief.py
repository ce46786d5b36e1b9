"""Whether to believe that cells of one scope moved: many weak ones together at once, one alone late. Pure.

What a detector says of one cell cannot be taken at its word where hundreds are looked at: noise that wanders makes
changes of one in a million more often than that. How often it does was measured, and is what all is held against:
that so many cells of a scope began to move within the same runs, each at least so surely, by noise alone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# Chance of a false incident in one sweep over the whole fleet; four sweeps a day make one in 25 days.
FALSE_CHANCE: Final = 0.01
# Of the changes that join an incident at most so many are another's, or nobody's.
_FALSE_SHARE: Final = 0.1
# How often noise begins a change of one direction, in one metric of one cell, at a run, of which the detector says
# that noise makes it with a chance of at most x: a curve above what was counted on histories as real ones are
# (benchmarks/fleet_noise.py, 89 600 runs: 0.40 in 1 000 in all; .15, .078, .039, .017 with x = 1e-3, 1e-4, 1e-5, 1e-6).
_RATE_MAXIMUM: Final = 1e-3
_RATE_FACTOR: Final = 2.5e-3
# Runs within which changes count as begun together: the same one, and one to either side.
_TOGETHER_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class ChangeClaim:
    """That one metric of one cell moved. chance: as the detector has it, that noise alone made it.

    counts: whether it counts as evidence; one that does not may still belong to what the others show.
    """

    key: int
    cell: int
    chance: float
    counts: bool = True


def estimate_rate(chance: float) -> float:
    """Return how often noise makes a change of at most this chance begin at a run, in one metric of one cell."""
    return min(_RATE_FACTOR * math.cbrt(max(chance, 0.0)), _RATE_MAXIMUM)


def measure_surprise(claims: Iterable[ChangeClaim], *, tests: int) -> float:
    """Return the chance that noise makes so many of `tests` metrics move so surely around one run; 1 where none counts.

    The least over all counts of cells, as Berk and Jones 1979 have it, of: one begins at this run, and so many more
    within reach of it, each at least as sure as the last of them (Poisson); times 1 + log₂ of how many counts were
    looked at. A cell counts once, by its surest metric.
    """
    surest: dict[int, float] = {}
    for claim in claims:
        if claim.counts:
            surest[claim.cell] = min(claim.chance, surest.get(claim.cell, 1.0))
    if not surest:
        return 1.0
    least = min(
        _expect(chance, tests) * _find_tail(others, _TOGETHER_RUNS * _expect(chance, tests))
        for others, chance in enumerate(sorted(surest.values()))
    )
    return min(least * (1 + math.log2(len(surest))), 1.0)


def filter_significant(claims: Sequence[ChangeClaim], *, tests: int, scopes: int) -> frozenset[int]:
    """Return the keys of the claims that are believed together, of changes that began together in one scope.

    tests: metrics of cells that are judged in the scope; scopes: of the fleet. None where noise explains them all;
    else those that belong to it.
    """
    if measure_surprise(claims, tests=tests) > FALSE_CHANCE / max(scopes, 1):
        return frozenset()
    return find_belonging(claims, tests=tests)


def find_belonging(claims: Sequence[ChangeClaim], *, tests: int) -> frozenset[int]:
    """Return the keys of the claims that belong to what is believed: at most a tenth of them by noise.

    Benjamini and Hochberg 1995: the most claims of which noise would make no more than a tenth so sure.
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
    """Return how many changes so sure noise begins at one run."""
    return max(tests, 1) * estimate_rate(chance)


def _find_tail(count: int, expected: float) -> float:
    """Return the chance of `count` or more where so many are expected: Poisson's upper tail."""
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
