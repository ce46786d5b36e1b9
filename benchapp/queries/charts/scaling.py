"""A metric by one dimension: the data of the scaling page, its API and the studies."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from benchapp.dimensions import DIMENSIONS, find_dimension
from benchapp.queries.charts.scaling_build import ResolvedRequest, build_chart
from benchapp.queries.charts.scaling_defaults import choose_axes
from benchapp.queries.charts.scaling_shapes import (
    LIMITS_MAXIMUM,
    SCALING_METRICS,
    THROUGHPUTS,
    BadChart,
    BadLimit,
    Limit,
    ScalingChart,
    ScalingFacet,
    ScalingLimit,
    ScalingLine,
    ScalingMetric,
    ScalingPoint,
    ScalingRequest,
    ScalingSpread,
    parse_limit,
)
from benchapp.queries.charts.series_columns import read_table
from benchapp.queries.charts.series_table import SeriesTable

__all__ = [
    "NONE",
    "BadChart",
    "ScalingChart",
    "ScalingFacet",
    "ScalingLimit",
    "ScalingLine",
    "ScalingPoint",
    "ScalingRequest",
    "ScalingSpread",
    "read_scaling",
]

# A parameter value instead of a dimension: one color, one panel.
NONE: Final = "none"
_USUAL_METRIC: Final = "iops"
_USUAL_LATENCY: Final = "latency_mean_ns"
# Work that is timed as a whole has no other metric.
_TIMED_METRIC: Final = "elapsed_s"
_AXES: Final = ("x", "color", "facet")
_DEPTHS: Final = ("iodepth", "numjobs")


def read_scaling(request: ScalingRequest) -> ScalingChart:
    """Return the chart of a request. Raises BadChart.

    One query if nothing changed (`read_table`), one more for as_of, one for compare_days, and one if no series has IOPS
    and no metric was given.
    """
    over = request.over
    shown = _find_metric(request.metric or (_USUAL_METRIC if over is None else _USUAL_LATENCY))
    under = _find_over(over, shown)
    limits = _read_limits(request.limits, shown)
    axes = {name: _find_name(name, getattr(request, name)) for name in _AXES}
    _refuse_twice(axes)
    everything, is_cut = read_table(request.filter, _bases(shown, under))
    valued = _select_valued(everything, shown, under)
    if request.metric is None and not valued.length and over is None:
        timed = SCALING_METRICS[_TIMED_METRIC]
        timings, is_cut = read_table(request.filter, _bases(timed, None))
        if (timed_values := _select_valued(timings, timed, None)).length:
            shown, everything, valued, limits = timed, timings, timed_values, ()
    if under is not None and axes["x"] is None:
        axes["x"] = max(_DEPTHS, key=lambda name: len(valued.distinct(name)))
    chosen = choose_axes(valued, **axes, free=_spread_free(request.free))
    resolved = ResolvedRequest(request, shown, under, limits, is_cut)
    return build_chart(resolved, everything, valued, chosen=chosen)


def _select_valued(table: SeriesTable, metric: ScalingMetric, over: ScalingMetric | None) -> SeriesTable:
    is_valued = np.logical_and.reduce([table.array(f"{name}.n") > 0 for name in _bases(metric, over)])
    if metric.is_per_volume:
        volumes = table.shared("volume_count")
        is_valued &= ~np.isin(volumes.codes, volumes.find([None, 0]))
    return table.select(is_valued)


def _bases(metric: ScalingMetric, over: ScalingMetric | None) -> list[str]:
    return [metric.base] if over is None else [metric.base, over.base]


def _find_metric(name: str) -> ScalingMetric:
    metric = SCALING_METRICS.get(name)
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
    """Return the full name of a dimension; "" where there shall be none, None where it is left open."""
    if name is None or (name == NONE and parameter != "x"):
        return None if name is None else ""
    dimension = find_dimension(name)
    if dimension is None:
        raise BadChart(
            parameter, f"{name[:60]!r} is not a valid dimension; available: {', '.join(DIMENSIONS)}"
        )
    return dimension.name


def _refuse_twice(axes: Mapping[str, str | None]) -> None:
    named = [name for name in axes.values() if name]
    if len(named) > len(set(named)):
        raise BadChart("color", "x, color and facet must be different dimensions")


def _spread_free(names: Sequence[str]) -> frozenset[str]:
    """Return the dimensions that are not fixed, with those that move with them by nature."""
    free: set[str] = set()
    for name in names:
        dimension = find_dimension(name)
        if dimension is None:
            raise BadChart(
                "any", f"{name[:60]!r} is not a valid dimension; available: {', '.join(DIMENSIONS)}"
            )
        free |= {dimension.name, *dimension.companions}
    return frozenset(free)


def _read_limits(texts: Sequence[str], metric: ScalingMetric) -> tuple[Limit, ...]:
    if len(texts) > LIMITS_MAXIMUM:
        raise BadChart("limit", f"{len(texts)} limits given, at most {LIMITS_MAXIMUM} allowed")
    try:
        return tuple(parse_limit(text, metric.unit) for text in texts)
    except BadLimit as error:
        raise BadChart("limit", str(error)) from error
