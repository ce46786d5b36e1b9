"""The matrix as an image: a cell for each combination."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import format_count, format_value, lower_label
from benchapp.charts.images.frame import (
    LINE,
    TEXT_PX,
    Canvas,
    ImageBox,
    ImageOptions,
    draw_image,
    measure_text,
    shorten_text,
)
from benchapp.charts.read.chart import ChartCell, ChartPanel
from benchapp.charts.read.matrix import Matrix
from benchapp.charts.texts.fixed import place_panel
from benchapp.charts.texts.levels import describe_level_range, describe_mark
from benchapp.charts.texts.matrix import (
    REASONS,
    describe_changes,
    describe_matrix,
    describe_matrix_counts,
)
from benchapp.framework.times import format_moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def draw_matrix(matrix: Matrix, options: ImageOptions) -> bytes:
    """Return the image of a matrix. Errors: as of draw_image."""

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
        foot=_list_foot(matrix),
        draw=draw,
        body_height=heads + rows + LINE,
    )


def _measure_head(matrix: Matrix, panel: ChartPanel) -> int:
    return _HEAD_HEIGHT * (2 if panel.label else 1) + _SMALL_LINE * _count_column_lines(matrix, panel)


def _count_column_lines(matrix: Matrix, panel: ChartPanel) -> int:
    """Return how many lines the settings of the columns take: one for each dimension."""
    return max((len(text.split(", ")) for text in place_panel(matrix, panel).columns if text), default=0)


def _measure_row(matrix: Matrix, panel: ChartPanel) -> int:
    return _ROW_HEIGHT + _SMALL_LINE * any(map(any, place_panel(matrix, panel).cells))


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
        if panel.label:
            self._write(0, self.top, panel.label, self.box.width, weight="bold")
            self.top += _HEAD_HEIGHT
        name = self.matrix.x.dimension.label
        self._write(0, self.top, f"{name}:", self.name_width, color=self.colors.muted)
        for place, label in enumerate(self.matrix.x.labels[: self.columns]):
            right = self.name_width + (place + 1) * self.cell_width - 8
            self._write(right, self.top, label, self.cell_width - 8, color=self.colors.muted, align="right")
            for line, text in enumerate(placed.columns[place].split(", ")):
                self._write_settings(right, self.top + 14 + line * _SMALL_LINE, text)
        self.top += _HEAD_HEIGHT + _SMALL_LINE * _count_column_lines(self.matrix, panel)
        for row, of_row, of_cells in zip(panel.lines, placed.rows, placed.cells, strict=True):
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


def _list_foot(matrix: Matrix) -> Iterator[str]:
    yield from islice(describe_changes(matrix), 2)
    filter = write_filter(matrix.shown_filter)
    parts = [f"Filter: {filter}"] if filter else []
    parts.append(describe_matrix_counts(matrix))
    newest = max((cell.last_at for cell in matrix.cells if cell.last_at), default=None)
    if newest is not None:
        parts.append(f"newest run {format_moment(newest)}")
    if range := describe_level_range(matrix.span):
        parts.append(range)
    yield " · ".join(parts)
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
