"""The level of each series of a scaling chart, now or at an earlier time, and its runs."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchapp.catalog.metrics import CATALOG
from benchapp.charts.read.scaling_shapes import (
    ResolvedRequest,
    ScalingMetric,
    ScalingRun,
    ScalingSpread,
)
from benchapp.charts.read.series_table import SeriesTable
from benchapp.framework.read.binary_columns import from_us
from benchapp.incidents.read.series_status import SeriesMark, read_levels_before, read_series_marks
from benchapp.series.read.levels import (
    LevelSpan,
    read_current_columns,
    read_current_spans,
    read_host_names,
    read_level_runs,
    read_spans_before,
)
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM, LevelRange, read_levels_in


@dataclass(frozen=True, slots=True)
class SeriesLevels:
    """Levels of series by id: shown, of the earlier period, and of the throughput that a latency is plotted against.

    marks: open and accepted changes; none at an earlier time. before: the level before an open regression. runs: the
    newest of the level shown, oldest first; only if the request has them.
    """

    shown: Mapping[int, ScalingSpread]
    earlier: Mapping[int, ScalingSpread]
    overs: Mapping[int, ScalingSpread]
    marks: Mapping[int, SeriesMark]
    before: Mapping[int, ScalingSpread]
    runs: Mapping[int, tuple[ScalingRun, ...]] = field(default_factory=dict)


def read_series_levels(resolved: ResolvedRequest, table: SeriesTable) -> SeriesLevels:
    """Return the levels of the series of a table; two queries, four for each of a past end and the earlier period.

    One more with an open regression.
    """
    span, earlier_at = resolved.request.span, resolved.earlier_at
    marks = {} if span.to_at else _read_marks(table, resolved.metric.base)
    return SeriesLevels(
        shown=_read(table, resolved.metric, span),
        earlier={} if earlier_at is None else _read(table, resolved.metric, LevelRange(to_at=earlier_at)),
        overs={} if resolved.over is None else _read(table, resolved.over, span),
        marks=marks,
        before=_read_before(table, resolved.metric, marks),
    )


def _read_before(
    table: SeriesTable, metric: ScalingMetric, marks: Mapping[int, SeriesMark]
) -> Mapping[int, ScalingSpread]:
    """Return the levels before open regressions; none of groups of runs, which are shown as they are."""
    if table.group_levels is not None:
        return {}
    found = read_levels_before(marks, metric=metric.base)
    levels = {
        series_id: ScalingSpread(level.median, level.p10, level.p90, level.n, level.last_at)
        for series_id, level in found.items()
    }
    return _divide_all(table, levels) if metric.is_per_volume else levels


def _read_marks(table: SeriesTable, metric: str) -> Mapping[int, SeriesMark]:
    """Return the marks by id; of groups of runs only of those in the current level."""
    marks = read_series_marks(table.column("series_id"), metric=metric)
    if table.group_levels is None:
        return marks
    levels = table.group_levels[metric]
    rows = zip(table.column("id"), table.column("series_id"), strict=True)
    return {
        number: marks[series_id]
        for number, series_id in rows
        if series_id in marks and number in levels and levels[number].is_current
    }


def _read(table: SeriesTable, metric: ScalingMetric, span: LevelRange) -> Mapping[int, ScalingSpread]:
    """Return the level of a metric in a range by series, per volume if the metric is."""
    if span.to_at is None:
        current = _read_current(table, metric.base)
        levels = {number: level for number, level in current.items() if span.has_run(level.last_at)}
    else:
        ids = table.column("id")[:PAST_SERIES_MAXIMUM]
        past = read_levels_in(ids, CATALOG[metric.base], span=span, has_recent=False)
        levels = {
            series_id: ScalingSpread(level.median, level.p10, level.p90, level.n, level.last_at)
            for series_id, level in past.items()
        }
    return _divide_all(table, levels) if metric.is_per_volume else levels


def _divide_all(table: SeriesTable, levels: Mapping[int, ScalingSpread]) -> Mapping[int, ScalingSpread]:
    counts = dict(zip(table.column("id"), table.column("volume_count"), strict=True))
    return {series_id: _divide(level, counts[series_id]) for series_id, level in levels.items()}


def _read_current(table: SeriesTable, metric: str) -> Mapping[int, ScalingSpread]:
    if table.group_levels is not None:
        groups, own = table.group_levels[metric], set(table.column("id"))
        return {
            number: ScalingSpread(level.median, level.p10, level.p90, level.n, level.last_at)
            for number, group in groups.items()
            if number in own
            for level in (group.level,)
        }
    columns = read_current_columns(table.column("id"), [metric])[metric]
    numbers = zip(
        *(columns[name].tolist() for name in ("series_id", "median", "p10", "p90", "n", "to_at")), strict=True
    )
    return {
        series_id: ScalingSpread(median, p10, p90, n, from_us(to_us))
        for series_id, median, p10, p90, n, to_us in numbers
    }


def read_runs(
    resolved: ResolvedRequest, table: SeriesTable, *, cells: Mapping[int, object], maximum: int
) -> Mapping[int, tuple[ScalingRun, ...]]:
    """Return the newest runs of the level of each series, oldest first.

    cells: the cell of each series with a value, by id. maximum: runs of each cell, shared equally by its series; of
    those beyond it the most recent ones have a run each. Four queries, and those of the maintenance.
    """
    metric = resolved.metric
    counts = Counter(cells.values())
    taken: Counter[object] = Counter()
    newest: dict[int, int] = {}
    # The table is in the order of time, most recent first.
    for number in table.column("id"):
        if number in cells and taken[cells[number]] < maximum:
            taken[cells[number]] += 1
            newest[number] = max(1, maximum // counts[cells[number]])
    spans = _read_spans(resolved, table)
    other = resolved.over.base if resolved.over else ""
    found = read_level_runs(
        {number: spans[number] for number in newest if number in spans},
        metric.base,
        newest=newest,
        other=other,
        terms=resolved.request.filter.run_terms,
    )
    names = read_host_names(found.values())
    divisors = (
        dict(zip(table.column("id"), table.column("volume_count"), strict=True))
        if metric.is_per_volume
        else {}
    )
    return {
        number: tuple(
            ScalingRun(
                run=run_id,
                series=spans[number].series_id,
                host=names[run_id],
                started_at=started_at,
                value=value / divisors.get(number, 1),
                over=None if not other or np.isnan(over) else over,
            )
            for run_id, started_at, value, over in zip(
                runs.run_ids.tolist(),
                runs.list_times(),
                runs.values.tolist(),
                runs.others.tolist(),
                strict=True,
            )
        )
        for number, runs in found.items()
    }


def _read_spans(resolved: ResolvedRequest, table: SeriesTable) -> Mapping[int, LevelSpan]:
    """Return the span of the level shown of each series by id; one query, of groups of runs none."""
    metric, ids = resolved.metric.base, table.column("id")
    if (before_at := resolved.request.span.to_at) is not None:
        return read_spans_before(list(ids)[:PAST_SERIES_MAXIMUM], metric, before_at=before_at)
    if table.group_levels is None:
        return read_current_spans(list(ids), metric)
    return {number: group.span for number, group in table.group_levels[metric].items()}


def _divide(level: ScalingSpread, count: int) -> ScalingSpread:
    median = None if level.median is None else level.median / count
    return ScalingSpread(median, level.p10 / count, level.p90 / count, level.n, level.last_at)
