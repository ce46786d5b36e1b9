"""The sides of a comparison: their series and newest values, names and environments, and sides to suggest."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import Max, Min
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.dimensions import DIMENSIONS
from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import cut_text, is_latency
from benchapp.framework.read.binary_columns import fetch_arrays, to_us
from benchapp.incidents.read.series_status import SeriesMark
from benchapp.models import (
    ENVIRONMENT_FIELDS,
    RECENTLY_REPORTED,
    Environment,
    Level,
    Measurement,
    Run,
    Series,
)
from benchapp.models.filtering import match_series
from benchapp.models.measurement import KIND_CODE
from benchapp.series.read.levels import compose_run_condition, keep_newest_kind
from benchapp.series.read.selected_levels import (
    find_maintenance,
    select_latest_level,
)
from benchapp.series.read.shapes import TargetRow, WorkloadRow, names_of
from benchapp.series.read.titles import describe_setting, describe_target, describe_workload, name_scope

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
        """Return whether most of these values of the series of a mark are since its change."""
        own = rows[self.series_ids[rows] == mark.series_id]
        return bool(len(own)) and float(np.median(self.started_at[own])) >= to_us(mark.started_at)


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
    of_runs, run_values = compose_run_condition(side.filter.fact_terms, "m.run_id")
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
        conditions=sql.SQL(" AND ").join(conditions) + of_runs,
        limit=sql.Literal(limit),
    )
    types = {"series_id": "bigint", "run_id": "bigint", "started_at": "timestamptz", "kind_code": "integer"}
    types |= dict.fromkeys(metrics, "double precision")
    arrays = fetch_arrays(rows, [*parameters, *run_values], columns=types)
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


# The value of a compared column of a workload; None for the others.
_BLANK: Final = {"rw": "", "block_size_text": "", "file_size_text": "", "engine": ""}
_TARGET: Final = names_of(TargetRow)
_WORKLOAD: Final = names_of(WorkloadRow)


class Titles:
    """Makes titles without the compared columns (free); each layout and workload is formatted once."""

    def __init__(self, free: frozenset[str]) -> None:
        self._free = free
        self._blank = {name: _BLANK.get(name) for name in free}
        self._targets: dict[int, str] = {}
        self._workloads: dict[tuple[int, str], str] = {}

    def describe(self, row: SideRow) -> str:
        """Return workload, layout and scope."""
        parts = (self._describe_workload(row), self._describe_target(row))
        scope = "" if "scope" in self._free else name_scope(row["scope"])
        return " · ".join(part for part in (*parts, scope) if part)

    def _describe_target(self, row: SideRow) -> str:
        key = row["target_id"]
        if key not in self._targets:
            target = TargetRow(**{name: None if name in self._free else row[name] for name in _TARGET})
            self._targets[key] = describe_target(target) if target.known() else ""
        return self._targets[key]

    def _describe_workload(self, row: SideRow) -> str:
        direction = "" if "direction" in self._free else str(row["direction"])
        key = row["workload_id"], direction
        if key not in self._workloads:
            asked: SideRow = {name: self._blank.get(name, row[name]) for name in _WORKLOAD}
            self._workloads[key] = describe_workload(WorkloadRow(**asked), direction=direction)
        return self._workloads[key]


# Of a side's label: further differences are in the table of differences.
_NAMED_MAXIMUM: Final = 3


def name_series_sides(one: SideRow, other: SideRow, differing: frozenset[str]) -> tuple[str, str]:
    """Return a label of each of two series by what they differ in: "db-01, 4 volumes".

    differing: columns. Without a difference "series 5 (db-01)".
    """
    names = [name for name in DIMENSIONS if name in differing][:_NAMED_MAXIMUM]
    labels = []
    for row in (one, other):
        parts = [name_scope(row["scope"])] if "scope" in differing or not names else []
        parts += [describe_setting(name, row[name]) for name in names]
        labels.append(", ".join(parts) if differing else f"series {row['id']} ({parts[0]})")
    return labels[0], labels[1]


_Row = dict[str, Any]


# Of the environments of two sides: every run of a host may report other facts.
_DIFFERENCES_MAXIMUM: Final = 200
_VALUES_MAXIMUM: Final = 20
_VALUE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """One field in which the environments of the sides differ; values as text, the commonest first.

    Of more than 20 values the last entry counts the others; so does the last of more than 200 fields.
    """

    name: str
    a: tuple[str, ...]
    b: tuple[str, ...]


def list_environment_differences(
    a: Mapping[int, int], b: Mapping[int, int]
) -> tuple[EnvironmentDifference, ...]:
    """Return the fields in which two groups differ; each group: environments by id, with how many runs had them."""
    rows = {
        row["id"]: row
        for row in Environment.objects.filter(pk__in={*a, *b}).values("id", *ENVIRONMENT_FIELDS)
    }
    differences: list[EnvironmentDifference] = []
    omitted_count = 0
    for name in _list_environment_names(rows.values()):
        first, second = (_count_values(rows, runs, name) for runs in (a, b))
        is_new = name in RECENTLY_REPORTED and ("unknown",) in (first, second)
        if set(first) == set(second) or is_new:
            continue
        if len(differences) < _DIFFERENCES_MAXIMUM:
            differences.append(EnvironmentDifference(name, _shorten(first), _shorten(second)))
        else:
            omitted_count += 1
    if omitted_count:
        differences.append(EnvironmentDifference(f"… and {omitted_count} more", (), ()))
    return tuple(differences)


def _shorten(values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the commonest values, each cut, and how many others there are."""
    shown = tuple(cut_text(value, _VALUE_LENGTH) for value in values[:_VALUES_MAXIMUM])
    omitted_count = len(values) - len(shown)
    return (*shown, f"… and {omitted_count} more") if omitted_count else shown


def _list_environment_names(rows: Iterable[_Row]) -> list[str]:
    plain = [name for name in ENVIRONMENT_FIELDS if name != "facts"]
    return [*plain, *sorted({name for row in rows for name in row["facts"]})]


def _count_values(rows: Mapping[int, _Row], runs: Mapping[int, int], name: str) -> tuple[str, ...]:
    counts: dict[str, int] = defaultdict(int)
    for environment_id, count in runs.items():
        row = rows[environment_id]
        value = row[name] if name in row else row["facts"].get(name)
        counts["unknown" if value is None else str(value)] += count
    return tuple(sorted(counts, key=lambda value: (-counts[value], value)))


def read_named_scopes(words: Iterable[str]) -> dict[str, str]:
    """Return the scope of each word that is exactly the name of one host or pool; none for a name of both."""
    wanted = [f"{kind}:{word}" for word in words for kind in ("host", "pool")]
    found = (
        Series.objects.filter(scope__in=wanted).values_list("scope", flat=True).distinct() if wanted else ()
    )
    counts = Counter(scope.partition(":")[2] for scope in found)
    return {name: scope for scope in found if counts[name := scope.partition(":")[2]] == 1}


def read_suggestions() -> dict[str, Any]:
    """Return what could be compared; four queries at most.

    hosts: up to two, with the most recent series. counts: lowest and highest number of volumes, None if there is one.
    runs: ids of the two newest runs of one profile on one host, older first, host, profile. has_measurements.
    """
    measured = Series.objects.filter(last_at__isnull=False)
    scopes = (
        measured.filter(scope__startswith="host:")
        .values("scope")
        .annotate(last=Max("last_at"))
        .order_by("-last", "scope")
        .values_list("scope", flat=True)[:2]
    )
    counts = measured.aggregate(least=Min("volume_count"), most=Max("volume_count"))
    newest = (
        Run.objects.order_by("-started_at", "-id")
        .values_list("id", "host_id", "host__name", "profile")
        .first()
    )
    return {
        "hosts": tuple(name_scope(scope) for scope in scopes),
        "counts": (counts["least"], counts["most"]) if counts["least"] != counts["most"] else None,
        "runs": _find_runs(*newest) if newest else None,
        "has_measurements": newest is not None,
    }


def _find_runs(run_id: int, host_id: int, host: str, profile: str) -> tuple[int, int, str, str] | None:
    before = (
        Run.objects.filter(host_id=host_id, profile=profile)
        .exclude(pk=run_id)
        .order_by("-started_at", "-id")
        .values_list("id", flat=True)
        .first()
    )
    return (before, run_id, host, profile) if before else None
