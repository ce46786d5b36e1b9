"""The matrix: a row for each combination."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from msgspec import Meta
from rest_framework.request import Request

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import write_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.chart import BadChart, ChartCell, ChartLine, ChartPanel
from benchapp.charts.read.matrix import (
    STATES,
    CellState,
    Matrix,
    Omitted,
    read_matrix,
)
from benchapp.charts.read.scaling_defaults import write_fixed, write_settings
from benchapp.charts.texts.levels import describe_level_range
from benchapp.framework.api.answers import ApiAnswer, Time, build, list_columns, with_columns
from benchapp.framework.api.openapi import in_formats
from benchapp.framework.api.parameters import (
    SETTINGS,
    FilterParameters,
    FixParameters,
    FormatParameters,
    SpanParameters,
    check_fix,
    read_parameters,
    text_parameter,
)
from benchapp.framework.api.permissions import MayRead
from benchapp.framework.api.problems import bad_parameter
from benchapp.framework.api.responses import answer_json, answer_lines, state_left_out
from benchapp.framework.api.view import ApiView
from benchapp.framework.csv_export import CsvContext
from benchapp.incidents.read.series_status import MarkState
from benchapp.layouts.api.layouts import NextRunsAnswer, describe_next_runs, next_runs_parameter
from benchapp.layouts.read.next_runs import NextRuns, plan_matrix_runs
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, make_level_range


class MatrixParameters(FilterParameters, SpanParameters, FormatParameters):
    """The parameters of the matrix page; what is not given is chosen. The range is that of levels (`LevelRange`)."""

    metric = text_parameter(30, help_text=f"available: {', '.join(CATALOG)}; default: iops")
    x = text_parameter(30, help_text="a dimension: the columns; default: volume_count if it varies")
    rows = text_parameter(
        100, help_text="up to two dimensions, separated by commas; default: pattern,block_size_bytes"
    )
    facet = text_parameter(
        100, help_text="up to two dimensions, separated by commas, or none; default: sizes that vary"
    )


class MatrixAnswerParameters(FixParameters, MatrixParameters):
    """Those of the matrix, and what else the answer has."""

    next_runs = next_runs_parameter()


_AXES: Final[dict[str, Any]] = dict.fromkeys(DIMENSIONS, Annotated[Any, Meta(description="value on an axis")])


@with_columns(optional=_AXES)
class MatrixCellAnswer(ApiAnswer, kw_only=True, frozen=True):
    """A combination; of the dimensions it has those of the axes."""

    state: CellState
    series: int | None
    series_count: int
    median: Annotated[float | None, Meta(description="in the metric's base unit")]
    p10: float | None
    p90: float | None
    n: int | None
    from_at: Annotated[Time | None, Meta(description="first run of the current level")]
    previous_median: Annotated[float | None, Meta(description="of the level before")]
    previous_until_at: Time | None
    change_metric: str | None
    change_relative: Annotated[
        float | None, Meta(description="of its open or accepted change: after / before − 1")
    ]
    change_state: MarkState | None
    incident: int | None
    last_at: Time | None
    is_stale: bool | None
    settings: Annotated[str, SETTINGS]
    badges: Annotated[Sequence[str], Meta(description="badges of the newest measurement, most severe first")]
    recent: Annotated[Sequence[float], Meta(description="newest values, oldest first")]


class MatrixFixedAnswer(ApiAnswer, kw_only=True, frozen=True):
    dimension: str
    values: Sequence[Any]
    others: Sequence[Any]


class MatrixAnswer(ApiAnswer, kw_only=True, frozen=True):
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    x: str
    rows: Sequence[str]
    facet: Sequence[str]
    q: Annotated[str, Meta(description="the filter with the fixed dimensions")]
    fixed: Sequence[MatrixFixedAnswer]
    mixed: Annotated[Sequence[str], Meta(description="dimensions with several values in one combination")]
    latency_kinds: Annotated[
        Mapping[str, int],
        Meta(
            description="series by kind of latency: lat (total), clat (completion); empty for other metrics"
        ),
    ]
    counts: Annotated[Mapping[str, int], Meta(description="cells by state")]
    omitted: Annotated[Omitted, Meta(description="counts of what is not shown")]
    is_cut: Annotated[bool, Meta(description="more series match than are read")]
    is_thinned: Annotated[
        bool,
        Meta(
            description="of combinations with several series, only the most recent"
            f" {PAST_SERIES_MAXIMUM} are compared at `to`"
        ),
    ]
    next_runs: Annotated[
        NextRunsAnswer | None, Meta(description="runs that would complete it; null without next_runs=1")
    ]
    cells: Sequence[MatrixCellAnswer]


_MEASURED_COLUMNS: Final = tuple(
    name for name in list_columns(MatrixCellAnswer) if name not in DIMENSIONS and name != "recent"
)


class MatrixView(ApiView):
    """The current level of each combination."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_matrix",
        parameters=[MatrixAnswerParameters],
        responses=in_formats(MatrixAnswer, "only the cells"),
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the matrix of a filter: a cell for each combination, also missing ones."""
        wanted = read_parameters(request, MatrixAnswerParameters)
        answer_format = wanted["format"]
        matrix = read_asked_matrix(wanted)
        check_fix(wanted["fix"], [each.dimension for each in matrix.fixed])
        cells = [_describe_cell(matrix, *found) for found in matrix.walk()]
        left_out: dict[str, str | int] = {
            "fixed": write_fixed(matrix.fixed),
            "hidden_by_fixed": matrix.omitted.hidden_by_fixed,
            "unknown_x": matrix.omitted.unknown_x,
        }
        if answer_format == "json":
            plan = plan_matrix_runs(matrix) if "next_runs" in wanted else None
            return answer_json(request, _describe(matrix, cells, plan), headers=state_left_out(left_out))
        columns = (*(each.name for each in matrix.dimensions), *_MEASURED_COLUMNS)
        context: CsvContext = {
            "metric": matrix.metric.name,
            "unit": matrix.metric.unit,
            "filter": write_filter(matrix.shown_filter),
            "fixed": write_fixed(matrix.fixed),
            "range": describe_level_range(matrix.span),
            "is_cut": matrix.is_cut,
            "is_thinned": matrix.is_thinned,
            "omitted_rows": matrix.omitted.rows,
            "omitted_columns": matrix.omitted.columns,
            "omitted_panels": matrix.omitted.panels,
        }
        return answer_lines(
            request,
            cells,
            columns=columns,
            answer_format=answer_format,
            file_name="matrix",
            context=context,
            left_out=left_out,
        )


def read_asked_matrix(wanted: Mapping[str, Any]) -> Matrix:
    """Return the matrix of validated parameters; Problem 400 for an axis that is not valid."""
    axes = {name: wanted[name] for name in ("metric", "x", "rows", "facet") if name in wanted}
    try:
        span = make_level_range(wanted.get("from_at"), wanted.get("to_at"))
        return read_matrix(wanted["match"], **axes, span=span)
    except BadChart as problem:
        raise bad_parameter(problem.parameter, problem) from problem


def _describe(matrix: Matrix, cells: Sequence[MatrixCellAnswer], plan: NextRuns | None) -> MatrixAnswer:
    return build(
        MatrixAnswer,
        matrix,
        matrix.metric,
        metric=matrix.metric.name,
        x=matrix.x.dimension.name,
        rows=[one.name for one in matrix.rows],
        facet=[one.name for one in matrix.facets],
        q=write_filter(matrix.shown_filter),
        fixed=[
            build(
                MatrixFixedAnswer,
                fixed,
                others=[choice.value for choice in fixed.choices if choice.value not in fixed.values],
            )
            for fixed in matrix.fixed
        ],
        counts={state: matrix.count(state) for state in STATES},
        next_runs=None if plan is None else describe_next_runs(plan),
        cells=cells,
    )


def _describe_cell(
    matrix: Matrix, panel: ChartPanel, row: ChartLine, place: int, cell: ChartCell
) -> MatrixCellAnswer:
    previous = cell.previous
    return build(
        MatrixCellAnswer,
        cell,
        series=cell.series_ids[0] if cell.series_ids else None,
        series_count=len(cell.series_ids),
        n=cell.n or None,
        previous_median=previous.median if previous else None,
        previous_until_at=previous.until_at if previous else None,
        is_stale=cell.is_stale if cell.n else None,
        settings=write_settings(cell.settings),
        **cell.change_columns,
        **matrix.list_values(panel, row, place),
    )
