"""Marks and sparklines of series in tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, Literal

from django.urls import reverse
from django.utils import timezone

from benchapp.charts.texts.levels import describe_mark
from benchapp.incidents.read.series_status import ScopeMark, SeriesMark

MarkKind = Literal["worse", "better", "settled"]
_TITLES: Final = {
    "open": "open incident",
    "recovered": "recovered: the values are back at the level before",
    "accepted": "accepted as the new baseline",
    "muted": "muted, an expected change",
}


@dataclass(frozen=True, slots=True)
class ShownMark:
    """A mark as a page shows it. kind: "worse", "better" (of an open incident) or "settled"; url: of its incident."""

    text: str
    title: str
    kind: MarkKind
    url: str


def show_mark(mark: SeriesMark | None, *, metric: str, now: datetime | None = None) -> ShownMark | None:
    """Return the mark of a series on a page about a metric: "▼ −21.7 % since 8 Nov", with the year of another year."""
    if mark is None:
        return None
    is_this_year = mark.started_at.year == (now or timezone.now()).year
    text = describe_mark(mark, metric=metric, has_year=not is_this_year)
    kind: MarkKind = "settled" if mark.state != "open" else "worse" if mark.is_regression else "better"
    return ShownMark(
        text,
        f"Incident {mark.incident_id}: {_TITLES[mark.state]}",
        kind,
        reverse("incident", args=[mark.incident_id]),
    )


def show_scope_mark(mark: ScopeMark | None) -> ShownMark | None:
    """Return the largest open regression of a host or pool: "▼ IOPS −21.7 % since 8 Nov"."""
    return None if mark is None else show_mark(mark.largest, metric="")


# A range below 10 % of the level does not fill the height: noise must not look like a change.
_RANGE_MINIMUM: Final = 0.1


@dataclass(frozen=True, slots=True)
class Box:
    """Where a line is in an SVG, in its units; y grows downwards."""

    left: float
    right: float
    top: float
    bottom: float


# 72 × 18 with a margin for the width of the line.
SPARKLINE: Final = Box(2, 70, 2, 16)


def make_sparkline(values: Sequence[float]) -> str:
    """Return the `points` of a polyline in a box of 72 × 18, oldest first; "" for fewer than two values.

    The line fills the height if the values differ by at least 10 % of their level.
    """
    if len(values) < 2:
        return ""
    place_y = make_y_scale(values, SPARKLINE)
    step = (SPARKLINE.right - SPARKLINE.left) / (len(values) - 1)
    return " ".join(
        f"{SPARKLINE.left + place * step:.1f},{place_y(value):.1f}" for place, value in enumerate(values)
    )


def make_step_line(values: Sequence[float | None], box: Box = SPARKLINE) -> str:
    """Return the `d` of a path that changes in steps, oldest first; None is a gap. "" without two values.

    The scale is that of `make_y_scale`. Values that stay the same take no characters: a year without a change is as
    short as a day.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    place_y = make_y_scale(known, box)
    step = (box.right - box.left) / (len(values) - 1)
    parts: list[str] = []
    before: float | None = None
    # Almost all values are those of the day before.
    for place, value in enumerate((*values, None)):
        if value == before:
            continue
        if before is not None:
            # A gap begins after its last value, a new level where its first value is.
            parts.append(f"H{_format_place(box.left + (place - (value is None)) * step)}")
        if value is not None:
            y = _format_place(place_y(value))
            parts.append(f"V{y}" if before is not None else f"M{_format_place(box.left + place * step)} {y}")
        before = value
    return "".join(parts)


def make_y_scale(values: Sequence[float], box: Box) -> Callable[[float], float]:
    """Return the scale of a box: these values fill its height if they differ by at least 10 % of their level."""
    middle, span = _find_range(values)
    center = (box.top + box.bottom) / 2
    return lambda value: center - (value - middle) / span * (box.bottom - box.top)


def _format_place(place: float) -> str:
    return f"{round(place, 1):g}"


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


def make_level_sparkline(
    values: Sequence[float], steps: Sequence[tuple[int, int, float]]
) -> dict[str, str] | None:
    """Return values, oldest first, the newest at the right edge, with their levels; None without values.

    Paths in a box of 240 × 48, cut to where the values begin: the values as a line, the earlier levels and the current
    level as steps. steps: (index of the first value, index behind the last, median) of each level, oldest first. The
    range of values and levels fills the height if it is at least 10 % of their level. At most 60 values.
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
    start = left - _EDGE if len(values) > 1 else 0
    return {
        "box": f"{start} 0 {HISTORY_WIDTH - start} {HISTORY_HEIGHT}",
        # A line of length 0 with round ends is a dot.
        "line": f"M{left} {heights[0]}{f'l{moves}' if moves else 'h0'}",
        "earlier": "".join(drawn[:-1]),
        "current": drawn[-1] if drawn else "",
    }
