"""The points of one series over time: the fast path of every chart."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db.models import Aggregate, Count, FloatField, Max, Min, Q, QuerySet
from psycopg import sql

from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, behind, read_cursor
from benchapp.models import METRIC_FIELDS, Measurement
from benchapp.series.rules.rolling import RollingLevel, roll_levels

# The codes alone: sentences and numbers are for one run's page. Null of the many that bear none, which costs nothing.
_BADGE_CODES: Final = sql.SQL(
    "CASE WHEN badges <> '[]' THEN jsonb_path_query_array(badges, '$[*].code') END AS badge_codes"
)
ROLLING_WINDOW: Final = 20
ROLLING_WINDOW_MAXIMUM: Final = 500


class UnknownMetric(Exception):
    """A metric that is not in the catalog."""


class Point(NamedTuple):
    """One measurement of a series; values in the order of the metrics asked for, None where unknown.

    badges: codes of what speaks against it. is_excluded: a person took its run out of medians.

    A named tuple and not a dataclass: a thousand of these are made for every chart, at a quarter of the cost.
    """

    id: int
    run_id: int
    started_at: datetime
    error: int
    values: tuple[float | None, ...]
    badges: tuple[str, ...] = ()
    is_excluded: bool = False

    @property
    def is_counted(self) -> bool:
        """Say whether its values enter medians."""
        return self.error == 0 and not self.is_excluded


@dataclass(frozen=True, slots=True)
class PointSummary:
    """One metric of a series over a span, without excluded and failed points; None where there is no value."""

    n: int
    median: float | None
    p10: float | None
    p90: float | None
    minimum: float | None
    maximum: float | None
    last: float | None


def read_points(
    series_id: int,
    *,
    metrics: Sequence[str] = METRIC_FIELDS,
    from_at: datetime | None = None,
    to_at: datetime | None = None,
    after: str | None = None,
    limit: int = 1000,
    newest_first: bool = False,
) -> Page[Point]:
    """Return the points in the order of time, behind the cursor; from_at inclusive, to_at exclusive; one query.

    Points whose fio failed (error ≠ 0) and excluded ones are among them. Raises UnknownMetric, BadCursor.
    """
    beyond = sql.SQL("<") if newest_first else sql.SQL(">")
    conditions: list[sql.Composable] = [sql.SQL("series_id = %s")]
    values: list[object] = [series_id]
    for condition, moment in (("started_at >= %s", from_at), ("started_at < %s", to_at)):
        if moment is not None:
            conditions.append(sql.SQL(condition))
            values.append(moment)
    if (cursor := read_cursor(after)) is not None:
        conditions.append(sql.SQL("(started_at, id) {} (%s, %s)").format(beyond))
        values += [cursor.at, cursor.id]
    query = sql.SQL(
        "SELECT id, run_id, started_at, error, {badges}, is_excluded, {metrics} FROM benchapp_measurement"
        " WHERE {conditions} ORDER BY started_at {order}, id {order} LIMIT %s"
    ).format(
        badges=_BADGE_CODES,
        metrics=sql.SQL(", ").join(map(sql.Identifier, check_metrics(metrics))),
        conditions=sql.SQL(" AND ").join(conditions),
        order=sql.SQL("DESC") if newest_first else sql.SQL("ASC"),
    )
    rows = fetch_rows(query.as_string(), [*values, limit + 1])
    points = tuple(
        Point(row[0], row[1], row[2], row[3], row[6:], tuple(row[4]) if row[4] else (), row[5])
        for row in rows[:limit]
    )
    has_more = len(rows) > limit
    return Page(
        points, Cursor(points[-1].started_at, points[-1].id).encode() if has_more and points else None
    )


def read_rolling(
    series_id: int, points: Sequence[Point], *, metrics: Sequence[str], window: int = ROLLING_WINDOW
) -> list[tuple[RollingLevel, ...]]:
    """Return the level of each metric at each of these points (in either order of time); one query.

    The window reaches back over points before the first of these, so that a page shows what the whole would. Points
    that are excluded or whose fio failed do not enter it.
    """
    if not points:
        return []
    is_descending = points[0].started_at > points[-1].started_at or points[0].id > points[-1].id
    ascending = list(reversed(points)) if is_descending else list(points)
    first = Cursor(ascending[0].started_at, ascending[0].id)
    before = list(
        Measurement.objects.filter(series_id=series_id, error=0, is_excluded=False)
        .filter(behind("started_at", first, is_descending=True))
        .order_by("-started_at", "-id")
        .values_list(*check_metrics(metrics))[: window - 1]
    )
    before.reverse()
    columns = []
    for column in range(len(metrics)):
        earlier = [row[column] for row in before]
        values = [point.values[column] if point.is_counted else None for point in ascending]
        columns.append(list(roll_levels([*earlier, *values], window=window))[len(earlier) :])
    levels = list(zip(*columns, strict=True))
    return levels[::-1] if is_descending else levels


def summarize_series(
    series_id: int, *, metric: str, from_at: datetime | None = None, to_at: datetime | None = None
) -> PointSummary:
    """Summarize one metric in PostgreSQL; from_at inclusive, to_at exclusive; two queries. Raises UnknownMetric."""
    check_metrics([metric])
    known = _select(series_id, from_at, to_at).filter(
        error=0, is_excluded=False, **{f"{metric}__isnull": False}
    )
    values = known.aggregate(
        n=Count("id"),
        median=_Percentile(metric, share=0.5),
        p10=_Percentile(metric, share=0.1),
        p90=_Percentile(metric, share=0.9),
        minimum=Min(metric),
        maximum=Max(metric),
    )
    last = known.order_by("-started_at", "-id").values_list(metric, flat=True).first()
    return PointSummary(**values, last=last)


class _Percentile(Aggregate):
    """percentile_cont: between ranks linearly. Three of one column share one sort."""

    function = "percentile_cont"
    template = "%(function)s(%(share)s) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()

    def __init__(self, column: str, *, share: float) -> None:
        super().__init__(column, share=float(share))


def _select(series_id: int, from_at: datetime | None, to_at: datetime | None) -> QuerySet[Measurement]:
    span = Q(series_id=series_id)
    if from_at is not None:
        span &= Q(started_at__gte=from_at)
    if to_at is not None:
        span &= Q(started_at__lt=to_at)
    return Measurement.objects.filter(span)


def check_metrics(metrics: Sequence[str]) -> Sequence[str]:
    """Return the metrics, all of which are in the catalog. Raises UnknownMetric."""
    for metric in metrics:
        if metric not in METRIC_FIELDS:
            raise UnknownMetric(
                f"{metric[:80]!r} is not a valid metric. Available: {', '.join(METRIC_FIELDS)}"
            )
    return metrics
