"""The matrix of an incident's cells as it is shown: sizes with their signs, words, and where each cell leads."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.http import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from benchapp.models import Standing
from benchapp.queries.incidents.affected_matrix import (
    CellLine,
    CellMatrix,
    CellState,
    OneCell,
    read_cell_matrix,
)
from benchapp.queries.incidents.shapes import IncidentRow
from benchapp.web.charts.history.request import format_request_time, write_query
from benchapp.web.incidents.tables import Size, make_size
from benchapp.web.site.filter_forms import keep_query

_ROOM: Final = timedelta(hours=1)
_STANDINGS: Final = {Standing.LEARNING: "learning", Standing.NOISY: "too noisy", Standing.STALE: "stale"}
_WORDS: Final[dict[CellState, str]] = {
    "unmoved": "unmoved",
    "unjudged": "not judged",
    "missing": "never measured",
}


@dataclass(frozen=True, slots=True)
class CellShown:
    """One cell. size: None where no level moved; note: a second line, "" for none; where: for those who hear it."""

    state: CellState
    where: str
    word: str
    size: Size | None
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class CellFigure:
    """The matrix with its words. tabs: (label, count, address, is here) of each metric in which something moved."""

    matrix: CellMatrix
    said: str
    beyond: tuple[str, ...]
    rows: tuple[tuple[str, tuple[CellShown, ...]], ...]
    tabs: tuple[tuple[str, int, str, bool], ...]
    has_apart: bool


def make_cell_figure(incident: IncidentRow, query: QueryDict) -> CellFigure | None:
    """Return the matrix of an incident in the metric that the address names; None where one cell is all there is."""
    matrix = read_cell_matrix(incident, metric=query.get("metric"))
    if matrix is None:
        return None
    rows = tuple(
        (line.label, tuple(_show(matrix, line, place, cell) for place, cell in enumerate(line.cells)))
        for line in matrix.lines
    )
    return CellFigure(
        matrix=matrix,
        said=say_moved(matrix),
        beyond=tuple(list_left_out(matrix)),
        rows=rows,
        tabs=tuple(
            (
                each.metric.label,
                each.count,
                keep_query(query, metric=each.metric.name),
                each.metric is matrix.metric,
            )
            for each in matrix.metrics
        ),
        has_apart=any(cell.state == "apart" for _, cells in rows for cell in cells),
    )


def say_moved(matrix: CellMatrix) -> str:
    """Say how much moved: "14 of 320 cells moved in IOPS; 3 more are not judged"."""
    cells = "cell" if matrix.judged == 1 else "cells"
    said = f"{matrix.moved} of {matrix.judged} {cells} moved in {matrix.metric.label}"
    if not matrix.unjudged:
        return said
    return f"{said}; {matrix.unjudged} more {'is' if matrix.unjudged == 1 else 'are'} not judged"


def list_left_out(matrix: CellMatrix) -> Iterator[str]:
    """Say what is not shown for want of room; nothing where all is."""
    for count, noun in ((matrix.rows_left_out, "row"), (matrix.columns_left_out, "column")):
        if count:
            verb = "is" if count == 1 else "are"
            yield f"{count} {noun}{'' if count == 1 else 's'} in which less moved {verb} not shown."
    if matrix.moved_left_out:
        yield f"{matrix.moved_left_out} of the cells that moved have no room here; the list below has them."
    if matrix.is_cut:
        yield "There are more cells than are looked at: only the freshest are counted."


def _show(matrix: CellMatrix, line: CellLine, place: int, cell: OneCell) -> CellShown:
    where = f"{line.label}, {matrix.x.label.lower()} {matrix.columns[place]}"
    if cell.level is None:
        note = _STANDINGS.get(Standing(cell.standing), "") if cell.standing else ""
        return CellShown(cell.state, where, _WORDS[cell.state], None, note, _link(matrix, cell))
    level = cell.level
    size = make_size(level.relative, None, None, is_regression=level.is_regression)
    return CellShown(cell.state, where, size.word, size, _say_note(cell), _link(matrix, cell))


def _say_note(cell: OneCell) -> str:
    """Say what goes with a size: how many series of the cell moved, or where else it is told."""
    if cell.state == "apart" and cell.level:
        return f"incident {cell.level.incident_id}" if cell.level.incident_id else "not believed yet"
    return f"{cell.moved} of {cell.series} series" if cell.series > 1 else ""


def _link(matrix: CellMatrix, cell: OneCell) -> str:
    """Return the history around the change, of all cells from the same moment on; "" where there is none."""
    if cell.series_id is None:
        return ""
    from_at = parse_datetime(matrix.from_at) if matrix.from_at else None
    part = format_request_time(from_at - _ROOM) if from_at else None
    query = write_query(metric=matrix.metric.name, **{"from": part})
    return f"{reverse('series', args=[cell.series_id])}?{query}"
