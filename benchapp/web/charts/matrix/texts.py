"""The texts of a matrix: title, cells, and what it does not show."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from benchapp.dimensions import DIMENSIONS
from benchapp.metrics import Metric, format_value
from benchapp.queries.charts.matrix_shapes import CellState, Matrix, MatrixRow
from benchapp.queries.series.current_levels import CurrentLevel, RecentShift
from benchapp.queries.titles import describe_setting

REASONS: Final[dict[CellState, str]] = {
    "failed": "failed",
    "excluded": "excluded",
    "unvalued": "no value",
    "missing": "not measured",
}
LONG_REASONS: Final[dict[CellState, str]] = {
    "failed": "all runs failed, no median",
    "excluded": "all measurements are excluded",
    "unvalued": "measured without this metric",
    "missing": "no series with this combination",
}


@dataclass(frozen=True, slots=True)
class ShiftWords:
    """A change against the baseline as shown. kind: "better", "worse" or "within"."""

    text: str
    kind: str


# More are in the cells.
_CHANGES_NAMED: Final = 3


def describe_matrix(matrix: Matrix) -> str:
    """Return the title: "Median IOPS by pattern, over volumes: 1 of 30 combinations worse, 2 better"."""
    rows = " and ".join(row.label.lower() for row in matrix.rows)
    title = f"Median {matrix.metric.label} by {rows}, over {matrix.x.dimension.label.lower()}"
    worse, better = (len(_find_changes(matrix, meaning)) for meaning in ("worse", "better"))
    if not worse and not better:
        return title
    cells = f"of {matrix.count('measured')} combinations"
    if not worse:
        return f"{title}: {better} {cells} better"
    return f"{title}: {worse} {cells} worse" + (f", {better} better" if better else "")


def describe_cells(matrix: Matrix) -> str:
    """Return the caption: the parts of a cell, the better direction, and the number of combinations."""
    hatched = " Hatched: no value, with the reason." if _has_gaps(matrix) else ""
    return (
        f"Cell: median {matrix.metric.label}, change (newest five measurements vs. those before), newest 20 values,"
        f" age, number of measurements; {matrix.metric.better} is better. {describe_matrix_counts(matrix)}.{hatched}"
    )


def describe_changes(matrix: Matrix) -> Iterator[str]:
    """Yield the changes that exceed the spread of earlier measurements, the largest first."""
    judged = sum(cell.level is not None and cell.level.shift is not None for *_, cell in matrix.walk())
    if not judged:
        yield "No changes: a change needs ten measurements."
        return
    has_changes = False
    for meaning in ("worse", "better"):
        found = _find_changes(matrix, meaning)
        if found:
            has_changes = True
            named = ", ".join(
                f"{where} ({describe_change_percent(percent)})" for percent, where in found[:_CHANGES_NAMED]
            )
            more = len(found) - _CHANGES_NAMED
            others = f" and {more} more" if more > 0 else ""
            yield f"{meaning.title()} than baseline: {named}{others}."
    if not has_changes:
        yield f"No significant change in {judged} combination{'s' if judged > 1 else ''}."


def _find_changes(matrix: Matrix, meaning: str) -> list[tuple[float, str]]:
    """Return the cells with this meaning of the change, as (percent, place), the largest change first."""
    found = []
    for panel, row, place, cell in matrix.walk():
        shift = cell.level.shift if cell.level else None
        if shift is not None and shift.meaning == meaning:
            where = describe_cell_place(matrix, row, place)
            found.append((shift.percent, f"{where}, {panel.label}" if panel.label else where))
    return sorted(found, key=lambda change: -abs(change[0]))


def _has_gaps(matrix: Matrix) -> bool:
    return matrix.count("measured") < matrix.size


def describe_matrix_counts(matrix: Matrix) -> str:
    """Return the number of combinations: "12 of 14 combinations; 2 failed"."""
    parts = [f"{matrix.count('measured')} of {matrix.size} combinations"]
    for state, word in REASONS.items():
        count = matrix.count(state)
        if count:
            parts.append(f"{count} {word}")
    return "; ".join(parts)


def list_omitted(matrix: Matrix) -> Iterator[str]:
    """Yield what is not shown, for lack of room or because of a fixed dimension."""
    omitted = matrix.omitted
    for count, noun in ((omitted.rows, "row"), (omitted.columns, "column"), (omitted.panels, "panel")):
        if count:
            yield f"{count} more {noun}{'s' if count > 1 else ''} with fewer series hidden. Narrow the filter."
    if omitted.hidden_by_fixed:
        yield f"{omitted.hidden_by_fixed} series hidden by the fixed dimensions."
    if omitted.unknown_x:
        yield f"{omitted.unknown_x} series hidden: unknown {matrix.x.dimension.label.lower()}."
    if omitted.is_cut:
        yield "Only the most recent series are used. Narrow the filter to see the others."
    if matrix.mixed:
        # The pattern includes rw and direction.
        named = {"rw", "direction"} if "pattern" in matrix.mixed else set()
        labels = ", ".join(DIMENSIONS[name].label.lower() for name in matrix.mixed if name not in named)
        yield f"Combinations with several series (different {labels}) show the most recent; the link opens all."


def describe_shift(shift: RecentShift | None, metric: Metric) -> ShiftWords | None:
    """Return a change with its sign, and a word if it exceeds the spread."""
    if shift is None:
        return None
    percent = describe_change_percent(shift.percent)
    if shift.meaning == "within":
        return ShiftWords(percent, "within")
    arrow = "▲" if shift.percent > 0 else "▼"
    return ShiftWords(f"{arrow} {percent} {shift.meaning}", shift.meaning)


def describe_cell_place(matrix: Matrix, row: MatrixRow, place: int) -> str:
    """Return the place of a cell, for screen readers: "4k random read, 8 volumes"."""
    return f"{row.label}, {describe_setting(matrix.x.dimension.name, matrix.x.values[place])}"


def describe_cell_spread(level: CurrentLevel, metric: Metric) -> str:
    """Return a cell's spread and its exact median: "p10 2.4 ms, p90 3.1 ms; median 2512345.0 ns"."""
    low, high = (format_metric_value(value, metric) for value in (level.p10, level.p90))
    return f"p10 {low}, p90 {high}; median {level.median!r} {metric.unit}"


def describe_change_percent(percent: float) -> str:
    """Return a difference with its sign: "+8.3 %", "−20.0 %", "±0.0 %"."""
    sign = "±" if abs(percent) < 0.05 else "+" if percent > 0 else "−"
    return f"{sign}{abs(percent):.1f} %"


def format_metric_value(value: float, metric: Metric) -> str:
    """Return a value with its unit, also for IOPS: "24 186 IOPS", "1.24 ms"."""
    text = format_value(value, metric.unit)
    return f"{text} IOPS" if metric.unit == "operations/s" else text
