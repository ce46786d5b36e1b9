"""Series and their points."""

from collections.abc import Sequence
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    ChosenColumns,
    MetricOutput,
    Output,
    PageOutput,
    TargetColumns,
    WorkloadColumns,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import (
    FilterField,
    FormatParameters,
    NamesField,
    PageParameters,
    SpanParameters,
    badge_parameter,
    count_parameter,
    flag_parameter,
    read_parameters,
    refuse_parameters,
    size_parameter,
    text_parameter,
)
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import (
    Row,
    answer_dicts,
    answer_json,
    answer_not_modified,
    choose_columns,
    is_known,
    make_etag,
)
from benchapp.api.framework.view import ApiView
from benchapp.api.resources.history import BucketPage
from benchapp.api.resources.shapes import metric_row, series_detail, series_row
from benchapp.metrics import CATALOGUE
from benchapp.models import METRIC_FIELDS, DirectionName
from benchapp.queries.charts.downsampling import BUCKETS_MAXIMUM, read_thinned
from benchapp.queries.charts.history_rows import BUCKET_COLUMNS, bucket_rows, spread_columns
from benchapp.queries.series.points import ROLLING_WINDOW_MAXIMUM
from benchapp.queries.series.series import (
    Point,
    SeriesFilter,
    list_series,
    read_points,
    read_rolling,
    read_series,
    read_series_version,
    summarize_series,
)


class SeriesOutput(TargetColumns, WorkloadColumns):
    id = number()
    title = text()
    scope = text()
    host = maybe_text()
    pool = maybe_text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    measurement_count = number()
    first_at = time()
    last_at = time()
    badges = badge_codes("codes that its newest measurement bears, most severe first")
    last_run_id = maybe_number()
    last_error = maybe_number()
    last_iops = maybe_real()
    last_bandwidth_bytes_per_s = maybe_real()
    last_latency_p99_ns = maybe_real()
    url = text()
    page = text()


class SiblingOutput(Output):
    id = number()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    url = text()


class SeriesDetailOutput(SeriesOutput):
    workload_title = text()
    target_title = text()
    hosts = serializers.ListField(child=text())
    siblings = SiblingOutput(many=True)
    points = text()


class PointOutput(Output):
    run = number()
    started_at = time()
    error = number(help_text="fio's errno; other than 0 means: do not compare")
    badges = badge_codes("codes of what speaks against it")
    is_excluded = serializers.BooleanField(help_text="the run is excluded from medians")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the metrics asked for, each with its level where `rolling` is given."""
        names = [name for metric in CATALOGUE for name in (metric, *level_columns(metric))]
        return super().get_fields() | {
            name: serializers.FloatField(allow_null=True, required=False) for name in names
        }


class SummaryOutput(Output):
    series = number()
    metric = serializers.ChoiceField(choices=tuple(CATALOGUE))
    unit = text()
    n = number()
    median = maybe_real()
    p10 = maybe_real()
    p90 = maybe_real()
    minimum = maybe_real()
    maximum = maybe_real()
    last = maybe_real()


class SeriesRowOutput(ChosenColumns, SeriesOutput):
    pass


class SeriesPage(PageOutput):
    series = SeriesRowOutput(many=True)


class PointPage(PageOutput):
    series = number()
    metrics = MetricOutput(many=True)
    points = PointOutput(many=True)


LEVELS: Final = ("median", "p10", "p90")


def level_columns(metric: str) -> tuple[str, ...]:
    """Return the columns that `rolling` adds for a metric."""
    return tuple(f"{metric}_{level}" for level in LEVELS)


# In the order in which `rows.py` writes them.
SERIES_COLUMNS: Final = (
    *("id", "title", "scope", "host", "pool", "direction", "measurement_count"),
    *("first_at", "last_at", "badges"),
    *WorkloadColumns().fields,
    *TargetColumns().fields,
    *("last_run_id", "last_error", "last_iops", "last_bandwidth_bytes_per_s", "last_latency_p99_ns"),
    *("url", "page"),
)


POINTS_DEFAULT: Final = 1000


POINTS_MAXIMUM: Final = 10_000


class SeriesParameters(FormatParameters, PageParameters):
    """Filters of series."""

    columns = SERIES_COLUMNS
    q = FilterField(source="match")
    host = text_parameter(253)
    pool = text_parameter(100)
    rw = text_parameter(20)
    direction = serializers.ChoiceField(choices=DirectionName.values, required=False)
    text = text_parameter(200, help_text="words that all occur in scope, workload or target")
    volume_type = text_parameter(100)
    volume_count = count_parameter()
    stripe_count = count_parameter()
    raid_level = text_parameter(20)
    filesystem = text_parameter(50)
    instance_type = text_parameter(100)
    block_size_bytes = size_parameter()
    iodepth = count_parameter()
    numjobs = count_parameter()
    file_size_bytes = size_parameter()
    is_direct = flag_parameter()
    engine = text_parameter(50)
    badge = badge_parameter("series whose newest measurement bears any of these badges, separated by commas")
    sort = serializers.ChoiceField(choices=("-last_at", "last_at"), required=False, default="-last_at")


class PointParameters(SpanParameters, FormatParameters):
    """Points of a series, and their metrics."""

    metrics = NamesField(METRIC_FIELDS, help_text="metrics, separated by commas; default: all")
    cursor = serializers.CharField(
        required=False, max_length=300, help_text="`next_cursor` of the previous page"
    )
    limit = serializers.IntegerField(
        required=False,
        default=POINTS_DEFAULT,
        min_value=1,
        max_value=POINTS_MAXIMUM,
        help_text="points per page",
    )
    sort = serializers.ChoiceField(
        choices=("started_at", "-started_at"), required=False, default="started_at"
    )
    rolling = serializers.IntegerField(
        required=False,
        min_value=3,
        max_value=ROLLING_WINDOW_MAXIMUM,
        help_text="adds METRIC_median, METRIC_p10 and METRIC_p90 over this number of points up to each",
    )
    thin = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=BUCKETS_MAXIMUM,
        help_text="downsample the time range to this number of `buckets`, which keep all extremes",
    )


class SummaryParameters(SpanParameters):
    """Metric and time range of a series."""

    metric = serializers.ChoiceField(choices=METRIC_FIELDS, required=False, default="iops")


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
        """List series with measurements, most recent run first."""
        wanted = read_parameters(request, SeriesParameters)
        after, limit, format = wanted.pop("cursor", None), wanted.pop("limit"), wanted.pop("format")
        columns, sort = wanted.pop("columns", SERIES_COLUMNS), wanted.pop("sort")
        page = list_series(SeriesFilter(**wanted), after=after, limit=limit, oldest_first=sort == "last_at")
        rows = choose_columns(map(series_row, page.items), columns)
        return answer_dicts(
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


class PointsView(ApiView):
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
        """List the points of a series in chronological order, with the given metrics; buckets with `thin`."""
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
        return answer_dicts(
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


class SeriesSummaryView(ApiView):
    """Summary of one metric of a series."""

    permission_classes = [MayRead]

    @extend_schema(operation_id="summarize_series", parameters=[SummaryParameters], responses=SummaryOutput)
    def get(self, request: Request, series_id: int) -> HttpResponse:
        """Summarize one metric over a time range, without failed and excluded runs: median, spread, extremes, last."""
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
    return answer_dicts(
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
    return Problem(404, "not-found", "No such series", f"series {series_id} does not exist")
