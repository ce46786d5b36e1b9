"""The history of up to 12 series as an image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchapp.catalog.metrics import (
    CATALOG,
    KIND_NAMES,
    Metric,
    format_change_size,
    format_count,
    format_signed_percent,
    format_value,
    format_with_unit,
)
from benchapp.charts.images.axes import (
    AT_EDGE,
    AXIS_HEAD,
    AXIS_WIDTH,
    TOO_LOW,
    LegendEntry,
    LineLabel,
    Plot,
    ValueAxis,
    draw_sample,
    make_value_axis,
    spread_apart,
    write_dash,
    write_line_labels,
)
from benchapp.charts.images.frame import (
    GRAY_STYLE,
    LINE,
    Canvas,
    ImageBox,
    ImageOptions,
    LineStyle,
    assign_styles,
    draw_image,
    measure_text,
    shorten_text,
    style_of_value,
)
from benchapp.charts.read.chart import ChartThreshold
from benchapp.charts.read.history import ChosenSeries, HistoryLine, HistoryPart, SeriesHistory
from benchapp.charts.texts.comparison import find_shared_parts
from benchapp.charts.texts.history import (
    find_shown_level,
    format_history_title,
    is_threshold_near,
    list_levels,
    name_threshold,
)
from benchapp.framework.read.binary_columns import from_us
from benchapp.framework.times import format_day, format_moment
from benchapp.incidents.read.changes import ChangeMark
from benchapp.incidents.read.series_status import select_detected
from benchapp.models import ChangeState
from benchapp.models.measurement import are_same_kind

PANELS_MAXIMUM: Final = 3
# Up to so many lines have their names at their ends; bands of more than three would overlap.
_END_LABELS: Final = 6
_END_ROOM: Final = 150
_BANDS: Final = 3
_CROWDED: Final = 400
_AXIS_ROOM: Final = 36
_PANEL_GAP: Final = 12 + AXIS_HEAD
# The rows below the chart take at most this share of its box.
_ROWS_SHARE: Final = 0.35
_ENVIRONMENT_GAP: Final = 48
_PLANNED_ROOM: Final = 160
_SPREAD_PX: Final = 7
_US: Final = 1e6


def draw_history(
    history: SeriesHistory,
    chosen: ChosenSeries,
    options: ImageOptions,
    *,
    filter: str = "",
    is_log: bool = False,
    thresholds: Sequence[ChartThreshold] = (),
) -> bytes:
    """Return the image of a history: a panel for each of its first three metrics. Errors: as of draw_image.

    filter: as in the address. thresholds: of the reader.
    """
    metrics = [CATALOG[name] for name in history.metrics[:PANELS_MAXIMUM]]
    styles = _choose_styles(history)

    def draw(canvas: Canvas, box: ImageBox) -> None:
        span = _find_span(history)
        if span is None:
            canvas.write_message(box, "No runs in this time range." if chosen.rows else "No series match.")
            return
        rows = _list_rows(history, metrics[0], styles)
        below = _count_rows(len(rows), box)
        chart = ImageBox(box.left, box.top, box.width, box.height - below * LINE - (6 if below else 0))
        boxes = _place_panels(chart, len(metrics))
        for place, metric in enumerate(metrics):
            own = [each for each in thresholds if each.threshold.metric == metric.name]
            panel = _HistoryPanel(canvas, history, metric, styles, span, is_log=is_log, thresholds=own)
            panel.draw(boxes[place], is_last=place == len(metrics) - 1)
        _write_rows(canvas, rows, ImageBox(box.left, chart.bottom + 6, box.width, below * LINE), below=below)

    return draw_image(
        options,
        title=format_history_title(history, metrics[0], chosen),
        foot=_list_foot(history, chosen, filter),
        draw=draw,
    )


def _choose_styles(history: SeriesHistory) -> list[LineStyle]:
    if history.colors is not None:
        return [GRAY_STYLE] * len(history.lines)
    return assign_styles([(line.row.workload.rw, line.row.direction) for line in history.lines])


def _find_span(history: SeriesHistory) -> tuple[datetime, datetime] | None:
    """Return start and end of the axis: what was asked for, but no time before the first run; None without runs."""
    times = [line.points.points.at_us for line in history.lines if line.points.points.at_us.size]
    if not times:
        return None
    first, last = from_us(min(each[0] for each in times)), from_us(max(each[-1] for each in times))
    # An open or later end would leave the right side empty.
    began = min(line.row.first_at for line in history.lines)
    start = first if history.from_at is None else max(history.from_at, began)
    return (start, max(last, start))


def _place_panels(box: ImageBox, count: int) -> list[ImageBox]:
    """Return the plot areas, the first one twice as high as the others; room for axes is left out."""
    left, width = box.left + AXIS_WIDTH, box.width - AXIS_WIDTH
    height = box.height - AXIS_HEAD - _AXIS_ROOM - (count - 1) * _PANEL_GAP
    share = height / (count + 1) if count > 1 else height
    places, top = [], box.top + AXIS_HEAD
    for place in range(count):
        own = (2 * share if count > 1 else share) if place == 0 else share
        places.append(ImageBox(left, top, width, own))
        top += own + _PANEL_GAP
    return places


class _HistoryPanel:
    """One metric of the history while it is drawn."""

    def __init__(
        self,
        canvas: Canvas,
        history: SeriesHistory,
        metric: Metric,
        styles: Sequence[LineStyle],
        span: tuple[datetime, datetime],
        *,
        is_log: bool,
        thresholds: Sequence[ChartThreshold],
    ) -> None:
        self.canvas, self.history, self.metric, self.span = canvas, history, metric, span
        self.colors = canvas.colors
        self.lines = list(zip(history.lines, styles, strict=True))
        self.is_crowded = history.run_count > _CROWDED
        values = list(self._list_values())
        known = [value for value in values if np.isfinite(value)]
        self.thresholds = [each for each in thresholds if is_threshold_near(each.threshold.limit, known)]
        within = [*values, *(each.threshold.limit for each in self.thresholds)]
        self.axis = make_value_axis(within, metric.unit, is_log=is_log)

    def draw(self, box: ImageBox, *, is_last: bool) -> None:
        has_ends = 1 < len(self.lines) <= _END_LABELS and self.canvas.options.width >= 640
        area = ImageBox(box.left, box.top, box.width - (_END_ROOM if has_ends else 4), box.height)
        if area.height < LINE:
            self.canvas.write_message(area, TOO_LOW)
            return
        plot = Plot(self.canvas, area)
        plot.show_values(self.axis, self.metric.label)
        plot.show_times(*self.span, has_labels=is_last)
        self._draw_planned(plot, has_names=is_last)
        self._draw_environment(plot, has_names=is_last)
        for line, style in self.lines:
            if len(self.lines) <= _BANDS:
                self._draw_bands(plot, line, style)
        # Few points are above the steps, many below them.
        layers = (
            [self._draw_parts, self._draw_steps] if self.is_crowded else [self._draw_steps, self._draw_parts]
        )
        for draw_layer in layers:
            for line, style in self.lines:
                draw_layer(plot, line, style)
        for line, style in self.lines:
            self._draw_small_steps(plot, line)
            self._draw_spread_increase(plot, line, style)
        self._draw_changes(plot)
        self._draw_thresholds(plot)
        if not any(True for _ in self._list_values()):
            self.canvas.write_message(area, f"No run has a value of {self.metric.label}.")
        if has_ends:
            self._write_ends(area)

    def _list_values(self) -> Iterator[float]:
        name = self.metric.name
        for line in self.history.lines:
            for part in line.parts:
                if part.buckets is not None:
                    spread = part.buckets.spreads[name]
                    yield from spread.minimum.tolist()
                    yield from spread.maximum.tolist()
                else:
                    points = part.points.points
                    yield from points.values[name][points.counts].tolist()
            for level in self._list_visible(line):
                yield from (level.median, level.p10, level.p90)

    def _list_visible(self, line: HistoryLine) -> tuple[Any, ...]:
        first, last = self.span
        return tuple(
            level
            for level in line.levels.get(self.metric.name, ())
            if level.to_at >= first and level.from_at <= last
        )

    def _list_level_spans(self, line: HistoryLine) -> list[tuple[Any, float, float]]:
        """Return the visible levels with start and end: a level ends where the next one of its kind begins."""
        levels = self._list_visible(line)
        ends = [
            following.from_at if are_same_kind(level.latency_kind, following.latency_kind) else level.to_at
            for level, following in pairwise(levels)
        ] + [level.to_at for level in levels[-1:]]
        low, high = (_number(moment) for moment in self.span)
        return [
            (level, max(_number(level.from_at), low), min(_number(end), high))
            for level, end in zip(levels, ends, strict=True)
        ]

    def _draw_bands(self, plot: Plot, line: HistoryLine, style: LineStyle) -> None:
        for level, start, end in self._list_level_spans(line):
            if level.n > 2:
                plot.draw_band([start, end], level.p10, level.p90, style.color, 0.14)

    def _draw_steps(self, plot: Plot, line: HistoryLine, style: LineStyle) -> None:
        spans = self._list_level_spans(line)
        if not spans:
            return
        x: list[float] = []
        y: list[float] = []
        for place, (level, start, end) in enumerate(spans):
            if place and not are_same_kind(level.latency_kind, spans[place - 1][0].latency_kind):
                # No line leads from one kind of latency to the other.
                x, y = [*x, start], [*y, math.nan]
            x, y = [*x, start, end], [*y, level.median, level.median]
        # The halo separates the line from points of the same color.
        plot.draw_line(x, y, self.colors.paper, width=4, alpha=0.7, solid_capstyle="butt")
        dash = write_dash(style) if len(self.lines) > 1 else "-"
        plot.draw_line(x, y, style.color, dash=dash, solid_capstyle="butt")

    def _draw_small_steps(self, plot: Plot, line: HistoryLine) -> None:
        if self.metric.name != self.history.metrics[0]:
            return
        for step in line.small_steps:
            if step.to_at >= self.span[0] and step.from_at <= self.span[1]:
                start, at, end = (_number(moment) for moment in (step.from_at, step.at, step.to_at))
                y = [step.before, step.before, step.after, step.after]
                plot.draw_line([start, at, at, end], y, self.colors.ink, width=1, dash=(0, (2, 2)))

    def _draw_spread_increase(self, plot: Plot, line: HistoryLine, style: LineStyle) -> None:
        """Draw a hatched bar at the bottom, from the first run with the larger standard deviation on."""
        found = select_detected(line.variability, self.metric.name)
        if found is None or found.spread_increase is None:
            return
        start, end = max(found.spread_increase.from_at, self.span[0]), min(line.row.last_at, self.span[1])
        if start < end:
            plot.axes.axvspan(
                _number(start),
                _number(end),
                ymax=_SPREAD_PX / plot.box.height,
                facecolor=self.colors.paper,
                edgecolor=style.color,
                hatch="////",
                linewidth=0,
            )

    def _draw_parts(self, plot: Plot, line: HistoryLine, style: LineStyle) -> None:
        for part in line.parts:
            own = style
            if self.history.colors is not None:
                values = self.history.colors.values
                own = style_of_value(None if part.value is None else values.index(part.value))
            if part.buckets is not None:
                self._draw_buckets(plot, part, own)
            else:
                self._draw_points(plot, part, own)

    def _draw_points(self, plot: Plot, part: HistoryPart, style: LineStyle) -> None:
        points = part.points.points
        x, y = points.at_us / _US, points.values[self.metric.name]
        known = ~np.isnan(y)
        counts = points.counts & known
        size = 4 if self.is_crowded else 6
        good, doubtful = counts & ~points.is_doubtful, counts & points.is_doubtful
        excluded = points.is_excluded & ~points.has_failed & known
        alpha = 0.45 if self.is_crowded else 0.75
        plot.draw_points(_numbers(x[good]), y[good], style.marker, style.color, size=size, alpha=alpha)
        hollow: dict[str, Any] = {"size": size, "edge": 1.25, "is_hollow": True}
        plot.draw_points(_numbers(x[doubtful]), y[doubtful], style.marker, style.color, **hollow)
        plot.draw_points(_numbers(x[excluded]), y[excluded], style.marker, self.colors.muted, **hollow)
        struck = [(-1, -1), (1, 1)]
        plot.draw_points(_numbers(x[excluded]), y[excluded], struck, self.colors.muted, size=10, edge=1.25)
        failed = points.has_failed
        self._draw_crosses(plot, _numbers(x[failed]), y[failed])

    def _draw_buckets(self, plot: Plot, part: HistoryPart, style: LineStyle) -> None:
        buckets = part.buckets
        if buckets is None:
            return
        spread = buckets.spreads[self.metric.name]
        x = _numbers((buckets.first_us + buckets.last_us) / 2 / _US)
        known = ~np.isnan(spread.median)
        plot.axes.vlines(
            x[known], spread.minimum[known], spread.maximum[known], color=style.color, alpha=0.5, linewidth=2
        )
        plot.draw_points(x[known], spread.median[known], "_", style.color, size=4, edge=1.5)
        failed = buckets.failed > 0
        self._draw_crosses(plot, x[failed], np.full(int(failed.sum()), np.nan))

    def _draw_crosses(self, plot: Plot, x: NDArray[np.float64], y: NDArray[np.float64]) -> None:
        """Draw failed runs: a hollow cross at the value, at the lower edge without one."""
        if not x.size:
            return
        inside = np.clip(np.where(np.isnan(y), self.axis.low, y), self.axis.low, self.axis.high)
        plot.draw_crosses(x, inside)

    def _draw_thresholds(self, plot: Plot) -> None:
        """Draw the thresholds as dashed lines with their labels at the left."""
        axes, labels = plot.axes, []
        for found in self.thresholds:
            limit = found.threshold.limit
            axes.axhline(limit, color=self.colors.ink, linewidth=1.25, linestyle=(0, (5, 3)))
            name = name_threshold(found, series_count=len(self.lines))
            labels.append(LineLabel(name, axes.get_xlim()[0], limit))
        write_line_labels(plot, labels)

    def _draw_planned(self, plot: Plot, *, has_names: bool) -> None:
        """Shade planned events from a line at their start, named above the environment changes where there is room."""
        axes, width = plot.axes, plot.box.width
        low, high = axes.get_xlim()
        free = -1.0
        for mark in reversed(self.history.planned):
            start, end = (min(max(_number(each), low), high) for each in (mark.from_at, mark.ends_at))
            if _number(mark.from_at) > high or _number(mark.ends_at) < low:
                continue
            axes.axvspan(start, end, facecolor=self.colors.muted, alpha=0.12, linewidth=0)
            axes.axvline(start, color=self.colors.muted, linewidth=1)
            place = (start - low) / (high - low) * width
            if has_names and place >= free:
                text = shorten_text(mark.reason, _PLANNED_ROOM, size=9)
                is_left = place + _PLANNED_ROOM > width
                shift, side = ((-3, 14), "right") if is_left else ((3, 14), "left")
                plot.write(text, (start, 0), shift, units=AT_EDGE, ha=side, size=9)
                free = place + measure_text(text, size=9) + 12

    def _draw_environment(self, plot: Plot, *, has_names: bool) -> None:
        """Draw environment changes as dotted lines, named above the axis where there is room."""
        low, high = (_number(moment) for moment in self.span)
        changes = sorted(
            (_number(change.at), [field.label for field in change.fields])
            for line in self.history.lines
            for change in line.environments.changes
            if self.span[0] <= change.at <= self.span[1]
        )
        free = -1.0
        for x, labels in changes:
            plot.axes.axvline(x, color=self.colors.field_line, linewidth=1, linestyle=(0, (1, 3)))
            place = (x - low) / max(high - low, 1e-9) * self.canvas.options.width
            if has_names and place >= free:
                name = labels[0] if len(set(labels)) == 1 else f"{labels[0]} +{len(set(labels)) - 1}"
                text = shorten_text(name, 90, size=9)
                plot.write(text, (x, 0), (3, 2), units=AT_EDGE, size=9, color=self.colors.muted)
                free = place + max(_ENVIRONMENT_GAP, measure_text(name, size=9) + 8)

    def _draw_changes(self, plot: Plot) -> None:
        """Draw detected changes as vertical lines with direction, size and incident; dashed while suspected.

        A switch of the kind of latency is drawn likewise, with the kind that begins.
        """
        low, high = plot.axes.get_xlim()
        free = -1.0
        has_incident = self.canvas.options.has_incidents
        marks = [
            (
                mark.at,
                describe_change_mark(mark, has_incident=has_incident),
                self.colors.regression if mark.is_regression else self.colors.improvement,
                mark.state == ChangeState.SUSPECTED,
            )
            for mark in self._list_changes()
        ]
        marks += [
            (level.from_at, KIND_NAMES[level.latency_kind], self.colors.muted, False)
            for line, _ in self.lines
            for before, level in pairwise(self._list_visible(line))
            if not are_same_kind(before.latency_kind, level.latency_kind)
        ]
        for at, text, color, is_suspected in sorted(marks):
            x = _number(at)
            plot.axes.axvline(x, color=color, linewidth=1.5, linestyle=(0, (3, 3)) if is_suspected else "-")
            place = (x - low) / (high - low) * plot.box.width
            if place < free:
                continue
            width = measure_text(text, weight="bold") + 6
            is_left = place + width > plot.box.width
            plot.write(
                text,
                (x, 1),
                (-4 if is_left else 4, -2),
                units=AT_EDGE,
                color=color,
                ha="right" if is_left else "left",
                va="top",
                fontweight="bold",
                bbox={"facecolor": self.colors.paper, "edgecolor": "none", "pad": 1, "alpha": 0.8},
            )
            free = place + width

    def _list_changes(self) -> list[ChangeMark]:
        return [
            mark
            for line in self.history.lines
            for mark in line.changes
            if mark.metric == self.metric.name and self.span[0] <= mark.at <= self.span[1]
        ]

    def _write_ends(self, plot: ImageBox) -> None:
        """Write the names of the lines beside their last levels."""
        found = [
            (line, style, spans[-1][0])
            for line, style in self.lines
            if (spans := self._list_level_spans(line))
        ]
        places = [plot.bottom - _share(level.median, self.axis) * plot.height for _, _, level in found]
        moved = spread_apart(places, top=plot.top + 6, bottom=plot.bottom - 6, height=LINE - 2)
        for (line, style, _), y in zip(found, moved, strict=True):
            name = shorten_text(line.name, _END_ROOM - 12)
            self.canvas.write(plot.right + 8, y, name, color=self.colors.ink, middle=True)
            self.canvas.write(plot.right + 1, y, "■", size=6, color=style.color, middle=True)


def describe_change_mark(mark: ChangeMark, *, has_incident: bool) -> str:
    """Return the label of a change: "▼ 21 %, incident 12"."""
    if mark.recovers_from is not None:
        return f"recovered from {format_signed_percent(mark.recovers_from)}"
    sign = "▲" if mark.relative > 0 else "▼"
    incident = f", incident {mark.incident_id}" if has_incident and mark.incident_id else ""
    return f"{sign} {format_change_size(mark.relative)}{incident}"


def _list_rows(history: SeriesHistory, metric: Metric, styles: Sequence[LineStyle]) -> list[LegendEntry]:
    """Return a row for each series: name, median, p10 to p90 and runs of its last level; then one for each color."""
    rows = []
    for line, style in zip(history.lines, styles, strict=True):
        shown = find_shown_level(list_levels(line, metric.name))
        if shown is None:
            text = f"{line.name}: no valid run with a value"
        else:
            level = shown.level
            low, high = (format_value(value, metric.unit) for value in (level.p10, level.p90))
            spread = f", p10–p90 {low} to {high}" if level.n > 1 else ""
            text = (
                f"{line.name}: {format_with_unit(level.median, metric)}{spread}, n = {level.n}"
                f" since {format_day(level.from_at)}"
            )
        rows.append(LegendEntry(text, style))
    if (colors := history.colors) is not None:
        rows += [
            LegendEntry(
                f"{colors.dimension.label}: {colors.describe(value)}", style_of_value(place), has_line=False
            )
            for place, value in enumerate(colors.values)
        ]
        unknown = f"unknown and {colors.others} more" if colors.others else "unknown"
        rows.append(LegendEntry(f"{colors.dimension.label}: {unknown}", style_of_value(None), has_line=False))
    return rows


def _count_rows(count: int, box: ImageBox) -> int:
    return min(count, max(1, int(box.height * _ROWS_SHARE / LINE)))


def _write_rows(canvas: Canvas, rows: Sequence[LegendEntry], box: ImageBox, *, below: int) -> None:
    """Write the rows; the last one counts those for which there is no room."""
    shown = rows if len(rows) <= below else rows[: below - 1]
    for place, row in enumerate(shown):
        y = box.top + place * LINE + LINE / 2
        draw_sample(canvas, row, box.left, y)
        canvas.write(box.left + 32, y, shorten_text(row.text, box.width - 32), middle=True)
    if len(shown) < len(rows):
        more = f"and {len(rows) - len(shown)} more; a higher image names all"
        canvas.write(
            box.left + 32,
            box.top + len(shown) * LINE + LINE / 2,
            more,
            color=canvas.colors.muted,
            middle=True,
        )


def _list_foot(history: SeriesHistory, chosen: ChosenSeries, filter: str) -> Iterator[str]:
    titles = [line.row.title for line in history.lines]
    scopes = sorted({line.row.scope_name for line in history.lines})
    common = find_shared_parts(titles) if len(titles) > 1 else titles
    where = ", ".join(scopes) if len(scopes) <= _END_LABELS else f"{len(scopes)} hosts or pools"
    yield " · ".join([*([where] if where else []), *common])
    span = _find_span(history)
    parts = [f"Filter: {filter}"] if filter else []
    runs, series = format_count(history.run_count, "run"), format_count(len(history.lines), "series")
    parts.append(f"{runs} of {series}")
    if chosen.left_out:
        more = " or more" if chosen.has_more else ""
        parts.append(f"{format_count(chosen.left_out, 'series')}{more} not shown")
    if span is not None:
        parts.append(f"{' to '.join(map(format_moment, span))}, clock of the hosts")
    yield " · ".join(parts)
    marks = "bars: min to max of several runs" if history.resolution is not None else "marks: runs"
    reading = (
        f"Steps: median of each level; bands: its p10 to p90; {marks}; hollow: data-quality badge; struck through:"
        " excluded; hollow crosses: failed; dotted: environment changes."
    )
    if any(_has_spread_increase(line, history.metrics) for line in history.lines):
        reading += " Hatched bar at the bottom: increased standard deviation."
    if history.planned:
        reading += " Shaded: maintenance, expected changes, notes."
    if history.daily_to_at is not None:
        day = format_day(history.daily_to_at)
        reading += f" Until {day}: min, median and max of days whose runs a retention removed."
    if history.newest is not None:
        reading += f" Only the newest {history.newest} runs of each series."
    yield reading


def _has_spread_increase(line: HistoryLine, metrics: Sequence[str]) -> bool:
    found = [select_detected(line.variability, metric) for metric in metrics]
    return any(each is not None and each.spread_increase is not None for each in found)


def _share(value: float, axis: ValueAxis) -> float:
    """Return the place of a value on an axis, 0 to 1."""
    if axis.is_log:
        low, high, at = np.log([axis.low, axis.high, max(value, axis.low)])
        return float((at - low) / (high - low))
    return (value - axis.low) / (axis.high - axis.low)


def _number(moment: datetime) -> float:
    """Return a time in days, as matplotlib counts them."""
    return moment.timestamp() / 86_400


def _numbers(seconds: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(seconds / 86_400, dtype=np.float64)
