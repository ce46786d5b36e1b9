"""Levels of series as detection stored them: the one source of every number that represents a series."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.metrics import CATALOG, Metric, is_latency
from benchapp.detection.rules.noise_profile import FEWEST_NEW_RUNS
from benchapp.detection.rules.staleness import find_stale_after
from benchapp.framework.read.binary_columns import fetch_arrays, fetch_rows, write_ids
from benchapp.models import Slope, read_slope
from benchapp.models.measurement import are_same_kind

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
