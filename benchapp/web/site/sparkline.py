"""A few values as a small line: the points of an inline SVG."""

from collections.abc import Sequence
from typing import Final

WIDTH: Final = 72
HEIGHT: Final = 18
_MARGIN: Final = 2
# Less than a tenth of the level is drawn small: noise must not look like news.
_LEAST_RANGE: Final = 0.1


def make_sparkline(values: Sequence[float]) -> str:
    """Return the `points` of a polyline in a box of 72 × 18, the oldest first; "" below two values.

    The line fills the box where the values differ by a tenth of their level, and lies in its middle where they do not.
    """
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    span = max(high - low, abs(middle) * _LEAST_RANGE) or 1.0
    step = (WIDTH - 2 * _MARGIN) / (len(values) - 1)
    room = HEIGHT - 2 * _MARGIN
    return " ".join(
        f"{_MARGIN + place * step:.1f},{HEIGHT / 2 - (value - middle) / span * room:.1f}"
        for place, value in enumerate(values)
    )
