"""Legends of chart images: a sample and a name for each line, side by side in as many rows as they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.charts.images.axes import Plot
from benchapp.charts.images.frame import LINE, Canvas, ImageBox, measure_text, shorten_text
from benchapp.charts.images.styles import LineStyle

_SAMPLE_PX: Final = 24
_GAP: Final = 18
# Of bars, by place of the style: a second cue beside the color.
HATCHES: Final = ("", "///", "...", "xxx", "\\\\\\", "---", "|||", "+++")


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One entry. hatch: of bars, None for a line with its marks; has_line: False for marks alone."""

    text: str
    style: LineStyle
    hatch: str | None = None
    has_line: bool = True


def place_legend(entries: Sequence[LegendEntry], width: float) -> list[list[tuple[float, LegendEntry]]]:
    """Return the rows of a legend: entries with their distance from the left."""
    rows: list[list[tuple[float, LegendEntry]]] = []
    left = 0.0
    for entry in entries:
        own = _SAMPLE_PX + 6 + min(measure_text(entry.text), width - _SAMPLE_PX - 6)
        if not rows or left + own > width:
            rows.append([])
            left = 0.0
        rows[-1].append((left, entry))
        left += own + _GAP
    return rows


def write_legend(canvas: Canvas, rows: Sequence[Sequence[tuple[float, LegendEntry]]], box: ImageBox) -> None:
    """Draw the rows of a legend from the upper edge of a box."""
    for number, row in enumerate(rows):
        middle = box.top + number * LINE + LINE / 2
        for left, entry in row:
            draw_sample(canvas, entry, box.left + left, middle)
            text = shorten_text(entry.text, box.width - left - _SAMPLE_PX - 6)
            canvas.write(box.left + left + _SAMPLE_PX + 6, middle, text, middle=True)


def draw_sample(canvas: Canvas, entry: LegendEntry, left: float, middle: float) -> None:
    """Draw the sample of an entry: a line with its mark, or a piece of a bar."""
    plot = Plot(canvas, ImageBox(left, middle - 5, _SAMPLE_PX, 10))
    axes = plot.axes
    axes.set_axis_off()
    axes.set_xlim(0, _SAMPLE_PX)
    axes.set_ylim(0, 10)
    style = entry.style
    if entry.hatch is not None:
        axes.bar(
            [12],
            [10],
            width=18,
            color=style.color,
            hatch=entry.hatch,
            edgecolor=canvas.colors.paper,
            linewidth=0,
        )
        return
    if entry.has_line:
        plot.draw_line([0, _SAMPLE_PX], [5, 5], style.color, dash=write_dash(style))
    plot.draw_points([12], [5], style.marker, style.color, size=6, edge=1)


def write_dash(style: LineStyle) -> Any:
    """Return the dash of a line of 2 px as matplotlib takes it: in line widths."""
    return (0, tuple(length / 2 for length in style.dash)) if style.dash else "-"
