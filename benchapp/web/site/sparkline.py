"""Sparklines: points of an inline SVG."""

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 72
HEIGHT: Final = 18
_MARGIN: Final = 2
# A range below 10 % of the level does not fill the height: noise must not look like a change.
_RANGE_MINIMUM: Final = 0.1


def make_sparkline(values: Sequence[float]) -> str:
    """Return the `points` of a polyline in a box of 72 × 18, oldest first; "" for fewer than two values.

    The line fills the height if the values differ by at least 10 % of their level.
    """
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    span = max(high - low, abs(middle) * _RANGE_MINIMUM) or 1.0
    step = (WIDTH - 2 * _MARGIN) / (len(values) - 1)
    room = HEIGHT - 2 * _MARGIN
    return " ".join(
        f"{_MARGIN + place * step:.1f},{HEIGHT / 2 - (value - middle) / span * room:.1f}"
        for place, value in enumerate(values)
    )
