"""Series and their points."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework.request import Request

from benchapp.api.answers import (
    Row,
    answer_json,
    answer_not_modified,
    answer_rows,
    choose_columns,
    is_known,
    make_etag,
)
from benchapp.api.history_outputs import BucketPage
from benchapp.api.parameters import (
    PointParameters,
    SeriesParameters,
    SummaryParameters,
    read_parameters,
    refuse_parameters,
)
from benchapp.api.permissions import MayRead
from benchapp.api.problems import Problem
from benchapp.api.rows import metric_row, series_detail, series_row
from benchapp.api.series_outputs import (
    SERIES_COLUMNS,
    PointPage,
    SeriesDetailOutput,
    SeriesPage,
    SummaryOutput,
    level_columns,
)
from benchapp.api.view import ApiView
from benchapp.models import METRIC_FIELDS
from benchapp.queries.history_rows import BUCKET_COLUMNS, bucket_rows, spread_columns
from benchapp.queries.series import (
    Point,
    SeriesFilter,
    list_series,
    read_points,
    read_rolling,
    read_series,
    read_series_version,
    summarize_series,
)
from benchapp.queries.thinning import read_thinned

_POINT_COLUMNS: Final = ("run", "started_at", "error", "badges", "is_excluded")
_LINES = OpenApiResponse(OpenApiTypes.STR, "the same rows, without the rest")


class SeriesList(ApiView):
    """All series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_series",
        parameters=[SeriesParameters],
        responses={
            (200, "application/json"): SeriesPage,
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """List series with measurements, the freshest first."""
        wanted = read_parameters(request, SeriesParameters)
        after, limit, format = wanted.pop("cursor", None), wanted.pop("limit"), wanted.pop("format")
        columns, sort = wanted.pop("columns", SERIES_COLUMNS), wanted.pop("sort")
        page = list_series(SeriesFilter(**wanted), after=after, limit=limit, oldest_first=sort == "last_at")
        rows = choose_columns(map(series_row, page.items), columns)
        return answer_rows(
            request, rows, name="series", columns=columns, next_cursor=page.next_cursor, format=format
        )


class OneSeries(ApiView):
    """One series."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="read_series", responses=SeriesDetailOutput)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Read one series."""
        refuse_parameters(request)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        series = read_series(series_id)
        if series is None:
            raise _no_series(series_id)
        return answer_json(request, series_detail(series), headers={"ETag": etag})


class Points(ApiView):
    """The points of one series."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="list_points",
        parameters=[PointParameters],
        responses={
            (200, "application/json"): PolymorphicProxySerializer(
                component_name="PointsOrBuckets",
                serializers=[PointPage, BucketPage],
                resource_type_field_name=None,
            ),
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """List the points of a series in the order of time, with the metrics asked for; with `thin` buckets instead."""
        wanted = read_parameters(request, PointParameters)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        metrics: Sequence[str] = wanted.get("metrics", METRIC_FIELDS)
        if wanted.get("thin"):
            return _answer_thinned(request, series_id, wanted, etag=etag)
        page = read_points(
            series_id,
            metrics=metrics,
            from_at=wanted.get("from_at"),
            to_at=wanted.get("to_at"),
            after=wanted.get("cursor"),
            limit=wanted["limit"],
            newest_first=wanted["sort"] == "-started_at",
        )
        columns = [*_POINT_COLUMNS, *metrics]
        rows = _make_rows(page.items, metrics)
        if window := wanted.get("rolling"):
            columns += [column for metric in metrics for column in level_columns(metric)]
            _add_levels(rows, read_rolling(series_id, page.items, metrics=metrics, window=window), metrics)
        return answer_rows(
            request,
            rows,
            name="points",
            columns=columns,
            next_cursor=page.next_cursor,
            format=wanted["format"],
            file_name=f"series-{series_id}-points",
            about={"series": series_id, "metrics": [metric_row(metric) for metric in metrics]},
            headers={"ETag": etag},
        )


class SeriesSummary(ApiView):
    """One metric of a series in a few numbers."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="summarize_series", parameters=[SummaryParameters], responses=SummaryOutput)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Summarise one metric over a span, without failed and excluded runs: median, p10, p90, extremes, last."""
        wanted = read_parameters(request, SummaryParameters)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        metric = wanted["metric"]
        summary = summarize_series(
            series_id, metric=metric, from_at=wanted.get("from_at"), to_at=wanted.get("to_at")
        )
        body = {
            "series": series_id,
            "metric": metric,
            "unit": metric_row(metric)["unit"],
            "n": summary.n,
            "median": summary.median,
            "p10": summary.p10,
            "p90": summary.p90,
            "minimum": summary.minimum,
            "maximum": summary.maximum,
            "last": summary.last,
        }
        return answer_json(request, body, headers={"ETag": etag})


def _answer_thinned(request: Request, series_id: int, wanted: dict[str, Any], *, etag: str) -> HttpResponse:
    metrics: Sequence[str] = wanted.get("metrics", METRIC_FIELDS)
    buckets = read_thinned(
        series_id,
        metrics=metrics,
        count=wanted["thin"],
        from_at=wanted.get("from_at"),
        to_at=wanted.get("to_at"),
    )
    return answer_rows(
        request,
        bucket_rows(buckets),
        name="buckets",
        columns=[*BUCKET_COLUMNS, *(name for metric in metrics for name in spread_columns(metric))],
        next_cursor=None,
        format=wanted["format"],
        file_name=f"series-{series_id}-buckets",
        about={"series": series_id, "metrics": [metric_row(metric) for metric in metrics]},
        headers={"ETag": etag},
    )


def _make_rows(points: Sequence[Point], metrics: Sequence[str]) -> list[Row]:
    names = (*_POINT_COLUMNS, *metrics)
    return [
        dict(zip(names, (run_id, started_at, error, badges, is_excluded, *values), strict=True))
        for _, run_id, started_at, error, values, badges, is_excluded in points
    ]


def _add_levels(rows: list[Row], levels: Sequence[Sequence[Any]], metrics: Sequence[str]) -> None:
    names = [level_columns(metric) for metric in metrics]
    for row, at_point in zip(rows, levels, strict=True):
        for (median, p10, p90), level in zip(names, at_point, strict=True):
            row[median], row[p10], row[p90] = level.median, level.p10, level.p90


def _read_version(series_id: int) -> str:
    version = read_series_version(series_id)
    if version is None:
        raise _no_series(series_id)
    return version


def _no_series(series_id: int) -> Problem:
    return Problem(404, "not-found", "No such series", f"there is no series {series_id}")
