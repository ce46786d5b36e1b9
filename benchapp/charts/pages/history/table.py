"""Tables of the history page: series, and environment changes."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from benchapp.catalog.metrics import Metric
from benchapp.charts.read.history import HistoryLine, SeriesHistory
from benchapp.charts.texts.history import list_levels
from benchapp.framework.pages.number_columns import NumberCell, Scale, choose_scale, make_cell
from benchapp.framework.pages.series_marks import ShownMark, show_mark
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.series.read.environment_changes import EnvironmentChange, EnvironmentHistory
from benchapp.series.read.levels import LevelRow

COLUMNS: Final = ("Level", "p10", "p90", "Min", "Max", "Last")
_CHANGES_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class HistoryTableLine:
    """One series over the time range. left_out: failed or excluded runs; cells: in the order of COLUMNS.

    The level is the last within the time range, n its runs. change: the relative size of the change that begins
    it; changed_at: its start. None for the first level.
    """

    series_id: int
    name: str
    title: str
    scope: str
    n: int
    left_out: int
    cells: tuple[NumberCell, ...]
    change: float | None
    changed_at: datetime | None
    mark: ShownMark | None


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
    """List the last level of each series within the time range, and its open or accepted change; one query."""
    marks = read_series_marks([line.row.id for line in history.lines], metric=metric.name)
    levels = [next(reversed(list_levels(line, metric.name)), None) for line in history.lines]
    scale = choose_scale([level.median if level else None for level in levels], metric.unit)
    return HistoryTable(
        scale,
        COLUMNS,
        tuple(
            _make_line(line, level, metric, scale=scale, mark=marks.get(line.row.id))
            for line, level in zip(history.lines, levels, strict=True)
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
            known = by_run.get(change.run)
            by_run[change.run] = ChangeLine(change, (*(known.names if known else ()), name))
    lines = sorted(by_run.values(), key=lambda line: line.change.at, reverse=True)
    left_out = len(lines[_CHANGES_SHOWN:]) + sum(environments.left_out for _, environments in found)
    return ChangeLines(tuple(lines[:_CHANGES_SHOWN]), left_out)


def _make_line(
    line: HistoryLine, level: LevelRow | None, metric: Metric, *, scale: Scale, mark: SeriesMark | None
) -> HistoryTableLine:
    change = level.change if level else None
    numbers = (None,) * len(COLUMNS) if level is None else [getattr(level, name) for name in _STATISTICS]
    return HistoryTableLine(
        series_id=line.row.id,
        name=line.name,
        title=line.row.title,
        scope=line.row.scope_name,
        n=level.n if level else 0,
        left_out=int((~line.points.points.counts).sum()),
        cells=tuple(
            make_cell(value, scale, metric.name, reason="no runs in this time range") for value in numbers
        ),
        change=change.relative if change and change.metric == metric.name else None,
        changed_at=level.since_at if level and change else None,
        mark=show_mark(mark, metric=metric.name),
    )


_STATISTICS: Final = ("median", "p10", "p90", "minimum", "maximum", "last")
