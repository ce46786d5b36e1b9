"""Measurements across series, each with the facts of its run, series and environment, in any number."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from msgspec import Meta
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.api.answers import ApiAnswer, ChosenColumns, Time, with_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    ChoiceParameter,
    FilterParameters,
    IdsField,
    NamesField,
    SpanParameters,
    flag_parameter,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.responses import name_file
from benchapp.framework.api.row_formats import PARQUET_TYPE, RowColumn, list_kinds, row_format
from benchapp.framework.api.shapes import ERROR_MEANING, MetricName
from benchapp.framework.api.streaming import answer_stream
from benchapp.framework.api.view import ApiView
from benchapp.models import METRIC_FIELDS, DirectionName
from benchapp.series.read.measurements import (
    MEASUREMENT_COLUMNS,
    MeasurementFilter,
    stream_measurements,
)
from benchapp.series.read.shapes import EnvironmentRow, TargetRow, WorkloadRow

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


FACT_COLUMNS: Final = tuple(name for name in MEASUREMENT_COLUMNS if name not in METRIC_FIELDS)
LONG_COLUMNS: Final = ("metric", "unit", "value")


class PointColumnsField(NamesField):
    """Columns of points, also label.NAME."""

    def check_name(self, name: str) -> bool:
        """Return whether this is a column."""
        return super().check_name(name) or (name.startswith(_LABEL) and len(name) > len(_LABEL))


class PointRowParameters(FilterParameters, SpanParameters):
    """Which points, and their columns; all of them without `limit`."""

    series = IdsField(_IDS_MAXIMUM, help_text="ids of series, separated by commas; default: all")
    metrics = NamesField(METRIC_FIELDS, help_text="metrics, separated by commas; default: all")
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
        metrics: Sequence[str] = wanted.pop("metrics", METRIC_FIELDS)
        facts: Sequence[str] = wanted.pop("columns", FACT_COLUMNS)
        order, limit = wanted.pop("sort"), wanted.pop("limit", None)
        shape, format = wanted.pop("shape"), wanted.pop("format")
        has_filter = format == "csv" and "fields" not in request.query_params
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
        written = row_format(format, name="points")
        return answer_stream(
            request,
            written.write(described, batches),
            content_type=written.content_type,
            headers={} if format == "json" else name_file("points", format),
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
