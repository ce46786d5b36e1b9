"""A metric by one dimension: the data of the scaling page, its API and the studies."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from benchapp.dimensions import DIMENSIONS, find_dimension
from benchapp.queries.charts.axes import BadAxis, find_axis, split_axis
from benchapp.queries.charts.scaling_build import build_chart
from benchapp.queries.charts.scaling_defaults import choose_axes
from benchapp.queries.charts.scaling_shapes import (
    LIMITS_MAXIMUM,
    SCALING_METRICS,
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

    Two queries (`read_table`), one more for as_of and one for compare_days; two more if no metric was given and no
    series has IOPS.
    """
    resolved = _resolve(request)
    texts = {name: getattr(request, name) for name in _AXES}
    # ",volume_type" is the automatic dimension and volume_type.
    extended = [name for name, text in texts.items() if text and text.startswith(",")]
    axes = {name: _find_name(name, text and text.removeprefix(",")) for name, text in texts.items()}
    _refuse_twice(axes)
    free = _expand_free(request.free)
    matching, valued, is_cut = _read_series(resolved)
    if not valued.length and request.metric is None and request.over is None:
        timed = ResolvedRequest(request, SCALING_METRICS[_TIMED_METRIC], None, ())
        timed_matching, timed_valued, is_cut = _read_series(timed)
        if timed_valued.length:
            resolved, matching, valued = timed, timed_matching, timed_valued
    if resolved.over is not None and axes["x"] is None:
        axes["x"] = max(_DEPTHS, key=lambda name: len(valued.distinct(name)))
    if extended:
        automatic = choose_axes(valued, **axes | dict.fromkeys(extended), free=free).axes
        axes |= {name: _extend(name, getattr(automatic, name), axes[name]) for name in extended}
    chosen = choose_axes(valued, **axes, free=free)
    return build_chart(resolved, matching, valued, chosen=chosen, is_cut=is_cut)


def _resolve(request: ScalingRequest) -> ResolvedRequest:
    metric = _find_metric(request.metric or (_USUAL_METRIC if request.over is None else _USUAL_LATENCY))
    over = _find_over(request.over, metric)
    return ResolvedRequest(request, metric, over, _read_limits(request.limits, metric))


def _read_series(resolved: ResolvedRequest) -> tuple[SeriesTable, SeriesTable, bool]:
    """Return the series of the filter, those of them with a value of each metric, and whether more match."""
    metric = resolved.metric
    names = [metric.base] if resolved.over is None else [metric.base, resolved.over.base]
    matching, is_cut = read_table(resolved.request.filter, names)
    is_valued = np.logical_and.reduce([matching.array(f"{name}.n") > 0 for name in names])
    if metric.is_per_volume:
        volumes = matching.shared("volume_count")
        is_valued &= ~np.isin(volumes.codes, volumes.find([None, 0]))
    return matching, matching.select(is_valued), is_cut


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
    """Return the full name of an axis; "" for "none", None if not given."""
    if name is None or (name == NONE and parameter != "x"):
        return None if name is None else ""
    try:
        return find_axis(name)
    except BadAxis as error:
        raise BadChart(parameter, str(error)) from error


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


def _read_limits(texts: Sequence[str], metric: ScalingMetric) -> tuple[Limit, ...]:
    if len(texts) > LIMITS_MAXIMUM:
        raise BadChart("limit", f"{len(texts)} limits given, at most {LIMITS_MAXIMUM} allowed")
    try:
        return tuple(parse_limit(text, metric.unit) for text in texts)
    except BadLimit as error:
        raise BadChart("limit", str(error)) from error
