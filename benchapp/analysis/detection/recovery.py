"""Is a level back where it was before its change? Pure."""

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Final

# Runs that must be back at least; one good run after a bad level is luck.
LEAST_RUNS: Final = 3
# Runs wanted are (this · spread / shift)²: the median of so many lies on the wrong side of the middle between both
# levels once in 1 000 times (1.25 σ/√k is its standard error).
_SPREADS: Final = 8.0


def has_returned(after: Sequence[float], *, before_median: float, after_median: float, spread: float) -> bool:
    """Say whether the newest values since a change lie at the level before it, or beyond it on the other side.

    after: finite values from the change on, oldest first. spread: robust standard deviation of a level, in their unit.
    3 runs are asked for where the change was plain, more where it was small against the spread.
    """
    shift = after_median - before_median
    if shift == 0:
        return False
    runs = max(LEAST_RUNS, ceil((_SPREADS * spread / abs(shift)) ** 2))
    if len(after) <= runs:
        return False
    # Of the way from the old level to the new one.
    shares = [(value - before_median) / shift for value in after[-runs:]]
    return max(shares[-LEAST_RUNS:]) < 1 / 2 and median(shares) < 1 / 4


def has_relapsed(after: Sequence[float], *, before_median: float, after_median: float) -> bool:
    """Say whether the newest three values are all nearer to the level after a change than to the one before it.

    Asked of what had returned: a single bad run between good ones takes no recovery back.
    """
    middle = (before_median + after_median) / 2
    side = after_median > before_median
    return len(after) >= LEAST_RUNS and all((value > middle) == side for value in after[-LEAST_RUNS:])


def find_end(after: Sequence[float], *, before_median: float, after_median: float) -> int:
    """Return how many of the values since a change its level lasts: up to where three in a row are nearer to the old.

    The newest one or two count as such a row. len(after) where it lasts still.
    """
    middle = (before_median + after_median) / 2
    side = after_median > before_median
    is_old = [(value > middle) != side for value in after]
    for place in range(1, len(is_old)):
        if all(is_old[place : place + LEAST_RUNS]):
            return place
    return len(after)
