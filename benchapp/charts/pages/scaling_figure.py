"""A scaling chart as a page and a study show it: parameters, links, summary and data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_date

from benchapp.catalog.dimensions import find_dimension
from benchapp.catalog.grammar import BadFilter, Filter, parse_filter, write_filter
from benchapp.catalog.metrics import format_value, lower_label
from benchapp.charts.pages.matrix import show_cell_mark
from benchapp.charts.read.axes import parse_groups
from benchapp.charts.read.chart import BadChart, ChartCell, ChartLine
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_findings import (
    CurveModel,
    find_dependences,
    find_findings,
    find_models,
    is_target_reached,
)
from benchapp.charts.read.scaling_shapes import (
    NONE,
    OPTIONS,
    ScalingChart,
    ScalingFacet,
    ScalingRequest,
    list_display,
)
from benchapp.charts.rules.findings import Finding
from benchapp.charts.texts.levels import describe_fixed, describe_settings, place_settings
from benchapp.charts.texts.scaling import (
    Sentence,
    describe_dependences,
    describe_findings,
    describe_reach,
    describe_scaling,
    list_dependence_rows,
    make_dependence_curves,
)
from benchapp.charts.texts.scaling_remarks import (
    describe_marks,
    describe_models,
    label_limit,
    list_facts,
    list_knees,
    list_remarks,
    make_model_curves,
    make_model_table,
    name_limit,
)
from benchapp.framework.pages.access import require_valid
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.number_columns import Scale, choose_scale, format_scaled
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.read.days import end_of_day
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
}


def make_scaling_table(chart: ScalingChart, *, key: str, has_links: bool) -> dict[str, Any]:
    """Make the data table of a chart; key: the prefix of its anchors, unique on the page; has_links: of its cells."""
    scale = choose_scale([cell.median for cell in chart.cells], chart.metric.unit)
    shown = [
        (row, column, line)
        for row, facet in enumerate(chart.panels)
        for column, line in enumerate(facet.lines)
        if not line.is_missing
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
                "mark": show_cell_mark(cell, chart.metric.base),
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


def _format_number(cell: ChartCell, scale: Scale) -> str:
    return "" if cell.median is None else format_scaled(cell.median, scale)


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
    if cell.efficiency is not None and cell.ideal != cell.steady.median:
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
        "runUrl": reverse("run", args=[0]) if has_links and chart.cell_runs_maximum is not None else "",
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
    dependences = find_dependences(chart)
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
            "models": make_model_curves(models, place) or make_dependence_curves(dependences, place),
        }
        for place, facet in enumerate(chart.panels)
    ]


def _draw_cell(chart: ScalingChart, shown: dict[str, Any], *, has_links: bool) -> dict[str, Any]:
    cell, mark = shown["cell"], shown["mark"]
    # The table names another metric.
    is_own = cell.mark is not None and cell.mark.is_open_in(chart.metric.base)
    return {
        **{name: getattr(cell, name) for name in _DRAWN},
        "lastAt": int(cell.last_at.timestamp() * 1000) if cell.last_at else None,
        "series": len(cell.series_ids),
        "settings": describe_settings(cell.settings, chart.varying),
        "mark": {"text": mark.text, "kind": mark.kind if is_own else "settled"} if mark else None,
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


PATH: Final = "/scaling/"
API_PATH: Final = "/api/v1/scaling"


def read_request(query: QueryDict, filter: Filter | None = None) -> tuple[ScalingRequest, list[str]]:
    """Return the parameters of an address, and its errors as sentences. filter: if it was parsed before."""
    errors: list[str] = []
    time_range = _read_range(query, errors)
    given: dict[str, Any] = {}
    for name, option in OPTIONS.items():
        try:
            given[name] = option.read(query.getlist(option.parameter))
        except ValueError as problem:
            errors.append(f"{option.parameter.replace('_', ' ').capitalize()}: {problem}.")
    wrong = parse_groups(given["groups"])[1]
    errors += [f"Group {place + 1}: {problem}." for place, problem in wrong.items()]
    if not given.get("has_models"):
        # The form has the widths until the model is off.
        given["predicted"] = ()
    return ScalingRequest(
        filter=_read_filter(query, errors) if filter is None else filter,
        span=time_range.levels,
        bounds=tuple(time_range.bounds.items()),
        **given,
    ), errors


def describe_problem(problem: BadChart) -> str:
    """Return what is wrong with a parameter as a sentence."""
    return f"{problem.parameter.title()}: {problem}."


def apply_fixed(query: QueryDict) -> QueryDict | None:
    """Return the address with fixed dimensions (`fix=NAME:VALUE`) as terms of its filter; None if there are none.

    "*" is any value.
    """
    texts = [text for text in query.getlist("fix") if text]
    address = query.copy()
    address.pop("fix", None)
    if not texts:
        return address if "fix" in query else None
    filter = _read_filter(query, [])
    for text in texts:
        name, _, value = text.partition(":")
        dimension = find_dimension(name)
        if dimension is None:
            continue
        filter = filter.without(dimension.name)
        free = [each for names in address.getlist("any") for each in names.split(",")]
        others = [each for each in free if each and each != dimension.name]
        if value == "*":
            others.append(dimension.name)
        else:
            filter = _join(filter, text)
        address["any"] = ",".join(others)
    address["q"] = write_filter(filter)
    for name in ("q", "any"):
        if not address.get(name):
            address.pop(name, None)
    return address


def link_chart(chart: ScalingChart, **changes: str | None) -> str:
    """Return the path and query that reproduce the chart, with the automatic choices."""
    query = list_query(chart) | {name: [value] for name, value in changes.items() if value is not None}
    kept = {name: values for name, values in query.items() if changes.get(name, "") is not None}
    return f"{PATH}?{urlencode(kept, doseq=True, safe=':,/*')}"


def link_api(chart: ScalingChart, **more: str) -> str:
    """Return the path and query of the same data in the API."""
    display = {each.parameter for each in OPTIONS.values() if each.is_display}
    kept = {name: values for name, values in list_query(chart).items() if name not in display}
    return f"{API_PATH}?{urlencode({**kept, **more}, doseq=True, safe=':,/*')}"


def link_image(chart: ScalingChart) -> str:
    """Return the address of the chart as PNG, which has the display of the page, too."""
    return link_chart_image(f"{API_PATH}?{urlencode(list_query(chart), doseq=True, safe=':,/*')}")


def list_query(chart: ScalingChart) -> dict[str, Sequence[str]]:
    """Return the parameters that reproduce the chart: its options, those that it chose as chosen."""
    chosen = replace(
        chart.request,
        x=chart.x.name,
        metric=",".join(each.metric.name for each in chart.stack),
        color=chart.color.name if chart.color else NONE,
        facet=chart.facet.name if chart.facet else None,
        over=chart.over.name if chart.over and not chart.is_by_condition else None,
    )
    options = {each.parameter: each.write(getattr(chosen, name)) for name, each in OPTIONS.items()}
    bounds = {name: [text] for name, text in chart.request.bounds}
    query = {"q": [write_filter(chart.shown_filter)], **options, **bounds}
    return {name: texts for name, texts in query.items() if any(texts)}


def _read_filter(query: QueryDict, errors: list[str]) -> Filter:
    try:
        return parse_filter(query.get("q", ""))
    except BadFilter as problem:
        errors.append(f"Filter: {problem}.")
        return Filter()


def _join(filter: Filter, text: str) -> Filter:
    try:
        more = parse_filter(text)
    except BadFilter:
        return filter
    return Filter((*filter.terms, *more.terms), filter.words)


def _read_range(query: QueryDict, errors: list[str]) -> AskedRange:
    """Return the time range; as_of, a day of UTC in earlier addresses, is its end."""
    text = query.get("as_of", "")
    if not text or query.get("to"):
        return read_time_range(query, errors)
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        errors.append(f"As of: {text[:40]!r} is not a valid date; write it as 2026-05-12.")
    return replace(read_time_range(query, errors), to_at=end_of_day(day))


# Sentences beside the chart; the rest is behind a disclosure.
SENTENCES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class ScalingFigure:
    """Everything that `_scaling_figure.html` and `_scaling_table.html` show.

    key: unique on the page. narrowed: how many series are shown and with which fixed values, "" if all are. document:
    the input of static/js/charts/scaling/scaling.js. url: the link that reproduces the chart; linear_url, log_url: with
    the other axis. Links are "" for readers who cannot open them.
    """

    key: str
    chart: ScalingChart
    title: str
    caption: str
    sentences: tuple[Sentence, ...]
    more_sentences: tuple[Sentence, ...]
    remarks: tuple[str, ...]
    narrowed: str
    facts: tuple[tuple[str, str], ...]
    document: dict[str, Any]
    panels: tuple[dict[str, Any], ...]
    tables: tuple[dict[str, Any], ...]
    model_tables: tuple[dict[str, Any], ...]
    dependence_rows: tuple[dict[str, str], ...]
    file_name: str
    is_log: bool
    url: str = ""
    linear_url: str = ""
    log_url: str = ""
    csv_url: str = ""
    image_url: str = ""
    api_line: str = ""

    @property
    def query(self) -> str:
        """Return the query string of the link that reproduces the chart."""
        return self.url.partition("?")[2]

    @property
    def has_runs(self) -> bool:
        """Return whether the chart shows single runs."""
        return self.chart.cell_runs_maximum is not None

    @property
    def has_efficiency(self) -> bool:
        """Return whether the table has shares of ideal; the first value of a line has none."""
        return any(
            line.endswith("%")
            for table in self.tables
            for row in table["rows"]
            for cell in row["cells"]
            for line in cell["below"]
        )


def show_scaling(
    query: QueryDict, *, key: str = "scaling", base_url: str, has_links: bool = True
) -> ScalingFigure:
    """Return the figure for the query string of a scaling page; as make_scaling_figure.

    Raises BadParameters and BadChart.
    """
    request, errors = read_request(query)
    require_valid(errors)
    return make_scaling_figure(read_scaling(request), key=key, base_url=base_url, has_links=has_links)


def make_scaling_figure(
    chart: ScalingChart, *, key: str, base_url: str, has_links: bool = True
) -> ScalingFigure:
    """Return the figure of a chart; has_links: False for readers of a shared link: no other pages, no hosts of runs."""
    findings = [find_findings(each) for each in chart.stack]
    keys = [key, *(f"{key}-m{place}" for place in range(1, len(chart.stack)))]
    models = [find_models(each) for each in chart.stack]
    tables = tuple(
        make_scaling_table(each, key=own, has_links=has_links)
        for each, own in zip(chart.stack, keys, strict=True)
    )
    sentences = tuple(_list_sentences(chart, keys, models, findings))
    title = describe_scaling(chart, findings[0])
    return ScalingFigure(
        key=key,
        chart=chart,
        title=title,
        caption=" ".join(
            [*map(describe_marks, chart.stack), *_describe_lines(chart, has_models=any(models))]
        ),
        sentences=sentences[:SENTENCES_SHOWN],
        more_sentences=sentences[SENTENCES_SHOWN:],
        remarks=tuple(_list_remarks(chart)),
        narrowed=describe_fixed(
            chart.fixed,
            shown=chart.counts.shown,
            hidden=chart.counts.hidden_by_fixed,
            hidden_else=chart.counts.left_out - chart.counts.hidden_by_fixed,
        ),
        facts=tuple(list_facts(chart)),
        document=make_scaling_document(chart, tables, models, has_links=has_links),
        panels=tuple(
            {
                "id": f"{key}-panel-{place}",
                "label": facet.label,
                "descriptions": tuple(_describe_panel(each, each.panels[place]) for each in chart.stack),
            }
            for place, facet in enumerate(chart.panels)
        ),
        tables=tables,
        model_tables=tuple(
            make_model_table(each, own) for each, own in zip(chart.stack, models, strict=True) if own
        ),
        dependence_rows=tuple(list_dependence_rows(chart, find_dependences(chart))),
        file_name=f"scaling-{'-'.join(each.metric.name for each in chart.stack)}-over-{chart.x.name}",
        is_log=chart.request.is_log,
        **(_list_links(chart, base_url) if has_links else {}),
    )


def _list_links(chart: ScalingChart, base_url: str) -> dict[str, str]:
    return {
        "url": link_chart(chart),
        "linear_url": link_chart(chart, scale=None),
        "log_url": link_chart(chart, scale="log"),
        "csv_url": link_api(chart, format="csv"),
        "image_url": link_image(chart),
        "api_line": format_curl_command(f"{base_url}{link_api(chart)}"),
    }


def _list_sentences(
    chart: ScalingChart,
    keys: Sequence[str],
    models: Sequence[Sequence[CurveModel]],
    findings: Sequence[Sequence[Finding]],
) -> Iterator[Sentence]:
    """Yield the sentences of each metric, with its name if there are several: of models and targets first."""
    charts = list(zip(chart.stack, keys, strict=True))
    found: list[tuple[ScalingChart, Sequence[Sentence]]] = [
        (each, tuple(describe_models(each, own))) for each, own in zip(chart.stack, models, strict=True)
    ]
    found += [
        (each, tuple(describe_dependences(each, find_dependences(each), key=key))) for each, key in charts
    ]
    found += [(each, describe_reach(each, key=key)) for each, key in charts]
    found += [
        (each, describe_findings(each, own, key=key))
        for (each, key), own in zip(charts, findings, strict=True)
    ]
    for each, sentences in found:
        for sentence in sentences:
            # A chart without colors names its curve by the metric.
            is_named = not chart.more or sentence.text.startswith(each.metric.label)
            text = sentence.text if is_named else f"{each.metric.label}: {sentence.text}"
            yield replace(sentence, text=text)


def _list_remarks(chart: ScalingChart) -> Iterator[str]:
    """Yield the notes of the first metric, and those of the others that differ, with their name."""
    first = list_remarks(chart)
    yield from first
    for each in chart.more:
        yield from (f"{each.metric.label}: {remark}" for remark in list_remarks(each) if remark not in first)


def _describe_lines(chart: ScalingChart, *, has_models: bool) -> Iterator[str]:
    """Describe the reference lines."""
    if chart.request.is_ideal and any(cell.ideal is not None for cell in chart.cells):
        yield "Dashed lines in color show linear scaling from the first value."
    limits = [limit for each in chart.stack for facet in each.panels for limit in facet.limits]
    if has_models:
        yield "Dotted lines show scaling models, bands their 80 % intervals. Hollow points are predictions."
    if chart.cell_runs_maximum is not None:
        yield "Small dots are single runs."
    if chart.is_by_condition:
        yield "Dotted lines show the slope of each curve."
        if any(each.below_round_trip is not None for each in find_dependences(chart)):
            yield "The dotted line without a color is the round-trip time: no request to the server is faster."
    if any(limit.target is None for limit in limits):
        yield "Dashed lines with a name are limits."
    if any(limit.target is not None for limit in limits):
        yield "Solid lines with a name are targets."


def _describe_panel(chart: ScalingChart, facet: ScalingFacet) -> str:
    where = f", {lower_label(chart.facet.dimension.label)} {facet.label}" if chart.facet else ""
    return f"{chart.metric.label} over {lower_label(chart.x.dimension.label)}{where}"
