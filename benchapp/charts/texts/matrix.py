"""The texts of a matrix: title, cells, and what it does not show."""

from collections.abc import Iterator
from typing import Final

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.metrics import (
    Metric,
    format_count,
    format_integer,
    format_signed_percent,
    format_value,
    join_first,
)
from benchapp.charts.read.chart import ChartCell, ChartLine
from benchapp.charts.read.matrix import Matrix, Omitted
from benchapp.charts.texts.levels import (
    describe_fixed,
    describe_level_range,
    describe_mixed_kinds,
    describe_past_limit,
    describe_unknown,
)
from benchapp.framework.times import format_day
from benchapp.series.read.levels import CurrentLevel

REASONS: Final[dict[str, str]] = {
    "failed": "failed",
    "excluded": "excluded",
    "unvalued": "no value",
    "missing": "not measured",
}
LONG_REASONS: Final[dict[str, str]] = {
    "failed": "all runs failed, no median",
    "excluded": "all measurements are excluded",
    "unvalued": "measured without this metric",
    "missing": "no series with this combination",
}


# More are in the cells.
_CHANGES_NAMED: Final = 3


def describe_matrix(matrix: Matrix) -> str:
    """Return the title: "Median IOPS by pattern, over volumes: 1 of 30 combinations is worse (4k read, −20 %)"."""
    rows = " and ".join(row.label.lower() for row in matrix.rows)
    title = f"Median {matrix.metric.label} by {rows}, over {matrix.x.dimension.label.lower()}"
    if matrix.span.to_at is not None or not matrix.count("measured"):
        return title
    cells = f"of {matrix.count('measured')} combinations"
    worse, better = (_find_open_changes(matrix, is_regression=each) for each in (True, False))
    improved = f", {len(better)} better" if better else ""
    if not worse:
        hidden = matrix.omitted.hidden_regressions
        others = f", but {format_integer(hidden)} hidden series" if hidden else ""
        return f"{title}: no combination is worse{others}{improved}"
    relative, where = worse[0]
    verb = "is" if len(worse) == 1 else "are"
    most = "" if len(worse) == 1 else "most: "
    where = f"{most}{where}, {format_signed_percent(relative)}"
    return f"{title}: {len(worse)} {cells} {verb} worse ({where}){improved}"


def describe_cells(matrix: Matrix) -> str:
    """Return the caption: the parts of a cell, the better direction, and the number of combinations."""
    hatched = " Hatched: no value, with the reason." if _has_gaps(matrix) else ""
    described = describe_level_range(matrix.span)
    span = f" {described[0].upper()}{described[1:]}." if described else ""
    level = (
        "level"
        if matrix.span.to_at
        else "current level (runs since the last change), open or accepted change"
    )
    return (
        f"Cell: median {matrix.metric.label} of the {level}, newest 20 values, age, number of runs;"
        f" {matrix.metric.better} is better.{span} {describe_matrix_counts(matrix)}.{hatched}"
    )


def describe_changes(matrix: Matrix) -> Iterator[str]:
    """Yield the open changes of the combinations, the largest first; nothing for levels as of an earlier time."""
    if matrix.span.to_at is not None:
        return
    measured = matrix.count("measured")
    has_changes = False
    for is_regression, word in ((True, "Regressed"), (False, "Improved")):
        found = _find_open_changes(matrix, is_regression=is_regression)
        if found:
            has_changes = True
            named = [f"{where} ({format_signed_percent(relative)})" for relative, where in found]
            yield f"{word}: {join_first(named, _CHANGES_NAMED)}."
    if measured and not has_changes:
        yield f"No open change in {format_count(measured, 'combination')}."


def _find_open_changes(matrix: Matrix, *, is_regression: bool) -> list[tuple[float, str]]:
    """Return the cells with an open change in the metric, as (relative, place), the largest change first."""
    found = []
    for panel, row, place, cell in matrix.walk():
        mark = cell.mark
        if mark and mark.is_open_in(matrix.metric.name) and mark.is_regression == is_regression:
            where = describe_cell_place(matrix, row, place)
            found.append((mark.relative, f"{where}, {panel.label}" if panel.label else where))
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
    if text := describe_fixed(
        matrix.fixed,
        shown=matrix.shown_count,
        hidden=omitted.hidden_by_fixed,
        hidden_else=omitted.unknown_x,
    ):
        yield f"{text}{_describe_hidden(omitted)}."
    if omitted.unknown_x:
        yield describe_unknown(matrix.x.dimension, omitted.unknown_x)
    if matrix.is_cut:
        yield "Only the most recent series are used. Narrow the filter to see the others."
    if matrix.is_thinned:
        yield describe_past_limit("compared in combinations with several")
    yield from describe_mixed_kinds(matrix.latency_kinds)
    if matrix.mixed:
        # The pattern includes rw and direction.
        named = {"rw", "direction"} if "pattern" in matrix.mixed else set()
        labels = ", ".join(DIMENSIONS[name].label.lower() for name in matrix.mixed if name not in named)
        yield (
            f"Combinations with several series (different {labels}) show the median of their medians."
            " The line in a cell is of the series that got worse most, else of the newest. The link opens all."
        )


def _describe_hidden(omitted: Omitted) -> str:
    if not omitted.hidden_regressions:
        return ""
    return f"; {format_integer(omitted.hidden_regressions)} of the others with an open regression"


def describe_cell_place(matrix: Matrix, row: ChartLine, place: int) -> str:
    """Return the place of a cell, for screen readers: "4k random read, 8 volumes"."""
    return f"{row.label}, {matrix.x.settings[place]}"


def describe_cell_spread(cell: ChartCell, metric: Metric) -> str:
    """Return a cell's spread, exact median and previous level: "p10 2.4 ms, p90 3.1 ms; median 2512345.0 ns"."""
    low, high = (format_metric_value(value, metric) for value in (cell.p10, cell.p90))
    count = len(cell.series_ids)
    least, most, of = (
        ("lowest p10", "highest p90", f" of {count} medians") if count > 1 else ("p10", "p90", "")
    )
    middle = f"median{of} {cell.median!r} {metric.unit}"
    return f"{least} {low}, {most} {high}; {middle}{describe_previous(cell, metric)}"


def describe_previous(level: ChartCell | CurrentLevel, metric: Metric) -> str:
    """Return the level before: "; was 30 315 IOPS until 8 Nov 2026"; "" without a change."""
    if level.previous is None:
        return ""
    return f"; was {format_metric_value(level.previous.median, metric)} until {format_day(level.previous.until_at)}"


def format_metric_value(value: float | None, metric: Metric) -> str:
    """Return a value with its unit, also for IOPS: "24 186 IOPS", "1.24 ms"."""
    text = format_value(value, metric.unit)
    return f"{text} IOPS" if metric.unit == "operations/s" else text
