"""Runs of two arms in the order of time, as pairs of neighbors."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
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
