"""The levels of a host as an image: a small history for each pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import nan
from typing import Final

from benchapp.catalog.metrics import format_count, format_value, format_with_unit
from benchapp.charts.images.axes import AT_RIGHT, Plot
from benchapp.charts.images.frame import (
    LINE,
    Canvas,
    ImageBox,
    ImageOptions,
    assign_styles,
    draw_image,
    shorten_text,
)
from benchapp.charts.texts.levels import describe_level_range, describe_mark
from benchapp.framework.read.days import DayRange
from benchapp.framework.times import format_day, format_moment
from benchapp.series.read.selected_levels import NOW, LevelRange
from benchapp.storage.read.hosts import HostRow
from benchapp.storage.read.patterns import HostPattern

_COLUMNS_MAXIMUM: Final = 3
_HEIGHT_MINIMUM: Final = 130
_HEAD: Final = 3 * LINE + 4
_AXIS_ROOM: Final = 24
_LEFT_ROOM: Final = 44
_END_ROOM: Final = 44


def draw_host(
    host: HostRow,
    patterns: Sequence[HostPattern],
    options: ImageOptions,
    *,
    days: DayRange,
    span: LevelRange = NOW,
) -> bytes:
    """Return the image of a host: of each pattern the levels of some days relative to the first one.

    days: of the histories; span: of the levels. Errors: as of draw_image.
    """

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if not patterns:
            reason = (
                "yet: a series has a level from its first valid run on"
                if span.is_open
                else "in this time range"
            )
            canvas.write_message(box, f"No levels {reason}.")
            return
        columns = min(_COLUMNS_MAXIMUM, len(patterns), max(1, int(box.width // 300)))
        fit = max(1, int((box.height - LINE) // _HEIGHT_MINIMUM)) * columns
        shown = patterns[:fit]
        if len(shown) < len(patterns):
            more = f"and {format_count(len(patterns) - len(shown), 'more pattern')}; a higher image shows all"
            canvas.write(box.left, box.bottom - LINE, more, color=canvas.colors.muted)
            box = ImageBox(box.left, box.top, box.width, box.height - LINE)
        width, height = box.width / columns, box.height / -(-len(shown) // columns)
        styles = assign_styles([_split(pattern) for pattern in shown])
        for place, pattern in enumerate(shown):
            row, column = divmod(place, columns)
            own = ImageBox(box.left + column * width, box.top + row * height, width - 12, height - 8)
            _draw_pattern(canvas, own, pattern, color=styles[place].color, days=days)

    return draw_image(
        options,
        title=_describe_host(host, patterns, span),
        foot=_list_foot(host, days, span=span),
        draw=draw,
    )


def _split(pattern: HostPattern) -> tuple[str, str]:
    return pattern.series.workload.rw, pattern.series.direction


def _draw_pattern(canvas: Canvas, box: ImageBox, pattern: HostPattern, *, color: str, days: DayRange) -> None:
    colors, level = canvas.colors, pattern.level
    canvas.write(box.left, box.top, shorten_text(pattern.name, box.width, weight="bold"), weight="bold")
    low, high = (format_value(value, pattern.metric.unit) for value in (level.p10, level.p90))
    spread = f", p10–p90 {low} to {high}" if level.n > 1 else ""
    value = f"{format_with_unit(level.median, pattern.metric)}{spread}, n = {level.n}"
    canvas.write(box.left, box.top + LINE, shorten_text(value, box.width))
    if pattern.mark is not None:
        text = describe_mark(pattern.mark, metric=pattern.metric.name, has_year=True)
        worse = colors.regression if pattern.mark.is_regression else colors.improvement
        shade = worse if pattern.mark.state == "open" else colors.muted
        canvas.write(box.left, box.top + 2 * LINE, shorten_text(text, box.width), color=shade)
    area = ImageBox(
        box.left + _LEFT_ROOM,
        box.top + _HEAD,
        box.width - _LEFT_ROOM - _END_ROOM,
        box.height - _HEAD - _AXIS_ROOM,
    )
    known = [value * 100 for value in pattern.history if value is not None]
    if not known or area.height < 20:
        return
    plot = Plot(canvas, area)
    axes = plot.axes
    least, most = min(*known, 100.0), max(*known, 100.0)
    room = max((most - least) * 0.15, 2.0)
    axes.set_ylim(least - room, most + room)
    axes.set_yticks([100], ["100 %"])
    axes.axhline(100, color=colors.field_line, linewidth=1, linestyle=(0, (2, 2)))
    places = list(range(len(pattern.history)))
    values = [nan if value is None else value * 100 for value in pattern.history]
    axes.step(places, values, where="post", color=color, linewidth=2)
    axes.set_xlim(0, max(len(places) - 1, 1))
    axes.set_xticks([0, places[-1]], [format_day(days.first_at, has_year=False), format_day(days.last_at)])
    plot.show_line_below()
    end = next(value for value in reversed(values) if value == value)
    plot.write(f"{end:.0f} %", (1, end), (4, 0), units=AT_RIGHT, va="center", annotation_clip=False)


def _describe_host(host: HostRow, patterns: Sequence[HostPattern], span: LevelRange) -> str:
    """Return the title: "db-09: 1 open regression, 3 patterns"; at a past end without the regressions of today."""
    name = f"{host.name} (pool {host.pool})" if host.pool else host.name
    if not patterns:
        return f"{name}: no levels"
    shown = format_count(len(patterns), "pattern")
    if span.to_at is not None:
        return f"{name}: {shown}"
    count = len(host.mark.incident_ids) if host.mark else 0
    regressions = format_count(count, "open regression") if count else "no open regressions"
    return f"{name}: {regressions}, {shown}"


def _list_foot(host: HostRow, days: DayRange, *, span: LevelRange) -> Iterator[str]:
    scope = f"pool {host.pool}" if host.pool else f"host {host.name}"
    time_range = describe_level_range(span)
    yield f"Series of {scope} · {format_count(days.count, 'day')} until {format_moment(days.end_at)}" + (
        f" · {time_range}" if time_range else ""
    )
    shown = "measured last" if span.to_at else "that is worst compared with its peers"
    yield (
        f"Lines: levels of the series of each pattern relative to the level of {format_day(days.first_at)}, or to their"
        f" first one; geometric mean, above 100 % is faster. Values: {'' if span.to_at else 'current '}level of the"
        f" series {shown}: median, p10 to p90, n runs."
    )
