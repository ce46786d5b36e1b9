"""The points of series as columns, and as few buckets where they are many."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from benchapp.charts.rules.downsampling import Buckets, BucketSpread, SampledPoints, thin_points
from benchapp.framework.read.binary_columns import fetch_arrays
from benchapp.series.read.points import check_metrics
from benchapp.series.validity.rules import CODES, HARMLESS

# Each code of a badge is a bit, so that the columns stay numbers. Only rows that bear any pay for the look.
_BADGE_BITS: Final = sql.SQL(
    "CASE WHEN badges = '[]' THEN 0 ELSE (SELECT coalesce(bit_or("
    "coalesce(1::bigint << (array_position(%s::text[], badge->>'code') - 1), 0)), 0)"
    " FROM jsonb_array_elements(badges) AS badge) END AS badge_bits"
)
_ALL: Final = sql.SQL("benchapp_measurement WHERE series_id = ANY(%s){span}")
_NEWEST: Final = sql.SQL(
    "unnest(%s::bigint[]) AS wanted (wanted_id) CROSS JOIN LATERAL ("
    "SELECT * FROM benchapp_measurement WHERE series_id = wanted_id{span}"
    " ORDER BY started_at DESC, id DESC LIMIT {newest}) AS newest"
)
_ENVIRONMENT: Final = sql.SQL(
    ", (SELECT environment_id FROM benchapp_run WHERE benchapp_run.id = run_id) AS environment_id"
)
_DOUBTFUL_BITS: Final = sum(1 << place for place, code in enumerate(CODES) if code not in HARMLESS)


@dataclass(frozen=True, slots=True)
class SeriesPoints:
    """The points of one series over a span. error, badge_bits: a column each, as long as the points.

    environment_ids: of their runs; None if not read.
    """

    points: SampledPoints
    error: NDArray[np.int32]
    badge_bits: NDArray[np.int64]
    environment_ids: NDArray[np.int64] | None = None

    def select(self, selected: NDArray[np.bool_] | slice) -> "SeriesPoints":
        """Return some of the points."""
        ids = self.environment_ids
        return SeriesPoints(
            self.points.select(selected),
            self.error[selected],
            self.badge_bits[selected],
            None if ids is None else ids[selected],
        )

    def codes_at(self, place: int) -> tuple[str, ...]:
        """Return the codes of a point's badges, most severe first."""
        bits = int(self.badge_bits[place])
        return tuple(code for at, code in enumerate(CODES) if bits >> at & 1) if bits else ()


def read_columns(
    series_ids: Sequence[int],
    *,
    metrics: Sequence[str],
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    newest: int | None = None,
    has_environment: bool = False,
) -> dict[int, SeriesPoints]:
    """Return the points of each series in the order of time; from_at inclusive, to_at exclusive; one query.

    A series without points in the span is there with none. newest: so many of each series in the span, None for all.
    has_environment: also the environments of the runs. Raises UnknownMetric.
    """
    metrics = tuple(check_metrics(metrics))
    conditions: list[sql.Composable] = []
    values: list[object] = [list(CODES), list(series_ids)]
    for condition, moment in (("started_at >= %s", from_at), ("started_at < %s", to_at)):
        if moment is not None:
            conditions.append(sql.SQL(" AND ") + sql.SQL(condition))
            values.append(moment)
    rows = sql.SQL(
        "SELECT series_id, run_id, started_at, error, is_excluded::int AS excluded, {badges}, {metrics}{more}"
        " FROM {points} ORDER BY series_id, started_at, id"
    ).format(
        points=(_ALL if newest is None else _NEWEST).format(
            span=sql.Composed(conditions), newest=sql.Literal(newest)
        ),
        badges=_BADGE_BITS,
        metrics=sql.SQL(", ").join(
            sql.SQL("coalesce({0}, 'NaN') AS {0}").format(sql.Identifier(metric)) for metric in metrics
        ),
        more=_ENVIRONMENT if has_environment else sql.SQL(""),
    )
    kinds = _COLUMNS | dict.fromkeys(metrics, "double precision")
    if has_environment:
        kinds["environment_id"] = "bigint"
    columns = fetch_arrays(rows, values, columns=kinds)
    return _split(columns, series_ids, metrics)


_DAY_US: Final = 86_400_000_000
_DAILY: Final = sql.SQL(
    "SELECT series_id, day::timestamp AT TIME ZONE 'UTC' AS day_at, n, {values} FROM benchapp_dailypoint"
    " WHERE series_id = ANY(%s) AND day >= coalesce(%s::timestamptz::date, '-infinity')"
    " AND day < coalesce(%s::timestamptz, 'infinity') ORDER BY series_id, day, id"
)


def read_daily(
    series_ids: Sequence[int],
    *,
    metrics: Sequence[str],
    from_at: datetime | None = None,
    to_at: datetime | None = None,
) -> dict[int, Buckets]:
    """Return the points that a retention removed, as a bucket for each day, of series with any; one query.

    p10 and p90 are not known. Raises UnknownMetric.
    """
    ends = ("minimum", "median", "maximum")
    values = [
        sql.SQL("coalesce((values->{}->>{})::float8, 'NaN') AS {}").format(
            sql.Literal(metric), sql.Literal(place), sql.Identifier(f"{metric}_{end}")
        )
        for metric in check_metrics(metrics)
        for place, end in enumerate(ends)
    ]
    kinds = {"series_id": "bigint", "day_at": "timestamptz", "n": "integer"}
    kinds |= {f"{metric}_{end}": "double precision" for metric in metrics for end in ends}
    columns = fetch_arrays(
        _DAILY.format(values=sql.SQL(", ").join(values)), [list(series_ids), from_at, to_at], columns=kinds
    )
    found = {}
    for series_id in set(columns["series_id"].tolist()):
        first, end = np.searchsorted(columns["series_id"], (series_id, series_id + 1))
        own = {name: column[first:end] for name, column in columns.items()}
        none = np.zeros(end - first, np.int64)
        unknown = np.full(end - first, np.nan)
        spreads = {
            metric: BucketSpread(
                n=own["n"],
                p10=unknown,
                p90=unknown,
                minimum_run=none,
                maximum_run=none,
                **{end: own[f"{metric}_{end}"] for end in ends},
            )
            for metric in metrics
        }
        days = own["day_at"]
        found[series_id] = Buckets(days, days + _DAY_US - 1, own["n"], none, none, none, spreads)
    return found


def list_known(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers with null for nan, which JSON has not."""
    return [None if value != value else value for value in values.tolist()]


def read_thinned(
    series_id: int,
    *,
    metrics: Sequence[str],
    count: int,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
) -> Buckets:
    """Return the points of a series as at most `count` buckets; one query. Raises UnknownMetric."""
    found = read_columns([series_id], metrics=metrics, from_at=from_at, to_at=to_at)
    return thin_points(found[series_id].points, count)


_COLUMNS: Final = {
    "series_id": "bigint",
    "run_id": "bigint",
    "started_at": "timestamptz",
    "error": "integer",
    "excluded": "integer",
    "badge_bits": "bigint",
}


def _split(
    columns: dict[str, NDArray[Any]], series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[int, SeriesPoints]:
    series = columns["series_id"]
    found = {}
    for series_id in series_ids:
        first, end = np.searchsorted(series, (series_id, series_id + 1))
        own = {name: column[first:end] for name, column in columns.items()}
        points = SampledPoints(
            at_us=own["started_at"],
            run_id=own["run_id"],
            has_failed=own["error"] != 0,
            is_excluded=own["excluded"] != 0,
            is_doubtful=(own["badge_bits"] & _DOUBTFUL_BITS) != 0,
            values={metric: own[metric] for metric in metrics},
        )
        found[series_id] = SeriesPoints(points, own["error"], own["badge_bits"], own.get("environment_id"))
    return found
