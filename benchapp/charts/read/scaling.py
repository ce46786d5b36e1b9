"""A metric by one dimension: the data of the scaling page, its API and the studies, from the request to the cells."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
from msgspec import structs

from benchapp.catalog.dimensions import CONDITIONS, DIMENSIONS, FACT_NAMES, SERIES_DIMENSIONS, find_dimension
from benchapp.catalog.grammar import Value
from benchapp.catalog.metrics import get_rate_units
from benchapp.charts.read.axes import (
    CONDITION_UNITS,
    GROUP,
    AxisValue,
    BadAxis,
    GroupCount,
    SeriesGroup,
    SeriesTable,
    find_axis,
    make_axis,
    order_axis_value,
    parse_groups,
    split_axis,
)
from benchapp.charts.read.chart import BadChart
from benchapp.charts.read.scaling_cells import (
    FAILED,
    Grid,
    SeriesLevels,
    fill_facets,
    list_cell_keys,
    read_runs,
    read_series_levels,
)
from benchapp.charts.read.scaling_conditions import count_series, mark_series, place_runs, read_points
from benchapp.charts.read.scaling_defaults import (
    LOADS,
    SCOPE_DIMENSIONS,
    ChosenAxes,
    add_fixed_terms,
    choose_axes,
    keep_values,
    list_mixed,
    measure_choices,
)
from benchapp.charts.read.scaling_shapes import (
    CELL_RUNS_MAXIMUM,
    CHART_RUNS_MAXIMUM,
    LIMITS_MAXIMUM,
    METRICS_MAXIMUM,
    NONE,
    SCALING_METRICS,
    TARGETS_MAXIMUM,
    THROUGHPUTS,
    WIDTH_DIMENSIONS,
    BadLimit,
    Counts,
    Limit,
    ResolvedRequest,
    ScalingChart,
    ScalingFacet,
    ScalingMetric,
    ScalingRequest,
    ScalingTarget,
    find_metric,
    parse_limit,
    parse_target,
)
from benchapp.charts.read.series_columns import read_table
from benchapp.framework.read.binary_columns import CHART_S, read_cached
from benchapp.series.read.levels import count_kinds
from benchapp.series.read.selected_levels import PAST_SERIES_MAXIMUM

_USUAL_METRIC: Final = "iops"
_USUAL_LATENCY: Final = "latency_mean_ns"
# Work that is timed as a whole has no other metric.
_TIMED_METRIC: Final = "elapsed_s"
_AXES: Final = ("x", "color", "facet")


@dataclass(frozen=True, slots=True)
class MatchingSeries:
    """The series of a filter: those of its groups if it has groups, and of them those with a value.

    ungrouped: number of series with a value in no group. is_cut: more series match than were read.
    """

    matching: SeriesTable
    valued: SeriesTable
    ungrouped: int
    is_cut: bool


def read_scaling(request: ScalingRequest) -> ScalingChart:
    """Return the chart of a request, with those of further metrics. Raises BadChart.

    One query if the result is cached; else five more (`read_table`), and three for each of a past end and compare_days,
    of each metric; two more if no metric was given and no series has IOPS. Of has_runs those of
    `read_runs`.
    """
    if (
        request.span.from_at is not None
        and request.span.to_at is not None
        and request.span.from_at >= request.span.to_at
    ):
        raise BadChart("from", "from must be before to")
    # Names of limits have bytes/s in the units of the reader.
    load = partial(_read_scaling, request)
    return read_cached("scaling", get_rate_units(), request, load=load, age_s=CHART_S)


def _read_scaling(request: ScalingRequest) -> ScalingChart:
    resolved, *more = _resolve(request)
    texts = {name: getattr(request, name) for name in _AXES}
    # ",volume_type" is the automatic dimension and volume_type.
    extended = [name for name, text in texts.items() if text and text.startswith(",")]
    axes = {name: _find_name(name, text and text.removeprefix(",")) for name, text in texts.items()}
    _refuse_twice(axes)
    _place_groups(axes, resolved)
    free = _expand_free(request.free)
    if axes["x"] in CONDITIONS:
        return _read_runs_by_condition((resolved, *more), axes, axes["x"], extended=extended, free=free)
    facts = _list_facts(request, axes)
    if more:
        return _read_stack((resolved, *more), axes, extended=extended, free=free)
    series = _read_series(resolved, facts)
    if not series.valued.length and request.metric is None and request.over is None:
        timed = replace(resolved, metric=SCALING_METRICS[_TIMED_METRIC], limits=(), metrics=())
        timed_series = _read_series(timed, facts)
        if timed_series.valued.length:
            resolved, series = timed, timed_series
    if resolved.over is not None and axes["x"] is None:
        axes["x"] = max(LOADS, key=lambda name: len(series.valued.distinct(name)))
    chosen = _choose(resolved, series, axes, extended=extended, free=free)
    return build_chart(resolved, series, chosen=chosen)


def _read_runs_by_condition(
    resolved: Sequence[ResolvedRequest],
    axes: dict[str, str | None],
    condition: str,
    *,
    extended: Sequence[str],
    free: frozenset[str],
) -> ScalingChart:
    """Return the chart of single runs by a condition; each series has a row for each place on x."""
    first, *more = resolved
    request = first.request
    facts = [name for axis in axes.values() if axis for name in split_axis(axis) if name in FACT_NAMES]
    others = {
        "metric": more,
        "over": request.over,
        "compare_days": request.compare_days,
        "color": facts,
    }
    for parameter in (name for name, value in others.items() if value):
        raise BadChart(
            parameter, f"{parameter} cannot be combined with x={condition}, which shows single runs"
        )
    name = first.metric.base
    table, is_cut = read_table(request.filter, [name], groups=first.groups, span=request.span, is_split=False)
    matching = _select_series(first, table, is_cut=is_cut)
    points = read_points(first, matching.matching.column("id"), condition)
    marked = mark_series(matching.matching, points, condition=condition, metric=name)
    series = replace(matching, matching=marked, valued=marked.select(marked.array(f"{name}.has_level")))
    chosen = _choose(first, series, axes, extended=extended, free=free)
    label = CONDITIONS[condition].label
    over = ScalingMetric(condition, condition, label, CONDITION_UNITS[CONDITIONS[condition].kind], "lower")
    placed, levels, cut = place_runs(first, points, chosen)
    rows = MatchingSeries(placed.table, placed.table, matching.ungrouped, is_cut)
    first = replace(first, over=over)
    chart = build_chart(first, rows, chosen=placed, levels=levels)
    return count_series(structs.replace(chart, cut_curves=cut), series.valued, chosen)


def _read_stack(
    resolved: Sequence[ResolvedRequest],
    axes: dict[str, str | None],
    *,
    extended: Sequence[str],
    free: frozenset[str],
) -> ScalingChart:
    """Return the chart of several metrics; the axes are chosen by the first metric that has values."""
    request = resolved[0].request
    table, is_cut = read_table(
        request.filter,
        [each.metric.base for each in resolved],
        groups=resolved[0].groups,
        facts=_list_facts(request, axes),
        span=request.span,
    )
    series = [_select_series(each, table, is_cut=is_cut) for each in resolved]
    leading = next((place for place, each in enumerate(series) if each.valued.length), 0)
    chosen = _choose(resolved[leading], series[leading], axes, extended=extended, free=free)
    return build_stack(resolved, series, chosen=chosen)


def _choose(
    resolved: ResolvedRequest,
    series: MatchingSeries,
    axes: dict[str, str | None],
    *,
    extended: Sequence[str],
    free: frozenset[str],
) -> ChosenAxes:
    """Choose the axes that are not given; extended: those that combine the automatic dimension with given ones."""
    in_groups = tuple(
        dict.fromkeys(term.dimension for group in resolved.groups for term in group.filter.terms)
    )
    # Hosts with one layout and workload are repetitions: a cell has their median.
    free |= SCOPE_DIMENSIONS
    if extended:
        automatic = choose_axes(series.valued, **axes | dict.fromkeys(extended), free=free).axes
        axes |= {name: _extend(name, getattr(automatic, name), axes[name]) for name in extended}
    is_line = resolved.request.has_models
    return choose_axes(series.valued, **axes, free=free, in_groups=in_groups, is_line=is_line)


def _list_facts(request: ScalingRequest, axes: Mapping[str, str | None]) -> list[str]:
    """Return the facts of the environment on the axes. Raises BadChart for an earlier time with facts of runs."""
    names = [name for axis in axes.values() if axis for name in split_axis(axis)]
    facts = [name for name in names if name in DIMENSIONS and DIMENSIONS[name].is_environment]
    used = [*facts, *(term.dimension for term in request.filter.fact_terms)]
    past = {"to": request.span.to_at, "compare_days": request.compare_days}
    for parameter in (name for name, value in past.items() if used and value is not None):
        raise BadChart(parameter, f"{parameter} cannot be combined with {used[0]}, a fact of runs")
    return facts


def _resolve(request: ScalingRequest) -> tuple[ResolvedRequest, ...]:
    """Return the request of each metric; limits are those of the first."""
    metric, *more = _find_metrics(request)
    over = _find_over(request.over, metric)
    if over is not None and more:
        raise BadChart("over", f"over={over.name} needs one metric; {len(more) + 1} given")
    if request.has_models and (over is not None or not any(each.can_scale for each in (metric, *more))):
        raise BadChart(
            "model", f"model needs a throughput; {metric.name} is none that grows with the volumes"
        )
    if request.predicted and not request.has_models:
        raise BadChart("predict", "predict needs model=1")
    groups, errors = parse_groups(request.groups)
    for place, error in errors.items():
        raise BadChart("group", f"group {place + 1}: {error}")
    targets = _read_targets(request.targets)
    first = ResolvedRequest(request, metric, over, _read_limits(request.limits, metric), groups, targets)
    first = replace(first, metrics=(metric, *more))
    return (first, *(replace(first, metric=each, limits=()) for each in more))


def _find_metrics(request: ScalingRequest) -> tuple[ScalingMetric, ...]:
    usual = _USUAL_METRIC if request.over is None else _USUAL_LATENCY
    if request.x in CONDITIONS:
        usual = _USUAL_LATENCY if CONDITIONS[request.x].kind == "seconds" else "bandwidth_bytes_per_s"
    text = request.metric or usual
    # ",p99" is the usual metric and p99.
    names = [name.strip() for name in (f"{usual}{text}" if text.startswith(",") else text).split(",")]
    if len(names) > METRICS_MAXIMUM:
        raise BadChart("metric", f"{len(names)} metrics given, at most {METRICS_MAXIMUM} allowed")
    metrics = tuple(dict.fromkeys(_find_metric(name) for name in names))
    if len(metrics) < len(names):
        raise BadChart("metric", "the metrics must be different")
    return metrics


def _read_series(resolved: ResolvedRequest, facts: Sequence[str]) -> MatchingSeries:
    """Return the series of the filter and its groups, and those of them with a value of each metric."""
    names = [each.base for each in (resolved.metric, resolved.over) if each is not None]
    request = resolved.request
    matching, is_cut = read_table(
        request.filter, names, groups=resolved.groups, facts=facts, span=request.span
    )
    return _select_series(resolved, matching, is_cut=is_cut)


def _select_series(resolved: ResolvedRequest, matching: SeriesTable, *, is_cut: bool) -> MatchingSeries:
    """Return those with a value among the series of the filter."""
    metric = resolved.metric
    names = [each.base for each in (resolved.metric, resolved.over) if each is not None]
    is_valued = np.logical_and.reduce([matching.array(f"{name}.has_level") for name in names])
    if metric.is_per_volume:
        volumes = matching.shared("volume_count")
        is_valued &= ~np.isin(volumes.codes, volumes.find([None, 0]))
    if not resolved.groups:
        return MatchingSeries(matching, matching.select(is_valued), 0, is_cut)
    is_grouped = matching.array("group_mask") != 0
    valued = matching.select(is_valued & is_grouped)
    ungrouped = int((is_valued & ~is_grouped).sum())
    return MatchingSeries(matching.select(is_grouped), valued, ungrouped, is_cut)


def _find_metric(name: str) -> ScalingMetric:
    metric = find_metric(name)
    if metric is None:
        raise BadChart(
            "metric", f"{name[:60]!r} is not a valid metric; available: {', '.join(SCALING_METRICS)}"
        )
    return metric


def _find_over(name: str | None, metric: ScalingMetric) -> ScalingMetric | None:
    if name is None:
        return None
    if name not in THROUGHPUTS:
        raise BadChart(
            "over", f"{name[:60]!r} is not a throughput metric; available: {', '.join(THROUGHPUTS)}"
        )
    if metric.unit != "ns":
        raise BadChart("over", f"over={name} needs a latency metric; {metric.name} is not a latency")
    return SCALING_METRICS[name]


def _find_name(parameter: str, name: str | None) -> str | None:
    """Return the full name of an axis; "" for "none", None if not given."""
    if name is None or (name == NONE and parameter != "x"):
        return None if name is None else ""
    if parameter == "x" and name in CONDITIONS:
        return name
    try:
        return find_axis(name)
    except BadAxis as error:
        more = f", {', '.join(CONDITIONS)}" if parameter == "x" else ""
        raise BadChart(parameter, f"{error}{more}") from error


def _place_groups(axes: dict[str, str | None], resolved: ResolvedRequest) -> None:
    """Put groups on the first axis that is not given, unless an axis names them. Raises BadChart."""
    if GROUP in axes.values() and not resolved.groups:
        name = next(name for name, axis in axes.items() if axis == GROUP)
        raise BadChart(name, "no groups are defined; define them as group=NAME=FILTER")
    if not resolved.groups or GROUP in axes.values():
        return
    free = next((name for name in _AXES if axes[name] is None), None)
    if free is None:
        raise BadChart("group", f"groups need an axis: set x, color or facet to {GROUP}")
    axes[free] = GROUP


def _extend(parameter: str, automatic: str | None, more: str | None) -> str | None:
    """Return the automatic axis combined with more dimensions."""
    names = [name for axis in (automatic, more) if axis for name in split_axis(axis)]
    return _find_name(parameter, ",".join(dict.fromkeys(names)))


def _refuse_twice(axes: Mapping[str, str | None]) -> None:
    named = [name for axis in axes.values() if axis for name in split_axis(axis)]
    if len(named) > len(set(named)):
        raise BadChart("color", "x, color and facet must be different dimensions")


def _expand_free(names: Sequence[str]) -> frozenset[str]:
    """Return the dimensions that are not fixed, with those that depend on them; "*": all."""
    if names == ("*",):
        return frozenset(SERIES_DIMENSIONS)
    free: set[str] = set()
    for name in names:
        dimension = find_dimension(name)
        if dimension is None:
            raise BadChart(
                "any", f"{name[:60]!r} is not a valid dimension; available: {', '.join(DIMENSIONS)}"
            )
        free |= {dimension.name, *dimension.companions}
    return frozenset(free)


def _read_targets(texts: Sequence[str]) -> tuple[ScalingTarget, ...]:
    if len(texts) > TARGETS_MAXIMUM:
        raise BadChart("target", f"{len(texts)} targets given, at most {TARGETS_MAXIMUM} allowed")
    try:
        return tuple(parse_target(text) for text in texts)
    except BadLimit as error:
        raise BadChart("target", str(error)) from error


def _read_limits(texts: Sequence[str], metric: ScalingMetric) -> tuple[Limit, ...]:
    if len(texts) > LIMITS_MAXIMUM:
        raise BadChart("limit", f"{len(texts)} limits given, at most {LIMITS_MAXIMUM} allowed")
    try:
        return tuple(parse_limit(text, metric.unit) for text in texts)
    except BadLimit as error:
        raise BadChart("limit", str(error)) from error


COLORS_MAXIMUM: Final = 12
FACETS_MAXIMUM: Final = 12
XS_MAXIMUM: Final = 60


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
    return structs.replace(first, more=tuple(more))


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
    levels: SeriesLevels | None = None,
) -> ScalingChart:
    """Return the chart; chosen: the series with a value in the fixed dimensions. levels: if they were read before.

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
    charted = _select_ids(in_grid, charted_ids)
    runs_maximum = None if levels is None else CELL_RUNS_MAXIMUM
    levels = levels or read_series_levels(resolved, charted)
    if request.has_runs and runs_maximum is None:
        keys = zip(charted.column("id"), list_cell_keys(charted, axes), strict=True)
        cells = {number: key for number, key in keys if number in levels.shown}
        runs_maximum = _share_runs(len(set(cells.values())) * max(1, len(resolved.metrics)))
        levels = replace(levels, runs=read_runs(resolved, charted, cells=cells, maximum=runs_maximum))
    facets = fill_facets(in_grid, levels, grid, resolved)
    is_past = (
        request.span.to_at is not None and axes.x not in CONDITIONS
    ) or request.compare_days is not None
    return ScalingChart(
        request=request,
        shown_filter=add_fixed_terms(request.filter, chosen.fixed),
        metric=resolved.metric,
        over=resolved.over,
        x=make_axis(axes.x, grid.xs),
        color=make_axis(axes.color, grid.colors) if axes.color else None,
        facet=make_axis(axes.facet, grid.facets) if axes.facet else None,
        panels=facets,
        fixed=chosen.fixed
        if is_past or resolved.metric.is_per_volume
        else measure_choices(chosen.fixed, series.valued, resolved.metric.base),
        common=_list_common(chosen),
        varying=chosen.varying,
        mixed=list_mixed(chosen.table, axes),
        limits=resolved.limits,
        counts=_count_series(series, chosen, facets=facets, omitted=len(charted_ids) - charted.length),
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
    facets: Sequence[ScalingFacet],
    omitted: int,
) -> Counts:
    """Return how many series are in the chart and why others are not: each series of the filter counts once."""
    valued, matching, charted_ids = series.valued, series.matching, set(chosen.table.column("id"))
    valued_ids = set(valued.column("id"))
    is_failed = [
        FAILED in badges
        for series_id, badges in zip(matching.column("id"), matching.column("badges"), strict=True)
        if series_id not in valued_ids
    ]
    unknown_x = _count_unknown(valued, chosen.axes.x)
    cells = [cell for facet in facets for line in facet.lines for cell in line.cells]
    return Counts(
        shown=sum(len(cell.series_ids) for cell in cells if cell.n),
        failed=sum(is_failed),
        unvalued=len(is_failed) - sum(is_failed),
        unknown_x=unknown_x,
        hidden_by_fixed=valued.length - len(charted_ids) - unknown_x,
        omitted=omitted,
        ungrouped=series.ungrouped,
        cells=len(cells),
        filled=sum(cell.n > 0 for cell in cells),
    )


def _count_unknown(valued: SeriesTable, x: str) -> int:
    """Return the number of series without a known x; 0 if no x is known, as the chart then shows them."""
    unknown = _count_none(valued, x)
    return 0 if unknown == valued.length else unknown


def _count_none(table: SeriesTable, name: str) -> int:
    column = table.shared(name)
    return int(np.isin(column.codes, column.find([None])).sum())
