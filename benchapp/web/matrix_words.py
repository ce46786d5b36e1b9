"""The matrix in words: its title, its cells, and what it does not show."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone

from benchapp.dimensions import DIMENSIONS
from benchapp.metrics import Metric, format_value
from benchapp.queries.dimension_words import describe_setting
from benchapp.queries.matrix_values import CellState, Matrix, MatrixRow
from benchapp.queries.standings import Shift, Standing

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
# Short enough for a cell; the title has the moment itself.
_AGES: Final = ((86_400 * 365, "y"), (86_400, "d"), (3_600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class ShiftWords:
    """A change against the baseline as shown. kind: "better", "worse" or "within"."""

    text: str
    kind: str


def say_title(matrix: Matrix) -> str:
    """Say what is shown: "Median IOPS: Pattern and Block size × Volumes"."""
    rows = " and ".join(row.label.lower() for row in matrix.rows)
    return f"Median {matrix.metric.label} by {rows}, over {matrix.x.dimension.label.lower()}"


def say_counts(matrix: Matrix) -> str:
    """Say how many combinations are there: "12 of 14 combinations; 2 failed"."""
    parts = [f"{matrix.count('measured')} of {matrix.size} combinations"]
    for state, word in REASONS.items():
        count = matrix.count(state)
        if count:
            parts.append(f"{count} {word}")
    return "; ".join(parts)


def list_beyond(matrix: Matrix) -> Iterator[str]:
    """Say what is not shown for want of room, or because something is held still; nothing where all is."""
    beyond = matrix.beyond
    for count, noun in ((beyond.rows, "row"), (beyond.columns, "column"), (beyond.panels, "panel")):
        if count:
            yield f"{count} more {noun}{'s' if count > 1 else ''} with fewer series are not shown: narrow the filter."
    if beyond.series_beside:
        yield f"{beyond.series_beside} series fit the filter but not what is held still."
    if beyond.unknown_x:
        yield f"{beyond.unknown_x} series with unknown {matrix.x.dimension.label.lower()} are not shown."
    if beyond.is_cut:
        yield "More series fit than are looked at: only the freshest are. Narrow the filter."
    if matrix.mixed:
        labels = ", ".join(DIMENSIONS[name].label.lower() for name in matrix.mixed)
        yield f"Some cells have several series, which differ in {labels}: the freshest is shown."


def say_shift(shift: Shift | None, metric: Metric) -> ShiftWords | None:
    """Say a change with its sign, and a word where it is more than the spread."""
    if shift is None:
        return None
    percent = say_percent(shift.percent)
    if shift.meaning == "within":
        return ShiftWords(percent, "within")
    arrow = "▲" if shift.percent > 0 else "▼"
    return ShiftWords(f"{arrow} {percent} {shift.meaning}", shift.meaning)


def say_age(moment: datetime, *, now: datetime | None = None) -> str:
    """Say how old a measurement is in its largest unit: "3 d"; "now" below a minute."""
    seconds = ((now or timezone.now()) - moment).total_seconds()
    for length, unit in _AGES:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return "now"


def say_place(matrix: Matrix, row: MatrixRow, place: int) -> str:
    """Say where a cell is, for those who hear it: "4k random read, 8 volumes"."""
    return f"{row.label}, {describe_setting(matrix.x.dimension.name, matrix.x.values[place])}"


def say_spread(standing: Standing, metric: Metric) -> str:
    """Say a cell's spread and its exact median: "p10 2.4 ms, p90 3.1 ms; median 2512345.0 ns"."""
    low, high = (say_value(value, metric) for value in (standing.p10, standing.p90))
    return f"p10 {low}, p90 {high}; median {standing.median!r} {metric.unit}"


def say_percent(percent: float) -> str:
    """Say a difference with its sign: "+8.3 %", "−20.0 %", "±0.0 %"."""
    sign = "±" if abs(percent) < 0.05 else "+" if percent > 0 else "−"
    return f"{sign}{abs(percent):.1f} %"


def say_value(value: float, metric: Metric) -> str:
    """Say a value with its unit, also where the unit is its name: "24 186 IOPS", "1.24 ms"."""
    text = format_value(value, metric.unit)
    return f"{text} IOPS" if metric.unit == "operations/s" else text
