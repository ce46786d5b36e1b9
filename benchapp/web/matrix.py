"""The matrix: what each combination of patterns, volumes and sizes stands at, as tables that open histories."""

from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import parse_filter, write_filter
from benchapp.metrics import CATALOGUE, Metric
from benchapp.queries.dimension_words import describe_value
from benchapp.queries.matrix import NONE, read_matrix
from benchapp.queries.matrix_values import Matrix, MatrixCell
from benchapp.queries.scaling_choice import Held
from benchapp.queries.scaling_picture import BadPicture
from benchapp.web.access import may_read
from benchapp.web.filter_bar import FilterBar, make_filter_bar
from benchapp.web.frame import make_base_url
from benchapp.web.lines import say_first_steps, say_request
from benchapp.web.matrix_words import (
    LONG_REASONS,
    REASONS,
    ShiftWords,
    list_beyond,
    say_age,
    say_counts,
    say_place,
    say_shift,
    say_spread,
    say_title,
    say_value,
)
from benchapp.web.sparkline import make_sparkline

_CHOSEN: Final = ("metric", "x", "rows", "facet")
# So many columns still leave room for another panel beside.
_FEW_COLUMNS: Final = 4
_OTHERS_MAXIMUM: Final = 12
_Option = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell as the template shows it. where: said to those who hear it; url: its history, "" where none."""

    cell: MatrixCell
    title: str
    value: str
    shift: ShiftWords | None
    line: str
    age: str
    where: str
    reason: str
    long_reason: str
    url: str


@dataclass(frozen=True, slots=True)
class HeldLine:
    """A dimension that is held still, and links to what else there is of it; more: how many have no link."""

    label: str
    value: str
    others: tuple[tuple[str, str], ...]
    more: int


@dataclass(frozen=True, slots=True)
class MatrixFigure:
    """A matrix in a study: what `_study_matrix.html` shows. panels: as `_matrix_panel.html` takes them."""

    matrix: Matrix
    title: str
    counts: str
    beyond: tuple[str, ...]
    panels: tuple[dict[str, Any], ...]
    is_few: bool


def show_matrix(query: QueryDict, *, has_links: bool) -> MatrixFigure:
    """Return the matrix that a query asks for (the part of its page's address behind "?").

    has_links: False where nothing may lead to other pages. Raises BadFilter and BadPicture.
    """
    asked = {name: _join(query.getlist(name)) for name in _CHOSEN}
    shown = read_matrix(parse_filter(query.get("q", "")), **asked)
    panels = _make_panels(shown)
    if not has_links:
        panels = [
            {
                **panel,
                "rows": [
                    (label, [replace(cell, url="") for cell in cells]) for label, cells in panel["rows"]
                ],
            }
            for panel in panels
        ]
    return MatrixFigure(
        shown,
        say_title(shown),
        say_counts(shown),
        tuple(list_beyond(shown)),
        tuple(panels),
        len(shown.x.values) <= _FEW_COLUMNS,
    )


@require_safe
@may_read
def matrix(request: HttpRequest) -> HttpResponse:
    """Show the matrix of a filter, with what was not asked for chosen and held still."""
    bar = make_filter_bar(request, fields="_matrix_fields.html")
    errors = list(bar.errors)
    shown = _read(request, bar, errors)
    base_url = make_base_url(request)
    query = _write_query(shown)
    address = f"/api/v1/matrix?{query}"
    context = {
        "bar": bar,
        "errors": errors,
        "matrix": shown,
        "title": say_title(shown),
        "counts": say_counts(shown),
        "beyond": list(list_beyond(shown)),
        "panels": _make_panels(shown),
        "held": [_make_held(held, bar, request) for held in shown.held],
        "fields": _make_fields(shown),
        "is_few": len(shown.x.values) <= _FEW_COLUMNS,
        "canonical_url": f"{base_url}{reverse('matrix')}?{query}",
        "csv_url": f"{address}&format=csv",
        "api_line": say_request(f"{base_url}{address}"),
        "steps": None if shown.size or bar.text else say_first_steps(base_url),
        "reasons": [(REASONS[state], LONG_REASONS[state]) for state in REASONS if shown.count(state)],
    }
    return render(request, "matrix.html", context, status=400 if errors else 200)


def _read(request: HttpRequest, bar: FilterBar, errors: list[str]) -> Matrix:
    """Return the matrix asked for; where that makes no sense the usual one, and a sentence in errors."""
    asked = {name: _join(request.GET.getlist(name)) for name in _CHOSEN}
    try:
        return read_matrix(bar.filter, **asked)
    except BadPicture as problem:
        errors.append(f"{problem.parameter.title()}: {problem}.")
        return read_matrix(bar.filter)


def _join(values: list[str]) -> str | None:
    """Return the parts of a parameter that may be given by two fields; "none" beside another says nothing."""
    parts = [part for part in values if part]
    return ",".join([part for part in parts if part != NONE]) or (NONE if parts else None)


def _write_query(matrix: Matrix) -> str:
    """Return the address's query that shows this matrix, whatever is chosen by itself another day."""
    chosen = {
        "q": write_filter(matrix.shown_filter),
        "metric": matrix.metric.name,
        "x": matrix.x.dimension.name,
        "rows": ",".join(row.name for row in matrix.rows),
        "facet": ",".join(facet.name for facet in matrix.facets) or NONE,
    }
    return urlencode({name: value for name, value in chosen.items() if value}, safe=":,/*")


def _make_panels(matrix: Matrix) -> list[dict[str, Any]]:
    return [
        {
            "label": panel.label,
            "rows": [
                (row.label, [_show(matrix, row, place, cell) for place, cell in enumerate(row.cells)])
                for row in panel.rows
            ],
        }
        for panel in matrix.panels
    ]


def _show(matrix: Matrix, row: Any, place: int, cell: MatrixCell) -> ShownCell:
    standing = cell.standing
    return ShownCell(
        cell=cell,
        title=say_spread(standing, matrix.metric) if standing else "",
        value="" if standing is None else say_value(standing.median, matrix.metric).removesuffix(" IOPS"),
        shift=None if standing is None else say_shift(standing.shift, matrix.metric),
        line="" if standing is None else make_sparkline(standing.recent),
        age="" if standing is None else say_age(standing.last_at),
        where=say_place(matrix, row, place),
        reason=REASONS.get(cell.state, ""),
        long_reason=LONG_REASONS.get(cell.state, ""),
        url=_link_history(cell, matrix.metric),
    )


def _link_history(cell: MatrixCell, metric: Metric) -> str:
    """Return the history of a cell's series; of those that failed as well, as it shows when."""
    if not cell.series_ids:
        return ""
    return f"{reverse('series', args=[cell.series_ids[0]])}?metric={metric.name}"


def _make_held(held: Held, bar: FilterBar, request: HttpRequest) -> HeldLine:
    dimension = DIMENSIONS[held.dimension]
    others = []
    for choice in held.choices:
        if choice.value not in held.values:
            query = request.GET.copy()
            query["q"] = write_filter(bar.filter.holding(held.dimension, choice.value))
            others.append((describe_value(held.dimension, choice.value), f"?{query.urlencode(safe=':,/*')}"))
    values = ", ".join(describe_value(held.dimension, value) for value in held.values)
    return HeldLine(dimension.label, values, tuple(others[:_OTHERS_MAXIMUM]), len(others[_OTHERS_MAXIMUM:]))


def _make_fields(matrix: Matrix) -> dict[str, Any]:
    """Return the choices of the fields, each as (value, label, is chosen); rows and facets have two fields each."""
    names = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]

    def offer(chosen: str, first: str, words: str) -> list[_Option]:
        options = [(name, label, name == chosen) for name, label in names]
        return [(first, words, not chosen), *options] if words else options

    rows = [row.name for row in matrix.rows] + [""]
    facets = [facet.name for facet in matrix.facets] + ["", ""]
    return {
        "metric": [(name, metric.label, metric is matrix.metric) for name, metric in CATALOGUE.items()],
        "x": offer(matrix.x.dimension.name, "", ""),
        "rows": offer(rows[0], "", ""),
        "more_rows": offer(rows[1], "", "nothing else"),
        "facet": offer(facets[0], NONE, "no panels"),
        "more_facets": offer(facets[1], "", "nothing else"),
    }
