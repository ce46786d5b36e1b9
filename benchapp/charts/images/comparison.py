"""A comparison as an image: the factor by which B differs from A, with its interval, for each value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.catalog.metrics import CATALOG, format_count, format_signed_percent, format_value
from benchapp.charts.images.axes import Plot
from benchapp.charts.images.frame import LINE, Canvas, ImageBox, ImageOptions, draw_image, shorten_text
from benchapp.charts.read.comparison import ComparisonResult, Pair
from benchapp.charts.texts.comparison import (
    describe_comparison,
    describe_comparison_title,
    describe_place,
    describe_result,
    find_shared_parts,
    split_title,
)

LINES_MAXIMUM: Final = 40
_ROW_HEIGHT: Final = 20
_AXIS_ROOM: Final = 36
_NAME_SHARE: Final = 0.34
_VALUES_SHARE: Final = 0.32
_METRICS: Final = tuple(CATALOG)
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


@dataclass(frozen=True, slots=True)
class _Line:
    """A row: a heading, or a pair. at, low, high: the factor by which B is better; low and high None without one."""

    text: str
    pair: Pair | None = None
    at: float = 1.0
    low: float | None = None
    high: float | None = None


def draw_comparison(
    found: ComparisonResult, names: tuple[str, str], options: ImageOptions, *, common: str = ""
) -> bytes:
    """Return the image of a comparison. names: of A and B; common: the filter of both. Errors: as of draw_image."""
    pairs = [pair for pair in found.pairs if pair.comparison.ratio is not None and pair.comparison.ratio > 0]

    def draw(canvas: Canvas, box: ImageBox) -> None:
        if not pairs:
            text = "No value of both sides can be compared." if found.pairs else "No matching series."
            canvas.write_message(box, text)
            return
        fit = int((box.height - _AXIS_ROOM - LINE) // _ROW_HEIGHT)
        shown = pairs[:LINES_MAXIMUM]
        # The most significant pairs stay.
        while len(shown) > 1 and _count_rows(shown) > fit:
            shown = shown[:-1]
        _draw_lines(canvas, box, _make_lines(shown), hidden=len(found.pairs) - len(shown))

    return draw_image(
        options,
        title=describe_comparison_title(found, *names),
        foot=_list_foot(found, names, common),
        draw=draw,
        body_height=_ROW_HEIGHT * _count_rows(pairs[:LINES_MAXIMUM]) + _AXIS_ROOM + LINE,
    )


def _count_rows(pairs: Sequence[Pair]) -> int:
    """Return the rows of pairs: each metric has one for its heading."""
    return len(pairs) + len({pair.metric for pair in pairs})


def _make_lines(pairs: Sequence[Pair]) -> list[_Line]:
    shared = find_shared_parts([pair.title for pair in pairs])
    has_places = len({describe_place(pair) for pair in pairs}) > 1
    lines: list[_Line] = []
    for name in _METRICS:
        own = [pair for pair in pairs if pair.metric == name]
        if not own:
            continue
        lines.append(_Line(f"{CATALOG[name].label}, {CATALOG[name].better} is better"))
        for pair in own:
            parts = [part for part in split_title(pair.title) if part not in shared] or [pair.title]
            text = " · ".join([*([describe_place(pair)] if has_places else []), *parts])
            lines.append(_make_line(pair, text))
    return lines


def _make_line(pair: Pair, text: str) -> _Line:
    """Return the row of a pair with the factor by which B is better, so that a lower latency is to the right, too."""
    ratio, low, high = pair.comparison.ratio or 1.0, pair.comparison.low, pair.comparison.high
    if CATALOG[pair.metric].better == "higher":
        return _Line(text, pair, ratio, low, high)
    is_known = low is not None and high is not None and low > 0
    return _Line(
        text, pair, 1 / ratio, 1 / high if is_known and high else None, 1 / low if is_known and low else None
    )


def _draw_lines(canvas: Canvas, box: ImageBox, lines: Sequence[_Line], *, hidden: int) -> None:
    names, values = box.width * _NAME_SHARE, box.width * _VALUES_SHARE
    area = ImageBox(box.left + names, box.top, box.width - names - values, len(lines) * _ROW_HEIGHT)
    plot = Plot(canvas, area)
    axes = plot.axes
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xscale("log")
    known = [value for line in lines for value in (line.at, line.low, line.high) if value]
    least, most = min(1.0, *known), max(1.0, *known)
    room = math.exp(max(math.log(most / least) * 0.06, 0.005))
    axes.set_xlim(least / room, most * room)
    ticks = _choose_ticks(least / room, most * room)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    plot.show_grid("x")
    plot.show_line_below("← worse · B relative to A, log · better →")
    axes.axvline(1, color=canvas.colors.ink, linewidth=1)
    for place, line in enumerate(lines):
        middle = area.top + (place + 0.5) * _ROW_HEIGHT
        if line.pair is None:
            canvas.write(
                box.left,
                middle,
                shorten_text(line.text, names - 8, weight="bold"),
                weight="bold",
                middle=True,
            )
            continue
        color = _choose_color(canvas, line.pair)
        if line.low and line.high:
            plot.draw_line([line.low, line.high], [place, place], color)
        plot.draw_points([line.at], [place], "o", color, edge=1.5, is_hollow=not line.pair.is_different)
        canvas.write(box.left + 8, middle, shorten_text(line.text, names - 20), middle=True)
        text = shorten_text(_describe_values(line.pair), values - 12)
        canvas.write(area.right + 12, middle, text, color=color, middle=True)
    if hidden > 0:
        text = f"and {format_count(hidden, 'more value')}; the page and the API have all"
        canvas.write(box.left, box.bottom - LINE, text, color=canvas.colors.muted)


def _describe_values(pair: Pair) -> str:
    """Return "▼ −17.0 %, 24 100 → 20 000, n 10 and 12, worse"."""
    unit, found = CATALOG[pair.metric].unit, pair.comparison
    result, kind = describe_result(pair)
    sign = {"worse": "▼ ", "better": "▲ "}.get(kind, "")
    before, after = (format_value(spread.median, unit) for spread in (found.a, found.b))
    size = format_signed_percent((found.ratio or 1.0) - 1)
    return f"{sign}{size}, {before} → {after}, n {found.a.n} and {found.b.n}, {result}"


def _choose_color(canvas: Canvas, pair: Pair) -> str:
    kind = describe_result(pair)[1]
    colors = canvas.colors
    return {"worse": colors.regression, "better": colors.improvement}.get(kind, colors.muted)


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
        "Marks: median of B / median of A, beyond 1 better; lines: 95 % interval of the ratio; hollow: not significant"
        " (adjusted p ≥ 0.05) or below the metric's smallest change."
    )
    if found.pairs:
        yield describe_comparison(found, *names)[-1]
