"""The percentiles of a series over time as an image: a line each, filled between them, on a log axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.metrics import format_count, format_value
from benchapp.charts.images.axes import AXIS_HEAD, AXIS_WIDTH, Plot, ValueAxis, make_value_axis, spread_apart
from benchapp.charts.images.frame import LINE, Canvas, ImageBox, ImageOptions, assign_styles, draw_image
from benchapp.charts.read.latency import FAN, Fan
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.times import format_moment
from benchapp.series.read.series import SeriesRow

_END_ROOM: Final = 116
_BELOW: Final = 46
# Of the bands from the inside out: lighter toward the tail.
_ALPHAS: Final = (0.34, 0.26, 0.2, 0.14, 0.09)
_DASHES: Final = ((0, ()), (0, (6, 3)), (0, (2, 2)))


def draw_percentiles(row: SeriesRow, fan: Fan, options: ImageOptions) -> bytes:
    """Return the image of the percentiles of a series. Errors: as of draw_image."""

    def draw(canvas: Canvas, box: ImageBox) -> None:
        lines = _list_lines(fan)
        if not lines:
            canvas.write_message(box, "No percentiles: fio reported none for runs of this time range.")
            return
        _draw(canvas, box, row, fan, lines)

    return draw_image(options, title=_describe(row), foot=_list_foot(row, fan), draw=draw)


def _list_lines(fan: Fan) -> dict[str, NDArray[np.float64]]:
    """Return the percentiles that have values by name; a log axis has no place for 0, which is a gap."""
    lines = {name: np.where(fan.values[name] > 0, fan.values[name], np.nan) for name in FAN}
    return {name: values for name, values in lines.items() if not np.isnan(values).all()}


def _draw(
    canvas: Canvas, box: ImageBox, row: SeriesRow, fan: Fan, lines: Mapping[str, NDArray[np.float64]]
) -> None:
    from matplotlib.dates import date2num

    plot = Plot(
        canvas,
        ImageBox(
            box.left + AXIS_WIDTH,
            box.top + AXIS_HEAD,
            box.width - AXIS_WIDTH - _END_ROOM,
            box.height - AXIS_HEAD - _BELOW,
        ),
    )
    axis = make_value_axis(np.concatenate(list(lines.values())).tolist(), "ns", is_log=True)
    plot.show_values(axis, "Completion latency")
    first, last = from_us(int(fan.first_us[0])), from_us(int(fan.last_us[-1]))
    plot.show_times(first, last)
    times: list[float] = [
        float(date2num(from_us((begin + end) // 2)))
        for begin, end in zip(fan.first_us.tolist(), fan.last_us.tolist(), strict=True)
    ]
    color = assign_styles([(row.workload.rw, row.direction)])[0].color
    for (below, above), alpha in zip(pairwise(lines.values()), _ALPHAS, strict=False):
        plot.draw_band(times, below, above, color, alpha)
    for place, values in enumerate(lines.values()):
        dash = _DASHES[place % len(_DASHES)]
        plot.draw_line(times, values, color, width=2 if place == 0 else 1.2, dash=dash)
        if len(times) == 1:
            plot.draw_points(times, values, "o", color, size=4, edge=1)
    _write_ends(canvas, plot.box, axis, lines)


def _write_ends(
    canvas: Canvas, plot: ImageBox, axis: ValueAxis, lines: Mapping[str, NDArray[np.float64]]
) -> None:
    """Write name and newest value of each percentile at the end of its line."""
    newest = {name: float(values[~np.isnan(values)][-1]) for name, values in lines.items()}
    low, high = np.log([axis.low, axis.high])
    places = [
        plot.bottom - float((np.log(max(value, axis.low)) - low) / (high - low)) * plot.height
        for value in newest.values()
    ]
    moved = spread_apart(places, top=plot.top + 6, bottom=plot.bottom - 6, height=LINE - 1)
    for (name, value), y in zip(newest.items(), moved, strict=True):
        label = f"p{FAN[name]:g} {format_value(value, 'ns')}"
        canvas.write(plot.right + 8, y, label, middle=True)


def _describe(row: SeriesRow) -> str:
    return f"Latency percentiles over time · {row.scope_name}"


def _list_foot(row: SeriesRow, fan: Fan) -> Iterator[str]:
    yield row.title
    if len(fan.runs):
        first, last = from_us(int(fan.first_us[0])), from_us(int(fan.last_us[-1]))
        runs = format_count(int(fan.runs.sum()), "run")
        yield f"n = {runs} · {format_moment(first)} to {format_moment(last)}, clock of the hosts"
    columns = "; columns: medians of adjacent runs" if (fan.runs > 1).any() else ""
    yield (
        f"Lines: p50 to p99.99 of each run{columns}; gaps: fewer than 10 samples above the percentile; without failed"
        " and excluded runs; values at the right: newest."
    )
