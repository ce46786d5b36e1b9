"""A metric of runs by a condition that was recorded with each of them: extents of the file, round-trip time."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG, is_latency
from benchapp.detection.rules.levels import find_newest_kind
from benchapp.framework.read.binary_columns import fetch_arrays
from benchapp.models import Series
from benchapp.models.filtering import match_series
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code
from benchapp.series.read.titles import describe_target, describe_workload, join_titles, name_scope
from benchapp.series.rules import DEPENDENCE_POINTS_MAXIMUM, Dependence, fit_dependence

ROUND_TRIP: Final = "storage_round_trip_s"
DEPENDENCE_SERIES_MAXIMUM: Final = 20
_NS_PER_S: Final = 1e9
# JSON has numbers that a float has not.
_NUMBER_MAXIMUM: Final = 10**18


@dataclass(frozen=True, slots=True)
class Condition:
    """A fact of each run, as the agent records it. unit: of the value; "count" has none."""

    name: str
    label: str
    unit: Literal["count", "bytes", "percent", "s"]


CONDITIONS: Final[Mapping[str, Condition]] = {
    each.name: each
    for each in (
        Condition("extents", "Extents", "count"),
        Condition("extent_mean_bytes", "Mean size of extents", "bytes"),
        Condition("contiguous_share_percent", "Share of the largest extent", "percent"),
        Condition("filesystem_fragmentation_percent", "Fragmentation of the filesystem", "percent"),
        Condition(ROUND_TRIP, "Round-trip time to the storage", "s"),
    )
}


class BadDependence(Exception):
    """Too many series; the message has the reason."""


@dataclass(frozen=True, slots=True)
class DependenceRow:
    """One series. run_ids, x (the condition), y (the metric), in base units: its runs in ascending order of time.

    fit: None for fewer than DEPENDENCE_FROM runs, or a single value. below_round_trip: runs with a latency below the
    round-trip time, which a request that reaches the server cannot have; None for other conditions and metrics.
    is_cut: more than DEPENDENCE_POINTS_MAXIMUM runs, the oldest of which are left out.
    """

    series_id: int
    title: str
    run_ids: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    fit: Dependence | None
    below_round_trip: int | None
    is_cut: bool


def read_dependence(
    filter: Filter,
    *,
    metric: str,
    condition: str,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
) -> tuple[DependenceRow, ...]:
    """Return the series of a filter with runs that have metric and condition, most runs first; two queries.

    from_at: inclusive, to_at: exclusive, of the runs; None is open. Failed and excluded runs do not count. Raises
    BadDependence for more than DEPENDENCE_SERIES_MAXIMUM series.
    """
    matching = Series.objects.filter(match_series(filter, runs="any"), last_at__isnull=False)
    series = {each.pk: each for each in matching.order_by("id")[: DEPENDENCE_SERIES_MAXIMUM + 1]}
    if len(series) > DEPENDENCE_SERIES_MAXIMUM:
        raise BadDependence(
            f"More than {DEPENDENCE_SERIES_MAXIMUM} series match. Narrow the filter, as host:db-1"
            " profile:seqread-fragmentation"
        )
    arrays = _fetch_points(list(series), metric, condition, bounds=(from_at, to_at))
    rows = []
    for series_id in np.unique(arrays["series_id"]).tolist():
        own = arrays["series_id"] == series_id
        rows.append(_make_row(series[series_id], arrays, own, metric=metric, condition=condition))
    return tuple(sorted(rows, key=lambda row: (-len(row.x), row.title)))


def _fetch_points(
    series_ids: list[int],
    metric: str,
    condition: str,
    *,
    bounds: tuple[datetime | None, datetime | None],
) -> dict[str, NDArray[np.generic]]:
    """Return series, run, condition and metric of the newest runs of each series, oldest first."""
    text = sql.SQL(
        "SELECT wanted.id AS series_id, run_id, kind_code, x, y"
        " FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL"
        " (SELECT m.run_id, m.started_at, (r.command #>> %s)::numeric::double precision AS x, m.{metric} AS y,"
        "  {kind_code} AS kind_code"
        "  FROM benchapp_measurement m JOIN benchapp_run r ON r.id = m.run_id"
        "  WHERE m.series_id = wanted.id AND m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL"
        "   AND m.started_at >= coalesce(%s::timestamptz, '-infinity')"
        "   AND m.started_at < coalesce(%s::timestamptz, 'infinity')"
        "   AND CASE WHEN jsonb_typeof(r.command #> %s) = 'number'"
        "    THEN abs((r.command #>> %s)::numeric) < %s ELSE false END"
        "  ORDER BY m.started_at DESC, m.id DESC LIMIT {limit}) AS points ORDER BY wanted.id, started_at, run_id"
    ).format(
        metric=sql.Identifier(metric),
        limit=sql.Literal(DEPENDENCE_POINTS_MAXIMUM + 1),
        kind_code=sql.SQL(KIND_CODE if is_latency(metric) else "0"),
    )
    path = ["conditions", condition]
    types = {"series_id": "bigint", "run_id": "bigint", "kind_code": "integer"}
    types |= {"x": "double precision", "y": "double precision"}
    return fetch_arrays(text, [series_ids, path, *bounds, path, path, _NUMBER_MAXIMUM], columns=types)


def _make_row(
    series: Series,
    arrays: Mapping[str, NDArray[np.generic]],
    own: NDArray[Any],
    *,
    metric: str,
    condition: str,
) -> DependenceRow:
    """Return the row of a series; own: its points. Of a latency only those of the newest kind."""
    is_cut = int(own.sum()) > DEPENDENCE_POINTS_MAXIMUM
    if is_latency(metric):
        kinds = [read_kind_code(metric, code) for code in arrays["kind_code"][own].tolist()]
        newest = find_newest_kind(kinds)
        own = np.flatnonzero(own)[[are_same_kind(kind, newest) for kind in kinds]]
    run_ids, x, y = (arrays[name][own][-DEPENDENCE_POINTS_MAXIMUM:] for name in ("run_id", "x", "y"))
    title = join_titles(describe_workload(series, direction=series.direction), describe_target(series))
    is_bounded = condition == ROUND_TRIP and CATALOG[metric].unit == "ns"
    xs, ys = x.astype(float), y.astype(float)
    return DependenceRow(
        series_id=series.pk,
        title=f"{title} · {name_scope(series.scope)}",
        run_ids=run_ids.astype(np.int64),
        x=xs,
        y=ys,
        fit=fit_dependence(xs, ys),
        below_round_trip=int((ys < xs * _NS_PER_S).sum()) if is_bounded else None,
        is_cut=is_cut,
    )
