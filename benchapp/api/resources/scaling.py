"""One metric over one dimension: the data of the scaling page."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    MetricOutput,
    Output,
    PageOutput,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
)
from benchapp.api.framework.parameters import FilterField, FormatParameters, read_parameters, text_parameter
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import Row, answer_dicts
from benchapp.api.framework.view import ApiView
from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Value, write_filter, write_value
from benchapp.queries.charts.scaling import (
    NONE,
    BadChart,
    ScalingChart,
    ScalingFacet,
    ScalingLine,
    ScalingPoint,
    ScalingRequest,
    read_scaling,
)
from benchapp.queries.charts.scaling_shapes import (
    COMPARE_DAYS_MAXIMUM,
    LIMITS_MAXIMUM,
    SCALING_METRICS,
    THROUGHPUTS,
)

STATES: Final = ("measured", "apart", "failed", "unvalued", "missing")


class ScalingCellOutput(Output):
    facet = maybe_text()
    color = maybe_text()
    x = maybe_text()
    state = serializers.ChoiceField(
        choices=STATES,
        help_text="apart: several series without a common percentile; unvalued: without this metric",
    )
    median = maybe_real()
    p10 = maybe_real()
    p90 = maybe_real()
    n = number(help_text="measurements, of at most the newest 100 of each series")
    last_at = maybe_time()
    over = maybe_real(help_text="throughput, if the latency is plotted against it")
    ideal = maybe_real(help_text="linear scaling from the first value, by volumes or stripes")
    efficiency = maybe_real(help_text="median / ideal")
    earlier_median = maybe_real(help_text="median at the end of the earlier period")
    series = serializers.ListField(child=number(), help_text="series IDs of this combination")


class FixedOutput(Output):
    dimension = text()
    values = serializers.ListField(child=maybe_text())


class CountsOutput(Output):
    shown = number()
    unvalued = number()
    failed = number()
    unknown_x = number()
    hidden_by_fixed = number()
    omitted = number()
    cells = number()
    filled = number()


class ScalingOutput(PageOutput):
    filter = text(help_text="the filter with the fixed dimensions")
    x = text()
    color = maybe_text()
    facet = maybe_text()
    metric = MetricOutput()
    over = maybe_text()
    fixed = FixedOutput(many=True)
    mixed = serializers.ListField(child=text(), help_text="dimensions with several values in one combination")
    counts = CountsOutput()
    cells = ScalingCellOutput(many=True)


# The order of the CSV columns.
SCALING_COLUMNS: Final = tuple(ScalingCellOutput().fields)
METRIC_NAMES: Final = tuple(SCALING_METRICS)


_LINES = OpenApiResponse(OpenApiTypes.STR, "only the cells")
_DIMENSION: Final = f"a dimension; chosen if not given; available: {', '.join(DIMENSIONS)}"


class ScalingParameters(FormatParameters):
    """The parameters of the scaling page: those of `ScalingRequest`, and its display."""

    repeatable = ("limit",)
    q = FilterField(source="filter")
    x = text_parameter(40, help_text=_DIMENSION)
    metric = serializers.ChoiceField(choices=METRIC_NAMES, required=False)
    color = text_parameter(40, help_text=f"a dimension, or {NONE}; chosen if not given")
    facet = text_parameter(40, help_text=f"a dimension, or {NONE}, the default")
    over = serializers.ChoiceField(
        choices=THROUGHPUTS, required=False, help_text="plot a latency against this throughput"
    )
    any = text_parameter(400, source="free", help_text="dimensions not to fix, separated by commas")
    as_of = serializers.DateField(required=False, help_text="the state at the end of this day, UTC")
    compare_days = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=COMPARE_DAYS_MAXIMUM,
        help_text="also the state this many days earlier",
    )
    limit = serializers.ListField(
        source="limits",
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=LIMITS_MAXIMUM,
        help_text="NAME:VALUE of a limit, display only",
    )
    draw = serializers.ChoiceField(choices=("bars", "lines"), required=False, help_text="display only")
    scale = serializers.ChoiceField(choices=("linear", "log"), required=False, help_text="display only")
    ideal = serializers.ChoiceField(choices=("1",), required=False, help_text="display only")


class Scaling(ApiView):
    """One metric over one dimension."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_scaling",
        parameters=[ScalingParameters],
        responses={
            (200, "application/json"): ScalingOutput,
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Read a metric by one dimension: median and spread of each combination."""
        wanted = read_parameters(request, ScalingParameters)
        chart = _read_chart(make_request(wanted))
        return answer_dicts(
            request,
            list(make_rows(chart)),
            name="cells",
            columns=SCALING_COLUMNS,
            next_cursor=None,
            format=wanted["format"],
            file_name=f"scaling-{chart.metric.name}-over-{chart.x.dimension.name}",
            about=_describe(chart),
        )


def make_rows(chart: ScalingChart) -> Iterator[Row]:
    """Yield a row for each cell: its values on the axes in filter syntax, its numbers in base units."""
    for facet, line, place, cell in chart.walk():
        yield _make_row(chart, facet, line, place=place, cell=cell)


def _make_row(
    chart: ScalingChart, facet: ScalingFacet, line: ScalingLine, *, place: int, cell: ScalingPoint
) -> Row:
    spread, earlier = cell.spread, cell.earlier
    return {
        "facet": _write(chart.facet.dimension.name, facet.value) if chart.facet else None,
        "color": _write(chart.color.dimension.name, line.value) if chart.color else None,
        "x": _write(chart.x.dimension.name, chart.x.values[place]),
        "state": cell.state,
        "median": cell.value,
        "p10": spread.p10 if spread else None,
        "p90": spread.p90 if spread else None,
        "n": spread.n if spread else 0,
        "last_at": spread.last_at if spread else None,
        "over": cell.over,
        "ideal": cell.ideal,
        "efficiency": cell.efficiency,
        "earlier_median": earlier.median if earlier else None,
        "series": list(cell.series_ids),
    }


def _write(name: str, value: Value | None) -> str | None:
    """Return text unchanged and numbers in filter syntax: 4k, 16; None is unknown."""
    return value if value is None or isinstance(value, str) else write_value(DIMENSIONS[name], value)


def make_request(values: Mapping[str, Any]) -> ScalingRequest:
    """Return the request of validated parameters, without those of the display."""
    given = {field.name: values[field.name] for field in fields(ScalingRequest) if field.name in values}
    names = tuple(name for name in given.get("free", "").split(",") if name)
    return ScalingRequest(**given | {"free": names, "limits": tuple(given.get("limits", ()))})


def _read_chart(request: ScalingRequest) -> ScalingChart:
    try:
        return read_scaling(request)
    except BadChart as error:
        detail = f"{error.parameter}: {error}"
        raise Problem(
            400, "parameter-invalid", "Bad query parameter", detail, pointer=error.parameter
        ) from error


def _describe(chart: ScalingChart) -> Row:
    metric, counts = chart.metric, chart.counts
    return {
        "filter": write_filter(chart.shown_filter),
        "x": chart.x.dimension.name,
        "color": chart.color.dimension.name if chart.color else None,
        "facet": chart.facet.dimension.name if chart.facet else None,
        "metric": {
            "name": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "label": metric.label,
        },
        "over": chart.over.name if chart.over else None,
        "fixed": [
            {
                "dimension": fixed.dimension,
                "values": [_write(fixed.dimension, value) for value in fixed.values],
            }
            for fixed in chart.fixed
        ],
        "mixed": list(chart.mixed),
        "counts": {
            "shown": counts.shown,
            "unvalued": counts.unvalued,
            "failed": counts.failed,
            "unknown_x": counts.unknown_x,
            "hidden_by_fixed": counts.hidden_by_fixed,
            "omitted": counts.omitted,
            "cells": counts.cells,
            "filled": counts.filled,
        },
    }
