"""The history of series as pages and studies show it: request, document of the chart, table of the series."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, QueryDict
from msgspec import to_builtins

from benchapp.catalog.dimensions import FACT_NAMES, find_dimension
from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import CATALOG, Metric, ReferenceLimit, ReferenceLine
from benchapp.charts.api.history import make_answer
from benchapp.charts.read.chart import ChartThreshold, list_chart_thresholds
from benchapp.charts.read.history import (
    IDS_MAXIMUM,
    ChosenSeries,
    HistoryLine,
    SeriesHistory,
    choose_series,
    read_history,
)
from benchapp.charts.texts.history import format_history_title, list_levels
from benchapp.framework.pages.access import find_person_id, require_valid
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_bar import Span
from benchapp.framework.pages.number_columns import Scale, choose_scale, make_cell
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.series_marks import show_mark
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.times import to_iso
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.series.read.levels import LevelRow
from benchapp.series.read.shapes import HARMLESS_CODES

API_PATH: Final = "/api/v1/history"
ZONES: Final = ("utc", "own", "host")
# Metrics of the panels below the main chart.
_LINKED: Final = ("iops", "bandwidth_bytes_per_s", "latency_p99_ns")
# Of the table, with the fields of a level.
COLUMNS: Final = {
    "Level": "median",
    "p10": "p10",
    "p90": "p90",
    "Min": "minimum",
    "Max": "maximum",
    "Last": "last",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest(AskedRange):
    """One chart. ids: None if a filter selects the series.

    zone: "" for the zone of the page, utc, own (of the browser) or host. color: the environment fact that colors runs;
    None for none. errors: invalid parameters, one sentence each.
    """

    metric: Metric
    ids: tuple[int, ...] | None = None
    is_log: bool = False
    is_linked: bool = True
    zone: str = ""
    color: str | None = None
    errors: tuple[str, ...] = field(default=())

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of all panels, main metric first."""
        if not self.is_linked or self.metric.name == "elapsed_s":
            return (self.metric,)
        others = [name for name in _LINKED if name != self.metric.name]
        # A latency as the main metric replaces the p99 panel.
        if self.metric.unit == "ns":
            others = [name for name in others if CATALOG[name].unit != "ns"]
        return (self.metric, *(CATALOG[name] for name in others))

    @property
    def span(self) -> Span:
        """Return the time range for queries."""
        return {"from_at": self.from_at, "to_at": self.to_at}


def read_history_request(query: QueryDict, *, default: Metric | None = None) -> HistoryRequest:
    """Parse query parameters; default: the metric if none is given (IOPS). Invalid ones are ignored and reported."""
    errors: list[str] = []
    metric = _read_metric(query, default or CATALOG["iops"], errors)
    asked = read_time_range(query, errors)
    return HistoryRequest(
        metric=metric,
        ids=_read_ids(query.get("series", ""), errors),
        from_at=asked.from_at,
        to_at=asked.to_at,
        from_text=asked.from_text,
        to_text=asked.to_text,
        is_log=query.get("scale") == "log",
        is_linked=query.get("panels") != "one",
        zone=next((zone for zone in ZONES if zone == query.get("tz")), ""),
        color=_read_color(query.get("color", ""), errors),
        errors=tuple(errors),
    )


def write_query(**parameters: object) -> str:
    """Return a query string without parameters that are None or empty."""
    return urlencode(
        {name: value for name, value in parameters.items() if value not in (None, "")}, safe=":,"
    )


def _read_metric(query: QueryDict, default: Metric, errors: list[str]) -> Metric:
    metric = CATALOG.get(query.get("metric", default.name))
    if metric is None:
        errors.append(f"Unknown metric. Available: {', '.join(CATALOG)}.")
        return default
    return metric


def _read_color(name: str, errors: list[str]) -> str | None:
    if not name:
        return None
    dimension = find_dimension(name)
    if dimension is None or not dimension.is_environment:
        errors.append(
            f"Color: {name[:40]!r} is not a fact of the environment. Available: {', '.join(FACT_NAMES)}."
        )
        return None
    return dimension.name


def _read_ids(text: str, errors: list[str]) -> tuple[int, ...] | None:
    if not text.strip():
        return None
    parts = [part.strip() for part in text.split(",") if part.strip()]
    wrong = next((part for part in parts if not (part.isascii() and part.isdigit() and len(part) < 19)), None)
    if wrong is not None:
        errors.append(f"{wrong[:40]!r} is not a valid series id. Separate ids by commas: 1,2,3.")
        return None
    return tuple(dict.fromkeys(map(int, parts)))[:IDS_MAXIMUM]


def make_history_table(history: SeriesHistory, metric: Metric) -> dict[str, Any]:
    """List the last level of each series within the time range, and its open or accepted change; one query."""
    marks = read_series_marks([line.row.id for line in history.lines], metric=metric.name)
    levels = [next(reversed(list_levels(line, metric.name)), None) for line in history.lines]
    scale = choose_scale([level.median if level else None for level in levels], metric.unit)
    return {
        "scale": scale,
        "columns": tuple(COLUMNS),
        "lines": tuple(
            _make_line(line, level, metric, scale=scale, mark=marks.get(line.row.id))
            for line, level in zip(history.lines, levels, strict=True)
        ),
    }


def _make_line(
    line: HistoryLine, level: LevelRow | None, metric: Metric, *, scale: Scale, mark: SeriesMark | None
) -> dict[str, Any]:
    change = level.change if level else None
    numbers = [getattr(level, name, None) for name in COLUMNS.values()]
    return {
        "series_id": line.row.id,
        "name": line.name,
        "title": line.row.title,
        "scope": line.row.scope_name,
        "n": level.n if level else 0,
        "left_out": int((~line.points.points.counts).sum()),
        "cells": tuple(
            make_cell(value, scale, metric.name, reason="no runs in this time range") for value in numbers
        ),
        "change": change.relative if change and change.metric == metric.name else None,
        "changed_at": level.since_at if level and change else None,
        "mark": show_mark(mark, metric=metric.name),
    }


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """Context of `_history_figure.html`.

    key: unique on the page. url: of the data, without the time range. from_text, to_text: times, "" if open.
    image_url: of the chart as PNG.
    document: the data as the API answers it; detail: of the time range, if the document has buckets. table: the data
    table of a study.
    owns_address: zooming updates the URL of the page. host_zone: IANA name, "" if unknown.
    """

    key: str
    title: str
    metric: Metric
    companions: tuple[Metric, ...]
    url: str
    csv_url: str
    image_url: str
    api_line: str
    file_name: str
    document: dict[str, Any]
    from_text: str = ""
    to_text: str = ""
    is_log: bool = False
    zone: str = ""
    host_zone: str = ""
    has_several: bool = False
    owns_address: bool = True
    limit: ReferenceLimit | None = None
    references: Sequence[dict[str, Any]] = field(default=())
    linear_url: str = ""
    log_url: str = ""
    linked_url: str = ""
    detail: dict[str, Any] | None = None
    table: dict[str, Any] | None = None

    @property
    def harmless(self) -> tuple[str, ...]:
        """Return the codes of badges that do not make a mark hollow."""
        return HARMLESS_CODES

    @property
    def references_text(self) -> str:
        """Return the reference lines as JSON."""
        return json.dumps(list(self.references))

    @property
    def document_id(self) -> str:
        """Return the id of the element that contains the data."""
        return f"{self.key}-document"

    @property
    def detail_id(self) -> str:
        """Return the id of the element that contains the data of the time range."""
        return f"{self.key}-detail"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of all panels."""
        return (self.metric, *self.companions)


def make_history_figure(
    asked: HistoryRequest,
    chosen: ChosenSeries,
    histories: tuple[SeriesHistory, SeriesHistory],
    *,
    thresholds: Sequence[ChartThreshold] = (),
    choice: str,
    base_url: str,
    title: str,
    file_name: str,
    key: str = "history",
    **more: Any,
) -> HistoryFigure:
    """Return the figure with its data, of the time range apart where the whole history has buckets.

    histories: in the time range, and whole. choice: API parameters that select the series, as a query; more: further
    fields.
    """
    shown_history, whole = histories
    has_detail = whole is not shown_history and whole.resolution is not None
    metrics = ",".join(metric.name for metric in asked.metrics)
    address = f"{API_PATH}?{choice}{'&' if choice else ''}{write_query(metrics=metrics, color=asked.color)}"
    # The chart shows buckets of long histories; the CSV and the request of the API have all runs.
    bounds = asked.bounds
    shown = f"{address}&{write_query(**bounds)}" if bounds else address
    return HistoryFigure(
        key=key,
        title=title,
        metric=asked.metric,
        companions=asked.metrics[1:],
        url=f"{address}&resolution=auto",
        csv_url=f"{shown}&format=csv",
        image_url=link_chart_image(f"{shown}&scale=log" if asked.is_log else shown),
        api_line=format_curl_command(f"{base_url}{shown}"),
        file_name=file_name,
        document=make_document(whole, chosen, thresholds),
        detail=make_document(shown_history, chosen, thresholds) if has_detail else None,
        from_text=to_iso(asked.from_at) if asked.from_at else "",
        to_text=to_iso(asked.to_at) if asked.to_at else "",
        is_log=asked.is_log,
        zone=asked.zone,
        **more,
    )


def make_series_figure(request: HttpRequest, asked: HistoryRequest, **words: str) -> HistoryFigure:
    """Return the figure of the series of `asked.ids` on another page; words: title, file_name."""
    chosen = choose_series(parse_filter(""), ids=asked.ids)
    names = [metric.name for metric in asked.metrics]
    whole = read_history(chosen, metrics=names)
    # Without buckets the whole history has the time range already.
    shown = whole if whole.resolution is None else read_history(chosen, metrics=names, **asked.span)
    return make_history_figure(
        asked,
        chosen,
        (shown, whole),
        thresholds=list_chart_thresholds(find_person_id(request), [row.id for row in chosen.rows], names),
        choice=write_series_query(asked, ""),
        base_url=make_base_url(request),
        owns_address=False,
        has_several=len(chosen.rows) > 1,
        **words,
    )


def make_document(
    history: SeriesHistory, chosen: ChosenSeries, thresholds: Sequence[ChartThreshold] = ()
) -> dict[str, Any]:
    """Return what the chart is drawn from: the answer of the API."""
    document: dict[str, Any] = to_builtins(make_answer(history, chosen, thresholds))
    return document


def list_references(references: Sequence[ReferenceLine]) -> list[dict[str, Any]]:
    """Return the reference lines for the chart."""
    return [{"value": line.value, "label": line.label} for line in references]


def show_history(query: QueryDict, *, key: str, base_url: str) -> HistoryFigure:
    """Return the figure of a study panel with embedded data: readers of a shared study have no API access.

    query: query string of the history page. Raises BadParameters and BadFilter.
    """
    asked, chosen, history = read_asked_history(query)
    text = query.get("q", "")
    return make_history_figure(
        asked,
        chosen,
        (history, history),
        choice=write_series_query(asked, text),
        base_url=base_url,
        title=format_history_title(history, asked.metric, chosen),
        file_name=f"{key}-{asked.metric.name}",
        key=key,
        has_several=len(chosen.rows) > 1,
        owns_address=False,
        table=make_history_table(history, asked.metric),
    )


def read_asked_history(
    query: QueryDict, *, metrics_maximum: int | None = None
) -> tuple[HistoryRequest, ChosenSeries, SeriesHistory]:
    """Return the request of the query string of a history page, its series and their history.

    metrics_maximum: of the panels, from the main one on. Raises BadParameters and BadFilter.
    """
    asked = read_history_request(query)
    require_valid(asked.errors)
    filter = parse_filter(query.get("q", ""))
    if query.get("series") and asked.ids is None:
        # No fallback to the most recent series: a shared link must not show series that nobody selected.
        raise BadFilter("series: expected ids separated by commas, as 1,2,3")
    chosen = choose_series(filter, ids=asked.ids, metric=asked.metric.name)
    history = read_history(
        chosen,
        metrics=[metric.name for metric in asked.metrics[:metrics_maximum]],
        terms=() if asked.ids is not None else filter.fact_terms,
        color=asked.color,
        **asked.span,
    )
    return asked, chosen, history


def write_series_query(asked: HistoryRequest, text: str) -> str:
    """Return the API parameters that select the series: ids, else the filter text."""
    if asked.ids is not None:
        return write_query(series=",".join(map(str, asked.ids)))
    return write_query(q=text)


def write_chart_query(asked: HistoryRequest, *, ids: Sequence[int] = (), text: str = "") -> str:
    """Return the query string of the history page for a study: ids, else the filter text."""
    return write_query(
        series=",".join(map(str, ids)),
        q="" if ids else text,
        metric=asked.metric.name,
        **asked.bounds,
        scale="log" if asked.is_log else "",
        tz=asked.zone,
        panels="" if asked.is_linked else "one",
        color=asked.color,
    )
