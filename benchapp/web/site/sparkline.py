"""Sparklines: points of an inline SVG."""

from collections.abc import Callable, Sequence
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
    place_y = _make_y_scale(values)
    step = (WIDTH - 2 * _MARGIN) / (len(values) - 1)
    return " ".join(
        f"{_MARGIN + place * step:.1f},{place_y(value):.1f}" for place, value in enumerate(values)
    )


def make_step_line(values: Sequence[float | None]) -> str:
    """Return the `d` of a path in the same box that changes in steps, oldest first; None is a gap.

    "" without two values. Values that stay the same take no characters: a year without a change is as short as a day.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    place_y = _make_y_scale(known)
    step = (WIDTH - 2 * _MARGIN) / (len(values) - 1)
    parts: list[str] = []
    before: float | None = None
    # Almost all values are those of the day before.
    for place, value in enumerate((*values, None)):
        if value == before:
            continue
        if before is not None:
            # A gap begins after its last value, a new level where its first value is.
            parts.append(f"H{_format_place(_MARGIN + (place - (value is None)) * step)}")
        if value is not None:
            y = _format_place(place_y(value))
            parts.append(f"V{y}" if before is not None else f"M{_format_place(_MARGIN + place * step)} {y}")
        before = value
    return "".join(parts)


def _format_place(place: float) -> str:
    return f"{round(place, 1):g}"


def _make_y_scale(values: Sequence[float]) -> Callable[[float], float]:
    low, high = min(values), max(values)
    middle = (low + high) / 2
    span = max(high - low, abs(middle) * _RANGE_MINIMUM) or 1.0
    return lambda value: HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * _MARGIN)
