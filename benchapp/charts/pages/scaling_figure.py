"""A scaling chart as a page and a study show it: parameters, links, summary and data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.utils.dateparse import parse_date

from benchapp.catalog.dimensions import find_dimension
from benchapp.catalog.grammar import BadFilter, Filter, parse_filter, write_filter
from benchapp.catalog.metrics import lower_label
from benchapp.charts.pages.scaling_document import make_scaling_document, make_scaling_table
from benchapp.charts.read.axes import parse_groups
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_findings import CurveModel, find_findings, find_models
from benchapp.charts.read.scaling_shapes import (
    NONE,
    OPTIONS,
    ScalingChart,
    ScalingFacet,
    ScalingRequest,
)
from benchapp.charts.rules.findings import Finding
from benchapp.charts.texts.levels import describe_fixed
from benchapp.charts.texts.scaling import Sentence, describe_findings, describe_reach, describe_scaling
from benchapp.charts.texts.scaling_remarks import (
    describe_marks,
    describe_models,
    list_facts,
    list_remarks,
    make_model_table,
)
from benchapp.framework.pages.access import require_valid
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_bar import describe_filter
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.read.days import end_of_day

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
        over=chart.over.name if chart.over else None,
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
    filter: str
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


def _describe_panel(chart: ScalingChart, facet: ScalingFacet) -> str:
    where = f", {lower_label(chart.facet.dimension.label)} {facet.label}" if chart.facet else ""
    return f"{chart.metric.label} over {lower_label(chart.x.dimension.label)}{where}"
