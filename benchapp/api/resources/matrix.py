"""The matrix: a row for each combination."""

from typing import Any, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request

from benchapp.api.framework.output_fields import (
    Output,
    badge_codes,
    maybe_number,
    maybe_real,
    maybe_text,
    maybe_time,
    number,
    text,
)
from benchapp.api.framework.parameters import FilterField, FormatParameters, read_parameters, text_parameter
from benchapp.api.framework.permissions import MayRead
from benchapp.api.framework.problems import Problem
from benchapp.api.framework.responses import Row, answer_json, answer_rows
from benchapp.api.framework.view import ApiView
from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import write_filter
from benchapp.models import METRIC_FIELDS
from benchapp.queries.charts.matrix import read_matrix
from benchapp.queries.charts.matrix_shapes import STATES, Matrix, MatrixCell, MatrixPanel, MatrixRow
from benchapp.queries.charts.scaling_shapes import BadChart


class MatrixParameters(FormatParameters):
    """The parameters of the matrix page; what is not given is chosen."""

    q = FilterField(source="match")
    metric = text_parameter(30, help_text=f"available: {', '.join(METRIC_FIELDS)}; default: iops")
    x = text_parameter(30, help_text="a dimension: the columns; default: volume_count if it varies")
    rows = text_parameter(
        100, help_text="up to two dimensions, separated by commas; default: pattern,block_size_bytes"
    )
    facet = text_parameter(
        100, help_text="up to two dimensions, separated by commas, or none; default: sizes that vary"
    )


class MatrixCellOutput(Output):
    state = text(help_text=", ".join(STATES))
    series = maybe_number()
    series_count = number()
    median = maybe_real(help_text="in the metric's base unit")
    p10 = maybe_real()
    p90 = maybe_real()
    n = maybe_number()
    from_at = maybe_time()
    previous_median = maybe_real(help_text="of the level before")
    previous_until_at = maybe_time()
    change_metric = maybe_text()
    change_relative = maybe_real(help_text="of its open or accepted change: after / before − 1")
    change_state = maybe_text()
    incident = maybe_number()
    last_at = maybe_time()
    is_stale = serializers.BooleanField(allow_null=True)
    badges = badge_codes("badges of the newest measurement, most severe first")
    recent = serializers.ListField(child=serializers.FloatField(), help_text="newest values, oldest first")

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Add the dimensions; a cell has those of its axes."""
        dimensions: dict[str, serializers.Field[Any, Any, Any, Any]] = {
            name: serializers.JSONField(allow_null=True, required=False, help_text="value on an axis")
            for name in DIMENSIONS
        }
        return dimensions | super().get_fields()


class MatrixFixedOutput(Output):
    dimension = text()
    values = serializers.ListField(child=serializers.JSONField(allow_null=True))
    others = serializers.ListField(child=serializers.JSONField(allow_null=True))


class MatrixOutput(Output):
    metric = text()
    unit = text()
    better = serializers.ChoiceField(choices=("higher", "lower"))
    x = text()
    rows = serializers.ListField(child=text())
    facet = serializers.ListField(child=text())
    q = text(help_text="the filter with the fixed dimensions")
    fixed = MatrixFixedOutput(many=True)
    mixed = serializers.ListField(child=text(), help_text="dimensions with several values in one combination")
    counts = serializers.DictField(child=number(), help_text="cells by state")
    omitted = serializers.DictField(child=number(), help_text="counts of what is not shown")
    is_cut = serializers.BooleanField(help_text="more series match than are read")
    cells = MatrixCellOutput(many=True)


MEASURED_COLUMNS: Final = tuple(name for name in MatrixCellOutput._declared_fields if name != "recent")


_LINES = OpenApiResponse(OpenApiTypes.STR, "only the cells")


class MatrixView(ApiView):
    """The current level of each combination."""

    permission_classes = [MayRead]

    @extend_schema(
        operation_id="read_matrix",
        parameters=[MatrixParameters],
        responses={
            (200, "application/json"): MatrixOutput,
            (200, "text/csv"): _LINES,
            (200, "application/x-ndjson"): _LINES,
        },
    )
    def get(self, request: Request) -> HttpResponse:
        """Read the matrix of a filter: a cell for each combination, also missing ones."""
        wanted = read_parameters(request, MatrixParameters)
        format = wanted.pop("format")
        try:
            matrix = read_matrix(wanted.pop("match"), **wanted)
        except BadChart as problem:
            raise Problem(
                400,
                "parameter-invalid",
                "Bad query parameter",
                f"{problem.parameter}: {problem}",
                pointer=problem.parameter,
            ) from problem
        cells = [
            _make_cell(matrix, panel, row, place, cell=cell) for panel, row, place, cell in matrix.walk()
        ]
        if format == "json":
            return answer_json(request, _make_head(matrix) | {"cells": cells})
        columns = (*_list_names(matrix), *MEASURED_COLUMNS)
        return answer_rows(
            request, cells, name="cells", columns=columns, next_cursor=None, format=format, file_name="matrix"
        )


def _list_names(matrix: Matrix) -> list[str]:
    return [one.name for one in (*matrix.facets, *matrix.rows, matrix.x.dimension)]


def _make_head(matrix: Matrix) -> dict[str, Any]:
    omitted = matrix.omitted
    return {
        "metric": matrix.metric.name,
        "unit": matrix.metric.unit,
        "better": matrix.metric.better,
        "x": matrix.x.dimension.name,
        "rows": [one.name for one in matrix.rows],
        "facet": [one.name for one in matrix.facets],
        "q": write_filter(matrix.shown_filter),
        "fixed": [
            {
                "dimension": fixed.dimension,
                "values": fixed.values,
                "others": [choice.value for choice in fixed.choices if choice.value not in fixed.values],
            }
            for fixed in matrix.fixed
        ],
        "mixed": matrix.mixed,
        "counts": {state: matrix.count(state) for state in STATES},
        "omitted": {
            "rows": omitted.rows,
            "columns": omitted.columns,
            "panels": omitted.panels,
            "hidden_by_fixed": omitted.hidden_by_fixed,
            "unknown_x": omitted.unknown_x,
        },
        "is_cut": omitted.is_cut,
    }


def _make_cell(matrix: Matrix, panel: MatrixPanel, row: MatrixRow, place: int, *, cell: MatrixCell) -> Row:
    values = (*panel.values, *row.values, matrix.x.values[place])
    level, mark = cell.level, cell.mark
    previous = level.previous if level else None
    known = dict(zip(_list_names(matrix), values, strict=True))
    return known | {
        "state": cell.state,
        "series": cell.series_ids[0] if cell.series_ids else None,
        "series_count": len(cell.series_ids),
        "median": level and level.median,
        "p10": level and level.p10,
        "p90": level and level.p90,
        "n": level and level.n,
        "from_at": level and level.from_at,
        "previous_median": previous and previous.median,
        "previous_until_at": previous and previous.until_at,
        "change_metric": mark and mark.metric,
        "change_relative": mark and mark.relative,
        "change_state": mark and mark.state,
        "incident": mark and mark.incident_id,
        "last_at": level and level.last_at,
        "is_stale": level and level.is_stale,
        "badges": cell.badges,
        "recent": level.recent if level else (),
    }
