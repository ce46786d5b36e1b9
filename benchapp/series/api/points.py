"""The points of one series, and their summary."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.metrics import CATALOG
from benchapp.charts.api.history import BucketPage, describe_buckets
from benchapp.charts.read.downsampling import BUCKETS_MAXIMUM, read_thinned
from benchapp.charts.read.history_rows import BUCKET_COLUMNS, bucket_rows, spread_columns
from benchapp.framework.api.answers import (
    AnswerPage,
    ApiAnswer,
    Time,
    build,
    list_columns,
    with_columns,
)
from benchapp.framework.api.lists import answer_list, take_page_request
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FormatParameters,
    NamesField,
    SpanParameters,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.responses import (
    answer_json,
    answer_not_modified,
    answer_rows,
    is_known,
    make_etag,
)
from benchapp.framework.api.shapes import ERROR_MEANING, MetricAnswer, MetricName, describe_metric
from benchapp.framework.api.view import ApiView
from benchapp.models import METRIC_FIELDS
from benchapp.series.api.series import make_series_context, read_version
from benchapp.series.read.points import (
    ROLLING_WINDOW_MAXIMUM,
    Point,
    read_points,
    read_rolling,
    summarize_series,
)

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


class PointPage(AnswerPage, kw_only=True, frozen=True):
    series: int
    metrics: Sequence[MetricAnswer]
    points: Sequence[PointAnswer]


POINTS_DEFAULT: Final = 1000


POINTS_MAXIMUM: Final = 10_000


class PointParameters(SpanParameters, FormatParameters):
    """Points of a series, and their metrics."""

    metrics = NamesField(METRIC_FIELDS, help_text="metrics, separated by commas; default: all")
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

    metric = ChoiceParameter(choices=METRIC_FIELDS, required=False, default="iops")


class PointsView(ApiView):
    """The points of one series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_points",
        parameters=[PointParameters],
        responses=in_formats(
            PolymorphicProxySerializer(
                component_name="PointsOrBuckets",
                serializers=[PointPage, BucketPage],  # type: ignore[list-item]  # an extension describes them
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
        metrics: Sequence[str] = wanted.get("metrics", METRIC_FIELDS)
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
        body = build(SummaryAnswer, summary, series=series_id, metric=metric, unit=CATALOG[metric].unit)
        return answer_json(request, body, headers={"ETag": etag})


def _answer_thinned(request: Request, series_id: int, wanted: dict[str, Any], *, etag: str) -> HttpResponse:
    metrics: Sequence[str] = wanted.get("metrics", METRIC_FIELDS)
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
        format=wanted["format"],
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
