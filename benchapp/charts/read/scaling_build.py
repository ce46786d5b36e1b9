"""Build a chart from its chosen axes: cells, counts of hidden series, and the filter that reproduces it."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchapp.catalog.dimensions import SERIES_DIMENSIONS
from benchapp.catalog.grammar import Value
from benchapp.charts.read.axes import (
    GROUP,
    AxisValue,
    GroupCount,
    SeriesGroup,
    make_axis,
    order_axis_value,
)
from benchapp.charts.read.scaling_cells import FAILED, Grid, fill_facets, list_cell_keys
from benchapp.charts.read.scaling_defaults import (
    ChosenAxes,
    add_fixed_terms,
    keep_values,
    list_mixed,
    measure_choices,
)
from benchapp.charts.read.scaling_levels import read_runs, read_series_levels
from benchapp.charts.read.scaling_shapes import (
    CELL_RUNS_MAXIMUM,
    CHART_RUNS_MAXIMUM,
    WIDTH_DIMENSIONS,
    BadChart,
    Counts,
    ResolvedRequest,
    ScalingChart,
    ScalingFacet,
)
from benchapp.charts.read.series_table import SeriesTable
from benchapp.series.read.levels import count_kinds
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM

COLORS_MAXIMUM: Final = 12
FACETS_MAXIMUM: Final = 12
XS_MAXIMUM: Final = 60


@dataclass(frozen=True, slots=True)
class MatchingSeries:
    """The series of a filter: those of its groups if it has groups, and of them those with a value.

    ungrouped: number of series with a value in no group. is_cut: more series match than were read.
    """

    matching: SeriesTable
    valued: SeriesTable
    ungrouped: int
    is_cut: bool


def build_stack(
    resolved: Sequence[ResolvedRequest], series: Sequence[MatchingSeries], *, chosen: ChosenAxes
) -> ScalingChart:
    """Return the chart of the first metric with those of the others, on equal axes. series: of each metric."""
    choices = [replace(chosen, table=_keep_known(chosen.keep_shown(each.valued), chosen)) for each in series]
    plotted_ids = {series_id for choice in choices for series_id in choice.table.column("id")}
    first, *more = (
        build_chart(each, own, chosen=choice, plotted_ids=plotted_ids)
        for each, own, choice in zip(resolved, series, choices, strict=True)
    )
    return replace(first, more=tuple(more))


def _keep_known(table: SeriesTable, chosen: ChosenAxes) -> SeriesTable:
    """Return the series with a known x, unless the chart has an unknown one."""
    x = chosen.axes.x
    return table if None in chosen.table.distinct(x) else keep_values(table, x, table.distinct(x) - {None})


def build_chart(
    resolved: ResolvedRequest,
    series: MatchingSeries,
    *,
    chosen: ChosenAxes,
    plotted_ids: Collection[int] | None = None,
) -> ScalingChart:
    """Return the chart; chosen: the series with a value in the fixed dimensions.

    plotted_ids: the series that determine the values of the axes, if not those of `chosen`.
    """
    request, axes = resolved.request, chosen.axes
    if request.has_models and axes.x not in WIDTH_DIMENSIONS:
        raise BadChart("model", f"model needs x {' or '.join(WIDTH_DIMENSIONS)}; it is {axes.x}")
    charted_ids = set(chosen.table.column("id"))
    fixed = chosen.keep_shown(series.matching)
    plotted = _select_plotted(fixed, charted_ids if plotted_ids is None else plotted_ids)
    grid = _make_grid(plotted, chosen)
    in_grid = _select_in_grid(fixed, grid)
    omitted = _count_known(plotted, grid) - _select_in_grid(plotted, grid).length
    charted = _select_ids(in_grid, charted_ids)
    levels = read_series_levels(resolved, charted)
    runs_maximum = None
    if request.has_runs:
        keys = zip(charted.column("id"), list_cell_keys(charted, axes), strict=True)
        cells = {number: key for number, key in keys if number in levels.shown}
        runs_maximum = _share_runs(len(set(cells.values())) * max(1, len(resolved.metrics)))
        levels = replace(levels, runs=read_runs(resolved, charted, cells=cells, maximum=runs_maximum))
    facets = fill_facets(in_grid, levels, grid, resolved)
    is_past = request.span.to_at is not None or request.compare_days is not None
    return ScalingChart(
        request=request,
        shown_filter=add_fixed_terms(request.filter, chosen.fixed),
        metric=resolved.metric,
        over=resolved.over,
        x=make_axis(axes.x, grid.xs),
        color=make_axis(axes.color, grid.colors) if axes.color else None,
        facet=make_axis(axes.facet, grid.facets) if axes.facet else None,
        facets=facets,
        fixed=chosen.fixed
        if is_past or resolved.metric.is_per_volume
        else measure_choices(chosen.fixed, series.valued, resolved.metric.base),
        common=_list_common(chosen),
        varying=chosen.varying,
        mixed=list_mixed(chosen.table, axes),
        limits=resolved.limits,
        counts=_count_series(series, chosen, fixed=fixed, facets=facets, omitted=omitted),
        groups=tuple(_count_groups(resolved.groups, series.valued, in_grid)),
        targets=resolved.targets,
        metrics=resolved.metrics or (resolved.metric,),
        earlier_at=resolved.earlier_at,
        is_cut=series.is_cut,
        is_thinned=is_past and len(charted_ids) > PAST_SERIES_MAXIMUM,
        cell_runs_maximum=runs_maximum,
        latency_kinds=count_kinds(
            charted.column("series_id"), resolved.metric.base, before_at=request.span.to_at
        ),
    )


def _share_runs(cell_count: int) -> int:
    """Return how many runs a cell may have, of so many cells with a value."""
    return max(1, min(CELL_RUNS_MAXIMUM, CHART_RUNS_MAXIMUM // max(1, cell_count)))


def _select_plotted(table: SeriesTable, charted_ids: Collection[int]) -> SeriesTable:
    """Return the series that determine the values of the axes: those with a value, and failed ones."""
    ids, badges = table.column("id"), table.column("badges")
    return table.select(
        place for place in table.places if ids[place] in charted_ids or FAILED in badges[place]
    )


def _select_ids(table: SeriesTable, ids: Collection[int]) -> SeriesTable:
    return table.select(place for place, each in enumerate(table.column("id")) if each in ids)


def _select_in_grid(table: SeriesTable, grid: Grid) -> SeriesTable:
    table = keep_values(table, grid.axes.x, set(grid.xs))
    for name, values in ((grid.axes.color, grid.colors), (grid.axes.facet, grid.facets)):
        if name is not None:
            table = keep_values(table, name, set(values))
    return table


def _make_grid(table: SeriesTable, chosen: ChosenAxes) -> Grid:
    """Return the values of the axes; without unknown x, unless no x is known."""
    axes = chosen.axes
    xs = _order_values(table, axes.x, XS_MAXIMUM)
    if len(xs) > 1:
        xs = tuple(x for x in xs if x is not None)
    colors = _order_values(table, axes.color, COLORS_MAXIMUM)
    facets = _order_values(table, axes.facet, FACETS_MAXIMUM)
    return Grid(axes, xs, colors, facets, chosen.named)


def _order_values(table: SeriesTable, name: str | None, maximum: int) -> tuple[AxisValue, ...]:
    """Return the values of an axis in order; if too many, those with the most series."""
    if name is None:
        return (None,)
    if name == GROUP:
        # In the given order, also those without series.
        return tuple(value for value in table.shared(name).values if value is not None)
    values = [value for value, _ in Counter(table.column(name)).most_common(maximum)]
    return tuple(sorted(values, key=lambda value: order_axis_value(name, value))) or (None,)


def _list_common(chosen: ChosenAxes) -> tuple[tuple[str, Value], ...]:
    """Return the known values that all shown series have in common, without axes of one dimension."""
    axes = (chosen.axes.x, chosen.axes.color, chosen.axes.facet)
    found = ((name, chosen.table.distinct(name)) for name in SERIES_DIMENSIONS if name not in axes)
    return tuple(
        (name, value)
        for name, values in found
        if len(values) == 1 and (value := next(iter(values))) is not None
    )


def _count_groups(
    groups: Sequence[SeriesGroup], valued: SeriesTable, in_grid: SeriesTable
) -> Iterator[GroupCount]:
    """Yield the numbers of each group. valued: the series with a value; in_grid: those of the chart."""
    if not groups:
        return
    masks, codes = valued.array("group_mask"), valued.shared(GROUP).codes
    charted = np.isin(valued.array("id"), in_grid.array("id"))
    for place, group in enumerate(groups):
        is_matching = (masks >> place) & 1 == 1
        taken = np.bincount(codes[is_matching], minlength=len(groups))
        others = tuple((groups[other].name, int(taken[other])) for other in range(place) if taken[other])
        shown = int((charted & (codes == place)).sum())
        yield GroupCount(group, matching=int(is_matching.sum()), shown=shown, others=others)


def _count_series(
    series: MatchingSeries,
    chosen: ChosenAxes,
    *,
    fixed: SeriesTable,
    facets: Sequence[ScalingFacet],
    omitted: int,
) -> Counts:
    """Return how many series are in the chart and why others are not. fixed: those in the fixed dimensions."""
    valued, charted_ids = series.valued, set(chosen.table.column("id"))
    # Series of unknown x are counted below.
    valued_ids = set(valued.column("id"))
    is_failed = [
        FAILED in badges
        for series_id, badges in zip(fixed.column("id"), fixed.column("badges"), strict=True)
        if series_id not in valued_ids
    ]
    unknown_x = _count_unknown(valued, chosen.axes.x)
    cells = [cell for facet in facets for line in facet.lines for cell in line.cells]
    return Counts(
        shown=sum(len(cell.series_ids) for cell in cells if cell.spread),
        failed=sum(is_failed),
        unvalued=len(is_failed) - sum(is_failed),
        unknown_x=unknown_x,
        hidden_by_fixed=valued.length - len(charted_ids) - unknown_x,
        omitted=omitted,
        ungrouped=series.ungrouped,
        cells=len(cells),
        filled=sum(cell.spread is not None for cell in cells),
    )


def _count_known(table: SeriesTable, grid: Grid) -> int:
    """Return the number of series with a known x; of all if no x is known."""
    return table.length if grid.xs == (None,) else table.length - _count_none(table, grid.axes.x)


def _count_unknown(valued: SeriesTable, x: str) -> int:
    """Return the number of series without a known x; 0 if no x is known, as the chart then shows them."""
    unknown = _count_none(valued, x)
    return 0 if unknown == valued.length else unknown


def _count_none(table: SeriesTable, name: str) -> int:
    column = table.shared(name)
    return int(np.isin(column.codes, column.find([None])).sum())
