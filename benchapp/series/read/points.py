"""The points of one series over time, and measurements across series, in constant memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

from django.db import connection, models, transaction
from django.db.models import Aggregate, Count, FloatField, Max, Min, Q, QuerySet
from psycopg import ServerCursor, sql

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.framework.read.pagination import Cursor, Page, behind, read_cursor
from benchapp.models import Environment, Host, Measurement, Series
from benchapp.models.filtering import match_measurements
from benchapp.series.read.shapes import EnvironmentRow, TargetRow, WorkloadRow, names_of
from benchapp.series.rules import RollingLevel, roll_levels

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


def read_points(
    series_id: int,
    *,
    metrics: Sequence[str] = tuple(CATALOG),
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
) -> dict[str, Any]:
    """Summarize one metric in PostgreSQL, without excluded and failed points: the columns of `SummaryAnswer`.

    from_at inclusive, to_at exclusive. None where there is no value. Two queries. Raises UnknownMetric.
    """
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
    return {**values, "last": last}


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
        if metric not in CATALOG:
            raise UnknownMetric(f"{metric[:80]!r} is not a valid metric. Available: {', '.join(CATALOG)}")
    return metrics


MeasurementOrder = Literal["series", "started_at", "-started_at"]

# Rows per fetch: more take memory and bring no speed.
_BATCH_ROWS: Final = 1000
# Series, hosts and environments that an export remembers, each: an environment may have 64 KiB of facts.
_KNOWN_MAXIMUM: Final = 2000
_ORDERS: Final[dict[MeasurementOrder, tuple[str, ...]]] = {
    # That of the index measurement_by_series: the first rows come before the last ones are read.
    "series": ("series_id", "started_at", "id"),
    "started_at": ("started_at", "id"),
    "-started_at": ("-started_at", "-id"),
}
_NAMES: Final = count(1)


@dataclass(frozen=True, slots=True)
class MeasurementFilter:
    """Which measurements; None leaves out nothing.

    series: ids. match: workload and layout are those of the series; host, pool and environment those of the run.
    from_at is inclusive, to_at exclusive. is_valid: not failed, not excluded.
    """

    match: Filter = field(default_factory=Filter)
    from_at: datetime | None = None
    to_at: datetime | None = None
    is_valid: bool | None = None
    series: tuple[int, ...] | None = None


MEASUREMENT_COLUMNS: Final[tuple[str, ...]] = (
    *("series", "run", "started_at", "error", "is_excluded", "badges", "direction", "pattern"),
    # Of the run; the host is the one that measured, also in series of a pool.
    *("host", "pool", "profile", "sweep", "labels"),
    *CATALOG,
    *names_of(WorkloadRow),
    *names_of(TargetRow),
    *names_of(EnvironmentRow),
)
"""All columns of a row, in order."""

_SERIES_COLUMNS: Final = ("direction", *names_of(WorkloadRow), *names_of(TargetRow))


def stream_measurements(
    wanted: MeasurementFilter,
    columns: Sequence[str],
    *,
    order: MeasurementOrder = "series",
    limit: int | None = None,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows of these columns in batches, of one snapshot; label.NAME is the label of the run, or None.

    columns: of MEASUREMENT_COLUMNS, or label.NAME; at least one. The transaction lasts until the iterator ends or is
    closed.
    """
    choose = _choose_columns(columns)
    with transaction.atomic():
        connection.ensure_connection()
        query, values = _select_measurements(wanted, order, limit).query.sql_with_params()
        facts = _KnownFacts()
        name = f"measurements_{next(_NAMES)}"
        with connection.wrap_database_errors, ServerCursor(connection.connection, name) as cursor:
            # Binary: text costs three times as much, as decimal numbers and times are parsed in Python.
            cursor.execute(query, values, binary=True)
            while batch := cursor.fetchmany(_BATCH_ROWS):
                facts.read(batch)
                yield [choose(facts.join(row)) for row in batch]


def _select_measurements(
    wanted: MeasurementFilter, order: MeasurementOrder, limit: int | None
) -> models.QuerySet[Any]:
    found = Measurement.objects.filter(match_measurements(wanted.match))
    if wanted.series is not None:
        found = found.filter(series__in=wanted.series)
    if wanted.from_at is not None:
        found = found.filter(started_at__gte=wanted.from_at)
    if wanted.to_at is not None:
        found = found.filter(started_at__lt=wanted.to_at)
    if wanted.is_valid is not None:
        valid = models.Q(error=0, is_excluded=False)
        found = found.filter(valid if wanted.is_valid else ~valid)
    codes = models.Func(
        models.F("badges"),
        function="jsonb_path_query_array",
        template="%(function)s(%(expressions)s, '$[*].code')",
        output_field=models.JSONField(),
    )
    return found.order_by(*_ORDERS[order]).values_list(
        "series_id",
        "run_id",
        "started_at",
        "error",
        "is_excluded",
        # Null of the many without badges and labels, which costs nothing.
        models.Case(models.When(~models.Q(badges=[]), then=codes), default=None),
        "run__host_id",
        "run__environment_id",
        "run__profile",
        "run__sweep_id",
        models.Case(models.When(~models.Q(run__labels={}), then=models.F("run__labels")), default=None),
        *CATALOG,
    )[:limit]


class _KnownFacts:
    """What many rows share, read once for neighbors: series, hosts and environments by id."""

    def __init__(self) -> None:
        self.series: dict[int, tuple[Any, ...]] = {}
        self.hosts: dict[int, tuple[str, str | None]] = {}
        self.environments: dict[int, tuple[Any, ...]] = {}

    def read(self, batch: Sequence[tuple[Any, ...]]) -> None:
        """Read those that a batch names and that are not known; of too many known ones all are forgotten first."""
        for known, at, model, columns in (
            (self.series, 0, Series, _SERIES_COLUMNS),
            (self.hosts, 6, Host, ("name", "pool")),
            (self.environments, 7, Environment, names_of(EnvironmentRow)),
        ):
            if len(known) > _KNOWN_MAXIMUM:
                known.clear()
            new = {row[at] for row in batch} - known.keys()
            if new:
                found = model.objects.filter(pk__in=new).values_list("pk", *columns)
                known.update((key, tuple(rest)) for key, *rest in found)

    def join(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a row of MEASUREMENT_COLUMNS."""
        series_id, run_id, started_at, error, is_excluded, badges, host_id, environment_id, *rest = row
        profile, sweep_id, labels, *metrics = rest
        direction, *workload_and_target = self.series[series_id]
        host, pool = self.hosts[host_id]
        return (
            series_id,
            run_id,
            started_at,
            error,
            is_excluded,
            badges or (),
            direction,
            name_pattern(workload_and_target[0], direction),
            host,
            pool or None,
            profile,
            sweep_id,
            labels or {},
            *metrics,
            *workload_and_target,
            *self.environments[environment_id],
        )


def _choose_columns(columns: Sequence[str]) -> Any:
    """Return a function that selects the columns of a row."""
    at = {name: index for index, name in enumerate(MEASUREMENT_COLUMNS)}
    labels = [name.removeprefix("label.") for name in columns if name.startswith("label.")]
    if not labels:
        if len(columns) == 1:
            index = at[columns[0]]
            return lambda row: (row[index],)
        return itemgetter(*(at[name] for name in columns))
    labels_at, width = at["labels"], len(MEASUREMENT_COLUMNS)
    with_labels = at | {f"label.{name}": width + index for index, name in enumerate(labels)}
    indexes = [with_labels[name] for name in columns]

    def choose(row: tuple[Any, ...]) -> tuple[Any, ...]:
        extended = (*row, *(row[labels_at].get(name) for name in labels))
        return tuple(extended[index] for index in indexes)

    return choose
