"""A scaling chart as an image: bars or lines, a panel for each facet and metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite, log2, nan
from typing import Any, Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import format_count, format_with_unit, lower_label
from benchapp.charts.images.axes import (
    HATCHES,
    LegendEntry,
    LineLabel,
    Plot,
    make_value_axis,
    place_legend,
    write_dash,
    write_legend,
    write_line_labels,
)
from benchapp.charts.images.frame import (
    LINE,
    STYLES,
    Canvas,
    ImageBox,
    ImageOptions,
    LineStyle,
    assign_styles,
    draw_image,
    shorten_text,
)
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.scaling_findings import CurveModel, find_bends, find_findings, find_models
from benchapp.charts.read.scaling_shapes import ScalingChart, ScalingFacet, ScalingLimit
from benchapp.charts.rules.scaling_models import ScalingModel
from benchapp.charts.texts.levels import describe_level_range
from benchapp.charts.texts.scaling import describe_scaling
from benchapp.charts.texts.scaling_remarks import name_limit
from benchapp.framework.times import format_moment
from benchapp.series.read.titles import describe_value

_COLUMNS_MAXIMUM: Final = 3
_PANEL_HEIGHT_MINIMUM: Final = 110
_LEFT_ROOM: Final = 64
_AXIS_ROOM: Final = 38
_LABEL_ROOM: Final = 18
_GROUP_SHARE: Final = 0.82
_BAR_SHARE: Final = 0.92
_BAR_PX_MAXIMUM: Final = 56
_IDEAL_ROOM: Final = 1.25
_SOLID: Final = 0.88
_LOG_ALPHA: Final = 0.35


def draw_scaling(chart: ScalingChart, options: ImageOptions) -> bytes:
    """Return the image of a scaling chart. Errors: of draw_image."""
    is_bars = chart.draw_mode == "bars" and chart.over is None

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if chart.is_empty:
            canvas.write_message(box, "No series match, or none has a value.")
            return
        lines = chart.panels[0].lines
        styles = assign_styles([(line.rw, line.direction) for line in lines])
        rows = []
        if len(lines) > 1:
            entries = [
                LegendEntry(line.label, style, _hatch(style) if is_bars else None)
                for line, style in zip(lines, styles, strict=True)
            ]
            rows = place_legend(entries, box.width)
        below = len(rows) * LINE + (6 if rows else 0)
        panels = ImageBox(box.left, box.top, box.width, box.height - below)
        for each, facet, place in _place_panels(canvas, chart, panels):
            _ScalingPanel(canvas, each, styles, is_bars=is_bars).draw(facet, place)
        write_legend(canvas, rows, ImageBox(box.left, panels.bottom + 6, box.width, below))

    title = describe_scaling(chart, find_findings(chart))
    return draw_image(options, title=title, foot=_list_foot(chart, is_bars=is_bars), draw=draw)


def _place_panels(
    canvas: Canvas, chart: ScalingChart, box: ImageBox
) -> Iterator[tuple[ScalingChart, ScalingFacet, ImageBox]]:
    """Yield the panels with their boxes: facets side by side, the metrics of each one below the other."""
    columns = min(_COLUMNS_MAXIMUM, len(chart.panels), max(1, int(box.width // 300)))
    bands = -(-len(chart.panels) // columns)
    fit = max(1, int(box.height // (_PANEL_HEIGHT_MINIMUM * len(chart.stack))))
    hidden = len(chart.panels) - fit * columns
    if hidden > 0:
        bands = fit
        text = f"and {format_count(hidden, 'more panel')}; a higher image shows all"
        canvas.write(box.left, box.bottom - LINE, text, color=canvas.colors.muted)
        box = ImageBox(box.left, box.top, box.width, box.height - LINE)
    height, width = box.height / (bands * len(chart.stack)), box.width / columns
    for place in range(min(len(chart.panels), bands * columns)):
        band, column = divmod(place, columns)
        for layer, each in enumerate(chart.stack):
            top = box.top + (band * len(chart.stack) + layer) * height
            yield each, each.panels[place], ImageBox(box.left + column * width, top, width, height)


class _ScalingPanel:
    """One metric of one facet while it is drawn."""

    def __init__(
        self, canvas: Canvas, chart: ScalingChart, styles: Sequence[LineStyle], *, is_bars: bool
    ) -> None:
        is_log, is_ideal = chart.request.is_log, chart.request.is_ideal
        self.canvas, self.chart, self.styles = canvas, chart, styles
        self.colors = canvas.colors
        self.is_bars, self.is_ideal = is_bars, is_ideal
        cells = [cell for facet in chart.panels for line in facet.lines for cell in line.cells]
        values = [value for cell in cells for value in _list_values(cell)]
        self.most = max(values, default=0.0)
        limits = [value for facet in chart.panels for limit in facet.limits for value in limit.values]
        within = [value for value in limits if value is not None and value <= self.most]
        if is_ideal:
            within += [min(cell.ideal, _IDEAL_ROOM * self.most) for cell in cells if cell.ideal is not None]
        self.models = () if is_bars else find_models(chart)
        for found in self.models:
            if found.model is not None:
                within += [found.model.predict(width).throughput.high for width in found.list_widths()]
        self.axis = make_value_axis(
            [*values, *within], chart.metric.unit, is_log=is_log, has_zero=is_bars and not is_log
        )
        self.over_axis = (
            make_value_axis(
                [cell.over for cell in cells if cell.over is not None], chart.over.unit, has_zero=True
            )
            if chart.over
            else None
        )

    def draw(self, facet: ScalingFacet, box: ImageBox) -> None:
        label = _LABEL_ROOM if facet.label else 0
        area = ImageBox(
            box.left + _LEFT_ROOM,
            box.top + label + 6,
            box.width - _LEFT_ROOM - 12,
            box.height - label - 6 - _AXIS_ROOM,
        )
        if facet.label:
            text = shorten_text(facet.label, area.width, weight="bold")
            self.canvas.write(area.left, box.top, text, weight="bold")
        plot = Plot(self.canvas, area)
        plot.show_values(self.axis, self.chart.metric.label)
        self._show_x(plot)
        for index, line in enumerate(facet.lines):
            self._draw_line(plot, line, index)
        for found in self.models:
            if found.model is not None and self.chart.panels[found.facet] is facet:
                self._draw_model(plot, found, found.model)
        labels = (self._draw_limit(plot, facet, limit) for limit in facet.limits)
        write_line_labels(plot, [each for each in labels if each])
        self._draw_knees(plot, facet)
        if not any(cell.n or cell.state == "failed" for line in facet.lines for cell in line.cells):
            self.canvas.write_message(area, "No values")

    def _show_x(self, plot: Plot) -> None:
        x, over, axes = self.chart.x, self.over_axis, plot.axes
        if over is not None and self.chart.over is not None:
            axes.set_xlim(over.low, over.high)
            axes.set_xticks(over.ticks, [over.format_tick(value) for value in over.ticks])
            name = over.name(self.chart.over.label)
        else:
            places = self._list_places()
            widths = [found.list_widths()[-1] for found in self.models if found.model]
            last = max([places[-1], *(log2(width) for width in widths)])
            room = 0.5 if self.is_bars else (last - places[0]) * 0.06 or 1.0
            axes.set_xlim(places[0] - room, last + room)
            each = plot.box.width / max(len(places), 1)
            skip = max(1, -(-len(places) * 34 // int(max(plot.box.width, 34))))
            ticks = ["\n".join(shorten_text(part, each * skip - 4) for part in tick[:2]) for tick in x.ticks]
            axes.set_xticks(places[::skip], ticks[::skip])
            name = x.dimension.label
        plot.show_line_below(name)

    def _list_places(self) -> list[float]:
        return (
            [float(place) for place in range(len(self.chart.x.values))]
            if self.is_bars
            else self.chart.positions
        )

    def _place_cell(self, cell: ChartCell, index: int, place: int) -> float:
        """Return the x of a cell: its throughput, its position, or the middle of its bar."""
        if self.chart.over is not None:
            return nan if cell.over is None else cell.over
        at = self._list_places()[place]
        if not self.is_bars:
            return at
        return at + (index - (len(self.styles) - 1) / 2) * self._bar_step()

    def _bar_step(self) -> float:
        """Return the distance of the bars of one x."""
        return _GROUP_SHARE / len(self.styles)

    def _draw_line(self, plot: Plot, line: ChartLine, index: int) -> None:
        style = self.styles[index]
        places = [self._place_cell(cell, index, place) for place, cell in enumerate(line.cells)]
        values = [nan if cell.median is None else cell.median for cell in line.cells]
        if self.is_bars:
            plot.axes.bar(
                places,
                values,
                width=min(self._bar_step(), _BAR_PX_MAXIMUM / plot.box.width * len(places)) * _BAR_SHARE,
                bottom=0,
                color=style.color,
                alpha=_LOG_ALPHA if self.axis.is_log else _SOLID,
                hatch=_hatch(style),
                edgecolor=self.colors.paper,
                linewidth=0,
            )
        else:
            plot.draw_line(places, values, style.color, dash=write_dash(style))
            plot.draw_points(places, values, style.marker, style.color)
        if self.is_ideal:
            ideals = [nan if cell.ideal is None else cell.ideal for cell in line.cells]
            if any(map(isfinite, ideals)):
                plot.draw_line(places, ideals, style.color, width=1.25, dash=(0, (6, 4)))
        for cell, x in zip(line.cells, places, strict=True):
            if isfinite(x):
                self._draw_cell(plot, cell, x, style)

    def _draw_cell(self, plot: Plot, cell: ChartCell, x: float, style: LineStyle) -> None:
        """Draw what a cell has beside its value: spread, runs, earlier value, failure, change."""
        color = self.colors.ink if self.is_bars else style.color
        if cell.state == "failed":
            plot.draw_crosses([x], [0.04], transform=plot.axes.get_xaxis_transform())
        if cell.p10 is None or cell.p90 is None:
            return
        if cell.state == "apart":
            plot.axes.vlines([x], [cell.p10], [cell.p90], color=style.color, linewidth=8)
            plot.axes.vlines([x], [cell.p10], [cell.p90], color=self.colors.paper, linewidth=5)
        elif cell.n > 1:
            plot.axes.vlines([x], [cell.p10], [cell.p90], color=color, linewidth=1.25)
            plot.draw_points([x, x], [cell.p10, cell.p90], "_", color, edge=1.25)
        if cell.earlier_median is not None:
            plot.draw_points([x], [cell.earlier_median], style.marker, color, edge=1, is_hollow=True)
        if cell.runs:
            own = [run for run in cell.runs if self.chart.over is None or run.over is not None]
            xs = [x if self.chart.over is None else run.over or 0.0 for run in own]
            values = [run.value for run in own]
            plot.draw_points(xs, values, ".", color, size=3, edge=1, alpha=0.6)
        if cell.mark is not None and cell.mark.state == "open":
            color = self.colors.regression if cell.mark.is_regression else self.colors.improvement
            sign = "▲" if cell.mark.relative > 0 else "▼"
            plot.write(sign, (x, cell.p90), (0, 2), ha="center", color=color)

    def _draw_limit(self, plot: Plot, facet: ScalingFacet, limit: ScalingLimit) -> LineLabel | None:
        """Draw a limit at each x: targets solid, others dashed; one above the axis is named only.

        Return its label; None where it is not known.
        """
        if self.chart.over is not None:
            return None
        known = [
            (place, value) for place, value in zip(self._list_places(), limit.values, strict=True) if value
        ]
        if not known:
            return None
        name = f"{'target: ' if limit.target else ''}{name_limit(facet, limit)}"
        line: Any = "-" if limit.target else (0, (6, 4))
        shown = [(place, value) for place, value in known if value <= self.axis.high]
        half = 0.5 if self.is_bars else 0.0
        x = [edge for place, _ in shown for edge in ((place - half, place + half) if half else (place,))]
        y = [value for _, value in shown for _ in range(2 if half else 1)]
        if len(shown) == 1 and not half:
            x, y = [shown[0][0] - 0.5, shown[0][0] + 0.5], [shown[0][1]] * 2
        if shown:
            plot.draw_line(x, y, self.colors.ink, width=1.25, dash=line)
        place, value = shown[0] if shown else (known[0][0], self.axis.high)
        size = format_with_unit(known[0][1], self.chart.metric)
        # Names of published limits have it.
        text = f"{name if size in name else f'{name} {size}'}{'' if shown else ' ↑'}"
        return LineLabel(text, place - half, value)

    def _draw_model(self, plot: Plot, found: CurveModel, model: ScalingModel) -> None:
        """Draw a scaling model with its band, and hollow points at the predicted widths."""
        color = self.styles[found.line].color
        band = [model.predict(width) for width in found.list_widths()]
        x = [log2(each.width) for each in band]
        low, high = [each.throughput.low for each in band], [each.throughput.high for each in band]
        plot.draw_band(x, low, high, color, 0.14)
        plot.draw_line(x, [each.throughput.value for each in band], color, width=1.5, dash=":")
        for each in found.predictions:
            if not each.is_measured:
                at = log2(each.width), each.throughput.value
                plot.draw_points(*at, "o", color, size=8, edge=1, is_hollow=True)
                plot.write(str(each.width), at, (0, 7), ha="center")

    def _draw_knees(self, plot: Plot, facet: ScalingFacet) -> None:
        for bend in find_bends(self.chart):
            if bend.place is None or self.chart.panels[bend.facet] is not facet:
                continue
            cell = facet.lines[bend.line].cells[bend.place]
            if cell.over is not None and cell.median is not None:
                plot.write(f"knee: {self.chart.x.labels[bend.place]}", (cell.over, cell.median), (6, 8))


def _hatch(style: LineStyle) -> str:
    return HATCHES[next(place for place, each in enumerate(STYLES) if each.color == style.color)]


def _list_values(cell: ChartCell) -> list[float]:
    found = (cell.median, cell.p10, cell.p90, cell.earlier_median, *(run.value for run in cell.runs))
    return [value for value in found if value is not None]


def _list_foot(chart: ScalingChart, *, is_bars: bool) -> Iterator[str]:
    shown = {"rw", "direction", *(fixed.dimension for fixed in chart.fixed)}
    yield " · ".join(
        f"{DIMENSIONS[name].label} {describe_value(name, value)}"
        for name, value in chart.common
        if name not in shown
    )
    cells = [cell for each in chart.stack for cell in each.cells if cell.n]
    parts = [f"Filter: {filter}"] if (filter := write_filter(chart.shown_filter)) else []
    parts.append(f"{format_count(chart.counts.shown, 'series')}")
    if cells:
        least, most = (choose(cell.n for cell in cells) for choose in (min, max))
        runs = format_count(most, "run") if least == most else f"{least} to {format_count(most, 'run')}"
        last_at = max(cell.last_at for cell in cells if cell.last_at)
        parts += [f"n = {runs} per value", f"newest run {format_moment(last_at)}"]
    if range := describe_level_range(chart.request.span):
        parts.append(range)
    yield " · ".join(parts)
    names = [lower_label(chart.x.dimension.label)]
    names += [
        f"{word}: {lower_label(axis.dimension.label)}"
        for word, axis in (("color", chart.color), ("panels", chart.facet))
        if axis is not None
    ]
    mark = "Bars" if is_bars else "Marks"
    level = "level" if chart.request.span.to_at else "current level"
    yield (
        f"{mark}: median of the {level}; whiskers: p10 to p90; gaps: no value; hollow crosses: failed;"
        f" {chart.metric.better} is better. By {', '.join(names)}."
    )
