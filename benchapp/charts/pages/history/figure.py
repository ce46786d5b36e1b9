"""History chart of a page: data URL, texts, downloads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from msgspec import to_builtins

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import Metric, ReferenceLimit, ReferenceLine, format_count
from benchapp.charts.pages.history.request import HistoryRequest, read_history_request, write_query
from benchapp.charts.pages.history.table import HistoryTable, make_history_table
from benchapp.charts.read.history import (
    LINES_MAXIMUM,
    ChosenSeries,
    SeriesHistory,
    choose_series,
    read_history,
)
from benchapp.charts.read.history_rows import make_document
from benchapp.charts.texts.history import format_history_title
from benchapp.framework.pages.access import require_valid
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image
from benchapp.framework.pages.filter_bar import describe_filter
from benchapp.framework.times import to_iso
from benchapp.series.read.shapes import HARMLESS_CODES

API_PATH = "/api/v1/history"


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """Context of `_history_figure.html`.

    key: unique on the page. url: of the data, without the time range. from_text, to_text: times, "" if open.
    image_url: of the chart as PNG.
    document: the data itself, for readers without API access; table: the data table of a study.
    owns_address: zooming updates the URL of the page. host_zone: IANA name, "" if unknown.
    """

    key: str
    title: str
    filter: str
    metric: Metric
    companions: tuple[Metric, ...]
    url: str
    csv_url: str
    image_url: str
    api_line: str
    file_name: str
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
    document: dict[str, Any] | None = None
    table: HistoryTable | None = None

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
    def metrics(self) -> tuple[Metric, ...]:
        """Return the metrics of all panels."""
        return (self.metric, *self.companions)


def make_history_figure(
    asked: HistoryRequest,
    *,
    choice: str,
    base_url: str,
    title: str,
    filter: str,
    file_name: str,
    key: str = "history",
    **more: Any,
) -> HistoryFigure:
    """Return the figure. choice: API parameters that select the series, as a query; more: further fields."""
    metrics = ",".join(metric.name for metric in asked.metrics)
    address = f"{API_PATH}?{choice}{'&' if choice else ''}{write_query(metrics=metrics, color=asked.color)}"
    # The chart shows buckets of long histories; the CSV and the request of the API have all runs.
    bounds = asked.bounds
    shown = f"{address}&{write_query(**bounds)}" if bounds else address
    return HistoryFigure(
        key=key,
        title=title,
        filter=filter,
        metric=asked.metric,
        companions=asked.metrics[1:],
        url=f"{address}&resolution=auto",
        csv_url=f"{shown}&format=csv",
        image_url=link_chart_image(f"{shown}&scale=log" if asked.is_log else shown),
        api_line=format_curl_command(f"{base_url}{shown}"),
        file_name=file_name,
        from_text=to_iso(asked.from_at) if asked.from_at else "",
        to_text=to_iso(asked.to_at) if asked.to_at else "",
        is_log=asked.is_log,
        zone=asked.zone,
        **more,
    )


def list_references(references: Sequence[ReferenceLine]) -> list[dict[str, Any]]:
    """Return the reference lines for the chart."""
    return [{"value": line.value, "label": line.label} for line in references]


def show_history(query: QueryDict, *, key: str, base_url: str) -> HistoryFigure:
    """Return the figure of a study panel with embedded data: readers of a shared study have no API access.

    query: query string of the history page. Raises BadParameters and BadFilter.
    """
    asked, chosen, history = read_asked_history(query)
    text = query.get("q", "")
    filter = parse_filter(text)
    return make_history_figure(
        asked,
        choice=write_series_query(asked, text),
        base_url=base_url,
        title=format_history_title(history, asked.metric),
        filter=describe_filter(filter),
        file_name=f"{key}-{asked.metric.name}",
        key=key,
        has_several=len(chosen.rows) > 1,
        owns_address=False,
        document=to_builtins(make_document(history, chosen)),
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
    chosen = choose_series(filter, ids=asked.ids)
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


def describe_hidden(history: SeriesHistory) -> str:
    """Return how many runs facts of the environment in the filter hide, "" if none."""
    if not history.hidden:
        return ""
    return (
        f"{format_count(history.run_count, 'run')} with these facts of the environment shown,"
        f" {format_count(history.hidden, 'other')} hidden; levels are those of all runs."
    )


def describe_selection(chosen: ChosenSeries) -> str:
    """Return how many of the matching series are displayed."""
    count = len(chosen.rows)
    if not chosen.left_out:
        return f"{count} series."
    total = f"more than {chosen.total}" if chosen.has_more else f"{chosen.total}"
    return (
        f"{count} of {total} series, most recent runs first (at most {LINES_MAXIMUM})."
        " Narrow the filter to see the others."
    )
