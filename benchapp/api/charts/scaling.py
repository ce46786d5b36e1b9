"""One metric over one dimension: the data of the scaling page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import UNSET, Meta, UnsetType
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.answers import AnswerPage, ApiAnswer, Time, build, list_columns
from benchapp.api.framework.fixed import SETTINGS, FixParameters, check_fix
from benchapp.api.framework.openapi import in_formats
from benchapp.api.framework.parameters import (
    ChoiceParameter,
    FilterParameters,
    FormatParameters,
    SpanParameters,
    read_parameters,
    text_parameter,
)
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import bad_parameter
from benchapp.api.framework.responses import answer_lines, answer_rows
from benchapp.api.framework.view import ApiView
from benchapp.api.layouts.next_runs import NextRunsAnswer, describe_next_runs, next_runs_parameter
from benchapp.api.resources.shapes import MetricAnswer
from benchapp.charts.texts.level_range import describe_level_range
from benchapp.csv_export import CsvContext
from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import write_filter
from benchapp.metrics import CATALOG
from benchapp.queries.charts.axes import GROUP, GROUPS_MAXIMUM, write_axis_value
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
from benchapp.queries.charts.scaling_defaults import write_fixed, write_settings
from benchapp.queries.charts.scaling_findings import (
    CurveModel,
    ModelName,
    RefusalCode,
    find_models,
    is_target_reached,
)
from benchapp.queries.charts.scaling_shapes import (
    CELL_RUNS_MAXIMUM,
    COMPARE_DAYS_MAXIMUM,
    LIMITS_MAXIMUM,
    PREDICTED_MAXIMUM,
    SCALING_METRICS,
    TARGETS_MAXIMUM,
    THROUGHPUTS,
    CellState,
    parse_widths,
)
from benchapp.queries.charts.series_columns import SERIES_MAXIMUM
from benchapp.queries.days import end_of_day
from benchapp.queries.incidents.series_marks import MarkState
from benchapp.queries.layouts.gap_runs import plan_scaling_runs
from benchapp.queries.series.level_range import PAST_SERIES_MAXIMUM, LevelRange, make_level_range


class ScalingRunAnswer(ApiAnswer, kw_only=True, frozen=True):
    run: int
    series: int
    host: str
    started_at: Time
    value: Annotated[float, Meta(description="of the metric; the median of repetitions")]
    over: Annotated[float | None, Meta(description="throughput, if the latency is plotted against it")]


class ScalingCellAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    facet: str | None
    color: str | None
    x: str | None
    state: Annotated[
        CellState,
        Meta(description="apart: several series without a common percentile; unvalued: without this metric"),
    ]
    median: float | None
    p10: float | None
    p90: float | None
    n: Annotated[int, Meta(description="runs of the current level of each series, at most 2 000")]
    last_at: Time | None
    over: Annotated[float | None, Meta(description="throughput, if the latency is plotted against it")]
    ideal: Annotated[
        float | None, Meta(description="linear scaling from the first value, by volumes or stripes")
    ]
    efficiency: Annotated[float | None, Meta(description="median / ideal")]
    settings: Annotated[str, SETTINGS]
    targets_missed: Annotated[
        Sequence[str], Meta(description="names of the targets that the median does not reach")
    ]
    limit: Annotated[
        str | None, Meta(description="name of the limit that applies here, the lowest one; null without one")
    ]
    limit_value: Annotated[float | None, Meta(description="of the metric, in its base unit")]
    change_metric: str | None
    change_relative: Annotated[
        float | None, Meta(description="of the open or accepted change that matters most: after / before − 1")
    ]
    change_state: MarkState | None
    incident: int | None
    regressed_count: Annotated[int, Meta(description="series of the combination with an open regression")]
    earlier_median: Annotated[float | None, Meta(description="median at the end of the earlier period")]
    series: Annotated[Sequence[int], Meta(description="series IDs of this combination")]
    runs: Annotated[
        Sequence[ScalingRunAnswer] | UnsetType,
        Meta(
            description="with runs=1: the newest of the n runs, oldest first;"
            f" at most {CELL_RUNS_MAXIMUM}, fewer in a large chart"
        ),
    ] = UNSET


class ScalingRunRow(ScalingRunAnswer, kw_only=True, frozen=True):
    """A row of CSV and NDJSON with runs=1."""

    metric: str
    facet: str | None
    color: str | None
    x: str | None
    n: int


class FixedAnswer(ApiAnswer, kw_only=True, frozen=True):
    dimension: str
    values: Sequence[str | None]


class CountsAnswer(ApiAnswer, kw_only=True, frozen=True):
    shown: int
    unvalued: int
    failed: int
    unknown_x: int
    hidden_by_fixed: int
    omitted: int
    ungrouped: Annotated[int, Meta(description="series with a value in no group")]
    cells: int
    filled: int


class GroupAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    filter: str
    matching: Annotated[int, Meta(description="series with a value; also those that an earlier group took")]
    shown: int


class IntervalAnswer(ApiAnswer, kw_only=True, frozen=True):
    low: float
    value: float
    high: float


class PredictionAnswer(ApiAnswer, kw_only=True, frozen=True):
    width: int
    throughput: Annotated[IntervalAnswer, Meta(description="holds a further layout in 80 % of cases")]
    is_measured: bool


class CriterionAnswer(ApiAnswer, kw_only=True, frozen=True):
    model: ModelName
    value: Annotated[float, Meta(description="Akaike's criterion for few widths; the smallest is selected")]


class ShareAnswer(ApiAnswer, kw_only=True, frozen=True):
    width: int
    share: Annotated[float, Meta(description="of the highest throughput")]


class ScalingModelAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The intervals of the parameters hold them in 95 % of cases."""

    metric: str
    facet: str | None
    color: str | None
    model: Annotated[ModelName | None, Meta(description="null if it is refused")]
    refusal: Annotated[RefusalCode | None, Meta(description="why there is no model")]
    reason: str | None
    one: Annotated[IntervalAnswer | None, Meta(description="throughput of one volume or stripe")]
    contention: Annotated[IntervalAnswer | None, Meta(description="σ of amdahl and usl")]
    coherency: Annotated[IntervalAnswer | None, Meta(description="κ of usl")]
    limit: Annotated[IntervalAnswer | None, Meta(description="throughput, of saturation")]
    criteria: Sequence[CriterionAnswer]
    misfit: Annotated[float | None, Meta(description="largest difference from a median, as a share of it")]
    misfit_width: int | None
    peak_width: Annotated[int | None, Meta(description="with the highest throughput, if it is in range")]
    knee_width: Annotated[int | None, Meta(description="the smallest that reaches 90 % of the highest")]
    shares: Annotated[
        Sequence[ShareAnswer], Meta(description="of each measured width, if a peak is in range")
    ]
    range_width: Annotated[int | None, Meta(description="the largest width that is predicted")]
    predictions: Sequence[PredictionAnswer]
    outside: Annotated[Sequence[int], Meta(description="widths of `predict` that have no prediction")]


class ScalingPage(AnswerPage, kw_only=True, frozen=True):
    filter: Annotated[str, Meta(description="the filter with the fixed dimensions")]
    x: str
    color: str | None
    facet: str | None
    metric: MetricAnswer
    more_metrics: Annotated[Sequence[MetricAnswer], Meta(description="further metrics, each with its cells")]
    over: str | None
    fixed: Sequence[FixedAnswer]
    mixed: Annotated[Sequence[str], Meta(description="dimensions with several values in one combination")]
    latency_kinds: Annotated[
        Mapping[str, int],
        Meta(
            description="series by kind of latency: lat (total), clat (completion); empty for other metrics"
        ),
    ]
    groups: Annotated[
        Sequence[GroupAnswer], Meta(description="a series is in the first group that it matches")
    ]
    counts: CountsAnswer
    is_cut: Annotated[
        bool, Meta(description=f"more series match than are read: the most recent {SERIES_MAXIMUM}")
    ]
    is_thinned: Annotated[
        bool, Meta(description=f"only the most recent {PAST_SERIES_MAXIMUM} series are read at `to`")
    ]
    models: Annotated[
        Sequence[ScalingModelAnswer] | None, Meta(description="with model=1: of each curve; else null")
    ]
    next_runs: Annotated[
        NextRunsAnswer | None, Meta(description="runs that would complete it; null without next_runs=1")
    ]
    cells: Sequence[ScalingCellAnswer]


# Runs are in the cells of JSON only; in CSV and NDJSON they are the rows.
_CELL_COLUMNS: Final = tuple(name for name in list_columns(ScalingCellAnswer) if name != "runs")
_RUN_COLUMNS: Final = (
    *("metric", "facet", "color", "x", "n"),
    *list_columns(ScalingRunAnswer),
)
METRIC_NAMES: Final = tuple(SCALING_METRICS)


_DIMENSION: Final = (
    "a dimension, or up to three separated by commas, or group; chosen if not given; available:"
    f" {', '.join(DIMENSIONS)}"
)


class ScalingParameters(FilterParameters, SpanParameters, FormatParameters):
    """The parameters of the scaling page: those of `ScalingRequest`, and its display."""

    repeatable = ("limit", "group", "target")
    x = text_parameter(120, help_text=_DIMENSION)
    metric = text_parameter(
        120, help_text=f"one metric, or up to three separated by commas; available: {', '.join(METRIC_NAMES)}"
    )
    color = text_parameter(120, help_text=f"as x, or {NONE}; chosen if not given")
    facet = text_parameter(120, help_text=f"as x, or {NONE}, the default")
    over = ChoiceParameter(
        choices=THROUGHPUTS, required=False, help_text="plot a latency against this throughput"
    )
    any = text_parameter(400, source="free", help_text="dimensions not to fix, separated by commas")
    as_of = serializers.DateField(required=False, help_text="the end of this day, UTC, instead of `to`")
    compare_days = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=COMPARE_DAYS_MAXIMUM,
        help_text="also the levels this many days before the end of the time range",
    )
    limit = serializers.ListField(
        source="limits",
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=LIMITS_MAXIMUM,
        help_text="NAME:VALUE of a limit, or known for published limits; does not change the values",
    )
    target = serializers.ListField(
        source="targets",
        child=serializers.CharField(max_length=200),
        required=False,
        max_length=TARGETS_MAXIMUM,
        help_text="METRIC:VALUE:NAME of a value to reach, as iops:16000:Provisioned",
    )
    group = serializers.ListField(
        source="groups",
        child=serializers.CharField(max_length=2100),
        required=False,
        max_length=GROUPS_MAXIMUM,
        help_text=f"NAME=FILTER of a group, values of the axis {GROUP}",
    )
    draw = ChoiceParameter(choices=("bars", "lines"), required=False, help_text="display only")
    scale = ChoiceParameter(choices=("linear", "log"), required=False, help_text="display only")
    ideal = ChoiceParameter(choices=("1",), required=False, help_text="display only")
    runs = ChoiceParameter(
        choices=("1",),
        required=False,
        source="has_runs",
        help_text="also the runs of each cell; CSV and NDJSON then have a row for each run",
    )
    model = ChoiceParameter(
        choices=("1",),
        required=False,
        source="has_models",
        help_text="also the scaling model of each curve, JSON only; x volume_count or stripe_count, a throughput",
    )
    predict = text_parameter(
        60,
        source="predicted",
        help_text=f"with model=1: up to {PREDICTED_MAXIMUM} widths to predict, separated by commas",
    )


class ScalingAnswerParameters(FixParameters, ScalingParameters):
    """Those of the chart, and what else the answer has."""

    next_runs = next_runs_parameter()


class Scaling(ApiView):
    """One metric over one dimension."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_scaling",
        parameters=[ScalingAnswerParameters],
        responses=in_formats(ScalingPage, "only the cells; with runs=1 only the runs"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Read a metric by one dimension: median and spread of each combination."""
        wanted = read_parameters(request, ScalingAnswerParameters)
        chart = read_chart(make_request(wanted))
        check_fix(wanted["fix"], [each.dimension for each in chart.fixed])
        cells = [_describe_cell(each, *found) for each in chart.stack for found in each.walk()]
        file_name = f"scaling-{'-'.join(each.metric.name for each in chart.stack)}-over-{chart.x.name}"
        if chart.cell_runs_maximum is not None and wanted["format"] != "json":
            return answer_lines(
                request,
                [row for cell in cells for row in _list_run_rows(cell)],
                columns=_RUN_COLUMNS,
                format=wanted["format"],
                file_name=file_name,
                context=_list_context(chart),
                left_out=_count_left_out(chart),
            )
        return answer_rows(
            request,
            ScalingPage,
            cells,
            name="cells",
            columns=_CELL_COLUMNS,
            format=wanted["format"],
            file_name=file_name,
            about=_describe(chart) | {"next_runs": _plan_runs(chart) if "next_runs" in wanted else None},
            context=_list_context(chart),
            left_out=_count_left_out(chart),
        )


def _plan_runs(chart: ScalingChart) -> NextRunsAnswer:
    """Return what to measure next. Raises Problem."""
    try:
        return describe_next_runs(plan_scaling_runs(chart))
    except BadChart as error:
        raise bad_parameter(error.parameter, error) from error


def _list_context(chart: ScalingChart) -> CsvContext:
    """Return the columns of the CSV that make it readable alone: unit, dimensions of the axes, filter."""
    return {
        "unit": lambda row: CATALOG[row.metric].unit,
        "x_dimension": chart.x.name,
        "color_dimension": chart.color.name if chart.color else None,
        "facet_dimension": chart.facet.name if chart.facet else None,
        "filter": write_filter(chart.shown_filter),
        "fixed": write_fixed(chart.fixed),
        "range": describe_level_range(chart.span),
        **_describe_cut(chart),
    }


def _count_left_out(chart: ScalingChart) -> dict[str, str | int]:
    """Return what the cells leave out, for headers."""
    names = ("hidden_by_fixed", "unknown_x", "omitted", "ungrouped")
    return {"fixed": write_fixed(chart.fixed), **{name: getattr(chart.counts, name) for name in names}}


def _describe_cut(chart: ScalingChart) -> dict[str, bool]:
    """Return what states whether series are left out."""
    return {"is_cut": chart.is_cut, "is_thinned": any(each.is_thinned for each in chart.stack)}


def _list_run_rows(cell: ScalingCellAnswer) -> Iterator[ScalingRunRow]:
    for run in cell.runs or ():
        yield build(ScalingRunRow, run, cell)


def _describe_cell(
    chart: ScalingChart, facet: ScalingFacet, line: ScalingLine, place: int, cell: ScalingPoint
) -> ScalingCellAnswer:
    """Return a cell: its values on the axes in filter syntax, its numbers in base units."""
    spread, earlier, mark = cell.spread, cell.earlier, cell.mark
    limit = facet.find_lowest_limit(line, place)
    return build(
        ScalingCellAnswer,
        cell,
        metric=chart.metric.name,
        facet=write_axis_value(chart.facet.name, facet.value) if chart.facet else None,
        color=write_axis_value(chart.color.name, line.value) if chart.color else None,
        x=write_axis_value(chart.x.name, chart.x.values[place]),
        median=cell.value,
        settings=write_settings(cell.settings),
        p10=spread.p10 if spread else None,
        p90=spread.p90 if spread else None,
        n=spread.n if spread else 0,
        last_at=spread.last_at if spread else None,
        earlier_median=earlier.median if earlier else None,
        change_metric=mark.metric if mark else None,
        change_relative=mark.relative if mark else None,
        change_state=mark.state if mark else None,
        incident=mark.incident_id if mark else None,
        targets_missed=[
            limit.name for limit in facet.limits if is_target_reached(limit, cell, place) is False
        ],
        limit=limit.name if limit else None,
        limit_value=limit.values[place] if limit else None,
        series=cell.series_ids,
        runs=UNSET
        if chart.cell_runs_maximum is None
        else [build(ScalingRunAnswer, run, run=run.run_id, series=run.series_id) for run in cell.runs],
    )


def make_request(values: Mapping[str, Any]) -> ScalingRequest:
    """Return the request of validated parameters, without those of the display."""
    given = {field.name: values[field.name] for field in fields(ScalingRequest) if field.name in values}
    names = tuple(name for name in given.get("free", "").split(",") if name)
    own = {
        "filter": values["match"],
        "span": _read_span(values),
        "free": names,
        "limits": tuple(given.get("limits", ())),
        "groups": tuple(given.get("groups", ())),
        "targets": tuple(given.get("targets", ())),
        "has_runs": given.get("has_runs") == "1",
        "has_models": given.get("has_models") == "1",
        "predicted": _read_widths(given.get("predicted", "")),
    }
    return ScalingRequest(**given | own)


def _read_span(values: Mapping[str, Any]) -> LevelRange:
    """Return the time range. Raises Problem."""
    if "as_of" in values and "to_at" in values:
        raise bad_parameter("as_of", "set either as_of or to")
    to_at = end_of_day(values["as_of"]) if "as_of" in values else values.get("to_at")
    return make_level_range(values.get("from_at"), to_at)


def _read_widths(text: str) -> tuple[int, ...]:
    """Return the widths of a list. Raises Problem."""
    try:
        return parse_widths(text)
    except BadChart as error:
        raise bad_parameter(error.parameter, error) from error


def read_chart(request: ScalingRequest) -> ScalingChart:
    """Return the chart of a request; Problem 400 for a parameter that is not valid."""
    try:
        return read_scaling(request)
    except BadChart as error:
        raise bad_parameter(error.parameter, error) from error


def _describe_model(chart: ScalingChart, found: CurveModel) -> ScalingModelAnswer:
    """Return the model of a curve, or why there is none."""
    model = found.model
    facet, line = chart.facets[found.facet], chart.facets[found.facet].lines[found.line]
    parts = {
        name: None if (part := getattr(model, name, None)) is None else build(IntervalAnswer, part)
        for name in ("one", "contention", "coherency", "limit")
    }
    return ScalingModelAnswer(
        metric=chart.metric.name,
        facet=write_axis_value(chart.facet.name, facet.value) if chart.facet else None,
        color=write_axis_value(chart.color.name, line.value) if chart.color else None,
        model=model.name if model else None,
        refusal=found.code,
        reason=found.reason or None,
        **parts,
        criteria=[CriterionAnswer(model=name, value=value) for name, value in model.criteria]
        if model
        else [],
        misfit=model.misfit if model else None,
        misfit_width=model.misfit_at if model else None,
        peak_width=model.find_peak() if model else None,
        knee_width=model.find_knee() if model else None,
        shares=[ShareAnswer(width=width, share=share) for width, share in found.shares],
        range_width=model.count_maximum if model else None,
        predictions=[
            PredictionAnswer(
                width=each.count,
                throughput=build(IntervalAnswer, each.throughput),
                is_measured=each.is_measured,
            )
            for each in found.predictions
        ],
        outside=found.outside,
    )


def _describe(chart: ScalingChart) -> dict[str, Any]:
    """Return the fields of the page beside the cells."""
    return {
        "filter": write_filter(chart.shown_filter),
        "x": chart.x.name,
        "color": chart.color.name if chart.color else None,
        "facet": chart.facet.name if chart.facet else None,
        "metric": build(MetricAnswer, chart.metric),
        "more_metrics": [build(MetricAnswer, each.metric) for each in chart.more],
        "over": chart.over.name if chart.over else None,
        "fixed": [
            build(
                FixedAnswer,
                fixed,
                values=[write_axis_value(fixed.dimension, value) for value in fixed.values],
            )
            for fixed in chart.fixed
        ],
        "mixed": chart.mixed,
        "latency_kinds": chart.latency_kinds,
        "groups": [
            build(GroupAnswer, count, name=count.group.name, filter=write_filter(count.group.filter))
            for count in chart.groups
        ],
        "counts": build(CountsAnswer, chart.counts),
        **_describe_cut(chart),
        "models": None
        if chart.predicted is None
        else [_describe_model(each, found) for each in chart.stack for found in find_models(each)],
    }
