"""Weight of a boundary: chance of its ranks, size, novelty, correlation and places in one sum.

Separate limits would ignore the other evidence: a novel shift of twice the noise needs fewer ranks
than a small one among sticky states.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchapp.detection.changepoints.segmentation import take_median

Array = npt.NDArray[np.float64]

# Close to those of a logistic regression on generated histories with all kinds of noise; that of the logarithm of the
# chance is 1. Rounded, since the optimum is flat.
NOVELTY_WEIGHT: Final = 6.0
SPREADS_WEIGHT: Final = 4.0
CORRELATION_WEIGHT: Final = 15.0
# More than 1, the value for independent places, because consecutive points are correlated.
PLACES_WEIGHT: Final = 2.5
# Upper bounds, so that one kind of evidence does not outweigh all others.
MOST_NOVELTY: Final = 1.2
MOST_SPREADS: Final = 6.0
# Limit of the sum; determines the rate of false alarms.
LEAST_WEIGHT: Final = 6.0
# Prior for the duration of temporary states: so many, half of which continued.
PRIOR_VISITS: Final = 4.0
_LEAST_CHANCE: Final = 1e-300


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """Evidence of a boundary: rank score (normal), shift in spreads of single points, novelty (share of the shift),
    lag-1 correlation of the residuals, and the number of possible places."""

    rank_score: float
    spreads: float
    novelty: float
    correlation: float
    places: int


def weigh_evidence(evidence: ChangeEvidence) -> float:
    """Return the weight of the evidence relative to the limit: 1 and more is a change.

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
    """Return the weight of the duration of the new level relative to the limit, as a temporary state of the old level.

    Temporary states: old points beyond the midpoint of both medians. With their share p and the chance s that a state
    continues, both with a prior for few points: −ln(p · sⁿ⁻¹ · places), over 6. 0 if a point of the new level is on the
    old side. The rank test assumes independent points: if one run in four is low, ten low ones in a row are stronger
    evidence than their ranks, and weaker if low runs come in sequences.
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
