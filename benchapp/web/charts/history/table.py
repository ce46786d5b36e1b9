"""The numbers of several histories, and what changed around them, as rows of tables."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from benchapp.metrics import Metric
from benchapp.queries.charts.downsampling import from_us
from benchapp.queries.charts.environment_changes import EnvironmentChange, EnvironmentHistory
from benchapp.queries.charts.history import HistoryLine, SeriesHistory
from benchapp.queries.charts.levels import LevelRow
from benchapp.web.site.number_columns import NumberCell, Scale, choose_scale, make_cell

COLUMNS: Final = ("Median", "p10", "p90", "Least", "Most", "Last")
_CHANGES_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class HistoryTableLine:
    """One series over the span. left_out: runs that failed or are excluded; cells: in the order of COLUMNS.

    change_percent: of its last level to the one before; changed_at: since when. None where it has one level.
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
    """All rows in one unit."""

    scale: Scale
    columns: tuple[str, ...]
    lines: tuple[HistoryTableLine, ...]


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """What changed with one run, and around which of the series, as a set of their names."""

    change: EnvironmentChange
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangeLines:
    """The newest changes first; left_out: how many older there are."""

    lines: tuple[ChangeLine, ...]
    left_out: int


def make_history_table(history: SeriesHistory, metric: Metric) -> HistoryTable:
    """Summarise each line over the span, without what failed or is excluded."""
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


def make_level_change_lines(history: SeriesHistory | EnvironmentHistory) -> ChangeLines:
    """Return what changed around the lines of a picture, or around one series; each run once."""
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
    """Return the values of a line that count, in the order of time."""
    points = line.points.points
    values = points.values[metric]
    return np.asarray(values[points.counts & ~np.isnan(values)])


def list_levels(line: HistoryLine, metric: str) -> tuple[LevelRow, ...]:
    """Return the levels that runs of the span lie in: those before and behind it say nothing of what is shown."""
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
        cells=tuple(make_cell(value, scale, metric.name, reason="no run in this span") for value in numbers),
        change_percent=(levels[-1].median / levels[-2].median - 1) * 100 if has_changed else None,
        changed_at=levels[-1].from_at if has_changed else None,
    )
