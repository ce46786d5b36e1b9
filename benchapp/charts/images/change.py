"""The runs before and after the largest change of an incident as an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from benchapp.catalog.metrics import (
    CATALOG,
    format_count,
    format_signed_percent,
    format_value,
    format_with_unit,
)
from benchapp.charts.images.axes import AXIS_HEAD, AXIS_WIDTH, Plot, make_value_axis
from benchapp.charts.images.frame import Canvas, ImageBox, ImageOptions, draw_image, shorten_text
from benchapp.detection.rules.levels import Quantiles
from benchapp.framework.times import format_moment
from benchapp.incidents.read.changes import ChangeRow, SidePoint, summarize_side

_BELOW: Final = 46
_HEAD: Final = 22 + AXIS_HEAD
# Between the sides, in places of runs.
_GAP: Final = 2


_Sides = tuple[Sequence[SidePoint], Sequence[SidePoint]]


def draw_change(title: str, change: ChangeRow | None, sides: _Sides | None, options: ImageOptions) -> bytes:
    """Return the image of a change: a mark for each run, median and p10 to p90 of both sides.

    title: of its incident. change: None for an incident without one. Errors: as of draw_image.
    """

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if change is None or sides is None or not any(sides):
            canvas.write_message(box, "No change: all changes of this incident were withdrawn.")
            return
        _draw(canvas, box, change, sides)

    return draw_image(options, title=title, foot=_list_foot(change, sides), draw=draw)


def _draw(canvas: Canvas, box: ImageBox, change: ChangeRow, sides: _Sides) -> None:
    metric, colors = CATALOG[change.metric], canvas.colors
    area = ImageBox(
        box.left + AXIS_WIDTH, box.top + _HEAD, box.width - AXIS_WIDTH - 12, box.height - _HEAD - _BELOW
    )
    plot = Plot(canvas, area)
    before, after = sides
    values = [point.value for point in (*before, *after)]
    plot.show_values(make_value_axis(values, metric.unit), metric.label)
    worse = colors.regression if change.is_regression else colors.improvement
    start = 0
    ticks = []
    for name, points, color in (("before", before, colors.muted), ("after", after, worse)):
        places = list(range(start, start + len(points)))
        start += len(points) + _GAP
        spread = summarize_side(points)
        if spread is None:
            continue
        span = (places[0] - 0.5, places[-1] + 0.5)
        plot.draw_band(span, spread.p10, spread.p90, color, 0.16)
        plot.draw_line(span, (spread.median, spread.median), color)
        values = [point.value for point in points]
        plot.draw_points(places, values, "o" if name == "before" else "s", color, size=4, edge=1)
        middle = (span[0] + span[1]) / 2
        ticks.append((middle, f"{name}: {format_count(len(points), 'run')}"))
        text = shorten_text(_describe_side(spread, change), area.width / 2 - 8)
        is_first = name == "before"
        canvas.write(
            area.left if is_first else area.right, box.top, text, align="left" if is_first else "right"
        )
    plot.axes.set_xlim(-1, start - _GAP)
    plot.axes.set_xticks([place for place, _ in ticks], [text for _, text in ticks])
    if before and after:
        plot.axes.axvline(len(before) + _GAP / 2 - 0.5, color=colors.field_line, linestyle=(0, (3, 3)))
    plot.show_line_below("Runs in order of time")


def _describe_side(spread: Quantiles, change: ChangeRow) -> str:
    metric = CATALOG[change.metric]
    low, high = (format_value(value, metric.unit) for value in (spread.p10, spread.p90))
    return f"median {format_with_unit(spread.median, metric)}, p10–p90 {low} to {high}, n = {spread.n}"


def _list_foot(change: ChangeRow | None, sides: _Sides | None) -> Iterator[str]:
    if change is not None and sides is not None:
        series = change.series
        yield f"Most affected series: {series.scope_name} · {series.workload_title} · {series.target_title}"
        low, high = change.relative_low, change.relative_high
        interval = (
            f" ({format_signed_percent(low)} to {format_signed_percent(high)})"
            if low is not None and high is not None
            else ""
        )
        yield (
            f"{CATALOG[change.metric].label} {format_signed_percent(change.relative)}{interval} since"
            f" {format_moment(change.started_at)}, clock of the hosts"
        )
        yield "Marks: valid runs; lines: median of each side; bands: p10 to p90."
