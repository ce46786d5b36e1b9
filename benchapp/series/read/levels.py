"""Levels of series as detection stored them, the one source of every number that represents a series; their runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
from django.db.models.expressions import RawSQL
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.grammar import Term
from benchapp.catalog.metrics import CATALOG, Metric, is_latency
from benchapp.detection.rules.levels import find_newest_kind, find_stale_after
from benchapp.detection.rules.noise_profile import FEWEST_NEW_RUNS
from benchapp.framework.read.binary_columns import fetch_arrays, fetch_rows, from_us, write_ids
from benchapp.models import Level, Run, Slope, read_slope
from benchapp.models.coverage import match_maintenance
from benchapp.models.filtering import match_facts
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code, select_kind

# Below this number of runs a level is not evaluated.
DETECTION_RUNS_MINIMUM: Final = FEWEST_NEW_RUNS + 1


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level of one metric, in its base unit. from_at, to_at: start of its first and of its last run.

    latency_kind: as of `Level`. change: what begins it; None for the first level of a kind of latency.
    """

    from_at: datetime
    to_at: datetime
    first_run_id: int
    n: int
    median: float
    p10: float
    p90: float
    minimum: float
    maximum: float
    last: float
    latency_kind: str
    change: "LevelChange | None"

    @property
    def since_at(self) -> datetime:
        """Return when the change to the level began: the newest level of a drift since the drift began."""
        slope = self.change and self.change.slope
        return slope.from_at if slope else self.from_at

    @property
    def spread(self) -> float | None:
        """Return (p90 - p10) / median; None for fewer than two runs or a median of 0."""
        return (self.p90 - self.p10) / self.median if self.n >= 2 and self.median else None


@dataclass(frozen=True, slots=True)
class LevelChange:
    """The stored change that begins a level. relative: of that change, after / before − 1, in `metric`.

    metric: another one for metrics in which no changes are detected. before_median, after_median: in its base unit, of
    the nearest before_n and after_n runs, not of the whole levels. is_recovery: the level begins where the series
    recovered from that change. slope: of a drift, which begins two levels: its slope, and the newest runs.
    """

    id: int
    metric: str
    relative: float
    before_median: float
    before_n: int
    after_median: float
    after_n: int
    is_regression: bool
    incident_id: int | None
    is_recovery: bool
    slope: Slope | None = None


@dataclass(frozen=True, slots=True)
class PreviousLevel:
    """The level before the current one. until_at: start of its last run."""

    median: float
    until_at: datetime


@dataclass(frozen=True, slots=True)
class CurrentLevel:
    """The current level of one metric of a series, in its base unit.

    n: its runs. from_at, last_at: start of its first and of its last run. recent: the newest values of the series
    in chronological order, also of the level before. latency_kind: as of `Level`. previous, change: None for the first
    level of a kind of latency. stale_after: from then
    on the series is no longer measured as often as before.
    """

    series_id: int
    n: int
    median: float
    p10: float
    p90: float
    minimum: float
    maximum: float
    last: float
    recent: tuple[float, ...]
    from_at: datetime
    last_at: datetime
    latency_kind: str
    previous: PreviousLevel | None
    change: LevelChange | None
    stale_after: datetime

    @property
    def is_stale(self) -> bool:
        """Return whether the series is no longer measured as often as before."""
        return timezone.now() > self.stale_after


@dataclass(frozen=True, slots=True)
class MainLevel:
    """The current level of the main metric of a series: IOPS, or else the elapsed time."""

    metric: Metric
    level: CurrentLevel


def read_current_levels(series_ids: Sequence[int], metric: Metric) -> dict[int, CurrentLevel]:
    """Return the current level of each series by id, without series without a value; one query."""
    rows = fetch_rows(
        f"{_READ_CURRENT} WHERE level.metric = %s AND level.series_id = ANY(%s) AND is_current",
        [metric.name, list(series_ids)],
    )
    return {row[0]: _make_current(row) for row in rows}


def read_begun_levels(
    series_ids: Sequence[int], metric: Metric, *, before_at: datetime
) -> dict[int, CurrentLevel]:
    """Return the level of each series that had begun before a moment, by id, with its later runs; one query."""
    rows = fetch_rows(
        f"{_READ_CURRENT} WHERE level.metric = %s AND level.series_id = ANY(%s) AND level.from_at = ("  # noqa: S608
        "SELECT max(from_at) FROM benchapp_level own"
        " WHERE own.series_id = level.series_id AND own.metric = level.metric AND own.from_at < %s)",
        [metric.name, list(series_ids), before_at],
    )
    return {row[0]: _make_current(row) for row in rows}


def read_current_columns(
    series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[str, dict[str, NDArray[Any]]]:
    """Return series_id, n, median, p10, p90 and to_at (microseconds since 1970) of current levels of each metric.

    Each in the order of series_id. One query beside Django's cursor, for charts of many series; the levels of a series
    are stored next to each other, so that three metrics cost little more than one.
    """
    query = sql.SQL(
        "SELECT array_position(%s::text[], metric::text) AS place, series_id, n, median, p10, p90, to_at"
        " FROM benchapp_level WHERE metric = ANY(%s) AND is_current AND series_id = ANY(%s::bigint[])"
        " ORDER BY series_id"
    )
    numbers = dict.fromkeys(("median", "p10", "p90"), "double precision")
    kinds = {"place": "integer", "series_id": "bigint", "n": "integer", **numbers, "to_at": "timestamptz"}
    names = list(metrics)
    columns = fetch_arrays(query, [names, names, write_ids(series_ids)], columns=kinds)
    places = columns.pop("place")
    # PostgreSQL counts from 1.
    return {
        metric: {name: column[places == place] for name, column in columns.items()}
        for place, metric in enumerate(names, start=1)
    }


def read_level_history(series_ids: Sequence[int], metric: str) -> dict[int, tuple[CurrentLevel, ...]]:
    """Return all levels of each series by id, newest first, the first of them the current one; one query.

    `recent` is empty but for the current level.
    """
    found: dict[int, list[CurrentLevel]] = {}
    rows = fetch_rows(
        f"{_READ_CURRENT} WHERE level.metric = %s AND level.series_id = ANY(%s) ORDER BY level.series_id, from_at DESC",
        [metric, list(series_ids)],
    )
    for row in rows:
        found.setdefault(row[0], []).append(_make_current(row))
    return {series_id: tuple(levels) for series_id, levels in found.items()}


def read_levels(
    series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[int, Mapping[str, tuple[LevelRow, ...]]]:
    """Return the levels of each metric over the whole history, oldest first, by series; one query."""
    found: dict[int, dict[str, list[LevelRow]]] = {
        series_id: {metric: [] for metric in metrics} for series_id in series_ids
    }
    for series_id, metric, *values in fetch_rows(_READ_LEVELS, [list(series_ids), list(metrics)]):
        fields: list[Any] = [*values[:_OWN_COLUMNS], _make_change(*values[_OWN_COLUMNS:])]
        found[series_id][metric].append(LevelRow(*fields))
    return {
        series_id: {metric: tuple(levels) for metric, levels in by_metric.items()}
        for series_id, by_metric in found.items()
    }


def count_kinds(
    series_ids: Sequence[int], metric: str, *, before_at: datetime | None = None
) -> Mapping[str, int]:
    """Return of how many series the levels have each known kind of latency; one query, none for other metrics.

    before_at: the levels that had begun by then, instead of the current ones.
    """
    if not is_latency(metric):
        return {}
    if before_at is None:
        return dict(fetch_rows(_COUNT_KINDS, [metric, list(series_ids)]))
    return dict(fetch_rows(_COUNT_BEGUN_KINDS, [metric, list(series_ids), before_at]))


def find_level_before(levels: Sequence[LevelRow], place: int) -> LevelRow | None:
    """Return the level before the change to the level at a place; of a drift, that before its slope.

    None without one of the same kind of latency.
    """
    level = levels[place]
    change = level.change
    earlier = (
        each
        for each in reversed(levels[:place])
        if change is None or change.slope is None or each.change is None or each.change.id != change.id
    )
    before = next(earlier, None)
    return before if before and are_same_kind(before.latency_kind, level.latency_kind) else None


def find_level(levels: Sequence[LevelRow], at: datetime) -> LevelRow | None:
    """Return the level that a time belongs to: the last that has begun; None before the first."""
    return next((level for level in reversed(levels) if level.from_at <= at), None)


def _make_current(row: Sequence[Any]) -> CurrentLevel:
    (
        series_id,
        n,
        median,
        p10,
        p90,
        minimum,
        maximum,
        last,
        recent,
        from_at,
        last_at,
        latency_kind,
        before,
        until_at,
        first_at,
        count,
        *change,
    ) = row
    return CurrentLevel(
        series_id=series_id,
        n=n,
        median=median,
        p10=p10,
        p90=p90,
        minimum=minimum,
        maximum=maximum,
        last=last,
        recent=tuple(recent),
        from_at=from_at,
        last_at=last_at,
        latency_kind=latency_kind,
        previous=None if until_at is None else PreviousLevel(before, until_at),
        change=_make_change(*change),
        stale_after=find_stale_after(first_at, last_at, n=count),
    )


def _make_change(change_id: int | None, *fields: Any) -> LevelChange | None:
    if change_id is None:
        return None
    *columns, evidence = fields
    return replace(LevelChange(change_id, *columns), slope=read_slope(evidence or {}))


MAIN_METRICS: Final = (CATALOG["iops"], CATALOG["elapsed_s"])
_CHANGE: Final = (
    "change.id, change.metric, change.relative, change.before_median, change.before_n, change.after_median,"
    " change.after_n, change.is_regression, change.incident_id, level.is_recovery,"
    " CASE WHEN change.method LIKE 'drift-%%' AND NOT level.is_recovery THEN change.evidence END"
)
_READ_CURRENT: Final = (
    "SELECT level.series_id, n, median, p10, p90, minimum, maximum, last,"  # noqa: S608
    " coalesce(newest.recent, '{}'), from_at, level.to_at, latency_kind, previous_median,"
    f" previous_until_at, series.first_at, series.measurement_count, {_CHANGE} FROM benchapp_level level"
    " JOIN benchapp_series series ON series.id = level.series_id"
    " LEFT JOIN benchapp_change change ON change.id = level.change_id"
    " LEFT JOIN benchapp_newestvalues newest"
    " ON level.is_current AND (newest.series_id, newest.metric) = (level.series_id, level.metric)"
)
_COUNT_KINDS: Final = (
    "SELECT latency_kind, count(*) FROM benchapp_level"
    " WHERE metric = %s AND is_current AND series_id = ANY(%s) AND latency_kind <> '' GROUP BY latency_kind"
)
_COUNT_BEGUN_KINDS: Final = (
    "SELECT latency_kind, count(*) FROM (SELECT DISTINCT ON (series_id) latency_kind FROM benchapp_level"
    " WHERE metric = %s AND series_id = ANY(%s) AND from_at < %s ORDER BY series_id, from_at DESC) AS begun"
    " WHERE latency_kind <> '' GROUP BY latency_kind"
)
# The fields of LevelRow but its change, in order.
_OWN: Final = "from_at, to_at, first_run_id, n, median, p10, p90, minimum, maximum, last, latency_kind"
_OWN_COLUMNS: Final = _OWN.count(",") + 1
_READ_LEVELS: Final = (
    f"SELECT level.series_id, level.metric, {_OWN}, {_CHANGE} FROM benchapp_level level"  # noqa: S608
    " LEFT JOIN benchapp_change change ON change.id = level.change_id"
    " WHERE level.series_id = ANY(%s) AND level.metric = ANY(%s) ORDER BY level.series_id, from_at"
)


# As many as a level has at most.
LEVEL_RUNS_MAXIMUM: Final = 2000
# Bounds the memory of one query: 50 bytes a row.
_ROWS_AT_ONCE: Final = 400_000
# WITH TIES: repetitions within a run have its start.
_READ: Final = sql.SQL(
    "SELECT wanted.id, m.*"
    " FROM unnest(%s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::boolean[], %s::bigint[],"
    "  %s::text[]) AS wanted(id, series_id, from_at, to_at, is_limited, newest, kind)"
    " CROSS JOIN LATERAL ("
    "  SELECT run_id, started_at, {metric} AS value, coalesce({other}, 'NaN') AS other{kind_code}"
    "  FROM benchapp_measurement AS own"
    "  WHERE own.series_id = wanted.series_id AND started_at BETWEEN wanted.from_at AND wanted.to_at"
    "  AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL{of_kind}"
    "{outside}"
    "  AND (NOT wanted.is_limited OR EXISTS (SELECT FROM unnest(%s::bigint[], %s::bigint[])"
    "   AS allowed(id, environment_id) JOIN benchapp_run ON benchapp_run.environment_id = allowed.environment_id"
    "   WHERE allowed.id = wanted.id AND benchapp_run.id = own.run_id)){condition}"
    "  ORDER BY started_at DESC FETCH FIRST (wanted.newest) ROWS WITH TIES) AS m"
)
# Left out where there is no maintenance: PostgreSQL evaluates it for each run.
_OUTSIDE_MAINTENANCE: Final = sql.SQL(
    "  AND NOT EXISTS (SELECT FROM unnest(%s::bigint[], %s::timestamptz[], %s::timestamptz[])"
    "   AS maintenance(series_id, from_at, ends_at) WHERE maintenance.series_id = own.series_id"
    "   AND own.started_at >= maintenance.from_at AND own.started_at < maintenance.ends_at)"
)


def compose_run_condition(terms: Sequence[Term], column: str) -> tuple[sql.Composable, tuple[Any, ...]]:
    """Return the condition that the run of a column ("m.run_id") matches terms for facts of runs, and its values.

    The condition begins with AND; without terms it is empty.
    """
    if not terms:
        return sql.SQL(""), ()
    is_own = {"pk": RawSQL(column, ())}  # a name that the caller's query has  # noqa: S611
    matched = Run.objects.filter(match_facts(terms), **is_own).order_by().values("pk")
    text, values = matched.query.sql_with_params()
    return sql.SQL(" AND EXISTS ({})").format(sql.SQL(text)), tuple(values)


@dataclass(frozen=True, slots=True)
class LevelSpan:
    """The part of a series that a level has. from_at, to_at: start of its first and of its last run, both inclusive.

    environment_ids: only runs in these environments; None for all. latency_kind: only values of this kind; "" for all.
    """

    series_id: int
    from_at: datetime
    to_at: datetime
    environment_ids: tuple[int, ...] | None = None
    latency_kind: str = ""


@dataclass(frozen=True, slots=True)
class LevelRuns:
    """Runs of one level, oldest first; repetitions within a run are its median.

    values: of the metric, in its base unit; others: of another metric of the same runs, NaN where unknown, and of a
    latency where it is not of the newest kind.
    """

    run_ids: NDArray[np.int64]
    at_us: NDArray[np.int64]
    values: NDArray[np.float64]
    others: NDArray[np.float64]

    def list_times(self) -> list[datetime]:
        """Return the start of each run."""
        return [from_us(at_us) for at_us in self.at_us.tolist()]


def read_level_runs(
    spans: Mapping[int, LevelSpan],
    metric: str,
    *,
    newest: Mapping[int, int] | None = None,
    other: str = "",
    terms: Sequence[Term] = (),
) -> dict[int, LevelRuns]:
    """Return the runs of levels by their keys, without levels without runs: the runs that detection makes levels of.

    Without failed and excluded runs, those without a value, and those during maintenance. newest: number of runs to
    read of each level, at most and by default LEVEL_RUNS_MAXIMUM. other: a further metric. terms: for facts of runs,
    which they match. One query for every 400 000 rows, and those of the maintenance. Raises ValueError for an unknown
    metric.
    """
    for name in filter(None, (metric, other)):
        if name not in CATALOG:
            raise ValueError(f"{name!r} is not a column of a measurement")
    if not spans:
        return {}
    maintenance = _list_maintenance(spans.values())
    limits = {key: min((newest or {}).get(key, LEVEL_RUNS_MAXIMUM), LEVEL_RUNS_MAXIMUM) for key in spans}
    found: dict[int, LevelRuns] = {}
    condition = compose_run_condition(terms, "own.run_id")
    for keys in _split(limits):
        found |= _read_part(
            {key: spans[key] for key in keys},
            limits,
            metric,
            other=other or metric,
            maintenance=maintenance,
            condition=condition,
        )
    return found


def read_current_spans(series_ids: Sequence[int], metric: str) -> dict[int, LevelSpan]:
    """Return the span of the current level of each series by its id, without series without a value; one query."""
    rows = Level.objects.filter(metric=metric, series_id__in=series_ids, is_current=True)
    columns = rows.values("series_id", "from_at", "to_at", "latency_kind")
    return {row["series_id"]: LevelSpan(**row) for row in columns}


def read_spans_before(series_ids: Sequence[int], metric: str, *, before_at: datetime) -> dict[int, LevelSpan]:
    """Return the span until a moment of the level that had begun before it, of each series by its id; one query."""
    begun = (
        Level.objects.filter(series_id__in=series_ids, metric=metric, from_at__lt=before_at)
        .order_by("series_id", "-from_at")
        .distinct("series_id")
    )
    return {level.series_id: _end_before(level, before_at) for level in begun}


def _end_before(level: Level, before_at: datetime) -> LevelSpan:
    to_at = level.to_at if level.to_at < before_at else before_at - timedelta(microseconds=1)
    return LevelSpan(level.series_id, level.from_at, to_at, latency_kind=level.latency_kind)


def read_host_names(runs: Iterable[LevelRuns]) -> dict[int, str]:
    """Return the name of the host of each run by its id; one query."""
    ids = [each for own in runs for each in own.run_ids.tolist()]
    return dict(Run.objects.filter(pk__in=ids).values_list("pk", "host__name"))


def _split(limits: Mapping[int, int]) -> list[list[int]]:
    """Divide the levels into parts of at most so many rows."""
    parts: list[list[int]] = []
    room = 0
    for key, limit in limits.items():
        if limit > room:
            parts.append([])
            room = _ROWS_AT_ONCE
        parts[-1].append(key)
        room -= limit
    return parts


def _list_maintenance(spans: Any) -> tuple[list[int], list[datetime], list[datetime]]:
    """Return series, start and end of the maintenance in the time of the spans."""
    spans = list(spans)
    matched = match_maintenance(
        {span.series_id for span in spans},
        from_at=min(span.from_at for span in spans),
        to_at=max(span.to_at for span in spans),
    )
    rows = [(series_id, event.from_at, event.ends_at) for series_id, own in matched.items() for event in own]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _read_part(
    spans: Mapping[int, LevelSpan],
    limits: Mapping[int, int],
    metric: str,
    *,
    other: str,
    maintenance: tuple[list[int], list[datetime], list[datetime]],
    condition: tuple[sql.Composable, tuple[Any, ...]],
) -> dict[int, LevelRuns]:
    allowed = [(key, each) for key, span in spans.items() for each in span.environment_ids or ()]
    parameters = [
        list(spans),
        [span.series_id for span in spans.values()],
        [span.from_at for span in spans.values()],
        [span.to_at for span in spans.values()],
        [span.environment_ids is not None for span in spans.values()],
        [limits[key] for key in spans],
        [span.latency_kind for span in spans.values()],
        *(maintenance if maintenance[0] else ()),
        [key for key, _ in allowed],
        [each for _, each in allowed],
        *condition[1],
    ]
    columns = {
        "id": "bigint",
        "run_id": "bigint",
        "started_at": "timestamptz",
        "value": "double precision",
        "other": "double precision",
    }
    has_kinds = other != metric and is_latency(other)
    if has_kinds:
        columns["kind_code"] = "integer"
    query = _READ.format(
        metric=sql.Identifier(metric),
        other=sql.Identifier(other),
        kind_code=sql.SQL(f", {KIND_CODE} AS kind_code" if has_kinds else ""),
        of_kind=sql.SQL(f" AND (wanted.kind = '' OR {select_kind(metric)} IN ('', wanted.kind))")
        if is_latency(metric)
        else sql.SQL(""),
        outside=_OUTSIDE_MAINTENANCE if maintenance[0] else sql.SQL(""),
        condition=condition[0],
    )
    arrays = fetch_arrays(query, parameters, columns=columns)
    # PostgreSQL takes several times as long to sort them.
    order = np.lexsort((arrays["run_id"], arrays["started_at"], arrays["id"]))
    arrays = {name: array[order] for name, array in arrays.items()}
    if has_kinds:
        keep_newest_kind(arrays, other, values="other")
    arrays = _merge_repetitions(arrays)
    if not len(arrays["id"]):
        return {}
    keys, firsts = np.unique(arrays["id"], return_index=True)
    ends = [*firsts[1:].tolist(), len(arrays["id"])]
    return {
        key: LevelRuns(
            run_ids=arrays["run_id"][first:end],
            at_us=arrays["started_at"][first:end],
            values=arrays["value"][first:end],
            others=arrays["other"][first:end],
        )
        for key, first, end in zip(keys.tolist(), firsts.tolist(), ends, strict=True)
    }


def keep_newest_kind(
    arrays: Mapping[str, NDArray[Any]], metric: str, *, ids: str = "id", values: str | None = None
) -> dict[int, str]:
    """Replace the values of a latency that are not of the newest kind of their series by NaN; return the kinds.

    arrays: started_at, kind_code, the metric's values, and the ids of the series, equal ones next to each other.
    ids, values: the names of these columns; values of None: the metric.
    """
    of_metric = arrays[values or metric]
    found: dict[int, str] = {}
    keys, firsts = np.unique(arrays[ids], return_index=True)
    bounds = pairwise([*firsts.tolist(), len(of_metric)])
    for key, (first, end) in zip(keys.tolist(), bounds, strict=True):
        codes = arrays["kind_code"][first:end]
        if (codes == codes[0]).all():
            found[key] = read_kind_code(metric, int(codes[0]))
            continue
        order = first + np.argsort(arrays["started_at"][first:end], kind="stable")
        order = order[~np.isnan(of_metric[order])]
        kinds = [read_kind_code(metric, code) for code in arrays["kind_code"][order].tolist()]
        found[key] = find_newest_kind(kinds)
        of_metric[order[[not are_same_kind(kind, found[key]) for kind in kinds]]] = np.nan
    return found


def _merge_repetitions(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Replace repetitions within a run, which are next to each other, by their median."""
    same = ("id", "started_at", "run_id")
    is_first = np.ones(len(arrays["id"]), dtype=bool)
    is_first[1:] = np.logical_or.reduce([np.diff(arrays[name]) != 0 for name in same])
    if is_first.all():
        return arrays
    firsts = np.flatnonzero(is_first)
    merged = {name: array[firsts] for name, array in arrays.items()}
    for name in ("value", "other"):
        parts = np.split(arrays[name], firsts[1:])
        merged[name] = np.array([_take_median(part) for part in parts])
    return merged


def _take_median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")
