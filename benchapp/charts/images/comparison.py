"""A comparison as an image: the factor by which B differs from A, with its interval, for each value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from benchapp.catalog.metrics import Metric, format_count, format_signed_percent
from benchapp.charts.images.axes import Plot
from benchapp.charts.images.frame import LINE, Canvas, ImageBox, ImageOptions, draw_image, shorten_text
from benchapp.charts.read.comparison import ComparisonResult
from benchapp.charts.texts.comparison import (
    CHART_MAXIMUM,
    ComparisonLine,
    describe_comparison,
    describe_comparison_title,
    find_shared_parts,
    list_drawn,
    make_lines,
)

_ROW_HEIGHT: Final = 20
_AXIS_ROOM: Final = 36
_NAME_SHARE: Final = 0.34
_VALUES_SHARE: Final = 0.32
_TICKS: Final = (
    0.1,
    0.2,
    0.5,
    0.8,
    0.9,
    1,
    1.1,
    1.25,
    1.5,
    2,
    3,
    4,
    5,
    8,
    10,
    16,
    20,
    50,
    100,
    200,
    500,
    1000,
)
_FINE_TICKS: Final = (0.95, 0.98, 0.99, 1.01, 1.02, 1.05)


def draw_comparison(
    found: ComparisonResult, names: tuple[str, str], options: ImageOptions, *, common: str = ""
) -> bytes:
    """Return the image of a comparison. names: of A and B; common: the filter of both. Errors: as of draw_image."""
    lines = list_drawn(make_lines(found.pairs[:CHART_MAXIMUM]))

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if not lines:
            text = "No value of both sides can be compared." if found.pairs else "No matching series."
            canvas.write_message(box, text)
            return
        fit = int((box.height - _AXIS_ROOM - LINE) // _ROW_HEIGHT)
        shown = list(lines)
        # The most significant ones stay.
        while len(shown) > 1 and _count_rows(shown) > fit:
            shown.remove(max(shown, key=lambda line: line.rank))
        _draw_lines(canvas, box, shown, hidden=len(found.pairs) - len(shown))

    return draw_image(
        options,
        title=describe_comparison_title(found, *names),
        foot=_list_foot(found, names, common),
        draw=draw,
        body_height=_ROW_HEIGHT * _count_rows(lines) + _AXIS_ROOM + LINE,
    )


def _count_rows(lines: Sequence[ComparisonLine]) -> int:
    """Return the rows of lines: each metric has one for its heading."""
    return len(lines) + len({line.metric.name for line in lines})


def _draw_lines(canvas: Canvas, box: ImageBox, lines: Sequence[ComparisonLine], *, hidden: int) -> None:
    names, values = box.width * _NAME_SHARE, box.width * _VALUES_SHARE
    rows = [row for metric, own in groupby(lines, key=lambda line: line.metric) for row in (metric, *own)]
    area = ImageBox(box.left + names, box.top, box.width - names - values, len(rows) * _ROW_HEIGHT)
    plot = Plot(canvas, area)
    axes = plot.axes
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xscale("log")
    ratios = [line.pair.comparison for line in lines]
    known = [value for each in ratios for value in (each.ratio, each.low, each.high) if value]
    least, most = min(1.0, *known), max(1.0, *known)
    room = math.exp(max(math.log(most / least) * 0.06, 0.005))
    axes.set_xlim(least / room, most * room)
    ticks = _choose_ticks(least / room, most * room)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    plot.show_grid("x")
    plot.show_line_below("B / A, log axis")
    axes.axvline(1, color=canvas.colors.ink, linewidth=1)
    for place, row in enumerate(rows):
        middle = area.top + (place + 0.5) * _ROW_HEIGHT
        if isinstance(row, Metric):
            heading = shorten_text(f"{row.label}, {row.better} is better", names - 8, weight="bold")
            canvas.write(box.left, middle, heading, weight="bold", middle=True)
            continue
        color, found = _choose_color(canvas, row), row.pair.comparison
        if found.low and found.high:
            plot.draw_line([found.low, found.high], [place, place], color)
        plot.draw_points([found.ratio], [place], "o", color, edge=1.5, is_hollow=row.kind == "none")
        canvas.write(box.left + 8, middle, shorten_text(row.name, names - 20), middle=True)
        text = shorten_text(_describe_values(row), values - 12)
        canvas.write(area.right + 12, middle, text, color=color, middle=True)
    if hidden > 0:
        text = f"and {format_count(hidden, 'more value')}; the page and the API have all"
        canvas.write(box.left, box.bottom - LINE, text, color=canvas.colors.muted)


def _describe_values(line: ComparisonLine) -> str:
    """Return "▼ −17.0 %, 24 100 → 20 000, n 10 and 12, worse"."""
    found = line.pair.comparison
    sign = {"worse": "▼ ", "better": "▲ "}.get(line.kind, "")
    size = format_signed_percent((found.ratio or 1.0) - 1)
    return f"{sign}{size}, {line.a} → {line.b}, n {found.a.n} and {found.b.n}, {line.result}"


def _choose_color(canvas: Canvas, line: ComparisonLine) -> str:
    colors = canvas.colors
    return {"worse": colors.regression, "better": colors.improvement}.get(line.kind, colors.muted)


def _choose_ticks(low: float, high: float) -> list[float]:
    """Return round ticks of the factor, the finer ones where all is near 1, without those too near to each other."""
    coarse = [tick for tick in _TICKS if low <= tick <= high]
    ticks = coarse if len(coarse) >= 3 else sorted({*coarse, *(t for t in _FINE_TICKS if low <= t <= high)})
    chosen: list[float] = []
    for tick in ticks:
        if not chosen or math.log(tick / chosen[-1]) > math.log(ticks[-1] / ticks[0]) / 6:
            chosen.append(tick)
        elif tick == 1:
            chosen[-1] = 1
    return chosen


def _list_foot(found: ComparisonResult, names: tuple[str, str], common: str) -> Iterator[str]:
    yield f"A (baseline): {names[0]} · B: {names[1]}" + (f" · both: {common}" if common else "")
    shared = find_shared_parts([pair.title for pair in found.pairs])
    counts = f"{format_count(found.counts[0], 'series')} of A, {found.counts[1]} of B"
    yield " · ".join([*shared, f"{format_count(len(found.pairs), 'value')} compared", counts])
    yield (
        "Marks: median of B / median of A. Lines: 95 % interval of the ratio. Hollow: neither worse nor better."
    )
    if found.pairs:
        yield describe_comparison(found, *names)[-1]
