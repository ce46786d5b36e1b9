"""A history as a page shows it: where its numbers are, what is written around it, the ways to get the same."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict

from benchapp.grammar import BadFilter, parse_filter
from benchapp.metrics import Metric, ReferenceLimit, ReferenceLine
from benchapp.queries.badges import HARMLESS_CODES
from benchapp.queries.charts.history import LINES_MAXIMUM, ChosenSeries, choose_series, read_history
from benchapp.queries.charts.history_rows import make_document
from benchapp.web.charts.history.request import HistoryRequest, read_history_request, write_query
from benchapp.web.charts.history.table import HistoryTable, make_history_table
from benchapp.web.charts.history.texts import say_histories
from benchapp.web.site.command_lines import say_request
from benchapp.web.site.filter_bar import say_filter

API_PATH = "/api/v1/history"


@dataclass(frozen=True, slots=True)
class HistoryFigure:
    """What `_history_figure.html` shows.

    key: tells it from other figures on the page. url: of its numbers, without the span. from_text, to_text: moments,
    "" where open. document: the numbers themselves, where the reader may not ask the API; table: beside them, in a
    study. owns_address: zooming writes to the page's address. host_zone: IANA name, "" where unknown.
    """

    key: str
    title: str
    filter: str
    metric: Metric
    companions: tuple[Metric, ...]
    url: str
    csv_url: str
    api_line: str
    file_name: str
    from_text: str = ""
    to_text: str = ""
    is_log: bool = False
    zone: str = "utc"
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
        """Return the codes of badges that cast no doubt."""
        return HARMLESS_CODES

    @property
    def references_text(self) -> str:
        """Return what known systems reached, as JSON."""
        return json.dumps(list(self.references))

    @property
    def document_id(self) -> str:
        """Return the id of the element that holds the numbers."""
        return f"{self.key}-document"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Return all that is drawn."""
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
    """Return the figure. choice: the API's parameters that name the series, as a query; more: further fields of it."""
    metrics = ",".join(metric.name for metric in asked.metrics)
    address = f"{API_PATH}?{choice}{'&' if choice else ''}{write_query(metrics=metrics)}"
    bounds = asked.bounds
    shown = f"{address}&{write_query(**bounds)}" if bounds else address
    return HistoryFigure(
        key=key,
        title=title,
        filter=filter,
        metric=asked.metric,
        companions=asked.metrics[1:],
        url=address,
        csv_url=f"{shown}&format=csv",
        api_line=say_request(f"{base_url}{shown}"),
        file_name=file_name,
        from_text=bounds.get("from", ""),
        to_text=bounds.get("to", ""),
        is_log=asked.is_log,
        zone=asked.zone,
        **more,
    )


def list_references(references: Sequence[ReferenceLine]) -> list[dict[str, Any]]:
    """Return what known systems reached, as the drawing takes it."""
    return [{"value": line.value, "words": line.words} for line in references]


def show_history(query: QueryDict, *, key: str, base_url: str) -> HistoryFigure:
    """Return the figure of a study's panel, its numbers in it: who reads a shared study may not ask the API.

    query: the part of the history page's address behind "?". Raises BadFilter.
    """
    asked = read_history_request(query)
    text = query.get("q", "")
    filter = parse_filter(text)
    if query.get("series") and asked.ids is None:
        # Not the freshest instead: whoever has a shared link would see what nobody meant to show.
        raise BadFilter("series are written by their numbers, as 1,2,3")
    chosen = choose_series(filter, ids=asked.ids)
    history = read_history(chosen, metrics=[metric.name for metric in asked.metrics], **asked.span)
    return make_history_figure(
        asked,
        choice=write_choice(asked, text),
        base_url=base_url,
        title=say_histories(history, asked.metric),
        filter=say_filter(filter),
        file_name=f"{key}-{asked.metric.name}",
        key=key,
        has_several=len(chosen.rows) > 1,
        owns_address=False,
        document=make_document(history, chosen),
        table=make_history_table(history, asked.metric),
    )


def write_choice(asked: HistoryRequest, text: str) -> str:
    """Write which series, as the API's parameters: their ids, else the filter's text."""
    if asked.ids is not None:
        return write_query(series=",".join(map(str, asked.ids)))
    return write_query(q=text)


def write_picture(asked: HistoryRequest, *, ids: Sequence[int] = (), text: str = "") -> str:
    """Write the part of the history page's address that says all of a picture, for a study: of ids, else a filter."""
    return write_query(
        series=",".join(map(str, ids)),
        q="" if ids else text,
        metric=asked.metric.name,
        **asked.bounds,
        scale="log" if asked.is_log else "",
        tz="" if asked.zone == "utc" else asked.zone,
        panels="" if asked.is_linked else "one",
    )


def say_choice(chosen: ChosenSeries) -> str:
    """Say which series are drawn, and which are not and why."""
    drawn = len(chosen.rows)
    if not chosen.left_out:
        return "1 series." if drawn == 1 else f"{drawn} series, all that were asked for."
    total = f"more than {chosen.total}" if chosen.has_more else f"{chosen.total}"
    return (
        f"{drawn} of {total} series are drawn, those with the freshest runs; at most {LINES_MAXIMUM} fit."
        " Narrow the filter to see the others."
    )
