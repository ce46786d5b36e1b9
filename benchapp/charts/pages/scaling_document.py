"""A scaling chart in its page: the JSON that the script draws, and the data table, both from the same cells."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from benchapp.charts.texts.levels import describe_settings, place_settings
from benchapp.charts.texts.scaling_remarks import (
    label_limit,
    list_knees,
    make_model_curves,
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


def make_scaling_table(chart: ScalingChart, *, key: str, has_links: bool) -> dict[str, Any]:
    """Make the data table of a chart; key: the prefix of its anchors, unique on the page; has_links: of its cells."""
    scale = choose_scale([cell.median for cell in chart.cells], chart.metric.unit)
    shown = [
        (row, column, line)
        for row, facet in enumerate(chart.panels)
        for column, line in enumerate(facet.lines)
        if any(cell.state != "missing" for cell in line.cells)
    ]
    placed = place_settings([[cell.settings for cell in line.cells] for *_, line in shown], chart.varying)
    rows = []
    for (row, column, line), of_row, of_cells in zip(shown, placed["rows"], placed["cells"], strict=True):
        facet = chart.panels[row]
        cells = tuple(
            {
                "key": f"{key}-{row}-{column}-{place}",
                "cell": cell,
                "text": _format_number(cell, scale),
                "title": _format_title(cell, chart, scale),
                "reason": _REASONS.get(cell.state, ""),
                "url": _link_cell(chart, facet, line, place=place) if has_links else "",
                "below": tuple(_list_below(facet, cell, place, scale=scale, settings=settings)),
                "mark": _show_mark(cell, chart.metric),
            }
            for place, (cell, settings) in enumerate(zip(line.cells, of_cells, strict=True))
        )
        rows.append(
            {
                "panel": row,
                "line": column,
                "facet": facet.label,
                "label": line.label,
                "settings": of_row,
                "cells": cells,
            }
        )
    return {
        "metric_label": chart.metric.label,
        "scale": scale,
        "facet_label": chart.facet.dimension.label if chart.facet else "",
        "color_label": chart.color.dimension.label if chart.color else "",
        "x_label": chart.x.dimension.label,
        "columns": tuple(zip(chart.x.labels, placed["columns"] or [""] * len(chart.x.labels), strict=True)),
        "rows": tuple(rows),
        "limits": tuple(_list_limits(chart, scale)),
    }


def _list_limits(chart: ScalingChart, scale: Scale) -> Iterator[dict[str, Any]]:
    """Yield the targets and given limits, once if they have the same values in all panels."""
    same: dict[tuple[str, tuple[float | None, ...]], list[str]] = {}
    for facet in chart.panels:
        for limit in (limit for limit in facet.limits if limit.is_given):
            kind = "Target" if limit.target else "Limit"
            same.setdefault((f"{kind}: {name_limit(facet, limit)}", limit.values), []).append(facet.label)
    for (label, values), facets in same.items():
        shown = tuple("" if value is None else format_scaled(value, scale) for value in values)
        is_common = len(facets) == len(chart.panels)
        yield {"facet": "" if is_common else ", ".join(facets), "label": label, "values": shown}


def _link_cell(chart: ScalingChart, facet: ScalingFacet, line: ChartLine, *, place: int) -> str:
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


def _show_mark(cell: ChartCell, metric: ScalingMetric) -> ShownMark | None:
    """Return the mark of a cell; of several series with how many have an open regression."""
    mark, count = show_mark(cell.mark, metric=metric.base), len(cell.series_ids)
    if mark is None or count == 1 or not cell.regressed_count:
        return mark
    return replace(mark, text=f"{mark.text}, {cell.regressed_count} of {count} series")


def _format_number(cell: ChartCell, scale: Scale) -> str:
    """Return the median, or the range where there is none."""
    if cell.median is not None:
        return format_scaled(cell.median, scale)
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


def _list_below(
    facet: ScalingFacet, cell: ChartCell, place: int, *, scale: Scale, settings: str
) -> Iterator[str]:
    if cell.n > 1 and cell.median is not None:
        yield f"{format_scaled(cell.p10, scale)}–{format_scaled(cell.p90, scale)}, n {cell.n}"
    # The first is 100 % by definition.
    if cell.efficiency is not None and cell.ideal != cell.median:
        yield f"{cell.efficiency * 100:.0f} %"
    if cell.earlier_median is not None:
        yield f"earlier {format_scaled(cell.earlier_median, scale)}"
    if cell.n and len(cell.series_ids) > 1:
        yield f"{len(cell.series_ids)} series"
    if cell.n and cell.failed_count:
        yield "last run failed"
    for limit in facet.limits:
        if is_target_reached(limit, cell, place) is False:
            yield f"misses {limit.name}"
    if settings:
        yield settings


def make_scaling_document(
    chart: ScalingChart,
    tables: Sequence[dict[str, Any]],
    models: Sequence[Sequence[CurveModel]],
    *,
    has_links: bool,
) -> dict[str, Any]:
    """Return the JSON of the chart, with its display; values in base units, times in milliseconds since 1970.

    tables, models: of each metric; the cells have marks and links of those in the tables.
    """
    x = chart.x
    return {
        "layers": [
            {
                "metric": {name: getattr(each.metric, name) for name in ("label", "unit", "better")},
                "facets": _list_facets(each, table, found, has_links=has_links),
            }
            for each, table, found in zip(chart.stack, tables, models, strict=True)
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


def _list_facets(
    chart: ScalingChart, table: dict[str, Any], models: Sequence[CurveModel], *, has_links: bool
) -> list[dict[str, Any]]:
    """Return the panels of a metric; a cell without a value or failure is null."""
    rows = {(row["panel"], row["line"]): row["cells"] for row in table["rows"]}
    return [
        {
            "label": facet.label,
            "lines": [
                [
                    None
                    if shown["cell"].state in ("missing", "unvalued")
                    else _draw_cell(chart, shown, has_links=has_links)
                    for shown in rows[place, line]
                ]
                if (place, line) in rows
                else [None] * len(chart.x.values)
                for line in range(len(facet.lines))
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
            "knees": list_knees(chart, place),
            "models": make_model_curves(models, place),
        }
        for place, facet in enumerate(chart.panels)
    ]


def _draw_cell(chart: ScalingChart, shown: dict[str, Any], *, has_links: bool) -> dict[str, Any]:
    cell, mark = shown["cell"], shown["mark"]
    return {
        **{name: getattr(cell, name) for name in _DRAWN},
        "lastAt": int(cell.last_at.timestamp() * 1000) if cell.last_at else None,
        "series": len(cell.series_ids),
        "settings": describe_settings(cell.settings, chart.varying),
        "mark": {"text": mark.text, "kind": mark.kind} if mark else None,
        "url": shown["url"] or None,
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
