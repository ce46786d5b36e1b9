"""A ranking of layouts as an image: price over throughput, or without prices the throughput of each layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG, Metric, format_value, format_with_unit, group_thousands
from benchapp.charts.images.axes import (
    AXIS_HEAD,
    AXIS_WIDTH,
    LegendEntry,
    Plot,
    make_value_axis,
    place_legend,
    write_legend,
)
from benchapp.charts.images.frame import (
    GRAY_STYLE,
    LINE,
    SERIES_COLORS,
    Canvas,
    ImageBox,
    ImageOptions,
    LineStyle,
    draw_image,
    shorten_text,
)
from benchapp.framework.times import format_moment
from benchapp.layouts.read.ranking import LayoutRanking, RankedLayout
from benchapp.layouts.rules.ranking import LevelSpread
from benchapp.layouts.texts import (
    VERDICT_TEXTS,
    describe_closest_miss,
    describe_counts,
    describe_requirement,
    format_layouts_title,
)

_ROWS_MAXIMUM: Final = 40
_ROW_HEIGHT: Final = 32
_AXIS_ROOM: Final = 38
# From low to high latency, as on the page (static/js/layouts/layouts.js).
_STYLES: Final = (
    LineStyle(SERIES_COLORS["sky"], "o"),
    LineStyle(SERIES_COLORS["blue"], "^"),
    LineStyle(SERIES_COLORS["purple"], "D"),
    LineStyle(SERIES_COLORS["orange"], "s"),
)
_UNKNOWN_STYLE: Final = LineStyle(SERIES_COLORS["gray"], "p")


@dataclass(frozen=True, slots=True)
class _Mark:
    row: RankedLayout
    price: float
    throughput: LevelSpread
    latency: float | None


def draw_layouts(ranking: LayoutRanking, options: ImageOptions) -> bytes:
    """Return the image of a ranking. Errors: as of draw_image."""
    metric = CATALOG["iops" if ranking.question.iops is not None else "bandwidth_bytes_per_s"]
    marks = list(_list_marks(ranking, metric))
    shown = ranking.all_rows[:_ROWS_MAXIMUM]

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if marks:
            _draw_prices(canvas, box, ranking, marks, metric=metric)
        elif shown:
            _draw_rows(canvas, box, shown, metric, required=_find_required(ranking, metric))
        else:
            canvas.write_message(box, "No series match this requirement.")

    return draw_image(
        options,
        title=format_layouts_title(ranking),
        foot=_list_foot(ranking, has_prices=bool(marks)),
        draw=draw,
        body_height=None if marks or not shown else len(shown) * _ROW_HEIGHT + LINE,
    )


def _list_marks(ranking: LayoutRanking, metric: Metric) -> Iterator[_Mark]:
    for row in ranking.rows:
        level, latency = getattr(row.load.levels, metric.name), row.load.levels.latency_p99_ns
        if row.price_amount is not None and level is not None and level.median is not None:
            yield _Mark(row, row.price_amount, level, None if latency is None else latency.p90)


def _find_required(ranking: LayoutRanking, metric: Metric) -> float | None:
    required = ranking.question.requirement
    return required.iops if metric.name == "iops" else required.bandwidth_bytes_per_s


def _draw_prices(
    canvas: Canvas, box: ImageBox, ranking: LayoutRanking, marks: Sequence[_Mark], *, metric: Metric
) -> None:
    """Draw a mark for each layout, the Pareto front as a step, and what is required as a dashed line."""
    bounds = _list_bounds([mark.latency for mark in marks], ranking.question.requirement.latency_p99_ns)
    places = [_find_class(bounds, mark.latency) for mark in marks]
    entries = [
        LegendEntry(_describe_class(bounds, place), _take_style(place), has_line=False)
        for place in sorted({place for place in places if place is not None})
    ]
    if None in places:
        entries.append(LegendEntry("p99 latency unknown", _UNKNOWN_STYLE, has_line=False))
    rows = place_legend(entries, box.width)
    below = len(rows) * LINE + 6
    area = ImageBox(
        box.left + AXIS_WIDTH,
        box.top + AXIS_HEAD,
        box.width - AXIS_WIDTH - 12,
        box.height - AXIS_HEAD - _AXIS_ROOM - below,
    )
    required = _find_required(ranking, metric)
    y = make_value_axis(
        [*(mark.throughput.median or 0.0 for mark in marks), required or 0.0], metric.unit, has_zero=True
    )
    plot = Plot(canvas, area)
    axes = plot.axes
    plot.show_values(y, metric.label)
    plot.show_line_below(f"{ranking.currency} per month")
    axes.set_xlim(0, max(mark.price for mark in marks) * 1.08 or 1.0)
    ticks = axes.get_xticks()
    axes.set_xticks(
        ticks[:-1], [f"{tick:g}" if tick < 1000 else group_thousands(tick) for tick in ticks[:-1]]
    )
    _draw_required(canvas, axes, required, is_vertical=False)
    front = sorted(
        ((mark.price, mark.throughput.median or 0.0) for mark in marks if mark.row.is_on_front),
        key=lambda point: point[0],
    )
    # A layout on the front may have no value of the metric of the chart.
    if front:
        axes.step(*zip(*front, strict=True), where="post", color=canvas.colors.ink, linewidth=1)
    for mark, place in zip(marks, places, strict=True):
        style = _UNKNOWN_STYLE if place is None else _take_style(place)
        at, is_hollow = ([mark.price], [mark.throughput.median or 0.0]), mark.row.verdict != "meets"
        plot.draw_points(*at, style.marker, style.color, size=9, edge=1.5, is_hollow=is_hollow)
    write_legend(canvas, rows, ImageBox(box.left, area.bottom + _AXIS_ROOM + 6, box.width, below))


def _draw_rows(
    canvas: Canvas, box: ImageBox, rows: Sequence[RankedLayout], metric: Metric, *, required: float | None
) -> None:
    """Draw a bar for each layout, best first: median with p10 to p90; hatched: does not meet the requirement."""
    room = max(1, int((box.height - LINE) // _ROW_HEIGHT))
    shown = rows[:room]
    levels: list[LevelSpread | None] = [getattr(row.load.levels, metric.name) for row in shown]
    most = max([required or 0.0, *(level.p90 for level in levels if level is not None)]) or 1.0
    axes = canvas.add_axes(ImageBox(box.left, box.top, box.width, len(shown) * _ROW_HEIGHT))
    axes.set_axis_off()
    axes.set_xlim(0, most * 1.02)
    axes.set_ylim(len(shown) * _ROW_HEIGHT, 0)
    for place, (row, level) in enumerate(zip(shown, levels, strict=True)):
        top = place * _ROW_HEIGHT
        value = None if level is None else level.median
        text = f"{row.layout.title}: {format_with_unit(value, metric)}, {VERDICT_TEXTS[row.verdict]}"
        canvas.write(box.left, box.top + top, shorten_text(text, box.width))
        if level is None:
            continue
        is_met = row.verdict == "meets"
        style = GRAY_STYLE if not is_met else _STYLES[1]
        axes.barh(
            [top + 22],
            [level.median or level.p10],
            height=9,
            color=style.color,
            hatch=None if is_met else "///",
            edgecolor=canvas.colors.paper,
            linewidth=0,
        )
        axes.hlines([top + 22], [level.p10], [level.p90], color=canvas.colors.ink, linewidth=1.25)
    _draw_required(canvas, axes, required, is_vertical=True)
    if len(rows) > len(shown):
        text = f"and {len(rows) - len(shown)} more; a larger image shows all"
        canvas.write(box.left, box.bottom - LINE, text, color=canvas.colors.muted)


def _draw_required(canvas: Canvas, axes: Any, required: float | None, *, is_vertical: bool) -> None:
    if required is not None:
        line = axes.axvline if is_vertical else axes.axhline
        line(required, color=canvas.colors.muted, linewidth=1, linestyle=(0, (4, 4)))


def _list_bounds(latencies: Sequence[float | None], limit: float | None) -> list[float]:
    """Return the bounds of the classes: the limit is one; without a limit the quartiles are."""
    known = sorted(value for value in latencies if value is not None)
    if not known:
        return []
    if limit is not None:
        return [limit / 2, limit, limit * 2]
    bounds = sorted({known[int(share * (len(known) - 1))] for share in (0.25, 0.5, 0.75)})
    return [bound for bound in bounds if bound < known[-1]]


def _find_class(bounds: Sequence[float], latency: float | None) -> int | None:
    return None if latency is None else sum(latency > bound for bound in bounds)


def _take_style(place: int) -> LineStyle:
    return _STYLES[place % len(_STYLES)]


def _describe_class(bounds: Sequence[float], place: int) -> str:
    low = format_value(bounds[place - 1], "ns") if place else None
    high = format_value(bounds[place], "ns") if place < len(bounds) else None
    if low is None:
        return "p99 latency known" if high is None else f"p99 up to {high}"
    return f"p99 above {low}" if high is None else f"p99 {low} to {high}"


def _list_foot(ranking: LayoutRanking, *, has_prices: bool) -> Iterator[str]:
    yield f"Required: {describe_requirement(ranking.question, ranking.currency)}."
    if ranking.all_rows:
        yield f"{describe_counts(ranking)}."
    if ranking.closest is not None:
        yield describe_closest_miss(ranking.closest, ranking.currency)
    filter = write_filter(ranking.shown_filter)
    newest = max((row.load.last_at for row in ranking.all_rows), default=None)
    parts = [f"Filter: {filter}"] if filter else []
    parts += [f"newest run {format_moment(newest)}"] if newest is not None else []
    yield " · ".join(parts)
    if has_prices:
        yield (
            "Marks: median throughput; filled: meets the requirement; color and shape: p99 latency; solid line:"
            " Pareto front of price and throughput; dashed line: required."
        )
    elif ranking.all_rows:
        yield (
            "Bars: median throughput; line: p10 to p90; hatched: does not meet the requirement; dashed line: required."
        )
