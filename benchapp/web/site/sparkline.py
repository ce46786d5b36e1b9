"""Sparklines: points and paths of inline SVGs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
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
    middle, span = _find_range(values)
    return lambda value: HEIGHT / 2 - (value - middle) / span * (HEIGHT - 2 * _MARGIN)


def _find_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the middle of the values, and what fills the height."""
    low, high = min(values), max(values)
    middle = (low + high) / 2
    return middle, max(high - low, abs(middle) * _RANGE_MINIMUM) or 1.0


HISTORY_WIDTH: Final = 240
HISTORY_HEIGHT: Final = 48
# Whole numbers, so that a path is short: 60 values have room.
_STEP: Final = 4
_EDGE: Final = 3
_MOVES: Final = {
    move: f"{_STEP}{move}" if move < 0 else f"{_STEP} {move}"
    for move in range(-HISTORY_HEIGHT, HISTORY_HEIGHT)
}


@dataclass(frozen=True, slots=True)
class LevelSparkline:
    """Paths in a box of 240 × 48: the values as a line, the earlier levels and the current level as steps."""

    line: str
    earlier: str
    current: str


def make_level_sparkline(
    values: Sequence[float], steps: Sequence[tuple[int, int, float]]
) -> LevelSparkline | None:
    """Return values, oldest first, the newest at the right edge, with their levels; None without values.

    steps: (index of the first value, index behind the last, median) of each level, oldest first. The range of values
    and levels fills the height if it is at least 10 % of their level. At most 60 values.
    """
    if not values:
        return None
    middle, span = _find_range([*values, *(median for _, _, median in steps)])
    factor = (HISTORY_HEIGHT - 2 * _EDGE) / span
    bottom = HISTORY_HEIGHT / 2 + middle * factor
    left = HISTORY_WIDTH - _EDGE - _STEP * (len(values) - 1)

    heights = [round(bottom - value * factor) for value in values]
    moves = " ".join([_MOVES[after - before] for before, after in pairwise(heights)])
    drawn = [
        f"M{left + _STEP * first - _STEP // 2} {round(bottom - median * factor)}h{_STEP * (end - first)}"
        for first, end, median in steps
    ]
    return LevelSparkline(
        # A line of length 0 with round ends is a dot.
        line=f"M{left} {heights[0]}{f'l{moves}' if moves else 'h0'}",
        earlier="".join(drawn[:-1]),
        current=drawn[-1] if drawn else "",
    )
