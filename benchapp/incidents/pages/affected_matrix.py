"""Texts and links of the affected matrix of an incident."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.http import QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from benchapp.catalog.metrics import lower_label
from benchapp.charts.pages.history.request import write_query
from benchapp.framework.pages.filter_forms import keep_query
from benchapp.framework.pages.value_texts import format_count
from benchapp.framework.times import to_iso
from benchapp.incidents.pages.tables import Size, make_size
from benchapp.incidents.read.affected_matrix import (
    AffectedCell,
    AffectedMatrix,
    AffectedRow,
    CellState,
    read_affected_matrix,
)
from benchapp.incidents.read.shapes import IncidentRow
from benchapp.models import DetectionStatus

_ROOM: Final = timedelta(hours=1)
_STATUSES: Final = {
    DetectionStatus.LEARNING: "learning",
    DetectionStatus.NOISY: "too noisy",
    DetectionStatus.STALE: "stale",
}
_TEXTS: Final[dict[CellState, str]] = {
    "unchanged": "unchanged",
    "unjudged": "not evaluated",
    "missing": "no data",
}


@dataclass(frozen=True, slots=True)
class AffectedMatrixCell:
    """One cell. size: None without a change; note: second line or ""; position: for screen readers."""

    state: CellState
    position: str
    text: str
    size: Size | None
    note: str
    url: str


@dataclass(frozen=True, slots=True)
class AffectedMatrixFigure:
    """The matrix with its texts.

    axes: "pattern and volumes"; tabs: (label, count, URL, is current) of each metric with changes.
    """

    matrix: AffectedMatrix
    axes: str
    summary: str
    omitted: tuple[str, ...]
    rows: tuple[tuple[str, tuple[AffectedMatrixCell, ...]], ...]
    tabs: tuple[tuple[str, int, str, bool], ...]
    has_elsewhere: bool


def make_affected_matrix(incident: IncidentRow, query: QueryDict) -> AffectedMatrixFigure | None:
    """Return the matrix of an incident in the metric of the URL; None for fewer than two series."""
    matrix = read_affected_matrix(incident, metric=query.get("metric"))
    if matrix is None:
        return None
    rows = tuple(
        (line.label, tuple(_show(matrix, line, place, cell) for place, cell in enumerate(line.cells)))
        for line in matrix.lines
    )
    return AffectedMatrixFigure(
        matrix=matrix,
        axes=" and ".join(
            lower_label(dimension.label) for dimension in (*matrix.rows, matrix.x) if dimension is not None
        ),
        summary=describe_affected_counts(matrix),
        omitted=tuple(list_omitted_affected(matrix)),
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
        has_elsewhere=any(cell.state == "elsewhere" for _, cells in rows for cell in cells),
    )


def describe_affected_counts(matrix: AffectedMatrix) -> str:
    """Return the counts: "14 of 320 series changed in IOPS; 3 not evaluated"."""
    text = f"{matrix.changed} of {matrix.judged} series changed in {matrix.metric.label}"
    return f"{text}; {matrix.unjudged} not evaluated" if matrix.unjudged else text


def list_omitted_affected(matrix: AffectedMatrix) -> Iterator[str]:
    """Yield what the matrix omits."""
    for count, noun in ((matrix.rows_left_out, "row"), (matrix.columns_left_out, "column")):
        if count:
            yield f"{format_count(count, noun)} with fewer changes not shown."
    if matrix.changed_left_out:
        yield f"{matrix.changed_left_out} affected series not shown here; see the list below."
    if matrix.is_cut:
        yield "Too many series: only the most recent are counted."


def _show(matrix: AffectedMatrix, line: AffectedRow, place: int, cell: AffectedCell) -> AffectedMatrixCell:
    column = f", {lower_label(matrix.x.label)} {matrix.columns[place]}" if matrix.x else ""
    position = f"{line.label}{column}"
    if cell.change is None:
        note = _STATUSES.get(DetectionStatus(cell.status), "") if cell.status else ""
        return AffectedMatrixCell(cell.state, position, _TEXTS[cell.state], None, note, _link(matrix, cell))
    change = cell.change
    size = make_size(change.relative, None, None, is_regression=change.is_regression)
    return AffectedMatrixCell(cell.state, position, size.word, size, _make_note(cell), _link(matrix, cell))


def _make_note(cell: AffectedCell) -> str:
    """Return the note of a change: the number of series that changed, or the other incident."""
    if cell.state == "elsewhere" and cell.change:
        return f"incident {cell.change.incident_id}" if cell.change.incident_id else "not significant yet"
    return f"{cell.changed} of {cell.series} series" if cell.series > 1 else ""


def _link(matrix: AffectedMatrix, cell: AffectedCell) -> str:
    """Return the URL of the history around the change, from the same time in all cells; "" without a series."""
    if cell.series_id is None:
        return ""
    from_at = parse_datetime(matrix.from_at) if matrix.from_at else None
    part = to_iso(from_at - _ROOM) if from_at else None
    query = write_query(metric=matrix.metric.name, **{"from": part})
    return f"{reverse('series', args=[cell.series_id])}?{query}"
