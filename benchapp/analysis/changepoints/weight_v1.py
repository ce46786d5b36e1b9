"""How much the evidence of a boundary weighs: chance of its ranks, size, novelty, correlation, places, in one sum.

Part of method v1. No single piece of evidence can be held to a limit of its own without losing what the others say: a
shift that is twice the noise and was never seen before needs fewer ranks than a small one among sticky states.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.analysis.changepoints.segmentation_v1 import take_median

Array = npt.NDArray[np.float64]

# Near those of a logistic regression of "a change" on this evidence, over made-up histories of all kinds of noise;
# that of the logarithm of the chance is 1. Rounded: the optimum is flat.
NOVELTY_WEIGHT: Final = 6.0
SPREADS_WEIGHT: Final = 4.0
CORRELATION_WEIGHT: Final = 15.0
# More than the 1 that independent places would cost: points in a row depend on each other, so that a few of them are
# not as rare among many as ranks make them.
PLACES_WEIGHT: Final = 2.5
# Beyond it evidence is as good as sure, and more of it makes up for nothing else.
MOST_NOVELTY: Final = 1.2
MOST_SPREADS: Final = 6.0
# Of the sum. Sets how many false alarms there are: under one in 1 000 clean points that come one by one.
LEAST_WEIGHT: Final = 6.0
# Visits, half of which went on: what is believed of how long they last before any was seen.
PRIOR_VISITS: Final = 4.0
_LEAST_CHANCE: Final = 1e-300


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """What speaks for a boundary: rank score (normal), shift in spreads of single points, novelty (share of the shift),
    lag-1 correlation of what is left, and the places where the boundary could be."""

    rank_score: float
    spreads: float
    novelty: float
    correlation: float
    places: int


def weigh_evidence(evidence: ChangeEvidence) -> float:
    """Return the weight of the evidence over the least that a change needs: 1 and more is a change.

    −ln p of the ranks + 6 · novelty + 4 · ln spreads − 15 · correlation − 2.5 · ln places, over 6.
    """
    chance = max(math.erfc(evidence.rank_score / math.sqrt(2)) / 2, _LEAST_CHANCE)
    weight = (
        NOVELTY_WEIGHT * min(evidence.novelty, MOST_NOVELTY)
        + SPREADS_WEIGHT * math.log(min(evidence.spreads, MOST_SPREADS))
        - CORRELATION_WEIGHT * evidence.correlation
        - PLACES_WEIGHT * math.log(evidence.places)
        - math.log(chance)
    )
    return weight / LEAST_WEIGHT


def weigh_stay(old: Array, new: Array) -> float:
    """Return how much it weighs that the new level lasts, were it a visit such as the old level makes, over the least.

    Visits: old points beyond the middle between both medians. With their share p and the chance s that a visit goes
    on, both drawn to what is usual by few points, and visits without memory: −ln(p · sⁿ⁻¹ · places), over 6. 0 where a
    point of the new level lies on the old side. Ranks take points for independent: where one run in four is low anyway,
    ten low ones in a row say more than their ranks do, and where low ones come in rows, less.
    """
    old_median, new_median = take_median(old), take_median(new)
    middle = (old_median + new_median) / 2
    side = 1 if new_median > old_median else -1
    if float((side * (new - middle)).min()) <= 0:
        return 0.0
    is_visit = side * (old - middle) > 0
    visits = int(np.count_nonzero(is_visit))
    stayed = int(np.count_nonzero(is_visit[1:] & is_visit[:-1]))
    share = (visits + 0.5) / (len(old) + 1)
    stay = (stayed + PRIOR_VISITS / 2) / (visits + PRIOR_VISITS)
    chance_log = math.log(share) + (len(new) - 1) * math.log(stay)
    return -(chance_log + math.log(len(old) + len(new))) / LEAST_WEIGHT
