"""One side of a comparison: its series, and their newest values."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import connection
from psycopg import sql

from benchapp.grammar import Filter
from benchapp.models import Measurement, Run, Series
from benchapp.models.filtering import match_series
from benchapp.queries.rows import TargetRow, WorkloadRow, names_of

# Values of one series on one side: the newest.
VALUES_MAXIMUM: Final = 100
SERIES_MAXIMUM: Final = 1000
_OWN: Final = ("id", "scope", "direction", "target_id")
SIDE_COLUMNS: Final = (*_OWN, *names_of(TargetRow), *names_of(WorkloadRow))
SideRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: a filter over series, or one run; within a span, from inclusive, to exclusive."""

    filter: Filter = field(default_factory=Filter)
    run_id: int | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SideValues:
    """The values of a side: by series, a list for each metric; and how many runs had which environment."""

    by_series: Mapping[int, tuple[list[float], ...]]
    environments: Mapping[int, int]

    def of(self, series_id: int, place: int) -> list[float]:
        """Return the values of one metric of a series."""
        known = self.by_series.get(series_id)
        return known[place] if known else []


def read_side(side: Side, common: Filter) -> list[SideRow]:
    """Return the measured series of a side, at most one more than SERIES_MAXIMUM; one query. common: holds as well."""
    rows = Series.objects.filter(last_at__isnull=False)
    if side.run_id is not None:
        rows = rows.filter(
            pk__in=Measurement.objects.filter(run_id=side.run_id).order_by().values("series_id").distinct()
        )
    rows = rows.filter(match_series(common) & match_series(side.filter))
    if side.from_at is not None:
        rows = rows.filter(last_at__gte=side.from_at)
    if side.to_at is not None:
        rows = rows.filter(first_at__lt=side.to_at)
    return list(rows.order_by("id").values(*SIDE_COLUMNS)[: SERIES_MAXIMUM + 1])


def read_values(side: Side, series_ids: Sequence[int], metrics: Sequence[str]) -> SideValues:
    """Return the newest valid values of these series within the side, newest first; one query."""
    conditions = [sql.SQL("m.series_id = wanted.id AND m.error = 0 AND NOT m.is_excluded")]
    parameters: list[Any] = [list(series_ids)]
    for condition, value in (
        ("m.run_id = %s", side.run_id),
        ("m.started_at >= %s", side.from_at),
        ("m.started_at < %s", side.to_at),
    ):
        if value is not None:
            conditions.append(sql.SQL(condition))
            parameters.append(value)
    columns = sql.SQL(", ").join(sql.Identifier("m", name) for name in metrics)
    # LATERAL: the newest few of each series by the index (series, time), however long its history is.
    query = sql.SQL(
        "SELECT wanted.id, run.environment_id, {names} FROM unnest(%s::bigint[]) AS wanted(id)"
        " CROSS JOIN LATERAL (SELECT m.run_id, {columns} FROM benchapp_measurement m WHERE {conditions}"
        "  ORDER BY m.started_at DESC, m.id DESC LIMIT {limit}) AS m JOIN benchapp_run run ON run.id = m.run_id"
    ).format(
        names=columns,
        columns=columns,
        conditions=sql.SQL(" AND ").join(conditions),
        limit=sql.Literal(VALUES_MAXIMUM),
    )
    by_series: dict[int, tuple[list[float], ...]] = {}
    environments: dict[int, int] = defaultdict(int)
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        for series_id, environment_id, *values in cursor.fetchall():
            environments[environment_id] += 1
            kept = by_series.setdefault(series_id, tuple([] for _ in metrics))
            for column, value in zip(kept, values, strict=True):
                if value is not None:
                    column.append(value)
    return SideValues(by_series, environments)


def read_run_title(run_id: int) -> tuple[str, datetime] | None:
    """Return the host's name and the start of a run; None where there is none."""
    return Run.objects.filter(pk=run_id).values_list("host__name", "started_at").first()
