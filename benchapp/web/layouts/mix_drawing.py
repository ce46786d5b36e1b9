"""The drawing of mixed workloads: throughput by the share of reads, a panel for each layout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchapp.metrics import Metric, find_step, format_three_digits, format_value
from benchapp.queries.layouts.mixes import MeasuredMix, MixCurve, MixEstimate
from benchapp.web.layouts.mix_texts import describe_between, name_load

# In units of the drawing, with the room for the texts of its axes and the names of the lines.
WIDTH: Final = 560
HEIGHT: Final = 300
LEFT: Final = 64
_RIGHT: Final = 170
BOTTOM: Final = HEIGHT - 40
_TOP: Final = 28
# Of classes in charts/layouts.css.
_STYLES: Final = ("blue", "orange", "green", "purple", "sky", "brown")
LINES_MAXIMUM: Final = len(_STYLES)
_STEP_PERCENT: Final = 2
_LABEL_HEIGHT: Final = 15
_TICKS: Final = (0, 25, 50, 75, 100)


@dataclass(frozen=True, slots=True)
class MixMark:
    """A measured mix, or the estimate, in the drawing. low_y, high_y: of its interval; text: its values."""

    x: float
    y: float
    low_y: float
    high_y: float
    text: str


@dataclass(frozen=True, slots=True)
class MixLine:
    """A load in the drawing. line, band: points of SVG of the interpolation; estimate: None without one."""

    name: str
    style: str
    label_y: float
    line: str
    band: str
    marks: Sequence[MixMark]
    estimate: MixMark | None


@dataclass(frozen=True, slots=True)
class MixTick:
    """A label of an axis. at: its place in the drawing."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class MixPanel:
    """A layout. more: loads that are in the table only. asked_x: place of the read share to estimate."""

    title: str
    lines: Sequence[MixLine]
    more: int
    x_ticks: Sequence[MixTick]
    y_ticks: Sequence[MixTick]
    asked_x: float


def draw_mix_panel(title: str, curves: Sequence[MixCurve], *, metric: Metric, read_share: int) -> MixPanel:
    """Return the panel of a layout: its loads with the most measured mixes."""
    shown = sorted(curves, key=lambda curve: -len(curve.mixes))[:LINES_MAXIMUM]
    shown = [curve for curve in curves if curve in shown]
    sampled = [list(curve.list_estimates(_STEP_PERCENT)) for curve in shown]
    most = max(
        *(mix.spread.p90 for curve in shown for mix in curve.mixes),
        *(estimate.high for own in sampled for estimate in own),
    )
    scale = _Scale(most * 1.05 or 1.0)
    lines = [
        _draw_line(curve, own, scale, metric=metric, read_share=read_share, style=style)
        for curve, own, style in zip(shown, sampled, _STYLES, strict=False)
    ]
    return MixPanel(
        title=title,
        lines=_part_labels(lines),
        more=len(curves) - len(shown),
        x_ticks=[MixTick(_place_x(share), f"{share} %") for share in _TICKS],
        y_ticks=list(_list_ticks(scale, metric)),
        asked_x=_place_x(read_share),
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """From 0 at the bottom to `most` at the top."""

    most: float

    def place(self, value: float) -> float:
        return round(BOTTOM - value / self.most * (BOTTOM - _TOP), 1)


def _place_x(percent: float) -> float:
    return round(LEFT + percent / 100 * (WIDTH - LEFT - _RIGHT), 1)


def _draw_line(
    curve: MixCurve,
    sampled: Sequence[MixEstimate],
    scale: _Scale,
    *,
    metric: Metric,
    read_share: int,
    style: str,
) -> MixLine:
    places = [
        *(
            (mix.read_share / 100, mix.spread.median or 0.0, mix.spread.p10, mix.spread.p90)
            for mix in curve.mixes
        ),
        *((each.read_share, each.value, each.low, each.high) for each in sampled),
    ]
    places.sort()
    upper = [(share, high) for share, _, _, high in places]
    lower = [(share, low) for share, _, low, _ in reversed(places)]
    found = curve.estimate(read_share)
    return MixLine(
        name=name_load(curve),
        style=style,
        label_y=scale.place(places[-1][1]),
        line=_write_points([(share, value) for share, value, _, _ in places], scale),
        band=_write_points([*upper, *lower], scale),
        marks=[_mark_mix(mix, scale, metric) for mix in curve.mixes],
        estimate=_mark_estimate(found, scale, metric) if isinstance(found, MixEstimate) else None,
    )


def _write_points(places: Sequence[tuple[float, float]], scale: _Scale) -> str:
    return " ".join(f"{_place_x(share * 100)},{scale.place(value)}" for share, value in places)


def _mark_mix(mix: MeasuredMix, scale: _Scale, metric: Metric) -> MixMark:
    spread = mix.spread
    value = spread.median or 0.0
    return MixMark(
        _place_x(mix.read_share),
        scale.place(value),
        scale.place(spread.p10),
        scale.place(spread.p90),
        f"{mix.read_share} % reads: {format_value(value, metric.unit)}, measured, n {spread.n}",
    )


def _mark_estimate(estimate: MixEstimate, scale: _Scale, metric: Metric) -> MixMark:
    share = round(estimate.read_share * 100)
    return MixMark(
        _place_x(share),
        scale.place(estimate.value),
        scale.place(estimate.low),
        scale.place(estimate.high),
        f"{share} % reads: {format_value(estimate.value, metric.unit)}, {describe_between(estimate)}",
    )


def _part_labels(lines: Sequence[MixLine]) -> list[MixLine]:
    """Return the lines with names that do not cover each other, in their order."""
    places: dict[int, float] = {}
    free = float(_TOP)
    for index in sorted(range(len(lines)), key=lambda index: lines[index].label_y):
        places[index] = max(lines[index].label_y, free)
        free = places[index] + _LABEL_HEIGHT
    return [
        MixLine(each.name, each.style, places[index], each.line, each.band, each.marks, each.estimate)
        for index, each in enumerate(lines)
    ]


def _list_ticks(scale: _Scale, metric: Metric) -> Iterator[MixTick]:
    """Yield four labels from 0, with round numbers in one unit."""
    divisor, suffix = find_step(scale.most, metric.unit)
    if not suffix and scale.most >= 10_000:
        divisor, suffix = 1000.0, "k"
    rough = scale.most / divisor / 4
    power = 10 ** int(f"{rough:e}".partition("e")[2])
    step = max(size for size in (1, 2, 2.5, 5, 10) if size * power <= rough * 1.0001 or size == 1) * power
    value = 0.0
    while value * divisor <= scale.most:
        text = format_three_digits(value).removesuffix(".0").removesuffix(".00")
        yield MixTick(scale.place(value * divisor), f"{text} {suffix}".strip() if value else "0")
        value += step
