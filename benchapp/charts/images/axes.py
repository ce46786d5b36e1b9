"""Axes and marks of chart images: round ticks, times in a time zone, legends, labels of lines (as in the pages)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from django.utils.timezone import get_current_timezone

from benchapp.catalog.metrics import find_step, format_integer
from benchapp.charts.images.frame import (
    LINE,
    TEXT_PX,
    Canvas,
    ImageBox,
    LineStyle,
    measure_text,
    shorten_text,
)
from benchapp.framework.times import name_zone

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_LEADS: Final = (1, 2, 5)
_DAY_S: Final = 86_400
# Of the labels of a value axis, left of its plot, and of its title above them.
AXIS_WIDTH: Final = 56
AXIS_HEAD: Final = 19
# Where a plot would be lower than its labels.
TOO_LOW: Final = "too low for this chart: a higher image shows it"


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """A value axis in base units. divisor: of the unit shown; unit: its name. starts_at_zero: false where it is cut."""

    low: float
    high: float
    divisor: float
    unit: str
    is_log: bool
    starts_at_zero: bool

    @property
    def ticks(self) -> list[float]:
        """Return the places of the ticks, in base units."""
        return _list_log_ticks(self) if self.is_log else _list_ticks(self)

    def name(self, label: str) -> str:
        """Return the title of the axis: "p99 latency, ms (starts above 0)"."""
        notes = ["log"] if self.is_log else [] if self.starts_at_zero else ["does not start at 0"]
        unit = f", {self.unit}" if self.unit and self.unit not in label else ""
        return f"{label}{unit}{f' ({notes[0]})' if notes else ''}"

    def format_tick(self, value: float) -> str:
        """Return a value in the unit of the axis, without the unit."""
        shown = value / self.divisor
        return format_integer(round(shown)) if abs(shown) >= 1000 else f"{shown:.4g}"


def make_value_axis(
    values: Sequence[float], unit: str, *, is_log: bool = False, has_zero: bool = False
) -> ValueAxis:
    """Return the axis of values in a base unit.

    It starts at zero where that costs less than half of the height, and always with has_zero, for bars. A log axis
    needs a value above zero, else it is linear.
    """
    known = [value for value in values if math.isfinite(value)]
    positive = [value for value in known if value > 0]
    most = max(known, default=0.0)
    divisor, name = find_step(most or 1.0, unit)
    name = name or ("IOPS" if unit == "operations/s" else "")
    if is_log and positive:
        low, high = _widen_log(min(positive), max(positive))
        return ValueAxis(low, high, divisor, name, is_log=True, starts_at_zero=False)
    least = min(known, default=0.0)
    starts_at_zero = has_zero or least < most / 2 or most == 0
    low = 0.0 if starts_at_zero else least - max(most - least, most * 0.02) * 0.15
    high = most + max(most - low, most * 0.02) * 0.12
    step = _round_step((high - low) / divisor / 5) * divisor or divisor
    return ValueAxis(
        0.0 if starts_at_zero else max(0.0, math.floor(low / step) * step),
        math.ceil(high / step - 1e-9) * step or divisor,
        divisor,
        name,
        is_log=False,
        starts_at_zero=starts_at_zero,
    )


class Plot:
    """Axes in a box of an image, and the marks that charts are made of; x and y in units of the axes."""

    def __init__(self, canvas: Canvas, box: ImageBox) -> None:
        self.canvas, self.box, self.colors = canvas, box, canvas.colors
        self.axes = canvas.add_axes(box)

    def show_values(self, axis: ValueAxis, label: str) -> None:
        """Set limits, ticks, faint horizontal grid and title of the y axis: above the box."""
        axes = self.axes
        if axis.is_log:
            axes.set_yscale("log")
        axes.set_ylim(axis.low, axis.high)
        ticks = axis.ticks[:: max(1, math.ceil(len(axis.ticks) * LINE / self.box.height))]
        axes.set_yticks(ticks, [axis.format_tick(value) for value in ticks])
        # Beside the box it would be higher than a low chart, and cover its labels.
        left, width = self.box.left - AXIS_WIDTH, self.box.width + AXIS_WIDTH
        self.canvas.write(
            left, self.box.top - AXIS_HEAD, shorten_text(axis.name(label), width), color=self.colors.muted
        )
        self.show_grid("y")

    def show_grid(self, axis: Literal["x", "y"]) -> None:
        """Draw faint lines at the ticks of an axis, below the marks."""
        self.axes.minorticks_off()
        self.axes.grid(axis=axis, color=self.colors.line, linewidth=1)
        self.axes.set_axisbelow(True)

    def show_times(self, first: datetime, last: datetime, *, has_labels: bool = True) -> None:
        """Set limits, ticks and title of a time axis in the zone of the image."""
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

        axes, zone = self.axes, get_current_timezone()
        low, high = float(date2num(first)), float(date2num(last))
        room = max((high - low) * 0.015, 1 / 48)
        axes.set_xlim(low - room, high + room)
        locator = AutoDateLocator(tz=zone, minticks=3, maxticks=max(4, self.canvas.options.width // 120))
        axes.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator, tz=zone, show_offset=False)
        # Day and month before the year; times with the day at midnight.
        formatter.formats = ["%Y", "%b", "%-d %b", "%H:%M", "%H:%M", "%S.%f"]
        formatter.zero_formats = ["", "%b %Y", "%-d %b", "%-d %b", "%H:%M", "%H:%M"]
        axes.xaxis.set_major_formatter(formatter)
        self.show_line_below(f"Time, {name_zone()}" if has_labels else "")
        if not has_labels:
            axes.tick_params(axis="x", labelbottom=False)

    def show_line_below(self, title: str = "") -> None:
        """Draw the x axis as a line with ticks below, and its title."""
        self.axes.spines["bottom"].set_visible(True)
        self.axes.spines["bottom"].set_color(self.colors.field_line)
        self.axes.tick_params(axis="x", length=4, pad=3)
        if title:
            self.axes.set_xlabel(title, fontsize=TEXT_PX, color=self.colors.muted, labelpad=3)

    def draw_line(
        self, x: Any, y: Any, color: str, *, width: float = 2, dash: Any = "-", **more: Any
    ) -> None:
        """Draw a line; dash: of matplotlib, in line widths."""
        self.axes.plot(x, y, color=color, linewidth=width, linestyle=dash, **more)

    def draw_points(
        self,
        x: Any,
        y: Any,
        marker: Any,
        color: str,
        *,
        size: float = 7,
        edge: float = 0,
        is_hollow: bool = False,
        **more: Any,
    ) -> None:
        """Draw marks without a line; edge: width of their outlines; hollow ones have the color of the paper inside."""
        self.axes.plot(
            x,
            y,
            linestyle="",
            marker=marker,
            markersize=size,
            markerfacecolor=self.colors.paper if is_hollow else color,
            markeredgecolor=color,
            markeredgewidth=edge,
            **more,
        )

    def draw_crosses(self, x: Any, y: Any, **more: Any) -> None:
        """Draw hollow crosses, also at the edge: failures."""
        self.draw_points(x, y, "X", self.colors.ink, size=9, edge=1.25, is_hollow=True, clip_on=False, **more)

    def draw_band(self, x: Any, low: Any, high: Any, color: str, alpha: float) -> None:
        """Fill between two lines."""
        self.axes.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0)

    def write(
        self,
        text: str,
        at: tuple[float, float],
        shift: tuple[float, float],
        *,
        units: Any = "data",
        color: str = "",
        size: float = TEXT_PX,
        **more: Any,
    ) -> None:
        """Write a text beside a place. shift: in pixels, to the right and up; units: of x and y, as of matplotlib."""
        self.axes.annotate(
            text,
            at,
            xycoords=units,
            xytext=shift,
            textcoords="offset points",
            fontsize=size,
            color=color or self.colors.ink,
            **more,
        )


# Units of a place at the lower or upper edge, and at the right one.
AT_EDGE: Final = ("data", "axes fraction")
AT_RIGHT: Final = ("axes fraction", "data")


def spread_apart(places: Sequence[float], *, top: float, bottom: float, height: float) -> list[float]:
    """Return the places of labels, moved so that none covers another and all are between top and bottom."""
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = list(places)
    for rank, index in enumerate(order):
        least = top if rank == 0 else moved[order[rank - 1]] + height
        moved[index] = max(moved[index], least)
    for rank in range(len(order) - 1, -1, -1):
        most = bottom if rank == len(order) - 1 else moved[order[rank + 1]] - height
        moved[order[rank]] = min(moved[order[rank]], most)
    return moved


def _list_ticks(axis: ValueAxis) -> list[float]:
    step = _round_step((axis.high - axis.low) / axis.divisor / 5) * axis.divisor
    first, last = math.ceil(axis.low / step - 1e-9), math.floor(axis.high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _list_log_ticks(axis: ValueAxis) -> list[float]:
    low, high = math.floor(math.log10(axis.low)), math.ceil(math.log10(axis.high))
    leads = (1,) if high - low > 4 else _LEADS
    ticks = [lead * 10.0**power for power in range(low, high + 1) for lead in leads]
    return [tick for tick in ticks if axis.low * 0.9999 <= tick <= axis.high * 1.0001]


def _widen_log(least: float, most: float) -> tuple[float, float]:
    """Return the nearest 1, 2 or 5 of a decade outside of the values."""
    below, above = 10.0 ** math.floor(math.log10(least)), 10.0 ** math.floor(math.log10(most))
    low = next((step for step in (5, 2, 1) if step * below <= least * 0.98), 0.5)
    high = next(step for step in (1, 2, 5, 10) if step * above >= most * 1.02 or step == 10)
    return low * below, high * above


def _round_step(step: float) -> float:
    """Return the next step of 1, 2, 2.5 or 5 times a power of ten."""
    if step <= 0 or not math.isfinite(step):
        return 1.0
    power = 10.0 ** math.floor(math.log10(step))
    return next(lead for lead in _STEPS if lead * power >= step * 0.999999) * power


_SAMPLE_PX: Final = 24
_GAP: Final = 18


@dataclass(frozen=True, slots=True)
class LegendEntry:
    """One entry: a line with its marks, a bar, or marks alone."""

    text: str
    style: LineStyle
    is_bar: bool = False
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
    if entry.is_bar:
        axes.bar(
            [12],
            [10],
            width=18,
            color=style.color,
            hatch=style.hatch,
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
