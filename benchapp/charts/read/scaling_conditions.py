"""Runs by a condition that was recorded with each of them: the cells of a scaling chart that has one on x."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import floor, log10
from typing import Any, Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.dimensions import CONDITIONS
from benchapp.catalog.metrics import is_latency
from benchapp.charts.read.axes import AxisValue, SeriesTable
from benchapp.charts.read.chart import BadChart, ScalingRun
from benchapp.charts.read.scaling_cells import SeriesLevels, list_cell_keys
from benchapp.charts.read.scaling_defaults import ChosenAxes
from benchapp.charts.read.scaling_shapes import CHART_RUNS_MAXIMUM, ResolvedRequest, ScalingChart
from benchapp.detection.rules.levels import describe_values, find_newest_kind
from benchapp.framework.read.binary_columns import fetch_arrays, from_us
from benchapp.incidents.read.series_status import LevelValues
from benchapp.models import Run
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code
from benchapp.series.read.levels import compose_run_condition
from benchapp.series.rules import DEPENDENCE_POINTS_MAXIMUM

SERIES_MAXIMUM: Final = 100
# More values of x are rounded to about so many; runs are drawn where they are.
_PLACES: Final = 12
_NS_PER_S: Final = 1e9
# JSON has numbers that a float has not.
_NUMBER_MAXIMUM: Final = 10**18

# Runs as columns: series_id, run_id, started_at (µs since 1970), x and y; by series, oldest first.
Points = Mapping[str, NDArray[Any]]


def read_points(resolved: ResolvedRequest, series_ids: Sequence[int], condition: str) -> Points:
    """Return the newest valid runs of each series that have the metric and the condition; one query.

    x: in the base unit of the condition, times in ns. Of a latency only runs of the newest kind. Raises BadChart for
    more than SERIES_MAXIMUM series.
    """
    if len(series_ids) > SERIES_MAXIMUM:
        raise BadChart(
            "x",
            f"{len(series_ids)} series match, and {condition} shows single runs of at most {SERIES_MAXIMUM}."
            " Narrow the filter, as host:db-1 profile:seqread-fragmentation",
        )
    metric, span = resolved.metric.base, resolved.request.span
    terms, term_values = compose_run_condition(resolved.request.filter.fact_terms, "m.run_id")
    text = sql.SQL(
        "SELECT wanted.id AS series_id, run_id, started_at, kind_code, x, y"
        " FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL"
        " (SELECT m.id, m.run_id, m.started_at, (r.command #>> %s)::numeric::double precision AS x,"
        "  m.{metric} AS y, {kind_code} AS kind_code"
        "  FROM benchapp_measurement m JOIN benchapp_run r ON r.id = m.run_id"
        "  WHERE m.series_id = wanted.id AND m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL"
        "   AND m.started_at >= coalesce(%s::timestamptz, '-infinity')"
        "   AND m.started_at < coalesce(%s::timestamptz, 'infinity')"
        "   AND CASE WHEN jsonb_typeof(r.command #> %s) = 'number'"
        "    THEN abs((r.command #>> %s)::numeric) < %s ELSE false END{terms}"
        "  ORDER BY m.started_at DESC, m.id DESC LIMIT {limit}) AS points ORDER BY wanted.id, started_at, points.id"
    ).format(
        metric=sql.Identifier(metric),
        limit=sql.Literal(DEPENDENCE_POINTS_MAXIMUM + 1),
        kind_code=sql.SQL(KIND_CODE if is_latency(metric) else "0"),
        terms=terms,
    )
    path = ["conditions", condition]
    columns = {"series_id": "bigint", "run_id": "bigint", "started_at": "timestamptz", "kind_code": "integer"}
    columns |= {"x": "double precision", "y": "double precision"}
    values = [list(series_ids), path, span.from_at, span.to_at, path, path, _NUMBER_MAXIMUM, *term_values]
    points = fetch_arrays(text, values, columns=columns)
    if CONDITIONS[condition].kind == "seconds":
        points["x"] = points["x"] * _NS_PER_S
    return _keep_newest_kind(points, metric) if is_latency(metric) else points


def _keep_newest_kind(points: Points, metric: str) -> Points:
    is_kept = np.ones(len(points["x"]), dtype=bool)
    for series_id in np.unique(points["series_id"]).tolist():
        own = np.flatnonzero(points["series_id"] == series_id)
        kinds = [read_kind_code(metric, code) for code in points["kind_code"][own].tolist()]
        newest = find_newest_kind(kinds)
        is_kept[own] = [are_same_kind(kind, newest) for kind in kinds]
    return {name: array[is_kept] for name, array in points.items()}


def mark_series(table: SeriesTable, points: Points, *, condition: str, metric: str) -> SeriesTable:
    """Return the series with 0 for the condition where they have runs with it, else None: to choose axes."""
    has_points = np.isin(table.array("series_id"), points["series_id"])
    xs = [0.0 if has else None for has in has_points.tolist()]
    places = list(table.places)
    is_valued = has_points | table.array(f"{metric}.has_level")
    return table.split(places, {condition: xs}, {metric: dict.fromkeys(np.flatnonzero(is_valued).tolist())})


def place_runs(
    resolved: ResolvedRequest, points: Points, chosen: ChosenAxes
) -> tuple[ChosenAxes, SeriesLevels, frozenset[tuple[AxisValue, AxisValue]]]:
    """Return the choice with a row for each series and place on x, their levels, and the curves with older runs.

    chosen: of `mark_series`. A curve has its newest runs, at most DEPENDENCE_POINTS_MAXIMUM, fewer in a large chart.
    """
    table, condition, metric = chosen.table, chosen.axes.x, resolved.metric
    series_ids = table.column("series_id")
    curves = [key[:2] for key in list_cell_keys(table, chosen.axes)]
    maximum = min(DEPENDENCE_POINTS_MAXIMUM, CHART_RUNS_MAXIMUM // max(1, len(set(curves))))
    members: dict[Any, list[int]] = {}
    for series_id, curve in zip(series_ids, curves, strict=True):
        members.setdefault(curve, []).append(series_id)
    kept, cut = [], set()
    for curve, own in members.items():
        places = np.flatnonzero(np.isin(points["series_id"], own))
        places = places[np.argsort(points["started_at"][places], kind="stable")]
        if len(places) > maximum:
            cut.add(curve)
        kept.append(places[-maximum:])
    chosen_places = np.sort(np.concatenate(kept)) if kept else np.zeros(0, dtype=np.int64)
    shown = {name: array[chosen_places] for name, array in points.items()}
    rounded = round_places(shown["x"])
    place_of = {series_id: place for place, series_id in enumerate(series_ids)}
    volumes = table.column("volume_count") if metric.is_per_volume else None
    hosts = dict(Run.objects.filter(pk__in=shown["run_id"].tolist()).values_list("pk", "host__name"))
    groups: dict[tuple[int, float], list[int]] = {}
    for index, key in enumerate(zip(shown["series_id"].tolist(), rounded, strict=True)):
        groups.setdefault(key, []).append(index)
    levels: dict[int, LevelValues] = {}
    overs: dict[int, LevelValues] = {}
    runs: dict[int, tuple[ScalingRun, ...]] = {}
    for number, ((series_id, _), own) in enumerate(groups.items()):
        divisor = 1 if volumes is None else volumes[place_of[series_id]] or 1
        ys, xs = shown["y"][own] / divisor, shown["x"][own]
        times = [from_us(at_us) for at_us in shown["started_at"][own].tolist()]
        levels[number], overs[number] = (
            LevelValues(found.median, found.p10, found.p90, len(own), times[-1])
            for found in (describe_values(values, 0, len(values)) for values in (ys, xs))
        )
        runs[number] = tuple(
            ScalingRun(run_id, series_id, hosts.get(run_id, ""), at, value, x)
            for run_id, at, value, x in zip(
                shown["run_id"][own].tolist(), times, ys.tolist(), xs.tolist(), strict=True
            )
        )
    rows = [place_of[series_id] for series_id, _ in groups]
    split = table.split(rows, {condition: [x for _, x in groups]}, {metric.base: dict.fromkeys(levels)})
    nothing: dict[int, Any] = {}
    return (
        replace(chosen, table=split, hidden_ids=np.zeros(0, dtype=np.int64)),
        SeriesLevels(shown=levels, earlier=nothing, overs=overs, marks=nothing, before=nothing, runs=runs),
        frozenset(cut),
    )


def round_places(values: NDArray[np.float64]) -> list[float]:
    """Return the place of each value on x: itself, or of more than _PLACES rounded to a step of 1, 2 or 5 × 10ⁿ."""
    if len(np.unique(values)) <= _PLACES:
        return [float(value) for value in values.tolist()]
    least = float(np.ptp(values)) / _PLACES
    magnitude = 10.0 ** floor(log10(least))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= least)
    return [float(f"{value:.6g}") + 0.0 for value in (np.round(values / step) * step).tolist()]


def count_series(chart: ScalingChart, marked: SeriesTable, chosen: ChosenAxes) -> ScalingChart:
    """Return the chart with series instead of rows in its counts. marked: of `mark_series`; chosen: from it."""
    known = np.isin(marked.array("series_id"), chosen.table.array("series_id"))
    unknown = sum(x is None for x in marked.column(chosen.axes.x))
    shown = len({series_id for cell in chart.cells for series_id in cell.series_ids})
    hidden = marked.length - int(known.sum()) - (unknown if unknown < marked.length else 0)
    counts = replace(chart.counts, shown=shown, hidden_by_fixed=hidden, unknown_x=unknown)
    return structs.replace(chart, counts=counts)
