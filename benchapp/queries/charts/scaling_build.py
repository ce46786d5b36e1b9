"""Build a chart from its chosen axes: cells, counts of hidden series, and the filter that reproduces it.

Earlier levels are computed from measurements, as summaries have the current levels only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import numpy as np
from django.db import connection
from django.utils import timezone
from psycopg import sql

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import Filter, Term, Test, Value
from benchapp.models import METRIC_FIELDS
from benchapp.queries.charts.scaling_cells import FAILED, CurrentLevels, Grid, fill_facets
from benchapp.queries.charts.scaling_defaults import Axes, ChosenAxes, keep_values, list_mixed
from benchapp.queries.charts.scaling_shapes import (
    Axis,
    Counts,
    Limit,
    ScalingChart,
    ScalingMetric,
    ScalingPoint,
    ScalingRequest,
    ScalingSpread,
)
from benchapp.queries.charts.series_table import SeriesTable
from benchapp.queries.titles import describe_value, order_value

# As pipeline.summarize.WINDOW: earlier levels use as many measurements as current ones.
WINDOW: Final = 100
PAST_SERIES_MAXIMUM: Final = 2000

# LATERAL: some steps into the index (series, time) for each series, however long its history is.
_READ: Final = sql.SQL(
    "SELECT wanted.id, past.* FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    " SELECT percentile_cont(ARRAY[0.5, 0.1, 0.9]) WITHIN GROUP (ORDER BY value) AS levels, count(*) AS n,"
    " max(started_at) AS last_at FROM (SELECT {metric} AS value, started_at FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND started_at < %s AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL"
    "  ORDER BY started_at DESC, id DESC LIMIT {window}) AS measured) AS past WHERE past.n > 0"
)


def read_past(series_ids: Sequence[int], metric: str, *, before_at: datetime) -> Mapping[int, ScalingSpread]:
    """Return the level of each series before a moment (exclusive), without series that had no value; one query.

    Over the newest 100 valid measurements of each. At most SERIES_MAXIMUM series are read.
    """
    if metric not in METRIC_FIELDS:
        raise ValueError(f"{metric!r} is not a column of a measurement")
    if not series_ids:
        return {}
    query = _READ.format(metric=sql.Identifier(metric), window=sql.Literal(WINDOW))
    with connection.cursor() as cursor:
        cursor.execute(query, [list(series_ids)[:PAST_SERIES_MAXIMUM], before_at])
        return {
            series_id: ScalingSpread(levels[0], levels[1], levels[2], n, last_at)
            for series_id, levels, n, last_at in cursor.fetchall()
        }


COLORS_MAXIMUM: Final = 12
FACETS_MAXIMUM: Final = 12
XS_MAXIMUM: Final = 60
_FIRST_MOMENT: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ResolvedRequest:
    """A valid request with its metrics and parsed limits. is_cut: more series match than were read."""

    request: ScalingRequest
    metric: ScalingMetric
    over: ScalingMetric | None
    limits: tuple[Limit, ...]
    is_cut: bool

    @property
    def as_of(self) -> datetime | None:
        """Return the end of the requested day (exclusive), None for now."""
        return end_of_day(self.request.as_of)

    @property
    def earlier_at(self) -> datetime | None:
        """Return the time of the earlier period, not before the first day of the calendar; None without one."""
        if self.request.compare_days is None:
            return None
        period = timedelta(days=self.request.compare_days)
        shown_at = self.as_of or timezone.now()
        return max(shown_at - _FIRST_MOMENT, period) - period + _FIRST_MOMENT


def end_of_day(day: date | None) -> datetime | None:
    """Return the first moment after a day of UTC; None after the last day of the calendar."""
    if day is None or day == date.max:
        return None
    return datetime.combine(day, time.min, UTC) + timedelta(days=1)


def build_chart(
    resolved: ResolvedRequest, everything: SeriesTable, valued: SeriesTable, *, chosen: ChosenAxes
) -> ScalingChart:
    """Return the chart. everything: all series of the filter; valued: those with a value; chosen: of those."""
    request, axes = resolved.request, chosen.axes
    still = everything
    for fixed in chosen.fixed:
        still = keep_values(still, fixed.dimension, fixed.values)
    shown = set(chosen.table.column("id"))
    grid, omitted = _make_grid(_select_drawn(still, shown), axes)
    drawn = _select_within(still, grid)
    levels = _read_levels(resolved, drawn, shown)
    facets = fill_facets(drawn, levels, grid, metric=resolved.metric, limits=resolved.limits)
    cells = [cell for facet in facets for line in facet.lines for cell in line.cells]
    counts = _count_series(still, valued, chosen, cells=cells, omitted=omitted)
    return ScalingChart(
        filter=request.filter,
        shown_filter=add_fixed_terms(request.filter, chosen),
        metric=resolved.metric,
        over=resolved.over,
        x=_make_axis(axes.x, grid.xs),
        color=_make_axis(axes.color, grid.colors) if axes.color else None,
        facet=_make_axis(axes.facet, grid.facets) if axes.facet else None,
        facets=facets,
        fixed=chosen.fixed,
        common=_list_common(chosen),
        mixed=list_mixed(chosen.table, axes),
        free=request.free,
        limits=resolved.limits,
        counts=counts,
        as_of=resolved.as_of,
        earlier_at=resolved.earlier_at,
        is_cut=resolved.is_cut,
        is_thinned=(resolved.as_of or request.compare_days) is not None and len(shown) > PAST_SERIES_MAXIMUM,
    )


def _count_series(
    still: SeriesTable,
    valued: SeriesTable,
    chosen: ChosenAxes,
    *,
    cells: Sequence[ScalingPoint],
    omitted: int,
) -> Counts:
    """Return how many series are in the chart and why others are not. still: those that what is fixed leaves."""
    shown = set(chosen.table.column("id"))
    unvalued = [
        FAILED in badges
        for series_id, badges in zip(still.column("id"), still.column("badges"), strict=True)
        if series_id not in shown
    ]
    unknown_x = _count_unknown(valued, chosen)
    return Counts(
        shown=sum(len(cell.series_ids) for cell in cells if cell.spread),
        failed=sum(unvalued),
        unvalued=len(unvalued) - sum(unvalued),
        unknown_x=unknown_x,
        hidden_by_fixed=valued.length - len(shown) - unknown_x,
        omitted=omitted,
        cells=len(cells),
        filled=sum(cell.spread is not None for cell in cells),
    )


def _read_levels(resolved: ResolvedRequest, table: SeriesTable, shown: set[int]) -> CurrentLevels:
    ids = [series_id for series_id in table.column("id") if series_id in shown]
    divisors = _list_divisors(table, resolved.metric)

    def read(metric: ScalingMetric, before_at: datetime | None) -> Mapping[int, ScalingSpread]:
        found = (
            _take_now(table, metric)
            if before_at is None
            else read_past(ids, metric.base, before_at=before_at)
        )
        return {
            series_id: _divide(spread, divisors[series_id]) if metric.is_per_volume else spread
            for series_id, spread in found.items()
            if series_id in shown
        }

    earlier = {} if resolved.earlier_at is None else read(resolved.metric, resolved.earlier_at)
    overs = {} if resolved.over is None else read(resolved.over, resolved.as_of)
    return CurrentLevels(read(resolved.metric, resolved.as_of), earlier, overs)


def _take_now(table: SeriesTable, metric: ScalingMetric) -> Mapping[int, ScalingSpread]:
    names = [f"{metric.base}.{part}" for part in ("median", "p10", "p90", "n", "last_at")]
    rows = zip(table.column("id"), *(table.column(name) for name in names), strict=True)
    return {series_id: ScalingSpread(*parts) for series_id, *parts in rows if parts[0] is not None}


def _list_divisors(table: SeriesTable, metric: ScalingMetric) -> Mapping[int, int]:
    if not metric.is_per_volume:
        return {}
    return {
        series_id: count
        for series_id, count in zip(table.column("id"), table.column("volume_count"), strict=True)
        if count
    }


def _divide(spread: ScalingSpread, count: int) -> ScalingSpread:
    level = None if spread.median is None else spread.median / count
    return ScalingSpread(level, spread.p10 / count, spread.p90 / count, spread.n, spread.last_at)


def _select_drawn(table: SeriesTable, shown: set[int]) -> SeriesTable:
    """Return the series with a cell: those with a value, and failed ones."""
    ids, badges = table.column("id"), table.column("badges")
    return table.select(place for place in table.places if ids[place] in shown or FAILED in badges[place])


def _make_grid(table: SeriesTable, axes: Axes) -> tuple[Grid, int]:
    """Return the grid of the chart, and the number of series past the maximum of colors, panels or x values."""
    xs = _order(table, axes.x, XS_MAXIMUM)
    if len(xs) > 1:
        xs = tuple(x for x in xs if x is not None)
    colors = _order(table, axes.color, COLORS_MAXIMUM)
    facets = _order(table, axes.facet, FACETS_MAXIMUM)
    grid = Grid(axes, xs, colors, facets)
    known = table if xs == (None,) else keep_values(table, axes.x, table.distinct(axes.x) - {None})
    return grid, known.length - _select_within(known, grid).length


def _order(table: SeriesTable, name: str | None, maximum: int) -> tuple[Value | None, ...]:
    """Return the values of an axis in order; if too many, those with the most series."""
    if name is None:
        return (None,)
    counts = Counter(table.column(name))
    kept = [value for value, _ in counts.most_common(maximum)]
    return tuple(sorted(kept, key=lambda value: order_value(name, value))) or (None,)


def _select_within(table: SeriesTable, grid: Grid) -> SeriesTable:
    axes = grid.axes
    table = keep_values(table, axes.x, set(grid.xs))
    for name, values in ((axes.color, grid.colors), (axes.facet, grid.facets)):
        if name is not None:
            table = keep_values(table, name, set(values))
    return table


def _make_axis(name: str, values: Sequence[Value | None]) -> Axis:
    return Axis(DIMENSIONS[name], tuple(values), tuple(describe_value(name, value) for value in values))


def add_fixed_terms(filter: Filter, chosen: ChosenAxes) -> Filter:
    """Return the filter with the fixed dimensions as terms."""
    for fixed in chosen.fixed:
        tests = tuple(Test("unknown") if value is None else Test("=", (value,)) for value in fixed.values)
        still = filter.without(fixed.dimension)
        filter = Filter((*still.terms, Term(fixed.dimension, tests)), still.words)
    return filter


def _list_common(chosen: ChosenAxes) -> tuple[tuple[str, Value], ...]:
    """Return the known values that all shown series have in common, without the axes."""
    found = ((name, chosen.table.distinct(name)) for name in DIMENSIONS if name not in chosen.axes.names)
    return tuple(
        (name, value)
        for name, values in found
        if len(values) == 1 and (value := next(iter(values))) is not None
    )


def _count_unknown(valued: SeriesTable, chosen: ChosenAxes) -> int:
    xs = valued.shared(chosen.axes.x)
    unknown = int(np.isin(xs.codes, xs.find([None])).sum())
    return 0 if unknown == valued.length else unknown
