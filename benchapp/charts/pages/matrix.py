"""The matrix page, also a figure of studies: the current level of each combination of patterns, volumes and sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Filter, parse_filter, write_filter
from benchapp.catalog.metrics import CATALOG, Metric, format_value, lower_label
from benchapp.charts.read.chart import BadChart, ChartCell, ChartLine, ChartPanel
from benchapp.charts.read.history import IDS_MAXIMUM
from benchapp.charts.read.matrix import NONE, Matrix, read_matrix
from benchapp.charts.texts.levels import describe_choice, describe_level_range, describe_values, place_panel
from benchapp.charts.texts.matrix import (
    LONG_REASONS,
    REASONS,
    describe_cell_place,
    describe_cell_spread,
    describe_cells,
    describe_changes,
    describe_matrix,
    list_omitted,
)
from benchapp.framework.pages.access import BadParameters, may_read, require_valid
from benchapp.framework.pages.command_lines import format_curl_command, link_chart_image, list_first_steps
from benchapp.framework.pages.filter_bar import (
    FilterBar,
    explain_empty,
    group_dimensions,
    link_choices,
    make_filter_bar,
    refuse_address,
    settle_filter,
)
from benchapp.framework.pages.page_context import make_base_url
from benchapp.framework.pages.series_marks import ShownMark, make_sparkline, show_mark
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.times import format_age
from benchapp.layouts.pages.layouts import show_next_runs
from benchapp.layouts.read.next_runs import plan_matrix_runs
from benchapp.layouts.texts import NOTHING_MISSING
from benchapp.series.read.dimension_values import has_series
from benchapp.series.read.titles import describe_value

CHOSEN: Final = ("metric", "x", "rows", "facet")
# Of the surface of a workload: its columns and its rows.
SURFACE: Final = ("iodepth", "numjobs")
# Up to this many columns leave room for a second panel in the row.
_FEW_COLUMNS: Final = 4


def show_matrix(query: QueryDict, *, has_links: bool) -> dict[str, Any]:
    """Return the matrix that a query asks for (the query string of its page).

    has_links: False without links to other pages. Raises as `read_asked_matrix`.
    """
    matrix, time_range = read_asked_matrix(query)
    return make_matrix_figure(matrix, time_range=time_range, has_links=has_links)


def read_asked_matrix(query: QueryDict, filter: Filter | None = None) -> tuple[Matrix, AskedRange]:
    """Return the matrix that a query asks for, and its time range. filter: if it was parsed before.

    Raises BadParameters, BadFilter and BadChart.
    """
    errors: list[str] = []
    time_range = read_time_range(query, errors)
    require_valid(errors)
    asked = {name: _join(query.getlist(name)) for name in CHOSEN}
    match = parse_filter(query.get("q", "")) if filter is None else filter
    return read_matrix(match, **asked, span=time_range.levels), time_range


def make_matrix_figure(matrix: Matrix, *, time_range: AskedRange, has_links: bool = True) -> dict[str, Any]:
    """Show a matrix; range: in the address; has_links: False without links to other pages."""
    query = _write_query(matrix, time_range)
    paths = (
        {
            "series": reverse("series_list"),
            "history": reverse("history"),
        }
        if has_links
        else None
    )
    return {
        "matrix": matrix,
        "title": describe_matrix(matrix),
        "changes": tuple(describe_changes(matrix)),
        "omitted": tuple(list_omitted(matrix)),
        "caption": describe_cells(matrix),
        "panels": tuple(_show_panel(matrix, panel, paths) for panel in matrix.panels),
        "is_few": len(matrix.x.values) <= _FEW_COLUMNS,
        "query": query,
        "csv_url": f"/api/v1/matrix?{query}&format=csv" if has_links else "",
        "image_url": link_chart_image(f"/api/v1/matrix?{query}") if has_links else "",
        "file_name": f"matrix-{matrix.metric.name}-over-{matrix.x.dimension.name}",
    }


def link_surface(filter: Filter, metric: str, **bounds: str) -> str:
    """Return the address of the matrix of a metric over queue depth and jobs. bounds: of the time range."""
    chosen = {"q": write_filter(filter), "metric": metric, "x": SURFACE[0], "rows": SURFACE[1], **bounds}
    return (
        f"{reverse('matrix')}?{urlencode({name: each for name, each in chosen.items() if each}, safe=':,/*')}"
    )


def _join(values: Sequence[str]) -> str | None:
    """Return a parameter that two fields may give; "none" is ignored if the other field has a value."""
    parts = [part for part in values if part]
    return ",".join([part for part in parts if part != NONE]) or (NONE if parts else None)


def _write_query(matrix: Matrix, time_range: AskedRange) -> str:
    """Return the query string that reproduces this matrix, with the automatic choices."""
    chosen: Mapping[str, str] = {
        "q": write_filter(matrix.shown_filter),
        "metric": matrix.metric.name,
        "x": matrix.x.dimension.name,
        "rows": ",".join(row.name for row in matrix.rows),
        "facet": ",".join(facet.name for facet in matrix.facets) or NONE,
        **time_range.bounds,
    }
    return urlencode({name: value for name, value in chosen.items() if value}, safe=":,/*")


def _show_panel(matrix: Matrix, panel: ChartPanel, paths: dict[str, Any] | None) -> dict[str, Any]:
    """Return the rows with a series, and the labels of those without any."""
    placed = place_panel(matrix, panel)
    return {
        "label": placed["label"],
        "columns": tuple(zip(matrix.x.labels, placed["columns"], strict=True)),
        "rows": tuple(
            (
                ", ".join(filter(None, (row.label, of_row))),
                tuple(
                    _show(matrix, row, place, settings=own, paths=paths) for place, own in enumerate(of_cells)
                ),
            )
            for row, of_row, of_cells in zip(panel.lines, placed["rows"], placed["cells"], strict=True)
            if not row.is_missing
        ),
        "unmeasured": tuple(row.label for row in panel.lines if row.is_missing),
    }


def _show(
    matrix: Matrix, row: ChartLine, place: int, *, settings: str, paths: dict[str, Any] | None
) -> dict[str, Any]:
    cell = row.cells[place]
    return {
        "cell": cell,
        "title": describe_cell_spread(cell, matrix.metric) if cell.n else "",
        "value": format_value(cell.median, matrix.metric.unit) if cell.n else "",
        "mark": show_cell_mark(cell, matrix.metric.name),
        "line": make_sparkline(cell.recent),
        "age": format_age(cell.last_at) if cell.last_at else "",
        "where": describe_cell_place(matrix, row, place),
        "settings": settings,
        "reason": REASONS.get(cell.state, ""),
        "long_reason": LONG_REASONS.get(cell.state, ""),
        "url": _link_histories(cell, matrix.metric, paths) if paths else "",
    }


def show_cell_mark(cell: ChartCell, metric: str) -> ShownMark | None:
    """Return the mark of a cell, none of a recovery; of several series with how many have an open regression."""
    if cell.mark is None or cell.mark.state == "recovered":
        return None
    mark, count = show_mark(cell.mark, metric=metric), len(cell.series_ids)
    if mark is None or count == 1 or not cell.regressed_count:
        return mark
    worst = ""
    if cell.worst:
        host, value = cell.worst
        worst = f"worst: {describe_value('host', host)} {format_value(value, CATALOG[metric].unit)}, "
    return replace(mark, text=f"{worst}{mark.text}, {cell.regressed_count} of {count} series")


def _link_histories(cell: ChartCell, metric: Metric, paths: dict[str, Any]) -> str:
    """Return the link to the histories of a cell's series, also of those that failed."""
    if not cell.series_ids:
        return ""
    if len(cell.series_ids) == 1:
        return f"{paths['series']}{cell.series_ids[0]}/?metric={metric.name}"
    # The most that the history page reads.
    ids = ",".join(map(str, cell.series_ids[:IDS_MAXIMUM]))
    return f"{paths['history']}?series={ids}&metric={metric.name}"


_NEXT_RUNS: Final = "next_runs"
_Option = tuple[str, str, bool]


@require_safe
@may_read
def matrix(request: HttpRequest) -> HttpResponse:
    """Show the matrix of a filter; axes and fixed dimensions that the address does not name are chosen."""
    bar = make_filter_bar(
        request, fields="charts/matrix/_matrix_fields.html", has_metric=True, leaves_out_sample=True
    )
    if (answer := settle_filter(request, bar)) is not None:
        return answer
    try:
        shown, time_range = read_asked_matrix(request.GET, bar.read)
    except BadChart as problem:
        return refuse_address(request, [f"{problem.parameter.title()}: {problem}."], bar=bar)
    except BadParameters as problem:
        return refuse_address(request, [f"{problem}."], bar=bar)
    figure = make_matrix_figure(shown, time_range=time_range)
    base_url = make_base_url(request)
    has_next_runs = request.GET.get(_NEXT_RUNS) == "1" and shown.size > 0
    context = {
        "bar": bar,
        "figure": figure,
        "title": figure["title"],
        "range": describe_level_range(shown.span),
        "fields": _make_fields(shown),
        "pickers": _make_pickers(shown, bar, request.GET),
        "canonical_url": f"{base_url}{reverse('matrix')}?{figure['query']}",
        "api_line": format_curl_command(f"{base_url}/api/v1/matrix?{figure['query']}"),
        "excluded": () if shown.size else explain_empty(bar, has_series),
        "steps": None if shown.size or bar.text or not shown.span.is_open else list_first_steps(base_url),
        "next": show_next_runs(plan_matrix_runs(shown), nothing=NOTHING_MISSING) if has_next_runs else None,
        "next_url": f"?{figure['query']}&{_NEXT_RUNS}=1#next-runs",
        "reasons": [(REASONS[state], LONG_REASONS[state]) for state in REASONS if shown.count(state)],
    }
    return render(request, "charts/matrix/matrix.html", context)


def _make_pickers(
    matrix: Matrix, bar: FilterBar, query: QueryDict
) -> list[tuple[str, str, list[tuple[str, Any]]]]:
    """Return the words of the line of controls: what is said before each, the word, and its grouped choices."""
    dimensions = group_dimensions(
        DIMENSIONS,
        varying={*(each.name for each in matrix.dimensions), *(each.dimension for each in matrix.fixed)},
    )
    metrics = [(name, metric.label, metric == matrix.metric) for name, metric in CATALOG.items()]
    words = [("", matrix.metric.label, [("", link_choices(query, "metric", metrics))])]
    axes = [("by", "rows", matrix.rows), ("over", "x", (matrix.x.dimension,))]
    axes += [("in panels by", "facet", matrix.facets)] if matrix.facets else []
    for before, name, chosen in axes:
        groups = [
            (
                heading,
                link_choices(
                    query, name, [(value, label, value == chosen[0].name) for value, label in members]
                ),
            )
            for heading, members in dimensions
        ]
        words.append((before, " and ".join(lower_label(each.label) for each in chosen), groups))
    for fixed in matrix.fixed:
        choices = [
            (
                write_filter(bar.filter.with_value(fixed.dimension, choice.value)),
                describe_choice(fixed.dimension, choice, matrix.metric),
                fixed.values == (choice.value,),
            )
            for choice in fixed.choices
        ]
        words.append(
            ("·", describe_values(fixed.dimension, fixed.values), [("", link_choices(query, "q", choices))])
        )
    return words


def _make_fields(matrix: Matrix) -> dict[str, Any]:
    """Return the choices of the fields, each as (value, label, is chosen); rows and facets have two fields each."""
    names = [(name, dimension.label) for name, dimension in DIMENSIONS.items()]

    def offer(chosen: str, first: str, first_label: str) -> list[_Option]:
        options = [(name, label, name == chosen) for name, label in names]
        return [(first, first_label, not chosen), *options] if first_label else options

    rows = [row.name for row in matrix.rows] + [""]
    facets = [facet.name for facet in matrix.facets] + ["", ""]
    return {
        "metric": [(name, metric.label, metric == matrix.metric) for name, metric in CATALOG.items()],
        "x": offer(matrix.x.dimension.name, "", ""),
        "rows": offer(rows[0], "", ""),
        "more_rows": offer(rows[1], "", "None"),
        "facet": offer(facets[0], NONE, "None"),
        "more_facets": offer(facets[1], "", "None"),
    }
