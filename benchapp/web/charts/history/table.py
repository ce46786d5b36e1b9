"""Tables of the history page: series, and environment changes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from benchapp.metrics import Metric
from benchapp.queries.charts.downsampling import from_us
from benchapp.queries.charts.environment_changes import EnvironmentChange, EnvironmentHistory
from benchapp.queries.charts.history import HistoryLine, SeriesHistory
from benchapp.queries.series.levels import LevelRow
from benchapp.web.site.number_columns import NumberCell, Scale, choose_scale, make_cell

COLUMNS: Final = ("Median", "p10", "p90", "Min", "Max", "Last")
_CHANGES_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class HistoryTableLine:
    """One series over the time range. left_out: failed or excluded runs; cells: in the order of COLUMNS.

    change_percent: last level vs. previous level; changed_at: start of the last level. None with one level.
    """

    series_id: int
    name: str
    title: str
    scope: str
    n: int
    left_out: int
    cells: tuple[NumberCell, ...]
    change_percent: float | None
    changed_at: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """All rows, in one unit."""

    scale: Scale
    columns: tuple[str, ...]
    lines: tuple[HistoryTableLine, ...]


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Environment change at one run. names: of the series concerned."""

    change: EnvironmentChange
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeLines:
    """Newest changes first. left_out: number of older changes."""

    lines: tuple[ChangeLine, ...]
    left_out: int


def make_history_table(history: SeriesHistory, metric: Metric) -> HistoryTable:
    """Summarize each series over the time range, without failed and excluded runs."""
    numbers = [_summarize(line, metric.name) for line in history.lines]
    scale = choose_scale([row[0] for row in numbers], metric.unit)
    return HistoryTable(
        scale,
        COLUMNS,
        tuple(
            _make_line(line, row, metric, scale=scale)
            for line, row in zip(history.lines, numbers, strict=True)
        ),
    )


def make_environment_change_lines(history: SeriesHistory | EnvironmentHistory) -> ChangeLines:
    """Return the environment changes of the series of a chart, or of one series; each run once."""
    if isinstance(history, EnvironmentHistory):
        found = [("", history)]
    else:
        found = [(line.name, line.environments) for line in history.lines]
    by_run: dict[int, ChangeLine] = {}
    for name, environments in found:
        for change in environments.changes:
            known = by_run.get(change.run_id)
            by_run[change.run_id] = ChangeLine(change, (*(known.names if known else ()), name))
    lines = sorted(by_run.values(), key=lambda line: line.change.at, reverse=True)
    left_out = len(lines[_CHANGES_SHOWN:]) + sum(environments.left_out for _, environments in found)
    return ChangeLines(tuple(lines[:_CHANGES_SHOWN]), left_out)


def find_valid(line: HistoryLine, metric: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the valid values of a line in chronological order."""
    points = line.points.points
    values = points.values[metric]
    return np.asarray(values[points.counts & ~np.isnan(values)])


def list_levels(line: HistoryLine, metric: str) -> tuple[LevelRow, ...]:
    """Return the levels that contain runs of the time range."""
    points = line.points.points
    known = points.at_us[points.counts & ~np.isnan(points.values[metric])]
    if not known.size:
        return ()
    first_at, last_at = from_us(known[0]), from_us(known[-1])
    return tuple(
        level for level in line.levels.get(metric, ()) if level.from_at <= last_at and level.to_at >= first_at
    )


def _summarize(line: HistoryLine, metric: str) -> tuple[float | None, ...]:
    values = find_valid(line, metric)
    if not values.size:
        return (None,) * len(COLUMNS)
    p10, median, p90 = np.percentile(values, (10, 50, 90)).tolist()
    return median, p10, p90, float(values.min()), float(values.max()), float(values[-1])


def _make_line(
    line: HistoryLine, numbers: tuple[float | None, ...], metric: Metric, *, scale: Scale
) -> HistoryTableLine:
    levels = list_levels(line, metric.name)
    has_changed = len(levels) > 1 and bool(levels[-2].median)
    points = line.points.points
    return HistoryTableLine(
        series_id=line.row.id,
        name=line.name,
        title=line.row.title,
        scope=line.row.scope_name,
        n=len(find_valid(line, metric.name)),
        left_out=int((~points.counts).sum()),
        cells=tuple(
            make_cell(value, scale, metric.name, reason="no runs in this time range") for value in numbers
        ),
        change_percent=(levels[-1].median / levels[-2].median - 1) * 100 if has_changed else None,
        changed_at=levels[-1].from_at if has_changed else None,
    )
