"""Histories side by side, thinned where they are long, and the latencies of one over time."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from benchapp.api.answers import answer_json, answer_not_modified, answer_rows, is_known, make_etag
from benchapp.api.history_outputs import FanPage, HeatPage, HistoryOutput
from benchapp.api.history_parameters import HistoryParameters, LatencyParameters
from benchapp.api.parameters import read_parameters
from benchapp.api.permissions import MayRead
from benchapp.api.problems import Problem
from benchapp.api.view import ApiView
from benchapp.grammar import BadFilter, Filter, parse_filter
from benchapp.queries.changes import read_marks_version
from benchapp.queries.history import History, choose_series, read_history
from benchapp.queries.history_rows import (
    BUCKET_COLUMNS,
    FAN_COLUMNS,
    HEAT_COLUMNS,
    POINT_COLUMNS,
    fan_rows,
    heat_cells,
    heat_columns,
    history_rows,
    make_document,
    spread_columns,
)
from benchapp.queries.latency_history import read_fan, read_heat
from benchapp.queries.series import read_series_version

_LINES = OpenApiResponse(OpenApiTypes.STR, "the same rows, without the rest")
_FORMATS = {(200, "text/csv"): _LINES, (200, "application/x-ndjson"): _LINES}


class Histories(ApiView):
    """Several series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="compare_histories",
        parameters=[HistoryParameters],
        responses={(200, "application/json"): HistoryOutput, **_FORMATS},
    )
    def get(self, request: Request) -> HttpResponse:
        """Read up to 12 series over time: points or buckets, levels, and what changed around them."""
        wanted = read_parameters(request, HistoryParameters)
        chosen = choose_series(_read_filter(wanted["q"]), ids=wanted.get("series"))
        metrics = wanted.get("metrics", ("iops",))
        marks = read_marks_version([row.id for row in chosen.rows], metrics=metrics)
        etag = make_etag(request, f"{chosen.version}\n{marks}")
        if is_known(request, etag):
            return answer_not_modified(etag)
        history = read_history(
            chosen,
            metrics=metrics,
            from_at=wanted.get("from_at"),
            to_at=wanted.get("to_at"),
            bucket_count=wanted["thin"],
        )
        if wanted["format"] != "json":
            return _answer_lines(request, history, format=wanted["format"], etag=etag)
        return answer_json(request, make_document(history, chosen), headers={"ETag": etag})


class Percentiles(ApiView):
    """The percentiles of one series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_percentiles",
        parameters=[LatencyParameters],
        responses={(200, "application/json"): FanPage, **_FORMATS},
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """List p50 to p99.99 over time, in ns."""
        wanted = read_parameters(request, LatencyParameters)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        fan = read_fan(series_id, **_span_of(wanted))
        return answer_rows(
            request,
            fan_rows(fan),
            name="columns",
            columns=FAN_COLUMNS,
            next_cursor=None,
            format=wanted["format"],
            file_name=f"series-{series_id}-percentiles",
            about={"series": series_id},
            headers={"ETag": etag},
        )


class Histogram(ApiView):
    """The histograms of one series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_histograms",
        parameters=[LatencyParameters],
        responses={(200, "application/json"): HeatPage, **_FORMATS},
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """List how many operations took how long, over time; bucket k spans 2^(k/4) to 2^((k+1)/4) ns."""
        wanted = read_parameters(request, LatencyParameters)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        heat = read_heat(series_id, **_span_of(wanted))
        is_json = wanted["format"] == "json"
        rows = [] if heat is None else heat_columns(heat) if is_json else list(heat_cells(heat))
        return answer_rows(
            request,
            rows,
            name="columns",
            columns=HEAT_COLUMNS,
            next_cursor=None,
            format=wanted["format"],
            file_name=f"series-{series_id}-histograms",
            about={"series": series_id, "first_bucket": None if heat is None else heat.first_bucket},
            headers={"ETag": etag},
        )


def _answer_lines(request: Request, history: History, *, format: str, etag: str) -> HttpResponse:
    if history.is_thinned:
        columns = [*BUCKET_COLUMNS, *(name for metric in history.metrics for name in spread_columns(metric))]
    else:
        columns = [*POINT_COLUMNS, *history.metrics]
    return answer_rows(
        request,
        history_rows(history),
        name="points",
        columns=["series", *columns],
        next_cursor=None,
        format=format,
        file_name="history",
        headers={"ETag": etag},
    )


def _read_filter(text: str) -> Filter:
    try:
        return parse_filter(text)
    except BadFilter as error:
        raise Problem(400, "parameter-invalid", "Bad query parameter", f"q: {error}", pointer="q") from error


def _span_of(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"count": wanted["thin"], "from_at": wanted.get("from_at"), "to_at": wanted.get("to_at")}


def _read_version(series_id: int) -> str:
    version = read_series_version(series_id)
    if version is None:
        raise Problem(404, "not-found", "No such series", f"there is no series {series_id}")
    return version
