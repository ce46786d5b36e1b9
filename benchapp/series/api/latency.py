"""Latencies of one series over time: percentiles and histograms."""

from collections.abc import Sequence
from typing import Annotated, Any

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.charts.read.history_rows import (
    fan_rows,
    heat_cells,
    heat_columns,
)
from benchapp.charts.read.latency import COLUMNS_DEFAULT, COLUMNS_MAXIMUM, read_fan, read_heat
from benchapp.framework.api.answers import AnswerPage, ApiAnswer, Time, list_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    FormatParameters,
    SpanParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.responses import (
    answer_not_modified,
    answer_rows,
    is_known,
    make_etag,
)
from benchapp.framework.api.view import ApiView
from benchapp.series.api.series import make_series_context, read_version


class FanAnswer(ApiAnswer, kw_only=True, frozen=True):
    from_at: Time
    to_at: Time
    runs: int
    last_run: int
    p50: Annotated[float | None, Meta(description="ns; the median over the runs of the column")]
    p90: float | None
    p95: float | None
    p99: float | None
    p99_9: float | None
    p99_99: float | None


class FanPage(AnswerPage, kw_only=True, frozen=True):
    series: int
    columns: Sequence[FanAnswer]


class HeatColumnAnswer(ApiAnswer, kw_only=True, frozen=True):
    from_at: Time
    to_at: Time
    runs: int
    last_run: int
    counts: Annotated[Sequence[int], Meta(description="I/Os per bucket, from first_bucket")]


class HeatCellAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A line of the CSV: a column and one of its buckets."""

    from_at: Time
    to_at: Time
    runs: int
    last_run: int
    bucket: int
    from_ns: float
    to_ns: float
    operations: int


class HeatPage(AnswerPage, kw_only=True, frozen=True):
    series: int
    first_bucket: int | None
    columns: Sequence[HeatColumnAnswer]


class LatencyParameters(SpanParameters, FormatParameters):
    """Time range and resolution of latencies."""

    resolution = serializers.IntegerField(
        required=False,
        default=COLUMNS_DEFAULT,
        min_value=1,
        max_value=COLUMNS_MAXIMUM,
        help_text="maximum columns; adjacent runs share a column",
    )


class Percentiles(ApiView):
    """The percentiles of one series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_percentiles",
        parameters=[LatencyParameters],
        responses=in_formats(FanPage, "the same rows, without the rest"),
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """List p50 to p99.99 over time, in ns."""
        wanted = read_parameters(request, LatencyParameters)
        etag = make_etag(request, read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        fan = read_fan(series_id, **_span_of(wanted))
        return answer_rows(
            request,
            FanPage,
            [FanAnswer(**row) for row in fan_rows(fan)],
            name="columns",
            columns=list_columns(FanAnswer),
            format=wanted["format"],
            file_name=f"series-{series_id}-percentiles",
            about={"series": series_id},
            context={"metric": "latency", "unit": "ns", **make_series_context(series_id, wanted["format"])},
            headers={"ETag": etag},
        )


class Histogram(ApiView):
    """The histograms of one series over time."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_histograms",
        parameters=[LatencyParameters],
        responses=in_formats(HeatPage, "the same rows, without the rest"),
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """List latency histograms over time; bucket k spans 2^(k/4) to 2^((k+1)/4) ns."""
        wanted = read_parameters(request, LatencyParameters)
        etag = make_etag(request, read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        heat = read_heat(series_id, **_span_of(wanted))
        is_json = wanted["format"] == "json"
        rows: list[ApiAnswer] = []
        if heat is not None and is_json:
            rows += [HeatColumnAnswer(**row) for row in heat_columns(heat)]
        elif heat is not None:
            rows += [HeatCellAnswer(**row) for row in heat_cells(heat)]
        return answer_rows(
            request,
            HeatPage,
            rows,
            name="columns",
            columns=list_columns(HeatColumnAnswer if is_json else HeatCellAnswer),
            format=wanted["format"],
            file_name=f"series-{series_id}-histograms",
            about={"series": series_id, "first_bucket": None if heat is None else heat.first_bucket},
            context={"metric": "latency", **make_series_context(series_id, wanted["format"])},
            headers={"ETag": etag},
        )


def _span_of(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"count": wanted["resolution"], "from_at": wanted.get("from_at"), "to_at": wanted.get("to_at")}
