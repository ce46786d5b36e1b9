"""One side of a comparison: its series, and their newest values."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db import connection
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import is_latency
from benchapp.charts.read.downsampling import to_us
from benchapp.framework.read.binary_columns import fetch_arrays
from benchapp.incidents.read.series_status import SeriesMark
from benchapp.models import Level, Measurement, Series
from benchapp.models.filtering import match_series
from benchapp.models.measurement import KIND_CODE
from benchapp.series.read.levels import compose_run_condition, keep_newest_kind
from benchapp.series.read.selected_levels import (
    find_maintenance,
    select_latest_level,
)
from benchapp.series.read.shapes import TargetRow, WorkloadRow, names_of

# Values of one series on one side, the newest: as many as a level has at most.
VALUES_MAXIMUM: Final = 2000
# Rows of all series of one side: some ten MiB in each process.
ROWS_MAXIMUM: Final = 500_000
SERIES_MAXIMUM: Final = 10_000
_OWN: Final = ("id", "scope", "direction", "target_id", "workload_id")
SIDE_COLUMNS: Final = (*_OWN, *names_of(TargetRow), *names_of(WorkloadRow))
SideRow = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two: a filter over series, one run, or one series; within a span, from inclusive, to exclusive.

    Without run and span: the current level of each series. Facts of runs in the filter select runs.
    """

    filter: Filter = field(default_factory=Filter)
    run_id: int | None = None
    series_id: int | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_current(self) -> bool:
        """Return whether it is the current levels."""
        return self.run_id is None and self.from_at is None and self.to_at is None


@dataclass(frozen=True, slots=True)
class SideValues:
    """The measurements of a side, a row each: their series in ascending order, their runs, a column for each metric.

    started_at: µs since 1970. cut_at: each series has its newest values only, so many, as the side has too many series;
    None if all have all. kinds: of the values of each latency, by series; those of another kind are NaN.
    """

    series_ids: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    started_at: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float64]]
    kinds: Mapping[str, Mapping[int, str]]
    cut_at: int | None

    def find(self, series_ids: Sequence[int], metric: str) -> NDArray[np.int64]:
        """Return the rows of the known values of a metric of some series, one series after the other."""
        bounds = np.searchsorted(self.series_ids, [(each, each + 1) for each in series_ids]).tolist()
        rows = np.concatenate([np.arange(first, end) for first, end in bounds])
        known: NDArray[np.int64] = rows[~np.isnan(self.columns[metric][rows])]
        return known

    def list_kinds(self, series_ids: Sequence[int], metric: str) -> set[str]:
        """Return the known kinds of a latency of some series; empty for other metrics."""
        return {self.kinds.get(metric, {}).get(each, "") for each in series_ids} - {""}

    def has_reached(self, rows: NDArray[np.int64], mark: SeriesMark) -> bool:
        """Return whether the change of a mark is among these rows: its series has a value since then."""
        own = rows[self.series_ids[rows] == mark.series_id]
        return bool(len(own)) and int(self.started_at[own].max()) >= to_us(mark.started_at)


def read_side(side: Side, common: Filter, *, series_ids: Sequence[int] = ()) -> list[SideRow]:
    """Return the measured series of a side, at most one more than SERIES_MAXIMUM; one query.

    common: holds as well. series_ids: only these; empty for all.
    """
    rows = Series.objects.filter(last_at__isnull=False)
    if series_ids:
        rows = rows.filter(pk__in=list(series_ids))
    if side.series_id is not None:
        rows = rows.filter(pk=side.series_id)
    if side.run_id is not None:
        rows = rows.filter(
            pk__in=Measurement.objects.filter(run_id=side.run_id).order_by().values("series_id").distinct()
        )
    rows = rows.filter(match_series(common) & match_series(side.filter, runs="any"))
    if side.from_at is not None:
        rows = rows.filter(last_at__gte=side.from_at)
    if side.to_at is not None:
        rows = rows.filter(first_at__lt=side.to_at)
    return list(rows.order_by("id").values(*SIDE_COLUMNS)[: SERIES_MAXIMUM + 1])


def read_values(side: Side, series_ids: Sequence[int], metrics: Sequence[str]) -> SideValues:
    """Return the newest valid values of these series within the side; one query beside Django's cursor.

    Of current levels without the runs before them and those during maintenance: three queries and those of its filters.
    With terms for facts of runs: only runs that match; without run and span those in the latest level of the series
    that has any.
    """
    limit = min(VALUES_MAXIMUM, ROWS_MAXIMUM // max(1, len(series_ids)))
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
    of_runs = compose_run_condition(side.filter.fact_terms, "m.run_id")
    known = (sql.SQL("coalesce({0}, 'NaN') AS {0}").format(sql.Identifier(name)) for name in metrics)
    # LATERAL: the newest few of each series by the index (series, time), however long its history is.
    rows = sql.SQL(
        "SELECT wanted.id AS series_id, run_id, started_at, kind_code, {known} FROM unnest(%s::bigint[]) AS wanted(id)"
        " CROSS JOIN LATERAL (SELECT m.run_id, m.started_at, {kind_code} AS kind_code, {columns}"
        "  FROM benchapp_measurement m WHERE {conditions}"
        "  ORDER BY m.started_at DESC, m.id DESC LIMIT {limit}) AS m ORDER BY wanted.id"
    ).format(
        known=sql.SQL(", ").join(known),
        kind_code=sql.SQL(KIND_CODE if any(map(is_latency, metrics)) else "0"),
        columns=sql.SQL(", ").join(sql.Identifier("m", name) for name in metrics),
        conditions=sql.SQL(" AND ").join(conditions) + of_runs.text,
        limit=sql.Literal(limit),
    )
    types = {"series_id": "bigint", "run_id": "bigint", "started_at": "timestamptz", "kind_code": "integer"}
    types |= dict.fromkeys(metrics, "double precision")
    arrays = fetch_arrays(rows, [*parameters, *of_runs.values], columns=types)
    if side.is_current and len(arrays["series_id"]):
        select = _select_latest if side.filter.fact_terms else _select_current
        arrays = select(arrays, series_ids, metrics)
    kinds = {
        metric: keep_newest_kind(arrays, metric, ids="series_id") for metric in metrics if is_latency(metric)
    }
    is_cut = (
        limit < VALUES_MAXIMUM
        and np.unique(arrays["series_id"], return_counts=True)[1].max(initial=0) >= limit
    )
    return SideValues(
        arrays["series_id"],
        arrays["run_id"],
        arrays["started_at"],
        {name: arrays[name] for name in metrics},
        kinds,
        cut_at=limit if is_cut else None,
    )


def _select_current(
    arrays: dict[str, NDArray[Any]], series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the measurements of the current levels; values of a metric before its level are NaN."""
    series, times = arrays["series_id"], arrays["started_at"]
    levels = Level.objects.filter(is_current=True, series_id__in=series_ids, metric__in=metrics)
    ids, places = np.unique(series, return_inverse=True)
    starts = {metric: np.full(len(ids), np.iinfo(np.int64).max) for metric in metrics}
    for series_id, metric, from_at in levels.values_list("series_id", "metric", "from_at"):
        starts[metric][ids == series_id] = to_us(from_at)
    is_in_any = np.zeros(len(series), dtype=bool)
    selected = dict(arrays)
    for metric in metrics:
        is_in_level = times >= starts[metric][places]
        selected[metric] = np.where(is_in_level, arrays[metric], np.nan)
        is_in_any |= is_in_level
    is_in_any &= ~find_maintenance(series, times)
    return {name: array[is_in_any] for name, array in selected.items()}


def _select_latest(
    arrays: dict[str, NDArray[Any]], series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Return the measurements of each series in its latest level that has any; values in earlier levels are NaN."""
    series, times = arrays["series_id"], arrays["started_at"]
    starts: dict[tuple[int, str], list[int]] = defaultdict(list)
    levels = Level.objects.filter(series_id__in=series_ids, metric__in=metrics).order_by("from_at")
    for series_id, metric, from_at in levels.values_list("series_id", "metric", "from_at"):
        starts[series_id, metric].append(to_us(from_at))
    counts = ~find_maintenance(series, times)
    is_in_any = np.zeros(len(series), dtype=bool)
    selected = dict(arrays)
    for metric in metrics:
        is_member = counts & ~np.isnan(arrays[metric])
        for series_id in np.unique(series).tolist():
            own = slice(*np.searchsorted(series, (series_id, series_id + 1)).tolist())
            is_member[own] = select_latest_level(
                times[own], starts[series_id, metric], is_member=is_member[own]
            )
        selected[metric] = np.where(is_member, arrays[metric], np.nan)
        is_in_any |= is_member
    return {name: array[is_in_any] for name, array in selected.items()}


def read_environment_ids(run_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the environment of each of these runs, by id; one query."""
    unique, places = np.unique(run_ids, return_inverse=True)
    with connection.cursor() as cursor:
        # As one value: of thousands Django writes each into the query.
        cursor.execute(
            "SELECT id, environment_id FROM benchapp_run WHERE id = ANY(%s)",
            [unique.tolist()],
        )
        environments = dict(cursor.fetchall())
    return np.array([environments[each] for each in unique.tolist()], dtype=np.int64)[places]


def count_each(values: NDArray[np.int64]) -> dict[int, int]:
    """Return how often each value occurs."""
    return dict(zip(*(each.tolist() for each in np.unique(values, return_counts=True)), strict=True))
