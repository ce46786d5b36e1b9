"""The matrix in words: its title, its cells, and what it does not show."""

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
    "missing": "never measured",
}
LONG_REASONS: Final[dict[CellState, str]] = {
    "failed": "every run failed, so that there is no median",
    "excluded": "all that was measured is taken out of medians",
    "unvalued": "measured, but without a value in this metric",
    "missing": "this combination was never measured",
}


@dataclass(frozen=True, slots=True)
class ShiftWords:
    """A change against the baseline as shown. kind: "better", "worse" or "within"."""

    text: str
    kind: str


# A reader takes in so many; the cells have them all.
_MOVES_NAMED: Final = 3


def describe_matrix(matrix: Matrix) -> str:
    """Say what is shown, and what moved: "Median IOPS by pattern, over volumes: 1 of 30 cells worse, 2 better"."""
    rows = " and ".join(row.label.lower() for row in matrix.rows)
    title = f"Median {matrix.metric.label} by {rows}, over {matrix.x.dimension.label.lower()}"
    worse, better = (len(_find_moves(matrix, meaning)) for meaning in ("worse", "better"))
    if not worse and not better:
        return title
    cells = f"of {matrix.count('measured')} cells"
    if not worse:
        return f"{title}: {better} {cells} better"
    return f"{title}: {worse} {cells} worse" + (f", {better} better" if better else "")


def say_caption(matrix: Matrix) -> str:
    """Say what a cell holds, which way is better, and how many combinations are there."""
    hatched = " Hatched: the combination has no value, and the cell says why." if _has_gaps(matrix) else ""
    return (
        f"Each cell: the median {matrix.metric.label} of the newest measurements, its change (the newest five against"
        " those before), the newest 20 values as a line, age and number of measurements;"
        f" {matrix.metric.better} is better. {describe_matrix_counts(matrix)}.{hatched}"
    )


def list_moves(matrix: Matrix) -> Iterator[str]:
    """Say which cells moved by more than the spread of those before, the farthest first; and where none did."""
    judged = sum(cell.level is not None and cell.level.shift is not None for *_, cell in matrix.walk())
    if not judged:
        yield "No cell has ten measurements yet, which a change needs."
        return
    moved = False
    for meaning in ("worse", "better"):
        found = _find_moves(matrix, meaning)
        if found:
            moved = True
            named = ", ".join(
                f"{where} ({describe_change_percent(percent)})" for percent, where in found[:_MOVES_NAMED]
            )
            more = len(found) - _MOVES_NAMED
            others = f" and {more} more" if more > 0 else ""
            yield f"{meaning.title()} than the baseline: {named}{others}."
    if not moved:
        cells = "the cell has not" if judged == 1 else f"none of {judged} cells has"
        yield f"{cells[0].upper()}{cells[1:]} moved by more than the spread of the measurements before."


def _find_moves(matrix: Matrix, meaning: str) -> list[tuple[float, str]]:
    """Return the cells whose change means so, as (per cent, where), the farthest first."""
    found = []
    for panel, row, place, cell in matrix.walk():
        shift = cell.level.shift if cell.level else None
        if shift is not None and shift.meaning == meaning:
            where = say_place(matrix, row, place)
            found.append((shift.percent, f"{where}, {panel.label}" if panel.label else where))
    return sorted(found, key=lambda move: -abs(move[0]))


def _has_gaps(matrix: Matrix) -> bool:
    return matrix.count("measured") < matrix.size


def describe_matrix_counts(matrix: Matrix) -> str:
    """Say how many combinations are there: "12 of 14 combinations; 2 failed"."""
    parts = [f"{matrix.count('measured')} of {matrix.size} combinations"]
    for state, word in REASONS.items():
        count = matrix.count(state)
        if count:
            parts.append(f"{count} {word}")
    return "; ".join(parts)


def list_omitted(matrix: Matrix) -> Iterator[str]:
    """Say what is not shown for want of room, or because something is fixed; nothing where all is."""
    omitted = matrix.omitted
    for count, noun in ((omitted.rows, "row"), (omitted.columns, "column"), (omitted.panels, "panel")):
        if count:
            yield f"{count} more {noun}{'s' if count > 1 else ''} with fewer series are not shown: narrow the filter."
    if omitted.hidden_by_fixed:
        yield f"{omitted.hidden_by_fixed} series fit the filter but not what is fixed."
    if omitted.unknown_x:
        yield f"{omitted.unknown_x} series with unknown {matrix.x.dimension.label.lower()} are not shown."
    if omitted.is_cut:
        yield "More series fit than are looked at: only the freshest are. Narrow the filter."
    if matrix.mixed:
        # Pattern says what rw and direction would say again.
        said = {"rw", "direction"} if "pattern" in matrix.mixed else set()
        labels = ", ".join(DIMENSIONS[name].label.lower() for name in matrix.mixed if name not in said)
        yield f"Some cells have several series, which differ in {labels}: the freshest is shown, the cell opens all."


def say_shift(shift: RecentShift | None, metric: Metric) -> ShiftWords | None:
    """Say a change with its sign, and a word where it is more than the spread."""
    if shift is None:
        return None
    percent = describe_change_percent(shift.percent)
    if shift.meaning == "within":
        return ShiftWords(percent, "within")
    arrow = "▲" if shift.percent > 0 else "▼"
    return ShiftWords(f"{arrow} {percent} {shift.meaning}", shift.meaning)


def say_place(matrix: Matrix, row: MatrixRow, place: int) -> str:
    """Say where a cell is, for those who hear it: "4k random read, 8 volumes"."""
    return f"{row.label}, {describe_setting(matrix.x.dimension.name, matrix.x.values[place])}"


def say_spread(level: CurrentLevel, metric: Metric) -> str:
    """Say a cell's spread and its exact median: "p10 2.4 ms, p90 3.1 ms; median 2512345.0 ns"."""
    low, high = (say_value(value, metric) for value in (level.p10, level.p90))
    return f"p10 {low}, p90 {high}; median {level.median!r} {metric.unit}"


def describe_change_percent(percent: float) -> str:
    """Say a difference with its sign: "+8.3 %", "−20.0 %", "±0.0 %"."""
    sign = "±" if abs(percent) < 0.05 else "+" if percent > 0 else "−"
    return f"{sign}{abs(percent):.1f} %"


def say_value(value: float, metric: Metric) -> str:
    """Say a value with its unit, also where the unit is its name: "24 186 IOPS", "1.24 ms"."""
    text = format_value(value, metric.unit)
    return f"{text} IOPS" if metric.unit == "operations/s" else text
