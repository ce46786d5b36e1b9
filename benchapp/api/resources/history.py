"""Histories of several series, downsampled if long, and latencies of one series over time."""

from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    MetricOutput,
    Output,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    number,
    text,
    time,
)
from benchapp.api.framework.parameters import (
    FormatParameters,
    NamesField,
    Parameters,
    SpanParameters,
    read_parameters,
)
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import (
    answer_dicts,
    answer_json,
    answer_not_modified,
    is_known,
    make_etag,
)
from benchapp.api.framework.view import ApiView
from benchapp.grammar import BadFilter, Filter, parse_filter
from benchapp.metrics import CATALOGUE
from benchapp.models import METRIC_FIELDS, ChangeState, DirectionName
from benchapp.queries.charts.history import (
    BUCKETS_DEFAULT,
    IDS_MAXIMUM,
    LINES_MAXIMUM,
    SeriesHistory,
    choose_series,
    read_history,
)
from benchapp.queries.charts.history_rows import (
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
from benchapp.queries.charts.latency import COLUMNS_DEFAULT, COLUMNS_MAXIMUM, read_fan, read_heat
from benchapp.queries.incidents.changes import read_marks_version
from benchapp.queries.series.series import read_series_version

MARKED_STATES: Final = tuple(state for state in ChangeState if state != ChangeState.WITHDRAWN)


class LevelOutput(Output):
    from_at = time()
    to_at = time()
    first_run = number()
    n = number()
    median = serializers.FloatField()
    p10 = serializers.FloatField()
    p90 = serializers.FloatField()


class FieldChangeOutput(Output):
    name = text()
    label = text()  # type: ignore[assignment]  # a serializer has a label itself
    before = maybe_text()
    after = maybe_text()


class ChangeMarkOutput(Output):
    id = number()
    metric = text()
    at = time()
    run = maybe_number()
    state = serializers.ChoiceField(choices=[state.value for state in MARKED_STATES])
    is_drift = serializers.BooleanField(help_text="a drift from the baseline, not a new level")
    is_regression = serializers.BooleanField()
    relative = serializers.FloatField(help_text="after / before − 1")
    relative_low = maybe_real(help_text="of its 95 % interval")
    relative_high = maybe_real()
    before = serializers.FloatField(help_text="median of the previous level, in the base unit of the metric")
    after = serializers.FloatField()
    incident = maybe_number()
    page = maybe_text()


class EnvironmentChangeOutput(Output):
    at = time()
    run = number(help_text="first run in the new environment")
    host = text()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add `fields`, which cannot be declared: a serializer has an attribute of that name."""
        return super().get_fields() | {"fields": FieldChangeOutput(many=True)}


class BucketOutput(Output):
    from_at = time()
    to_at = time()
    n = number(help_text="all runs in the bucket")
    failed = number(help_text="number of these runs; not part of the statistics")
    excluded = number(help_text="number of these runs; not part of the statistics")
    doubtful = number(help_text="number of runs with a data-quality badge")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the spread of each requested metric."""
        columns = [name for metric in CATALOGUE for name in spread_columns(metric)]
        return super().get_fields() | {name: _spread_field(name) for name in columns}


class HistoryBucketOutput(BucketOutput):
    series = number()


class BucketPage(Output):
    series = number()
    metrics = MetricOutput(many=True)
    buckets = BucketOutput(many=True)
    next = maybe_text()
    next_cursor = maybe_text()


class HistoryPointOutput(Output):
    series = number()
    run = number()
    started_at = time()
    error = number(help_text="fio's errno; other than 0 means: do not compare")
    is_excluded = serializers.BooleanField(help_text="the run is excluded from medians")
    badges = badge_codes("codes of what speaks against it")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the requested metrics."""
        return super().get_fields() | {
            name: serializers.FloatField(allow_null=True, required=False) for name in CATALOGUE
        }


class HistoryLineOutput(Output):
    id = number()
    name = text(help_text="the parts of the title that differ between the series")
    title = text()
    scope = text()
    rw = text()
    direction = serializers.ChoiceField(choices=DirectionName.values)
    measurement_count = number()
    first_at = time()
    last_at = time()
    runs = number(help_text="runs in the time range")
    levels = serializers.DictField(child=LevelOutput(many=True), help_text="by metric, of the whole history")
    changes = ChangeMarkOutput(many=True, help_text="detected changes, without withdrawn ones")
    environment_changes = EnvironmentChangeOutput(many=True)
    environment_changes_left_out = number()
    url = text()
    page = text()


class HistoryOutput(Output):
    metrics = MetricOutput(many=True)
    lines = HistoryLineOutput(many=True)
    lines_left_out = number(help_text="matching series that are not included; counted up to 1 000")
    is_thinned = serializers.BooleanField(help_text="true: `buckets` instead of `points`")
    newest_of_each = serializers.IntegerField(
        allow_null=True,
        help_text="set if the time range has more than 240 000 runs: the newest runs included per series",
    )
    points = HistoryPointOutput(many=True)
    buckets = HistoryBucketOutput(many=True)


class FanOutput(Output):
    from_at = time()
    to_at = time()
    runs = number()
    last_run = number()
    p50 = maybe_real(help_text="ns; the median over the runs of the column")
    p90 = maybe_real()
    p95 = maybe_real()
    p99 = maybe_real()
    p99_9 = maybe_real()
    p99_99 = maybe_real()


class FanPage(Output):
    series = number()
    columns = FanOutput(many=True)


class HeatColumnOutput(Output):
    from_at = time()
    to_at = time()
    runs = number()
    last_run = number()
    counts = serializers.ListField(child=number(), help_text="I/Os per bucket, from first_bucket")


class HeatPage(Output):
    series = number()
    first_bucket = maybe_number()
    columns = HeatColumnOutput(many=True)


def _spread_field(name: str) -> serializers.Field[Any, Any, Any, Any]:
    if name.endswith(("_n", "_run")):
        return serializers.IntegerField(allow_null=True, required=False)
    return serializers.FloatField(allow_null=True, required=False)


_ID_MAXIMUM: Final = 2**63 - 1
_BUCKETS_MAXIMUM: Final = 10_000


class IdsField(serializers.CharField):
    """Ids, separated by commas."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=2000, **options)

    def to_internal_value(self, data: Any) -> tuple[int, ...]:  # type: ignore[override]
        """Return the ids in the given order, each once."""
        parts = [part.strip() for part in super().to_internal_value(data).split(",")]
        for part in parts:
            if not (part.isascii() and part.isdigit() and int(part) <= _ID_MAXIMUM):
                raise serializers.ValidationError(
                    f"{part[:40]!r} is not a valid id; separate ids by commas: 1,2,3"
                )
        ids = tuple(dict.fromkeys(map(int, parts)))
        if len(ids) > IDS_MAXIMUM:
            raise serializers.ValidationError(f"{len(ids)} ids exceed the maximum of {IDS_MAXIMUM}")
        return ids


class ChoiceParameters(Parameters):
    """Selection of series: ids, else a filter."""

    series = IdsField(help_text="ids of series, separated by commas; default: selected by `q`")
    q = serializers.CharField(
        required=False,
        max_length=2000,
        default="",
        allow_blank=True,
        help_text="filter as in the filter bar: `host:db-* rw:randread`; default: the six most recent series",
    )


class HistoryParameters(ChoiceParameters, SpanParameters, FormatParameters):
    """Series, metrics and time range of a history."""

    metrics = NamesField(METRIC_FIELDS, help_text="metrics, separated by commas; default: iops")
    thin = serializers.IntegerField(
        required=False,
        default=BUCKETS_DEFAULT,
        min_value=1,
        max_value=_BUCKETS_MAXIMUM,
        help_text=(
            "buckets of all series together, where they have more than 2 000 points in the span;"
            f" of at most {LINES_MAXIMUM} series"
        ),
    )


class LatencyParameters(SpanParameters, FormatParameters):
    """Time range and resolution of latencies."""

    thin = serializers.IntegerField(
        required=False,
        default=COLUMNS_DEFAULT,
        min_value=1,
        max_value=COLUMNS_MAXIMUM,
        help_text="maximum columns; adjacent runs share a column",
    )


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
        """Read up to 12 series over time: points or buckets, levels, environment changes."""
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
        return answer_dicts(
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
        """List latency histograms over time; bucket k spans 2^(k/4) to 2^((k+1)/4) ns."""
        wanted = read_parameters(request, LatencyParameters)
        etag = make_etag(request, _read_version(series_id))
        if is_known(request, etag):
            return answer_not_modified(etag)
        heat = read_heat(series_id, **_span_of(wanted))
        is_json = wanted["format"] == "json"
        rows = [] if heat is None else heat_columns(heat) if is_json else list(heat_cells(heat))
        return answer_dicts(
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


def _answer_lines(request: Request, history: SeriesHistory, *, format: str, etag: str) -> HttpResponse:
    if history.is_thinned:
        columns = [*BUCKET_COLUMNS, *(name for metric in history.metrics for name in spread_columns(metric))]
    else:
        columns = [*POINT_COLUMNS, *history.metrics]
    return answer_dicts(
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
        raise Problem(404, "not-found", "No such series", f"series {series_id} does not exist")
    return version
