"""A scaling chart in its page: the JSON that the script draws, and the data table, both from the same cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import format_value
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.scaling_findings import CurveModel, is_target_reached
from benchapp.charts.read.scaling_shapes import (
    ScalingChart,
    ScalingFacet,
    ScalingMetric,
    list_display,
)
from benchapp.charts.texts.fixed import describe_settings, place_settings
from benchapp.charts.texts.scaling_models import (
    make_model_curves,
)
from benchapp.charts.texts.scaling_remarks import (
    label_limit,
    list_knees,
    name_limit,
)
from benchapp.framework.pages.number_columns import Scale, choose_scale, format_scaled
from benchapp.framework.pages.series_marks import ShownMark, show_mark
from benchapp.framework.times import format_moment

# What the script draws of a cell, by the names of its fields.
_DRAWN: Final = (
    "state",
    "median",
    "p10",
    "p90",
    "n",
    "over",
    "ideal",
    "efficiency",
    "earlier_median",
    "badges",
)


_REASONS = {
    "missing": "not measured: no series with this combination",
    "unvalued": "measured without this metric",
    "failed": "all runs failed",
    "apart": "several series: no common percentile",
}


@dataclass(frozen=True, slots=True)
class ScalingCell:
    """One number as shown. text: "" if there is none, for the reason in `reason`. url: its series, or their list.

    below: small text under the number.
    """

    key: str
    text: str
    raw: float | None
    title: str
    reason: str
    url: str
    below: tuple[str, ...]
    mark: ShownMark | None
    state: str


@dataclass(frozen=True, slots=True)
class ScalingRow:
    """One line of the chart. settings: what all its values were measured with, if rows differ in it."""

    facet: str
    label: str
    settings: str
    cells: tuple[ScalingCell, ...]


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A target or limit and its value at each x, "" where it is unknown. facet: "" if it is that of all panels."""

    facet: str
    label: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalingTable:
    """All numbers in one unit. facet_label, color_label: headers of the first columns, or "".

    columns: label, and what all values of the column were measured with, if columns differ in it.
    """

    metric_label: str
    scale: Scale
    facet_label: str
    color_label: str
    x_label: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[ScalingRow, ...]
    limits: tuple[LimitRow, ...]


def make_scaling_table(chart: ScalingChart, *, key: str, has_links: bool) -> ScalingTable:
    """Make the data table of a chart; key: the prefix of its anchors, unique on the page; has_links: of its cells."""
    scale = choose_scale([cell.median for cell in chart.cells], chart.metric.unit)
    shown = [
        (row, column, facet, line)
        for row, facet in enumerate(chart.panels)
        for column, line in enumerate(facet.lines)
        if any(cell.state != "missing" for cell in line.cells)
    ]
    placed = place_settings([[cell.settings for cell in line.cells] for *_, line in shown], chart.varying)
    rows = [
        ScalingRow(
            facet.label,
            line.label,
            of_row,
            tuple(
                _make_cell(
                    *(chart, facet, line),
                    place=place,
                    scale=scale,
                    key=f"{key}-{row}-{column}-{place}",
                    settings=settings,
                    url=link_cell(chart, facet, line, place=place) if has_links else "",
                )
                for place, settings in enumerate(of_cells)
            ),
        )
        for (row, column, facet, line), of_row, of_cells in zip(shown, placed.rows, placed.cells, strict=True)
    ]
    return ScalingTable(
        metric_label=chart.metric.label,
        scale=scale,
        facet_label=chart.facet.dimension.label if chart.facet else "",
        color_label=chart.color.dimension.label if chart.color else "",
        x_label=chart.x.dimension.label,
        columns=tuple(zip(chart.x.labels, placed.columns or [""] * len(chart.x.labels), strict=True)),
        rows=tuple(rows),
        limits=tuple(_list_limits(chart, scale)),
    )


def _list_limits(chart: ScalingChart, scale: Scale) -> Iterator[LimitRow]:
    """Yield the targets and given limits, once if they have the same values in all panels."""
    same: dict[tuple[str, tuple[float | None, ...]], list[str]] = {}
    for facet in chart.panels:
        for limit in (limit for limit in facet.limits if limit.is_given):
            kind = "Target" if limit.target else "Limit"
            same.setdefault((f"{kind}: {name_limit(facet, limit)}", limit.values), []).append(facet.label)
    for (label, values), facets in same.items():
        shown = tuple("" if value is None else format_scaled(value, scale) for value in values)
        is_common = len(facets) == len(chart.panels)
        yield LimitRow("" if is_common else ", ".join(facets), label, shown)


def link_cell(chart: ScalingChart, facet: ScalingFacet, line: ChartLine, *, place: int) -> str:
    """Return the link of a cell: its series, or the list of them; "" if there is none."""
    cell = line.cells[place]
    if len(cell.series_ids) == 1:
        return reverse("series", args=cell.series_ids)
    if not cell.series_ids:
        return ""
    values = [(chart.x, chart.x.values[place]), (chart.color, line.value), (chart.facet, facet.value)]
    filter = chart.shown_filter
    for axis, value in values:
        if axis is not None:
            filter = chart.add_value(filter, axis, value)
    return f"{reverse('series_list')}?{urlencode({'q': write_filter(filter)})}"


def _make_cell(
    chart: ScalingChart,
    facet: ScalingFacet,
    line: ChartLine,
    *,
    place: int,
    scale: Scale,
    key: str,
    settings: str,
    url: str,
) -> ScalingCell:
    cell = line.cells[place]
    return ScalingCell(
        key=key,
        text=format_scaled(cell.median, scale) if cell.median is not None else _format_range(cell, scale),
        raw=cell.median,
        title=_format_title(cell, chart, scale),
        reason=_REASONS.get(cell.state, ""),
        url=url,
        below=(
            *_list_below(cell, scale),
            *_list_missed(facet, cell, place),
            *([settings] if settings else []),
        ),
        mark=show_cell_mark(cell, chart.metric),
        state=cell.state,
    )


def show_cell_mark(cell: ChartCell, metric: ScalingMetric) -> ShownMark | None:
    """Return the mark of a cell; of several series with how many have an open regression."""
    mark, count = show_mark(cell.mark, metric=metric.base), len(cell.series_ids)
    if mark is None or count == 1 or not cell.regressed_count:
        return mark
    return replace(mark, text=f"{mark.text}, {cell.regressed_count} of {count} series")


def _format_range(cell: ChartCell, scale: Scale) -> str:
    return f"{format_scaled(cell.p10, scale)}–{format_scaled(cell.p90, scale)}" if cell.n else ""


def _format_title(cell: ChartCell, chart: ScalingChart, scale: Scale) -> str:
    if cell.last_at is None:
        return ""
    unit = chart.metric.unit
    # All digits, as measured or published.
    parts = [] if cell.median is None else [f"{cell.median / scale.divisor:.10g} {scale.name}".strip()]
    parts.append(f"n {cell.n}")
    if cell.n > 1:
        parts.append(f"p10–p90 {format_value(cell.p10, unit)} to {format_value(cell.p90, unit)}")
    if len(cell.series_ids) > 1:
        parts.append(f"{len(cell.series_ids)} series")
    if cell.efficiency is not None:
        parts.append(f"{cell.efficiency * 100:.1f} % of ideal")
    parts.append(f"last {format_moment(cell.last_at)}")
    return " · ".join(parts)


def _list_missed(facet: ScalingFacet, cell: ChartCell, place: int) -> Iterator[str]:
    for limit in facet.limits:
        if is_target_reached(limit, cell, place) is False:
            yield f"misses {limit.name}"


def _list_below(cell: ChartCell, scale: Scale) -> list[str]:
    if not cell.n:
        return []
    below = []
    if cell.n > 1 and cell.median is not None:
        below.append(f"{format_scaled(cell.p10, scale)}–{format_scaled(cell.p90, scale)}, n {cell.n}")
    # The first is 100 % by definition.
    if cell.efficiency is not None and cell.ideal != cell.median:
        below.append(f"{cell.efficiency * 100:.0f} %")
    if cell.earlier_median is not None:
        below.append(f"earlier {format_scaled(cell.earlier_median, scale)}")
    if len(cell.series_ids) > 1:
        below.append(f"{len(cell.series_ids)} series")
    if cell.failed_count:
        below.append("last run failed")
    return below


def make_scaling_document(
    chart: ScalingChart, models: Sequence[Sequence[CurveModel]], *, has_links: bool
) -> dict[str, Any]:
    """Return the JSON of the chart, with its display; values in base units, times in milliseconds since 1970."""
    x = chart.x
    return {
        "layers": [
            {
                "metric": {
                    "label": each.metric.label,
                    "unit": each.metric.unit,
                    "better": each.metric.better,
                },
                "facets": [
                    _make_facet(each, facet, has_links=has_links)
                    | {"knees": list_knees(each, place), "models": make_model_curves(found, place)}
                    for place, facet in enumerate(each.panels)
                ],
            }
            for each, found in zip(chart.stack, models, strict=True)
        ],
        "over": {"label": chart.over.label, "unit": chart.over.unit} if chart.over else None,
        "x": {
            "label": x.dimension.label,
            "labels": x.labels,
            "ticks": x.ticks,
            "settings": x.settings,
            "positions": chart.positions,
        },
        "display": list_display(chart.request) | {"draw": chart.draw_mode},
        "runUrl": reverse("run", args=[0]) if has_links and chart.request.has_runs else "",
        "colors": [
            {"label": line.label, "rw": line.rw, "direction": line.direction}
            for line in chart.panels[0].lines
        ],
    }


def _make_facet(chart: ScalingChart, facet: ScalingFacet, *, has_links: bool) -> dict[str, Any]:
    return {
        "label": facet.label,
        "lines": [
            [_draw_cell(chart, facet, line, place, has_links=has_links) for place in range(len(line.cells))]
            for line in facet.lines
        ],
        "limits": [
            {
                "name": label_limit(facet, limit),
                "values": limit.values,
                "isGiven": limit.is_given,
                "isTarget": limit.target is not None,
            }
            for limit in facet.limits
        ],
    }


def _draw_cell(
    chart: ScalingChart, facet: ScalingFacet, line: ChartLine, place: int, *, has_links: bool
) -> dict[str, Any] | None:
    cell = line.cells[place]
    if cell.state in ("missing", "unvalued"):
        return None
    mark = show_cell_mark(cell, chart.metric)
    return {
        **{name: getattr(cell, name) for name in _DRAWN},
        "lastAt": int(cell.last_at.timestamp() * 1000) if cell.last_at else None,
        "series": len(cell.series_ids),
        "settings": describe_settings(cell.settings, chart.varying),
        "mark": {"text": mark.text, "kind": mark.kind} if mark else None,
        "url": link_cell(chart, facet, line, place=place) if has_links else None,
        **({} if chart.cell_runs_maximum is None else {"runs": _make_runs(cell, has_links=has_links)}),
    }


def _make_runs(cell: ChartCell, *, has_links: bool) -> dict[str, Any]:
    """Return the runs of a cell by column; hosts: indexes into names. Runs without links have no hosts."""
    named = cell.runs if has_links else ()
    names = sorted({run.host for run in named})
    places = {name: place for place, name in enumerate(names)}
    return {
        "values": [run.value for run in cell.runs],
        "overs": [run.over for run in cell.runs] if cell.over is not None else [],
        "times": [int(run.started_at.timestamp() * 1000) for run in cell.runs],
        "ids": [run.run for run in named],
        "names": names,
        "hosts": [places[run.host] for run in named],
    }
