"""One metric over one dimension: the data of the scaling page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Annotated, Any, Final

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import UNSET, Meta, UnsetType
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.catalog.grammar import write_filter
from benchapp.charts.read.axes import write_axis_value
from benchapp.charts.read.chart import BadChart, ChartCell, ChartLine, ScalingRun
from benchapp.charts.read.scaling import read_scaling
from benchapp.charts.read.scaling_defaults import write_fixed, write_settings
from benchapp.charts.read.scaling_findings import (
    CurveDependence,
    CurveModel,
    WidthShare,
    find_dependences,
    find_models,
    is_target_reached,
)
from benchapp.charts.read.scaling_shapes import (
    CELL_RUNS_MAXIMUM,
    OPTIONS,
    SCALING_METRICS,
    CellState,
    Counts,
    ScalingChart,
    ScalingFacet,
    ScalingRequest,
)
from benchapp.charts.read.series_columns import SERIES_MAXIMUM
from benchapp.charts.rules.scaling_models import Criterion, Interval, ModelName, Prediction, RefusalCode
from benchapp.charts.texts.levels import describe_level_range
from benchapp.framework.api.answers import (
    AnswerPage,
    ApiAnswer,
    MetricAnswer,
    Time,
    build,
    list_columns,
    with_columns,
)
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    SETTINGS,
    FilterParameters,
    FixParameters,
    FormatParameters,
    SpanParameters,
    check_fix,
    make_option_field,
    read_option,
    read_parameters,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_lines, answer_rows
from benchapp.framework.api.view import ApiView
from benchapp.framework.csv_export import CsvContext
from benchapp.framework.read.days import end_of_day
from benchapp.incidents.read.series_status import MarkState
from benchapp.layouts.api.layouts import NextRunsAnswer, describe_next_runs, next_runs_parameter
from benchapp.layouts.read.next_runs import plan_scaling_runs
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, LevelRange, make_level_range
from benchapp.series.rules import DEPENDENCE_FROM


class ScalingCellAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    facet: str | None
    color: str | None
    x: str | None
    state: Annotated[CellState, Meta(description="unvalued: without this metric")]
    median: float | None
    p10: float | None
    p90: float | None
    n: Annotated[int, Meta(description="runs of the current level of each series, at most 2 000")]
    last_at: Time | None
    over: Annotated[
        float | None, Meta(description="on the x axis: throughput, or the median of the condition")
    ]
    ideal: Annotated[
        float | None, Meta(description="linear scaling from the first value, by volumes or stripes")
    ]
    efficiency: Annotated[
        float | None, Meta(description="share of ideal, of the level before an open regression")
    ]
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
    regressed_count: Annotated[
        int,
        Meta(description="series of the combination with an open regression of the metric"),
    ]
    earlier_median: Annotated[float | None, Meta(description="median at the end of the earlier period")]
    series: Annotated[Sequence[int], Meta(description="series IDs of this combination")]
    runs: Annotated[
        Sequence[ScalingRun] | UnsetType,
        Meta(
            description="with runs=1, or if x is a condition: the newest of the n runs, oldest first;"
            f" at most {CELL_RUNS_MAXIMUM}, fewer in a large chart"
        ),
    ] = UNSET


@with_columns(ScalingRun)
class ScalingRunRow(ApiAnswer, kw_only=True, frozen=True):
    """A row of CSV and NDJSON with runs=1."""

    metric: str
    facet: str | None
    color: str | None
    x: str | None
    n: int


class FixedAnswer(ApiAnswer, kw_only=True, frozen=True):
    dimension: str
    values: Sequence[str | None]


class GroupAnswer(ApiAnswer, kw_only=True, frozen=True):
    name: str
    filter: str
    matching: Annotated[int, Meta(description="series with a value; also series that an earlier group took")]
    shown: int


class ScalingModelAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The intervals of the parameters hold them in 95 % of cases."""

    metric: str
    facet: str | None
    color: str | None
    model: Annotated[ModelName | None, Meta(description="null if it is refused")]
    refusal: Annotated[RefusalCode | None, Meta(description="why there is no model")]
    reason: str | None
    one: Annotated[Interval | None, Meta(description="throughput of one volume or stripe")]
    contention: Annotated[Interval | None, Meta(description="σ of amdahl and usl")]
    coherency: Annotated[Interval | None, Meta(description="κ of usl")]
    limit: Annotated[Interval | None, Meta(description="throughput, of saturation")]
    criteria: Annotated[
        Sequence[Criterion],
        Meta(description="Akaike's criterion for few widths; the model with the smallest is selected"),
    ]
    misfit: Annotated[float | None, Meta(description="largest difference from a median, as a share of it")]
    misfit_width: int | None
    peak_width: Annotated[int | None, Meta(description="with the highest throughput, if it is in range")]
    knee_width: Annotated[int | None, Meta(description="the smallest that reaches 90 % of the highest")]
    shares: Annotated[
        Sequence[WidthShare],
        Meta(description="of the highest throughput, of each measured width, if a peak is in range"),
    ]
    range_width: Annotated[int | None, Meta(description="the largest width that is predicted")]
    predictions: Annotated[
        Sequence[Prediction], Meta(description="each holds a further layout in 80 % of cases")
    ]
    outside: Annotated[Sequence[int], Meta(description="widths of `predict` that have no prediction")]


class DependenceAnswer(ApiAnswer, kw_only=True, frozen=True):
    """The slope of a curve by a condition, from its single runs."""

    facet: str | None
    color: str | None
    n: int
    slope: Annotated[
        float | None,
        Meta(
            description="Theil and Sen, metric per condition in base units, times in ns; null for fewer than"
            f" {DEPENDENCE_FROM} runs or a single value"
        ),
    ]
    low: Annotated[float | None, Meta(description="95 % interval")]
    high: float | None
    intercept: float | None
    tau: Annotated[float | None, Meta(description="Kendall's tau-b")]
    p: Annotated[float | None, Meta(description="two-sided")]
    is_significant: Annotated[bool, Meta(description="p is below 0.05 and the interval excludes 0")]
    below_round_trip: Annotated[
        int | None,
        Meta(description="runs with a latency below the round-trip time; null for other conditions"),
    ]
    is_cut: Annotated[bool, Meta(description="the oldest runs are left out")]


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
    counts: Counts
    is_cut: Annotated[
        bool, Meta(description=f"more series match than are read: the most recent {SERIES_MAXIMUM}")
    ]
    is_thinned: Annotated[
        bool, Meta(description=f"only the most recent {PAST_SERIES_MAXIMUM} series are read at `to`")
    ]
    models: Annotated[
        Sequence[ScalingModelAnswer] | None, Meta(description="with model=1: of each curve; else null")
    ]
    dependences: Annotated[
        Sequence[DependenceAnswer] | None, Meta(description="of each curve, if x is a condition; else null")
    ]
    next_runs: Annotated[
        NextRunsAnswer | None, Meta(description="runs that would complete it; null without next_runs=1")
    ]
    cells: Sequence[ScalingCellAnswer]


# Runs are in the cells of JSON only; in CSV and NDJSON they are the rows.
_CELL_COLUMNS: Final = tuple(name for name in list_columns(ScalingCellAnswer) if name != "runs")
_RUN_COLUMNS: Final = (
    *("metric", "facet", "color", "x", "n"),
    *(each.name for each in fields(ScalingRun)),
)


class ScalingParameters(FilterParameters, SpanParameters, FormatParameters):
    """The parameters of the scaling page: the options of `ScalingRequest`."""

    repeatable = tuple(each.parameter for each in OPTIONS.values() if each.kind == "texts")
    as_of = serializers.DateField(required=False, help_text="the end of this day, UTC, instead of `to`")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the options."""
        return super().get_fields() | {each.parameter: make_option_field(each) for each in OPTIONS.values()}


class ScalingAnswerParameters(FixParameters, ScalingParameters):
    """Those of the chart, and what else the answer has."""

    next_runs = next_runs_parameter()


class Scaling(ApiView):
    """One metric over one dimension."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_scaling",
        parameters=[ScalingAnswerParameters],
        responses=in_formats(ScalingPage, "only the cells; with runs=1 or by a condition only the runs"),
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
                answer_format=wanted["format"],
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
            answer_format=wanted["format"],
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
        "unit": lambda row: SCALING_METRICS[row.metric].unit,
        "x_dimension": chart.x.name,
        "color_dimension": chart.color.name if chart.color else None,
        "facet_dimension": chart.facet.name if chart.facet else None,
        "filter": write_filter(chart.shown_filter),
        "fixed": write_fixed(chart.fixed),
        "range": describe_level_range(chart.request.span),
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
    chart: ScalingChart, facet: ScalingFacet, line: ChartLine, place: int, cell: ChartCell
) -> ScalingCellAnswer:
    """Return a cell: its values on the axes in filter syntax, its numbers in base units."""
    limit = facet.find_lowest_limit(line, place)
    return build(
        ScalingCellAnswer,
        cell,
        metric=chart.metric.name,
        facet=write_axis_value(chart.facet.name, facet.value) if chart.facet else None,
        color=write_axis_value(chart.color.name, line.value) if chart.color else None,
        x=write_axis_value(chart.x.name, chart.x.values[place]),
        settings=write_settings(cell.settings),
        targets_missed=[
            limit.name for limit in facet.limits if is_target_reached(limit, cell, place) is False
        ],
        limit=limit.name if limit else None,
        limit_value=limit.values[place] if limit else None,
        series=cell.series_ids,
        runs=UNSET if chart.cell_runs_maximum is None else cell.runs,
        **cell.change_columns,
    )


def make_request(values: Mapping[str, Any]) -> ScalingRequest:
    """Return the request of validated parameters. Raises Problem."""
    given = {name: read_option(each, values) for name, each in OPTIONS.items() if each.parameter in values}
    return ScalingRequest(filter=values["match"], span=_read_span(values), **given)


def _read_span(values: Mapping[str, Any]) -> LevelRange:
    """Return the time range. Raises Problem."""
    if "as_of" in values and "to_at" in values:
        raise bad_parameter("as_of", "set either as_of or to")
    to_at = end_of_day(values["as_of"]) if "as_of" in values else values.get("to_at")
    return make_level_range(values.get("from_at"), to_at)


def read_chart(request: ScalingRequest) -> ScalingChart:
    """Return the chart of a request; Problem 400 for a parameter that is not valid."""
    try:
        return read_scaling(request)
    except BadChart as error:
        raise bad_parameter(error.parameter, error) from error


def _describe_model(chart: ScalingChart, found: CurveModel) -> ScalingModelAnswer:
    """Return the model of a curve, or why there is none."""
    model = found.model
    facet, line = chart.panels[found.facet], chart.panels[found.facet].lines[found.line]
    names = ("one", "contention", "coherency", "limit", "misfit", "misfit_width")
    return ScalingModelAnswer(
        metric=chart.metric.name,
        facet=write_axis_value(chart.facet.name, facet.value) if chart.facet else None,
        color=write_axis_value(chart.color.name, line.value) if chart.color else None,
        model=model.name if model else None,
        refusal=found.code,
        reason=found.reason or None,
        **{name: getattr(model, name, None) for name in names},
        criteria=model.criteria if model else (),
        peak_width=model.find_peak() if model else None,
        knee_width=model.find_knee() if model else None,
        shares=found.shares,
        range_width=model.count_maximum if model else None,
        predictions=found.predictions,
        outside=found.outside,
    )


def _describe_dependence(chart: ScalingChart, found: CurveDependence) -> DependenceAnswer:
    facet, line, fit = chart.panels[found.facet], chart.panels[found.facet].lines[found.line], found.fit
    names = ("slope", "low", "high", "intercept", "tau", "p")
    return DependenceAnswer(
        facet=write_axis_value(chart.facet.name, facet.value) if chart.facet else None,
        color=write_axis_value(chart.color.name, line.value) if chart.color else None,
        n=found.n,
        **{name: getattr(fit, name, None) for name in names},
        is_significant=fit is not None and fit.is_significant,
        below_round_trip=found.below_round_trip,
        is_cut=found.is_cut,
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
        "over": chart.over.name if chart.over and not chart.is_by_condition else None,
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
        "counts": chart.counts,
        **_describe_cut(chart),
        "dependences": [_describe_dependence(chart, each) for each in find_dependences(chart)]
        if chart.is_by_condition
        else None,
        "models": None
        if not chart.request.has_models
        else [_describe_model(each, found) for each in chart.stack for found in find_models(each)],
    }
