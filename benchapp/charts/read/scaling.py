"""A metric by one dimension: the data of the scaling page, its API and the studies."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from benchapp.catalog.dimensions import DIMENSIONS, find_dimension
from benchapp.catalog.metrics import get_rate_units
from benchapp.charts.read.axes import GROUP, BadAxis, find_axis, parse_groups, split_axis
from benchapp.charts.read.scaling_build import MatchingSeries, build_chart, build_stack
from benchapp.charts.read.scaling_defaults import ChosenAxes, choose_axes
from benchapp.charts.read.scaling_shapes import (
    LIMITS_MAXIMUM,
    METRICS_MAXIMUM,
    NONE,
    SCALING_METRICS,
    TARGETS_MAXIMUM,
    THROUGHPUTS,
    BadChart,
    BadLimit,
    Limit,
    ResolvedRequest,
    ScalingChart,
    ScalingFacet,
    ScalingLimit,
    ScalingLine,
    ScalingMetric,
    ScalingPoint,
    ScalingRequest,
    ScalingRun,
    ScalingSpread,
    ScalingTarget,
    find_metric,
    parse_limit,
    parse_target,
)
from benchapp.charts.read.series_columns import read_table
from benchapp.charts.read.series_table import SeriesTable
from benchapp.framework.read.result_cache import CHART_S, read_cached

__all__ = [
    "NONE",
    "BadChart",
    "ScalingChart",
    "ScalingFacet",
    "ScalingLimit",
    "ScalingLine",
    "ScalingPoint",
    "ScalingRequest",
    "ScalingRun",
    "ScalingSpread",
    "read_scaling",
]

_USUAL_METRIC: Final = "iops"
_USUAL_LATENCY: Final = "latency_mean_ns"
# Work that is timed as a whole has no other metric.
_TIMED_METRIC: Final = "elapsed_s"
_AXES: Final = ("x", "color", "facet")
# Hosts with one layout and workload are repetitions: a cell has their median, where the metric has one.
_SCOPE: Final = frozenset({"host", "pool"})
_DEPTHS: Final = ("iodepth", "numjobs")


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
        axes["x"] = max(_DEPTHS, key=lambda name: len(series.valued.distinct(name)))
    chosen = _choose(resolved, series, axes, extended=extended, free=free)
    return build_chart(resolved, series, chosen=chosen)


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
    if all(metric.may_mix for metric in resolved.metrics):
        free |= _SCOPE
    if extended:
        automatic = choose_axes(series.valued, **axes | dict.fromkeys(extended), free=free).axes
        axes |= {name: _extend(name, getattr(automatic, name), axes[name]) for name in extended}
    return choose_axes(series.valued, **axes, free=free, in_groups=in_groups)


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
    try:
        return find_axis(name)
    except BadAxis as error:
        raise BadChart(parameter, str(error)) from error


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
    """Return the dimensions that are not fixed, with those that depend on them."""
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
