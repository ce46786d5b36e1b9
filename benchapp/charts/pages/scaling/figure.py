"""A scaling chart as a page shows it: JSON for the chart, data table, summary, links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import lower_label
from benchapp.charts.pages.scaling.models import (
    ModelTable,
    describe_models,
    make_model_curves,
    make_model_table,
)
from benchapp.charts.pages.scaling.request import link_api, link_chart, link_image, read_request
from benchapp.charts.pages.scaling.table import ScalingTable, link_cell, make_scaling_table, show_cell_mark
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_findings import CurveModel, find_bends, find_findings, find_models
from benchapp.charts.read.scaling_shapes import ScalingChart, ScalingFacet, list_display
from benchapp.charts.texts.fixed import describe_fixed, describe_settings
from benchapp.charts.texts.scaling import Sentence, describe_findings, describe_reach, describe_scaling
from benchapp.charts.texts.scaling_remarks import describe_marks, list_remarks, name_limit
from benchapp.framework.pages.access import require_valid
from benchapp.framework.pages.command_lines import format_curl_command
from benchapp.framework.pages.filter_bar import describe_filter
from benchapp.series.read.titles import describe_value

# Sentences beside the chart; the rest is behind a disclosure.
SENTENCES_SHOWN: Final = 8
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


@dataclass(frozen=True, slots=True)
class ScalingPanel:
    """One panel of the chart. descriptions: of its charts, one for each metric."""

    id: str
    label: str
    descriptions: tuple[str, ...]


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
    filter: str
    caption: str
    sentences: tuple[Sentence, ...]
    more_sentences: tuple[Sentence, ...]
    remarks: tuple[str, ...]
    narrowed: str
    facts: tuple[tuple[str, str], ...]
    document: dict[str, Any]
    panels: tuple[ScalingPanel, ...]
    table: ScalingTable
    more_tables: tuple[ScalingTable, ...]
    model_tables: tuple[ModelTable, ...]
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
    def tables(self) -> tuple[ScalingTable, ...]:
        """Return the data table of each metric."""
        return (self.table, *self.more_tables)

    @property
    def has_efficiency(self) -> bool:
        """Return whether the table has shares of ideal; the first value of a line has none."""
        return any(
            line.endswith("%")
            for table in self.tables
            for row in table.rows
            for cell in row.cells
            for line in cell.below
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
    findings = find_findings(chart)
    keys = [key, *(f"{key}-m{place}" for place in range(1, len(chart.stack)))]
    models = [find_models(each) for each in chart.stack]
    sentences = tuple(_list_sentences(chart, keys, models))
    title = describe_scaling(chart, findings)
    return ScalingFigure(
        key=key,
        chart=chart,
        title=title,
        filter=describe_filter(chart.shown_filter),
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
            hidden_else=chart.counts.unknown_x,
        ),
        facts=tuple(_list_facts(chart)),
        document=_make_document(chart, models, has_links=has_links),
        panels=tuple(
            ScalingPanel(
                f"{key}-panel-{place}",
                facet.label,
                tuple(_describe_panel(each, each.panels[place]) for each in chart.stack),
            )
            for place, facet in enumerate(chart.panels)
        ),
        table=make_scaling_table(chart, key=key, has_links=has_links),
        more_tables=tuple(
            make_scaling_table(each, key=own, has_links=has_links)
            for each, own in zip(chart.more, keys[1:], strict=True)
        ),
        model_tables=tuple(
            make_model_table(each, own) for each, own in zip(chart.stack, models, strict=True) if own
        ),
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
    chart: ScalingChart, keys: Sequence[str], models: Sequence[Sequence[CurveModel]]
) -> Iterator[Sentence]:
    """Yield the sentences of each metric, with its name if there are several: of models and targets first."""
    charts = list(zip(chart.stack, keys, strict=True))
    found: list[tuple[ScalingChart, Sequence[Sentence]]] = [
        (each, tuple(describe_models(each, own))) for each, own in zip(chart.stack, models, strict=True)
    ]
    found += [(each, describe_reach(each, key=key)) for each, key in charts]
    found += [(each, describe_findings(each, find_findings(each), key=key)) for each, key in charts]
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
        yield "Dashed lines in color: linear scaling from the first value."
    limits = [limit for each in chart.stack for facet in each.panels for limit in facet.limits]
    if has_models:
        yield "Dotted lines: scaling models, with the band of 80 %; hollow points: predictions."
    if chart.cell_runs_maximum is not None:
        yield "Small dots: single runs."
    if any(limit.target is None for limit in limits):
        yield "Dashed lines with a name: limits."
    if any(limit.target is not None for limit in limits):
        yield "Solid lines with a name: targets."


def _make_document(
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
                    | {"models": make_model_curves(found, place)}
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
            [_make_cell(chart, facet, line, place, has_links=has_links) for place in range(len(line.cells))]
            for line in facet.lines
        ],
        "limits": [
            {
                "name": f"{'target: ' if limit.target else ''}{name_limit(facet, limit)}",
                "values": limit.values,
                "isGiven": limit.is_given,
                "isTarget": limit.target is not None,
            }
            for limit in facet.limits
        ],
        "knees": [
            {"line": bend.line, "place": bend.place, "label": f"knee: {chart.x.labels[bend.place]}"}
            for bend in find_bends(chart)
            if bend.place is not None and chart.panels[bend.facet] is facet
        ],
    }


def _make_cell(
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


def _describe_panel(chart: ScalingChart, facet: ScalingFacet) -> str:
    where = f", {lower_label(chart.facet.dimension.label)} {facet.label}" if chart.facet else ""
    return f"{chart.metric.label} over {lower_label(chart.x.dimension.label)}{where}"


def _list_facts(chart: ScalingChart) -> Iterator[tuple[str, str]]:
    """Yield the values common to all series, without those in the title or among the fixed dimensions."""
    shown = {"rw", "direction", *(fixed.dimension for fixed in chart.fixed)}
    for name, value in chart.common:
        if name not in shown:
            yield DIMENSIONS[name].label, describe_value(name, value)
