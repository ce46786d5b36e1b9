"""Recovery: whether a level is back at the level before its change. Pure."""

from collections.abc import Sequence
from math import ceil
from statistics import median
from typing import Final

# Minimum runs that must be back; a single good run can be chance.
RUNS_MINIMUM: Final = 3
# Required runs are (this · spread / shift)²: their median is on the wrong side of the midpoint of both levels once in
# 1 000 times (its standard error is 1.25 σ/√k).
_SPREADS: Final = 8.0


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
