"""The image of a chart: bars or lines of a scaling chart, a panel for each facet and metric; the table of a matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import isfinite, nan
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import format_count, format_value, format_with_unit, lower_label
from benchapp.charts.images.axes import (
    AXIS_HEAD,
    AXIS_WIDTH,
    TOO_LOW,
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
    TEXT_PX,
    Canvas,
    ImageBox,
    ImageOptions,
    LineStyle,
    assign_styles,
    draw_image,
    measure_text,
    shorten_text,
)
from benchapp.charts.read.chart import Chart, ChartCell, ChartLine, ChartPanel
from benchapp.charts.read.matrix import Matrix
from benchapp.charts.read.scaling_findings import find_dependences, find_findings, find_models
from benchapp.charts.read.scaling_shapes import ScalingChart, ScalingFacet, ScalingLimit
from benchapp.charts.texts.levels import describe_level_range, describe_mark, place_panel
from benchapp.charts.texts.matrix import (
    REASONS,
    describe_changes,
    describe_matrix,
    describe_matrix_counts,
)
from benchapp.charts.texts.scaling import describe_scaling, make_dependence_curves
from benchapp.charts.texts.scaling_remarks import label_limit, list_facts, list_knees, make_model_curves
from benchapp.framework.times import format_moment
from benchapp.series.read.selected_levels import LevelRange

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS_MAXIMUM: Final = 3
_PANEL_HEIGHT_MINIMUM: Final = 110
_AXIS_ROOM: Final = 38
_LABEL_ROOM: Final = 18
_GROUP_SHARE: Final = 0.82
_BAR_SHARE: Final = 0.92
_BAR_PX_MAXIMUM: Final = 56
_IDEAL_ROOM: Final = 1.25
_SOLID: Final = 0.88
_LOG_ALPHA: Final = 0.35
# Of a table.
_ROW_HEIGHT: Final = 46
_HEAD_HEIGHT: Final = 18
_PANEL_GAP: Final = 8
_SMALL_LINE: Final = 12
_SMALL_PX: Final = 9
_NAME_SHARE: Final = 0.3
_CELL_WIDTH_MINIMUM: Final = 76
# Wider cells have a line of the newest values.
_LINE_FROM: Final = 190
_LINE_WIDTH: Final = 70
# The least height of that line, relative to the level.
_LINE_SPAN: Final = 0.1


def draw_chart(chart: ScalingChart | Matrix, options: ImageOptions) -> bytes:
    """Return the image of a chart: the bars or lines of a scaling chart, or a matrix. Errors: of draw_image."""
    return _draw_table(chart, options) if isinstance(chart, Matrix) else _draw_marks(chart, options)


def _draw_marks(chart: ScalingChart, options: ImageOptions) -> bytes:
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
                LegendEntry(line.label, style, is_bar=is_bars)
                for line, style in zip(lines, styles, strict=True)
            ]
            rows = place_legend(entries, box.width)
        below = len(rows) * LINE + (6 if rows else 0)
        panels = ImageBox(box.left, box.top, box.width, box.height - below)
        for each, place, area in _place_panels(canvas, chart, panels):
            _ScalingPanel(canvas, each, styles, is_bars=is_bars).draw(place, area)
        write_legend(canvas, rows, ImageBox(box.left, panels.bottom + 6, box.width, below))

    title = describe_scaling(chart, find_findings(chart))
    return draw_image(options, title=title, foot=_list_marks_foot(chart, is_bars=is_bars), draw=draw)


def _place_panels(
    canvas: Canvas, chart: ScalingChart, box: ImageBox
) -> Iterator[tuple[ScalingChart, int, ImageBox]]:
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
            yield each, place, ImageBox(box.left + column * width, top, width, height)


class _ScalingPanel:
    """One metric of one facet while it is drawn."""

    def __init__(
        self, canvas: Canvas, chart: ScalingChart, styles: Sequence[LineStyle], *, is_bars: bool
    ) -> None:
        is_log, is_ideal = chart.request.is_log, chart.request.is_ideal
        self.canvas, self.chart, self.styles = canvas, chart, styles
        self.colors = canvas.colors
        self.is_bars, self.is_ideal = is_bars, is_ideal
        cells = chart.cells
        values = [value for cell in cells for value in _list_values(cell)]
        self.most = max(values, default=0.0)
        limits = [value for facet in chart.panels for limit in facet.limits for value in limit.values]
        within = [value for value in limits if value is not None and value <= self.most]
        if is_ideal:
            within += [min(cell.ideal, _IDEAL_ROOM * self.most) for cell in cells if cell.ideal is not None]
        # Bars have no axis of numbers.
        models = () if is_bars else find_models(chart)
        dependences = find_dependences(chart)
        self.curves = [
            make_model_curves(models, place) or make_dependence_curves(dependences, place)
            for place in range(len(chart.panels))
        ]
        within += [high for curves in self.curves for curve in curves for high in curve["highs"]]
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

    def draw(self, place: int, box: ImageBox) -> None:
        facet = self.chart.panels[place]
        label = _LABEL_ROOM if facet.label else 0
        area = ImageBox(
            box.left + AXIS_WIDTH,
            box.top + label + AXIS_HEAD,
            box.width - AXIS_WIDTH - 12,
            box.height - label - AXIS_HEAD - _AXIS_ROOM,
        )
        if facet.label:
            text = shorten_text(facet.label, area.width, weight="bold")
            self.canvas.write(area.left, box.top, text, weight="bold")
        if area.height < LINE:
            self.canvas.write_message(box, TOO_LOW)
            return
        plot = Plot(self.canvas, area)
        plot.show_values(self.axis, self.chart.metric.label)
        self._show_x(plot)
        for index, line in enumerate(facet.lines):
            self._draw_line(plot, line, index)
        for curve in self.curves[place]:
            self._draw_model(plot, curve)
        labels = (self._draw_limit(plot, facet, limit) for limit in facet.limits)
        write_line_labels(plot, [each for each in labels if each])
        for knee in list_knees(self.chart, place):
            cell = facet.lines[knee["line"]].cells[knee["place"]]
            plot.write(knee["label"], (cell.over or 0.0, cell.median or 0.0), (6, 8))
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
            last = max([places[-1], *(each["positions"][-1] for curves in self.curves for each in curves)])
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
                hatch=style.hatch,
                edgecolor=self.colors.paper,
                linewidth=0,
            )
        else:
            if self.chart.draw_mode != "points":
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
        if cell.n > 1:
            plot.axes.vlines([x], [cell.p10], [cell.p90], color=color, linewidth=1.25)
            plot.draw_points([x, x], [cell.p10, cell.p90], "_", color, edge=1.25)
        if cell.earlier_median is not None:
            plot.draw_points([x], [cell.earlier_median], style.marker, color, edge=1, is_hollow=True)
        if cell.runs:
            own = [run for run in cell.runs if self.chart.over is None or run.over is not None]
            xs = [x if self.chart.over is None else run.over or 0.0 for run in own]
            values = [run.value for run in own]
            plot.draw_points(xs, values, ".", color, size=3, edge=1, alpha=0.6)
        if cell.mark is not None and cell.mark.is_open_in(self.chart.metric.base):
            color = self.colors.regression if cell.mark.is_regression else self.colors.improvement
            sign = "▲" if cell.mark.relative > 0 else "▼"
            plot.write(sign, (x, cell.p90), (0, 2), ha="center", color=color)

    def _draw_limit(self, plot: Plot, facet: ScalingFacet, limit: ScalingLimit) -> LineLabel | None:
        """Draw a limit at each x: targets solid, others dashed; one above the axis is named only.

        Return its label; None where it is not known.
        """
        middles = self._list_middles(facet)
        known = [
            (place, value)
            for place, value in zip(middles, limit.values, strict=True)
            if value and place is not None
        ]
        if not known:
            return None
        name = label_limit(facet, limit)
        line: Any = "-" if limit.target else (0, (6, 4))
        shown = [(place, value) for place, value in known if value <= self.axis.high]
        over = self.over_axis
        half = 0.5 if self.is_bars else (over.high - over.low) / 50 if over else 0.0
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
        return LineLabel(text, max(place - half, plot.axes.get_xlim()[0]), value)

    def _list_middles(self, facet: ScalingFacet) -> Sequence[float | None]:
        """Return where each x is on the axis: over a second metric in the middle of its marks, None without one."""
        if self.chart.over is None:
            return self._list_places()
        columns = zip(*(line.cells for line in facet.lines), strict=True)
        known = ([cell.over for cell in column if cell.over is not None] for column in columns)
        return [fmean(values) if values else None for values in known]

    def _draw_model(self, plot: Plot, curve: Mapping[str, Any]) -> None:
        """Draw a scaling model with its band, and hollow points at the predicted widths."""
        line, x = curve["line"], curve["positions"]
        color = self.colors.ink if line is None else self.styles[line].color
        plot.draw_band(x, curve["lows"], curve["highs"], color, 0.14)
        plot.draw_line(x, curve["values"], color, width=1.5, dash=":")
        for each in curve["predictions"]:
            at = each["position"], each["value"]
            plot.draw_points(*at, "o", color, size=8, edge=1, is_hollow=True)
            plot.write(each["label"], at, (0, 7), ha="center")


def _list_values(cell: ChartCell) -> list[float]:
    found = (cell.median, cell.p10, cell.p90, cell.earlier_median, *(run.value for run in cell.runs))
    return [value for value in found if value is not None]


def _list_marks_foot(chart: ScalingChart, *, is_bars: bool) -> Iterator[str]:
    yield " · ".join(f"{label} {value}" for label, value in list_facts(chart))
    cells = [cell for each in chart.stack for cell in each.cells if cell.n]
    counts = [format_count(chart.counts.shown, "series")]
    if cells:
        least, most = (choose(cell.n for cell in cells) for choose in (min, max))
        runs = format_count(most, "run") if least == most else f"{least} to {format_count(most, 'run')}"
        counts.append(f"n = {runs} per value")
    yield _describe_source(chart, cells, counts, span=chart.request.span)
    names = [lower_label(chart.x.dimension.label)]
    names += [
        f"{word}: {lower_label(axis.dimension.label)}"
        for word, axis in (("color", chart.color), ("panels", chart.facet))
        if axis is not None
    ]
    if chart.is_by_condition:
        yield (
            f"Dots: single runs; points: their medians; dotted: slopes; {chart.metric.better} is better."
            f" By {', '.join(names)}."
        )
        return
    mark = "Bars" if is_bars else "Marks"
    level = "level" if chart.request.span.to_at else "current level"
    yield (
        f"{mark}: median of the {level}; whiskers: p10 to p90; gaps: no value; hollow crosses: failed;"
        f" {chart.metric.better} is better. By {', '.join(names)}."
    )


def _draw_table(matrix: Matrix, options: ImageOptions) -> bytes:
    def draw(canvas: Canvas, box: ImageBox) -> None:
        if not matrix.panels or not matrix.size:
            canvas.write_message(box, "No series match.")
            return
        _Table(canvas, matrix, box).draw()

    heads = sum(_measure_head(matrix, panel) + _PANEL_GAP for panel in matrix.panels)
    rows = sum(len(panel.lines) * _measure_row(matrix, panel) for panel in matrix.panels)
    return draw_image(
        options,
        title=describe_matrix(matrix),
        foot=_list_table_foot(matrix),
        draw=draw,
        body_height=heads + rows + LINE,
    )


def _measure_head(matrix: Matrix, panel: ChartPanel) -> int:
    return _HEAD_HEIGHT * (
        2 if place_panel(matrix, panel)["label"] else 1
    ) + _SMALL_LINE * _count_column_lines(matrix, panel)


def _count_column_lines(matrix: Matrix, panel: ChartPanel) -> int:
    """Return how many lines the settings of the columns take: one for each dimension."""
    return max((len(text.split(", ")) for text in place_panel(matrix, panel)["columns"] if text), default=0)


def _measure_row(matrix: Matrix, panel: ChartPanel) -> int:
    return _ROW_HEIGHT + _SMALL_LINE * any(map(any, place_panel(matrix, panel)["cells"]))


class _Table:
    """The cells while they are drawn, from top to bottom as far as there is room."""

    def __init__(self, canvas: Canvas, matrix: Matrix, box: ImageBox) -> None:
        self.canvas, self.matrix, self.box = canvas, matrix, box
        self.colors = canvas.colors
        # One area in pixels from the upper left corner.
        self.axes: Axes = canvas.add_axes(box)
        self.axes.set_axis_off()
        self.axes.set_xlim(0, box.width)
        self.axes.set_ylim(box.height, 0)
        names = [measure_text(row.label) for panel in matrix.panels for row in panel.lines]
        self.name_width = min(max(names, default=0) + 12, box.width * _NAME_SHARE)
        room = box.width - self.name_width
        count = len(matrix.x.values)
        self.columns = max(1, min(count, int(room // _CELL_WIDTH_MINIMUM)))
        self.cell_width = min(room / self.columns, 260)
        self.hidden_rows = 0
        self.top = 0.0

    def draw(self) -> None:
        bottom = self.box.height - LINE
        for panel in self.matrix.panels:
            head = _measure_head(self.matrix, panel)
            if self.hidden_rows or self.top + head + _measure_row(self.matrix, panel) > bottom:
                self.hidden_rows += len(panel.lines)
                continue
            self._draw_panel(panel, bottom)
            self.top += _PANEL_GAP
        self._write_hidden()

    def _draw_panel(self, panel: ChartPanel, bottom: float) -> None:
        placed, height = place_panel(self.matrix, panel), _measure_row(self.matrix, panel)
        if placed["label"]:
            self._write(0, self.top, placed["label"], self.box.width, weight="bold")
            self.top += _HEAD_HEIGHT
        name = self.matrix.x.dimension.label
        self._write(0, self.top, f"{name}:", self.name_width, color=self.colors.muted)
        for place, label in enumerate(self.matrix.x.labels[: self.columns]):
            right = self.name_width + (place + 1) * self.cell_width - 8
            self._write(right, self.top, label, self.cell_width - 8, color=self.colors.muted, align="right")
            for line, text in enumerate(placed["columns"][place].split(", ")):
                self._write_settings(right, self.top + 14 + line * _SMALL_LINE, text)
        self.top += _HEAD_HEIGHT + _SMALL_LINE * _count_column_lines(self.matrix, panel)
        for row, of_row, of_cells in zip(panel.lines, placed["rows"], placed["cells"], strict=True):
            if self.top + height > bottom:
                self.hidden_rows += 1
                continue
            self.axes.plot(
                [0, self.name_width + self.columns * self.cell_width],
                [self.top, self.top],
                color=self.colors.line,
                linewidth=1,
            )
            self._write(0, self.top + 6, row.label, self.name_width - 8)
            self._write(
                0, self.top + 22, of_row, self.name_width - 8, color=self.colors.muted, size=_SMALL_PX
            )
            for place, cell in enumerate(row.cells[: self.columns]):
                left = self.name_width + place * self.cell_width
                self._draw_cell(cell, left)
                self._write_settings(left + self.cell_width - 8, self.top + 43, of_cells[place])
            self.top += height

    def _write_settings(self, right: float, top: float, text: str) -> None:
        """Write what a column or cell was measured with, up to its right end."""
        self._write(
            right, top, text, self.cell_width - 12, color=self.colors.muted, size=_SMALL_PX, align="right"
        )

    def _draw_cell(self, cell: ChartCell, left: float) -> None:
        right, width = left + self.cell_width - 8, self.cell_width - 12
        metric = self.matrix.metric
        if not cell.n:
            reason = REASONS.get(cell.state, "")
            self.axes.bar(
                [left + self.cell_width / 2],
                [_ROW_HEIGHT - 6],
                bottom=self.top + 3,
                width=self.cell_width - 6,
                color="none",
                edgecolor=self.colors.line,
                hatch="///",
                linewidth=0,
            )
            self._write(right, self.top + 14, reason, width, color=self.colors.muted, align="right")
            return
        value = format_value(cell.median, metric.unit)
        self._write(right, self.top + 4, value, width, weight="bold", align="right")
        low, high = (format_value(number, metric.unit) for number in (cell.p10, cell.p90))
        below = f"n = {cell.n}"
        if cell.n > 1:
            spread = f"{low}–{high}, {below}"
            below = spread if measure_text(spread, size=_SMALL_PX) <= width else below
        self._write(
            right, self.top + 19, below, width, color=self.colors.muted, size=_SMALL_PX, align="right"
        )
        if cell.mark is not None:
            text = describe_mark(cell.mark, metric=metric.name, has_year=True)
            if measure_text(text, size=_SMALL_PX) > width:
                text = text.partition(" since ")[0]
            worse = self.colors.regression if cell.mark.is_regression else self.colors.improvement
            color = worse if cell.mark.state == "open" else self.colors.muted
            self._write(right, self.top + 31, text, width, color=color, size=_SMALL_PX, align="right")
        if self.cell_width >= _LINE_FROM and len(cell.recent) > 1:
            self._draw_recent(cell.recent, left + 10)

    def _draw_recent(self, recent: tuple[float, ...] | Any, left: float) -> None:
        """Draw the newest values, oldest first; full height: a tenth of the level, or more if they differ more."""
        values = list(recent)
        middle = (min(values) + max(values)) / 2
        span = max(max(values) - min(values), abs(middle) * _LINE_SPAN) or 1.0
        height = 18
        x = [left + place * _LINE_WIDTH / (len(values) - 1) for place in range(len(values))]
        y = [self.top + 14 - (value - middle) / span * height for value in values]
        self.axes.plot(x, y, color=self.colors.muted, linewidth=1.25)

    def _write_hidden(self) -> None:
        hidden = [
            format_count(count, f"more {noun}")
            for count, noun in (
                (self.hidden_rows, "row"),
                (len(self.matrix.x.values) - self.columns, "column"),
            )
            if count > 0
        ]
        if hidden:
            text = f"and {', '.join(hidden)}; a larger image shows all"
            self._write(0, self.box.height - LINE, text, self.box.width, color=self.colors.muted)

    def _write(
        self,
        x: float,
        y: float,
        text: str,
        width: float,
        *,
        color: str = "",
        weight: str = "normal",
        size: float = TEXT_PX,
        align: str = "left",
    ) -> None:
        self.axes.text(
            x,
            y,
            shorten_text(text, width, size=size, weight=weight),
            fontsize=size,
            fontweight=weight,
            color=color or self.colors.ink,
            ha=align,
            va="top",
        )


def _list_table_foot(matrix: Matrix) -> Iterator[str]:
    yield from islice(describe_changes(matrix), 2)
    yield _describe_source(matrix, matrix.cells, [describe_matrix_counts(matrix)], span=matrix.span)
    names = ", ".join(lower_label(each.label) for each in (*matrix.rows, *matrix.facets))
    cell = (
        "level, p10–p90, n runs"
        if matrix.span.to_at
        else "current level, p10–p90, n runs, open or accepted change"
    )
    yield (
        f"Cell: median {matrix.metric.label} of the {cell};"
        f" {matrix.metric.better} is better. Rows: {names}; columns: {lower_label(matrix.x.dimension.label)}."
    )


def _describe_source(
    chart: Chart[Any], cells: Sequence[ChartCell], counts: Sequence[str], *, span: LevelRange
) -> str:
    """Return the filter, how many series and runs the cells have, the newest run and the time range."""
    filter = write_filter(chart.shown_filter)
    newest = max((cell.last_at for cell in cells if cell.last_at), default=None)
    parts = [f"Filter: {filter}" if filter else "", *counts]
    parts += [f"newest run {format_moment(newest)}" if newest else "", describe_level_range(span)]
    return " · ".join(part for part in parts if part)
