"""How a metric moves with one dimension: the numbers of the scaling page, its API and the studies."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

import numpy as np

from benchapp.dimensions import DIMENSIONS, find_dimension
from benchapp.grammar import Filter
from benchapp.queries.charts.scaling_build import Request, build_chart
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
    "ScalingSpread",
    "read_scaling",
]

# Said in an address instead of a dimension: all in one color, in one panel.
NONE: Final = "none"
_USUAL_METRIC: Final = "iops"
_USUAL_LATENCY: Final = "latency_mean_ns"
# Work that is timed as a whole has no other metric.
_TIMED_METRIC: Final = "elapsed_s"
_DEPTHS: Final = ("iodepth", "numjobs")


def read_scaling(
    filter: Filter,
    *,
    x: str | None = None,
    metric: str | None = None,
    color: str | None = None,
    facet: str | None = None,
    over: str | None = None,
    free: Sequence[str] = (),
    as_of: date | None = None,
    compare_period: timedelta | None = None,
    limits: Sequence[str] = (),
) -> ScalingChart:
    """Return the chart of a filter; what is None is chosen so that the chart says something.

    x, color, facet: dimensions, by name or short name; color and facet may be "none". free: dimensions that are not
    fixed, though they vary. over: draw a latency over this throughput. as_of: as it was at the end of this day of
    UTC; earlier: also as it was so much earlier. limits: "NAME:VALUE". One query where nothing changed (`read_table`),
    one more for each moment of the past, and where nothing has IOPS and no metric was asked for. Raises BadChart.
    """
    shown = _find_metric(metric or (_USUAL_METRIC if over is None else _USUAL_LATENCY))
    under = _find_over(over, shown)
    parsed_limits = _read_limits(limits, shown)
    axes = {
        "x": _find_name("x", x),
        "color": _find_name("color", color),
        "facet": _find_name("facet", facet),
    }
    _refuse_twice(axes)
    everything, is_cut = read_table(filter, _bases(shown, under))
    valued = _select_valued(everything, shown, under)
    if metric is None and not valued.length and over is None:
        timed = SCALING_METRICS[_TIMED_METRIC]
        timings, is_cut = read_table(filter, _bases(timed, None))
        if (timed_values := _select_valued(timings, timed, None)).length:
            shown, everything, valued, parsed_limits = timed, timings, timed_values, ()
    if under is not None and axes["x"] is None:
        axes["x"] = max(_DEPTHS, key=lambda name: len(valued.distinct(name)))
    chosen = choose_axes(valued, **axes, free=_spread_free(free))
    request = Request(
        filter=filter,
        metric=shown,
        over=under,
        limits=parsed_limits,
        free=tuple(free),
        as_of=end_of_day(as_of),
        compare_period=compare_period,
        is_cut=is_cut,
    )
    return build_chart(request, everything, valued, chosen=chosen)


def _select_valued(table: SeriesTable, metric: ScalingMetric, over: ScalingMetric | None) -> SeriesTable:
    is_valued = np.logical_and.reduce([table.array(f"{name}.n") > 0 for name in _bases(metric, over)])
    if metric.is_per_volume:
        volumes = table.shared("volume_count")
        is_valued &= ~np.isin(volumes.codes, volumes.find([None, 0]))
    return table.select(is_valued)


def _bases(metric: ScalingMetric, over: ScalingMetric | None) -> list[str]:
    return [metric.base] if over is None else [metric.base, over.base]


def end_of_day(day: date | None) -> datetime | None:
    """Return the first moment after a day of UTC; behind the calendar's last one there is none."""
    if day is None or day == date.max:
        return None
    return datetime.combine(day, time.min, UTC) + timedelta(days=1)


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
