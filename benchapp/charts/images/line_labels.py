"""Labels of lines across a chart image, placed as static/js/charts/shared/marks.js places them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.charts.images.axes import Plot
from benchapp.charts.images.frame import shorten_text

_HEIGHT: Final = 13
# Between a line and its label, and of the stroke from one of several labels to its line.
_APART: Final = 2
_LEADER_WIDTH: Final = 12


@dataclass(frozen=True, slots=True)
class LineLabel:
    """The label of a horizontal line; x, value: where it begins, in the units of the axes."""

    text: str
    x: float
    value: float


@dataclass(frozen=True, slots=True)
class LabelPlace:
    """The middle of a label, in pixels. is_apart: several labels are on the same side of near lines."""

    y: float
    is_apart: bool


def place_labels(lines: Sequence[float], *, top: float, bottom: float) -> list[LabelPlace]:
    """Return the places of the labels of lines, in pixels from above; in the order of the lines.

    A label is above its line. Those of lines near each other are in the order of the lines, half of them above the
    first and half below the last one, as far as there is room.
    """
    order = sorted(range(len(lines)), key=lambda index: lines[index])
    stacks: list[_Stack] = []
    for index in order:
        stack = _Stack.of((lines[index],), top, bottom)
        while stacks and stacks[-1].bottom > stack.top:
            stack = _Stack.of((*stacks.pop().lines, *stack.lines), top, bottom)
        stacks.append(stack)
    places = [place for stack in stacks for place in stack.places]
    return [places[rank] for rank in sorted(range(len(order)), key=lambda rank: order[rank])]


@dataclass(frozen=True, slots=True)
class _Stack:
    """Near lines from above, with the places of their labels; top, bottom: of lines and labels."""

    lines: tuple[float, ...]
    places: tuple[LabelPlace, ...]
    top: float
    bottom: float

    @classmethod
    def of(cls, lines: tuple[float, ...], top: float, bottom: float) -> _Stack:
        first, last, count = lines[0], lines[-1], len(lines)
        most, most_below = (max(0, int((room - _APART) // _HEIGHT)) for room in (first - top, bottom - last))
        above = min(most, max(math.ceil(count / 2), count - most_below))
        below = count - above
        places = [
            LabelPlace(first - _APART - (above - place - 0.5) * _HEIGHT, above > 1) for place in range(above)
        ]
        places += [LabelPlace(last + _APART + (place + 0.5) * _HEIGHT, below > 1) for place in range(below)]
        return cls(
            lines,
            tuple(places),
            first - (_APART + above * _HEIGHT if above else 0),
            last + (_APART + below * _HEIGHT if below else 0),
        )


def write_line_labels(plot: Plot, labels: Sequence[LineLabel]) -> None:
    """Write labels at lines, so that none covers another. Needs the limits of the axes."""
    axes = plot.axes
    lines = [-float(axes.transData.transform((label.x, label.value))[1]) for label in labels]
    places = place_labels(lines, top=-float(axes.bbox.y1), bottom=-float(axes.bbox.y0))
    leader = {"arrowstyle": "-", "color": plot.colors.ink, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
    for label, line, place in zip(labels, lines, places, strict=True):
        indent = 4 + (_LEADER_WIDTH if place.is_apart else 0)
        plot.write(
            shorten_text(label.text, plot.box.width - 4 - indent),
            (label.x, label.value),
            (indent, line - place.y),
            va="center",
            bbox={"facecolor": plot.colors.paper, "edgecolor": "none", "pad": 0.5, "alpha": 0.7},
            arrowprops=leader if place.is_apart else None,
        )
