"""The matrix as rows: a cell each."""

from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.request import Request

from benchapp.api.answers import Row, answer_json, answer_rows
from benchapp.api.matrix_outputs import MEASURED_COLUMNS, MatrixOutput
from benchapp.api.parameters import MatrixParameters, read_parameters
from benchapp.api.permissions import MayRead
from benchapp.api.problems import Problem
from benchapp.api.view import ApiView
from benchapp.grammar import write_filter
from benchapp.queries.matrix import read_matrix
from benchapp.queries.matrix_values import STATES, Matrix, MatrixCell, MatrixRow, Panel
from benchapp.queries.scaling_picture import BadPicture

_LINES = OpenApiResponse(OpenApiTypes.STR, "the cells alone")


class MatrixView(ApiView):
    """What each combination stands at."""

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
        """Read the matrix of a filter: a cell for each combination, also for those that are missing."""
        wanted = read_parameters(request, MatrixParameters)
        format = wanted.pop("format")
        try:
            matrix = read_matrix(wanted.pop("match"), **wanted)
        except BadPicture as problem:
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
    beyond = matrix.beyond
    return {
        "metric": matrix.metric.name,
        "unit": matrix.metric.unit,
        "better": matrix.metric.better,
        "x": matrix.x.dimension.name,
        "rows": [one.name for one in matrix.rows],
        "facet": [one.name for one in matrix.facets],
        "q": write_filter(matrix.shown_filter),
        "held": [
            {
                "dimension": held.dimension,
                "values": held.values,
                "others": [choice.value for choice in held.choices if choice.value not in held.values],
            }
            for held in matrix.held
        ],
        "mixed": matrix.mixed,
        "counts": {state: matrix.count(state) for state in STATES},
        "beyond": {
            "rows": beyond.rows,
            "columns": beyond.columns,
            "panels": beyond.panels,
            "series_beside": beyond.series_beside,
            "unknown_x": beyond.unknown_x,
        },
        "is_cut": beyond.is_cut,
    }


def _make_cell(matrix: Matrix, panel: Panel, row: MatrixRow, place: int, *, cell: MatrixCell) -> Row:
    values = (*panel.values, *row.values, matrix.x.values[place])
    standing, shift = cell.standing, cell.standing.shift if cell.standing else None
    known = dict(zip(_list_names(matrix), values, strict=True))
    return known | {
        "state": cell.state,
        "series": cell.series_ids[0] if cell.series_ids else None,
        "series_count": len(cell.series_ids),
        "median": standing and standing.median,
        "p10": standing and standing.p10,
        "p90": standing and standing.p90,
        "n": standing and standing.n,
        "recent_median": standing and standing.recent_median,
        "baseline_median": standing and standing.baseline_median,
        "change_percent": shift and shift.percent,
        "change": shift and shift.meaning,
        "first_at": standing and standing.first_at,
        "last_at": standing and standing.last_at,
        "is_stale": standing and standing.is_stale,
        "badges": cell.badges,
        "recent": standing.recent if standing else (),
    }
