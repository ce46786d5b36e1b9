"""A matrix as its page and a study show it: cells with links, texts, CSV and API."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django.http import QueryDict
from django.urls import reverse

from benchapp.catalog.grammar import Filter, parse_filter, write_filter
from benchapp.catalog.metrics import Metric
from benchapp.charts.read.history import IDS_MAXIMUM
from benchapp.charts.read.matrix import NONE, read_matrix
from benchapp.charts.read.matrix_shapes import Matrix, MatrixCell, MatrixPanel, MatrixRow
from benchapp.charts.texts.fixed import place_panel
from benchapp.charts.texts.matrix import (
    LONG_REASONS,
    REASONS,
    describe_cell_place,
    describe_cell_spread,
    describe_cells,
    describe_changes,
    describe_matrix,
    describe_matrix_counts,
    format_metric_value,
    list_omitted,
)
from benchapp.framework.pages.command_lines import link_chart_image
from benchapp.framework.pages.errors import require_valid
from benchapp.framework.pages.filter_bar import describe_filter
from benchapp.framework.pages.series_marks import ShownMark, show_mark
from benchapp.framework.pages.sparkline import make_sparkline
from benchapp.framework.pages.time_range import AskedRange, read_time_range
from benchapp.framework.pages.value_texts import format_age

CHOSEN: Final = ("metric", "x", "rows", "facet")
# Up to this many columns leave room for a second panel in the row.
_FEW_COLUMNS: Final = 4


@dataclass(frozen=True, slots=True)
class ShownCell:
    """A cell as the template shows it. where: for screen readers; url: its histories, or "".

    settings: what it was measured with, beside what its row and column state.
    """

    cell: MatrixCell
    title: str
    value: str
    mark: ShownMark | None
    line: str
    age: str
    where: str
    settings: str
    reason: str
    long_reason: str
    url: str


@dataclass(frozen=True, slots=True)
class ShownMatrixPanel:
    """One of the small multiples; columns: (label, settings); rows: (label, cells, one for each x).

    Settings are what the cells of a column or row were measured with, if others differ in it.
    """

    label: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, tuple[ShownCell, ...]], ...]


@dataclass(frozen=True, slots=True)
class MatrixFigure:
    """What `_matrix_figure.html` shows.

    changes: sentences. query: the query string that reproduces the matrix. csv_url, image_url: "" without links.
    """

    matrix: Matrix
    title: str
    filter: str
    counts: str
    changes: tuple[str, ...]
    omitted: tuple[str, ...]
    caption: str
    panels: tuple[ShownMatrixPanel, ...]
    is_few: bool
    query: str
    csv_url: str
    image_url: str
    file_name: str


def show_matrix(query: QueryDict, *, has_links: bool) -> MatrixFigure:
    """Return the matrix that a query asks for (the query string of its page).

    has_links: False without links to other pages. Raises as `read_asked_matrix`.
    """
    matrix, range = read_asked_matrix(query)
    return make_matrix_figure(matrix, range=range, has_links=has_links)


def read_asked_matrix(query: QueryDict, filter: Filter | None = None) -> tuple[Matrix, AskedRange]:
    """Return the matrix that a query asks for, and its time range. filter: if it was parsed before.

    Raises BadParameters, BadFilter and BadChart.
    """
    errors: list[str] = []
    range = read_time_range(query, errors)
    require_valid(errors)
    asked = {name: _join(query.getlist(name)) for name in CHOSEN}
    match = parse_filter(query.get("q", "")) if filter is None else filter
    return read_matrix(match, **asked, span=range.levels), range


def make_matrix_figure(matrix: Matrix, *, range: AskedRange, has_links: bool = True) -> MatrixFigure:
    """Show a matrix; range: in the address; has_links: False without links to other pages."""
    query = _write_query(matrix, range)
    paths = _CellPaths(reverse("series_list"), reverse("history")) if has_links else None
    return MatrixFigure(
        matrix=matrix,
        title=describe_matrix(matrix),
        filter=describe_filter(matrix.shown_filter),
        counts=describe_matrix_counts(matrix),
        changes=tuple(describe_changes(matrix)),
        omitted=tuple(list_omitted(matrix)),
        caption=describe_cells(matrix),
        panels=tuple(_show_panel(matrix, panel, paths) for panel in matrix.panels),
        is_few=len(matrix.x.values) <= _FEW_COLUMNS,
        query=query,
        csv_url=f"/api/v1/matrix?{query}&format=csv" if has_links else "",
        image_url=link_chart_image(f"/api/v1/matrix?{query}") if has_links else "",
        file_name=f"matrix-{matrix.metric.name}-over-{matrix.x.dimension.name}",
    )


def _join(values: Sequence[str]) -> str | None:
    """Return a parameter that two fields may give; "none" is ignored if the other field has a value."""
    parts = [part for part in values if part]
    return ",".join([part for part in parts if part != NONE]) or (NONE if parts else None)


def _write_query(matrix: Matrix, range: AskedRange) -> str:
    """Return the query string that reproduces this matrix, with the automatic choices."""
    chosen: Mapping[str, str] = {
        "q": write_filter(matrix.shown_filter),
        "metric": matrix.metric.name,
        "x": matrix.x.dimension.name,
        "rows": ",".join(row.name for row in matrix.rows),
        "facet": ",".join(facet.name for facet in matrix.facets) or NONE,
        **range.bounds,
    }
    return urlencode({name: value for name, value in chosen.items() if value}, safe=":,/*")


@dataclass(frozen=True, slots=True)
class _CellPaths:
    """Addresses of pages: `reverse` for each cell takes as long as to read its level."""

    series: str
    history: str


def _show_panel(matrix: Matrix, panel: MatrixPanel, paths: _CellPaths | None) -> ShownMatrixPanel:
    placed = place_panel(matrix, panel)
    return ShownMatrixPanel(
        panel.label,
        tuple(zip(matrix.x.labels, placed.columns, strict=True)),
        tuple(
            (
                ", ".join(filter(None, (row.label, of_row))),
                tuple(
                    _show(matrix, row, place, settings=own, paths=paths) for place, own in enumerate(of_cells)
                ),
            )
            for row, of_row, of_cells in zip(panel.rows, placed.rows, placed.cells, strict=True)
        ),
    )


def _show(
    matrix: Matrix, row: MatrixRow, place: int, *, settings: str, paths: _CellPaths | None
) -> ShownCell:
    cell = row.cells[place]
    level = cell.level
    return ShownCell(
        cell=cell,
        title=describe_cell_spread(level, matrix.metric) if level else "",
        value="" if level is None else format_metric_value(level.median, matrix.metric).removesuffix(" IOPS"),
        mark=show_mark(cell.mark, metric=matrix.metric.name),
        line="" if level is None else make_sparkline(level.recent),
        age="" if level is None else format_age(level.last_at),
        where=describe_cell_place(matrix, row, place),
        settings=settings,
        reason=REASONS.get(cell.state, ""),
        long_reason=LONG_REASONS.get(cell.state, ""),
        url=_link_histories(cell, matrix.metric, paths) if paths else "",
    )


def _link_histories(cell: MatrixCell, metric: Metric, paths: _CellPaths) -> str:
    """Return the link to the histories of a cell's series, also of those that failed."""
    if not cell.series_ids:
        return ""
    if len(cell.series_ids) == 1:
        return f"{paths.series}{cell.series_ids[0]}/?metric={metric.name}"
    # The most that the history page reads.
    ids = ",".join(map(str, cell.series_ids[:IDS_MAXIMUM]))
    return f"{paths.history}?series={ids}&metric={metric.name}"
