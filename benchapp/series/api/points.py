"""Measurements: the points of one series and their summary, points across series in any number, latencies over time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.api.history import BucketPage, describe_buckets
from benchapp.charts.read.downsampling import read_thinned
from benchapp.charts.read.history_rows import BUCKET_COLUMNS, bucket_rows, spread_columns
from benchapp.charts.read.latency import (
    COLUMNS_DEFAULT,
    COLUMNS_MAXIMUM,
    fan_rows,
    heat_cells,
    heat_columns,
    read_fan,
    read_heat,
)
from benchapp.charts.rules.downsampling import BUCKETS_MAXIMUM
from benchapp.framework.api.answers import (
    ERROR_MEANING,
    AnswerPage,
    ApiAnswer,
    ChosenColumns,
    MetricAnswer,
    MetricName,
    Time,
    define_answer,
    describe_metric,
    list_columns,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, answer_stream, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    IdsField,
    NamesField,
    SpanParameters,
    flag_parameter,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.responses import (
    PARQUET_TYPE,
    RowColumn,
    answer_json,
    answer_not_modified,
    answer_rows,
    is_known,
    list_kinds,
    make_etag,
    name_file,
    row_format,
)
from benchapp.framework.api.view import ApiView
from benchapp.models import DirectionName
from benchapp.series.api.series import make_series_context, read_version
from benchapp.series.read.points import (
    MEASUREMENT_COLUMNS,
    ROLLING_WINDOW_MAXIMUM,
    MeasurementFilter,
    Point,
    read_points,
    read_rolling,
    stream_measurements,
    summarize_series,
)
from benchapp.series.read.shapes import EnvironmentRow, TargetRow, WorkloadRow

LEVELS: Final = ("median", "p10", "p90")


def level_columns(metric: str) -> tuple[str, ...]:
    """Return the columns that `rolling` adds for a metric."""
    return tuple(f"{metric}_{level}" for level in LEVELS)


class PointColumns(ApiAnswer, kw_only=True, frozen=True):
    """What a point has beside its metrics."""

    run: int
    started_at: Time
    error: Annotated[int, Meta(description=ERROR_MEANING)]
    badges: Annotated[Sequence[str], Meta(description="codes of what speaks against it")]
    is_excluded: Annotated[bool, Meta(description="the run is excluded from medians")]


@with_columns(
    PointColumns,
    optional={name: float | None for metric in CATALOG for name in (metric, *level_columns(metric))},
)
class PointAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A point has the requested metrics, each with its level where `rolling` is given."""


class SummaryAnswer(ApiAnswer, kw_only=True, frozen=True):
    series: int
    metric: MetricName
    unit: str
    n: int
    median: float | None
    p10: float | None
    p90: float | None
    minimum: float | None
    maximum: float | None
    last: float | None


PointPage = define_answer(
    "PointPage", AnswerPage, series=int, metrics=Sequence[MetricAnswer], points=Sequence[PointAnswer]
)
POINTS_DEFAULT: Final = 1000


POINTS_MAXIMUM: Final = 10_000


class PointParameters(SpanParameters, FormatParameters):
    """Points of a series, and their metrics."""

    metrics = NamesField(tuple(CATALOG), help_text="metrics, separated by commas; default: all")
    cursor = serializers.CharField(
        required=False, max_length=300, help_text="`next_cursor` of the previous page"
    )
    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=POINTS_MAXIMUM,
        help_text=f"points per page; default: {POINTS_DEFAULT}, in CSV and NDJSON all points",
    )
    sort = ChoiceParameter(choices=("started_at", "-started_at"), required=False, default="started_at")
    rolling = serializers.IntegerField(
        required=False,
        min_value=3,
        max_value=ROLLING_WINDOW_MAXIMUM,
        help_text="adds METRIC_median, METRIC_p10 and METRIC_p90 over this number of points up to each",
    )
    resolution = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=BUCKETS_MAXIMUM,
        help_text="downsample the time range to this number of `buckets`, which keep all extremes",
    )


class SummaryParameters(SpanParameters):
    """Metric and time range of a series."""

    metric = ChoiceParameter(choices=tuple(CATALOG), required=False, default="iops")


class PointsView(ApiView):
    """The points of one series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_points",
        parameters=[PointParameters],
        responses=in_formats(
            PolymorphicProxySerializer(
                component_name="PointsOrBuckets",
                serializers=[PointPage, BucketPage],
                resource_type_field_name=None,
            ),
            "the same rows, without the rest",
        ),
    )
    def get(self, request: Request, series_id: int) -> HttpResponseBase:
        """List the points of a series in chronological order, with the given metrics; buckets with `resolution`."""
        wanted = read_parameters(request, PointParameters)
        etag = make_etag(request, read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        metrics: Sequence[str] = wanted.get("metrics", tuple(CATALOG))
        if wanted.get("resolution"):
            return _answer_thinned(request, series_id, wanted, etag=etag)
        window, page = wanted.get("rolling"), take_page_request(wanted)
        columns = [*list_columns(PointColumns), *metrics]
        if window:
            columns += [column for metric in metrics for column in level_columns(metric)]
        return answer_list(
            request,
            PointPage,
            PointAnswer,
            page=page,
            read=lambda after, limit: read_points(
                series_id,
                metrics=metrics,
                from_at=wanted.get("from_at"),
                to_at=wanted.get("to_at"),
                after=after,
                limit=limit,
                newest_first=wanted["sort"] == "-started_at",
            ),
            describe=lambda points: _describe_points(
                points,
                metrics,
                read_rolling(series_id, points, metrics=metrics, window=window) if window else (),
            ),
            name="points",
            columns=columns,
            file_name=f"series-{series_id}-points",
            default_limit=POINTS_DEFAULT,
            about={"series": series_id, "metrics": list(map(describe_metric, metrics))},
            context=make_series_context(series_id, page.format),
            headers={"ETag": etag},
        )


class SeriesSummaryView(ApiView):
    """Summary of one metric of a series."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="summarize_series", parameters=[SummaryParameters], responses=SummaryAnswer)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Summarize one metric over a time range, without failed and excluded runs: median, spread, extremes, last."""
        wanted = read_parameters(request, SummaryParameters)
        etag = make_etag(request, read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        metric = wanted["metric"]
        summary = summarize_series(
            series_id, metric=metric, from_at=wanted.get("from_at"), to_at=wanted.get("to_at")
        )
        body = SummaryAnswer(series=series_id, metric=metric, unit=CATALOG[metric].unit, **summary)
        return answer_json(request, body, headers={"ETag": etag})


def _answer_thinned(request: Request, series_id: int, wanted: dict[str, Any], *, etag: str) -> HttpResponse:
    metrics: Sequence[str] = wanted.get("metrics", tuple(CATALOG))
    buckets = read_thinned(
        series_id,
        metrics=metrics,
        count=wanted["resolution"],
        from_at=wanted.get("from_at"),
        to_at=wanted.get("to_at"),
    )
    return answer_rows(
        request,
        BucketPage,
        describe_buckets(bucket_rows(buckets)),
        name="buckets",
        columns=[*BUCKET_COLUMNS, *(name for metric in metrics for name in spread_columns(metric))],
        answer_format=wanted["format"],
        file_name=f"series-{series_id}-buckets",
        about={"series": series_id, "metrics": list(map(describe_metric, metrics))},
        context=make_series_context(series_id, wanted["format"]),
        headers={"ETag": etag},
    )


def _describe_points(
    points: Sequence[Point], metrics: Sequence[str], levels: Sequence[Sequence[Any]]
) -> list[PointAnswer]:
    """Return the points with the metrics; levels: of each point, by metric; empty without `rolling`."""
    names = (*list_columns(PointColumns), *metrics)
    rows = [
        dict(zip(names, (run_id, started_at, error, badges, is_excluded, *values), strict=True))
        for _, run_id, started_at, error, values, badges, is_excluded in points
    ]
    columns = [level_columns(metric) for metric in metrics]
    for row, at_point in zip(rows, levels, strict=bool(levels)):
        for (median, p10, p90), level in zip(columns, at_point, strict=True):
            row |= {median: level.median, p10: level.p10, p90: level.p90}
    return [PointAnswer(**row) for row in rows]


POINT_FORMATS: Final = ("json", "ndjson", "csv", "parquet")
_IDS_MAXIMUM: Final = 1000
_ROWS_MAXIMUM: Final = 2**31 - 1
_LABEL: Final = "label."


class PointFacts(ApiAnswer, kw_only=True, frozen=True):
    """What a point has of its measurement and its run."""

    series: int
    run: int
    started_at: Time
    error: Annotated[int, Meta(description=ERROR_MEANING)]
    is_excluded: Annotated[bool, Meta(description="the run is excluded from medians")]
    badges: Annotated[Sequence[str], Meta(description="codes of what speaks against it")]
    direction: DirectionName
    pattern: str
    host: Annotated[str, Meta(description="the host that measured, also in series of a pool")]
    pool: Annotated[str | None, Meta(description="pool of the host")]
    profile: str
    sweep: UUID | None
    labels: Annotated[
        Mapping[str, str], Meta(description="of the run; label.NAME in `fields` is one of them")
    ]


@with_columns(
    PointFacts,
    WorkloadRow,
    TargetRow,
    EnvironmentRow,
    optional={
        **dict.fromkeys(CATALOG, float | None),
        "metric": MetricName,
        "unit": str,
        "value": float,
    },
)
class PointRowAnswer(ChosenColumns, kw_only=True, frozen=True):
    """A row has the columns of `fields`; with `shape=long` the last three instead of the metrics."""


class PointRowsAnswer(ApiAnswer, kw_only=True, frozen=True):
    points: Sequence[PointRowAnswer]
    count: Annotated[int, Meta(description="number of points; behind them: the list is complete")]


FACT_COLUMNS: Final = tuple(name for name in MEASUREMENT_COLUMNS if name not in CATALOG)
LONG_COLUMNS: Final = ("metric", "unit", "value")


class PointColumnsField(NamesField):
    """Columns of points, also label.NAME."""

    def check_name(self, name: str) -> bool:
        """Return whether this is a column."""
        return super().check_name(name) or (name.startswith(_LABEL) and len(name) > len(_LABEL))


class PointRowParameters(FilterParameters, SpanParameters):
    """Which points, and their columns; all of them without `limit`."""

    series = IdsField(_IDS_MAXIMUM, help_text="ids of series, separated by commas; default: all")
    metrics = NamesField(tuple(CATALOG), help_text="metrics, separated by commas; default: all")
    format = ChoiceParameter(choices=POINT_FORMATS, required=False, default="json")
    shape = ChoiceParameter(
        choices=("wide", "long"),
        required=False,
        default="wide",
        help_text="wide: a row per measurement; long: a row per measurement and metric that has a value",
    )
    sort = ChoiceParameter(
        choices=("series", "started_at", "-started_at"),
        required=False,
        default="series",
        help_text="series: by series, then by time; the fastest",
    )
    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=_ROWS_MAXIMUM,
        help_text="at most this number of measurements; default: all",
    )
    valid = flag_parameter(
        source="is_valid", help_text="true: without failed and excluded runs; false: only these"
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `fields`."""
        chosen = PointColumnsField(
            FACT_COLUMNS,
            source="columns",
            help_text="columns beside the metrics, separated by commas, also label.NAME; default: all",
        )
        return super().get_fields() | {"fields": chosen}


class Points(ApiView):
    """Measurements across series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_measurements",
        parameters=[PointRowParameters],
        responses={
            **in_formats(PointRowsAnswer, "the same rows"),
            (200, PARQUET_TYPE): OpenApiResponse(OpenApiTypes.BINARY, "the same rows"),
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """List all measurements that match, with the facts of their run, series and environment."""
        wanted = read_parameters(request, PointRowParameters)
        metrics: Sequence[str] = wanted.pop("metrics", tuple(CATALOG))
        facts: Sequence[str] = wanted.pop("columns", FACT_COLUMNS)
        order, limit = wanted.pop("sort"), wanted.pop("limit", None)
        shape, answer_format = wanted.pop("shape"), wanted.pop("format")
        has_filter = answer_format == "csv" and "fields" not in request.query_params
        batches = stream_measurements(
            MeasurementFilter(**wanted), [*facts, *metrics], order=order, limit=limit
        )
        columns = [*facts, *metrics]
        if shape == "long":
            batches = _write_long(batches, metrics)
            columns = [*facts, *LONG_COLUMNS]
        described = [_describe_column(name) for name in columns]
        if has_filter:
            filter = write_filter(wanted["match"])
            batches = ([(*row, filter) for row in batch] for batch in batches)
            described.append(RowColumn("filter", "text"))
        content_type, write = row_format(answer_format, name="points")
        return answer_stream(
            request,
            write(described, batches),
            content_type=content_type,
            headers={} if answer_format == "json" else name_file("points", answer_format),
        )


def _write_long(
    batches: Iterator[list[tuple[Any, ...]]], metrics: Sequence[str]
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield a row for each value of a metric: the facts, and metric, unit, value."""
    described = [(name, CATALOG[name].unit) for name in metrics]
    for batch in batches:
        yield [
            (*row[: -len(metrics)], name, unit, value)
            for row in batch
            for (name, unit), value in zip(described, row[-len(metrics) :], strict=True)
            if value is not None
        ]


def _describe_column(name: str) -> RowColumn:
    return RowColumn(name, "text" if name.startswith(_LABEL) else _KINDS[name])


_KINDS: Final = list_kinds(PointRowAnswer)


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


FanPage = define_answer("FanPage", AnswerPage, series=int, columns=Sequence[FanAnswer])


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


HeatPage = define_answer(
    "HeatPage", AnswerPage, series=int, first_bucket=int | None, columns=Sequence[HeatColumnAnswer]
)


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
            answer_format=wanted["format"],
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
            answer_format=wanted["format"],
            file_name=f"series-{series_id}-histograms",
            about={"series": series_id, "first_bucket": None if heat is None else heat.first_bucket},
            context={"metric": "latency", **make_series_context(series_id, wanted["format"])},
            headers={"ETag": etag},
        )


def _span_of(wanted: dict[str, Any]) -> dict[str, Any]:
    return {"count": wanted["resolution"], "from_at": wanted.get("from_at"), "to_at": wanted.get("to_at")}
