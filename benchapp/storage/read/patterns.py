"""Current levels of a host by pattern, compared with those of its peers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from django.db import connection
from psycopg import sql

from benchapp.catalog.dimensions import name_pattern
from benchapp.catalog.metrics import CATALOG, Metric
from benchapp.detection.rules.levels import INTERVAL_FROM, INTERVALS, STALE_AFTER
from benchapp.framework.read.days import DayRange
from benchapp.incidents.read.series_status import SeriesMark, read_series_marks
from benchapp.models import LAYOUT_FIELDS
from benchapp.series.read.levels import CurrentLevel
from benchapp.series.read.selected_levels import (
    NOW,
    LevelRange,
    match_span,
    read_main_levels,
    read_relative_levels,
)
from benchapp.series.read.series import SeriesRow, read_rows, with_points
from benchapp.series.read.titles import describe_value, order_value
from benchapp.storage.read.hosts import HISTORY_SERIES_MAXIMUM, HostRow

_IOPS: Final = CATALOG["iops"]
_ELAPSED: Final = CATALOG["elapsed_s"]
# A host of a pool is compared by at least so many runs at the pool's level.
POOL_RUNS_MINIMUM: Final = 3
# Runs of a pool's series that are read: 20 of each of 20 hosts.
_POOL_RUNS_MAXIMUM: Final = 400
# Of a series, those measured last: their median hardly changes with more, and each is a step into two indexes.
PEERS_MAXIMUM: Final = 200
# Other hosts and pools with series of the same layout, workload and direction, each with the median of these, which
# its drives are; retired and stale ones left out.
_PEER_LEVELS: Final = (
    "SELECT id, count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY median), min(median), max(median) FROM"  # noqa: S608
    " (SELECT own.id, percentile_cont(0.5) WITHIN GROUP (ORDER BY level.median) AS median"
    " FROM benchapp_series own JOIN benchapp_target mine ON mine.id = own.target_id"
    " CROSS JOIN LATERAL (SELECT peer.id, scope FROM benchapp_target same"
    "  JOIN benchapp_series peer ON peer.target_id = same.id"
    "  WHERE peer.workload_id = own.workload_id AND peer.direction = own.direction AND peer.scope <> own.scope"
    f"  AND {' AND '.join(f'same.{name} IS NOT DISTINCT FROM mine.{name}' for name in LAYOUT_FIELDS)}"
    "  AND (host_id IS NULL OR host_id NOT IN (SELECT id FROM benchapp_host WHERE retired_at IS NOT NULL))"
    "  AND last_at > now() - greatest(%s::interval, CASE WHEN measurement_count >= %s"
    "   THEN %s * (last_at - first_at) / (measurement_count - 1) END)"
    "  ORDER BY last_at DESC, peer.id DESC LIMIT %s) AS peer"
    " JOIN benchapp_level level ON level.series_id = peer.id AND level.metric = %s AND level.is_current"
    " WHERE own.id = ANY(%s) GROUP BY own.id, peer.scope) AS peers GROUP BY id"
)
# The median of the runs of each host of a pool at the current level of a series.
_POOL_LEVELS: Final = (
    "SELECT wanted.series_id, run.host_id, percentile_cont(0.5) WITHIN GROUP (ORDER BY newest.value)"
    " FROM unnest(%s::bigint[]) AS wanted(series_id)"
    " JOIN benchapp_level level ON level.series_id = wanted.series_id AND level.metric = %s AND level.is_current"
    " CROSS JOIN LATERAL (SELECT run_id, {metric} AS value FROM benchapp_measurement"
    "  WHERE series_id = wanted.series_id AND started_at >= level.from_at AND error = 0 AND NOT is_excluded"
    "  AND {metric} IS NOT NULL ORDER BY started_at DESC, id DESC LIMIT %s) AS newest"
    " JOIN benchapp_run run ON run.id = newest.run_id"
    " JOIN benchapp_host host ON host.id = run.host_id AND host.retired_at IS NULL"
    " GROUP BY wanted.series_id, run.host_id HAVING count(*) >= %s"
)

# A pattern, and the target that it is measured on.
_Place = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class PeerComparison:
    """A level next to those of the peers, in the metric's base unit.

    own: the current level of the series; of a host in a pool, the median of its runs at that level. n: hosts and pools,
    at least one; median, minimum, maximum: of their levels, one each. relative: own / median − 1.
    """

    own: float
    n: int
    median: float
    minimum: float
    maximum: float

    @property
    def relative(self) -> float:
        """Return own / median − 1; 0 for a median of 0."""
        return self.own / self.median - 1 if self.median else 0.0


@dataclass(frozen=True, slots=True)
class HostPattern:
    """One pattern of a host, or of one of its targets. target: its name; None if the host has no other.

    series: the one that deviates most from its peers to the worse side; without peers the one measured last. level,
    metric, comparison, mark: of that series; comparison: None without peers. series_count: of the pattern;
    compared_count: of these, those with peers; typical_relative: median of their deviations. history: per day as in
    `read_host_histories`.
    """

    pattern: str
    target: str | None
    series: SeriesRow
    metric: Metric
    level: CurrentLevel
    comparison: PeerComparison | None
    mark: SeriesMark | None
    series_count: int
    compared_count: int
    typical_relative: float | None
    history: tuple[float | None, ...]

    @property
    def name(self) -> str:
        """Return the pattern with its target: "random read · /data"."""
        name = describe_value("pattern", self.pattern)
        return f"{name} · {self.target}" if self.target else name

    @property
    def is_worse(self) -> bool:
        """Return whether the series shown is on the worse side of its peers."""
        return self.comparison is not None and _measure_loss(self.comparison, self.metric) > 0


def read_host_patterns(
    host: HostRow, *, span: LevelRange = NOW, days: DayRange | None = None
) -> list[HostPattern]:
    """Return the patterns of each target of a host, or of its pool, sequential before random; at most twelve queries.

    span: of series with runs in it, and their levels at its end: without comparisons and marks if it is past, which are
    those of today; six more queries. days: of the histories, by default the last 90.

    Peers of a host without a pool: other hosts and pools with a series of the same layout, workload and direction that
    is still measured, each with the median of its drives; of many the PEERS_MAXIMUM series measured last. Peers of a
    host in a pool, whose series are those of the pool: the other hosts of the pool with at least three of the newest
    400 runs at the current level. At most 400 series, most recently measured first.
    """
    rows = list(
        with_points()
        .filter(match_span(span), scope=host.scope)
        .order_by("-last_at", "-id")
        .values_list("id", "rw", "direction", "target_name")[:HISTORY_SERIES_MAXIMUM]
    )
    has_several = len({target for *_, target in rows}) > 1
    patterns = {
        series_id: (name_pattern(rw, direction), target if has_several else None)
        for series_id, rw, direction, target in rows
    }
    main = read_main_levels(list(patterns), span=span)
    levels = {series_id: found.level for series_id, found in main.items()}
    metrics = {series_id: found.metric for series_id, found in main.items()}
    ids = [series_id for series_id in patterns if series_id in levels]
    comparisons = {} if span.to_at else _read_comparisons(host, ids, levels, metrics)
    histories = _read_histories({series_id: patterns[series_id] for series_id in ids}, days)
    members: dict[_Place, list[int]] = {}
    for series_id in ids:
        members.setdefault(patterns[series_id], []).append(series_id)
    shown = {
        # Of those that are not compared the one measured last, at a past end until then.
        pattern: max(
            group, key=lambda each: (_rank(comparisons.get(each), metrics[each]), levels[each].last_at)
        )
        for pattern, group in members.items()
    }
    series = {row.id: row for row in read_rows(list(shown.values()))}
    marks = {} if span.to_at else read_series_marks(list(series), metric=_IOPS.name)
    return [
        HostPattern(
            pattern=pattern[0],
            target=pattern[1],
            series=series[shown[pattern]],
            metric=metrics[shown[pattern]],
            level=levels[shown[pattern]],
            comparison=comparisons.get(shown[pattern]),
            mark=marks.get(shown[pattern]),
            series_count=len(group),
            compared_count=len(compared := [comparisons[each] for each in group if each in comparisons]),
            typical_relative=median(each.relative for each in compared) if compared else None,
            history=histories.get(pattern, ()),
        )
        for pattern, group in sorted(
            members.items(),
            key=lambda item: (order_value("pattern", item[0][0]), order_value("target_name", item[0][1])),
        )
    ]


def begin_with_runs(
    patterns: Sequence[HostPattern], days: DayRange
) -> tuple[Sequence[HostPattern], DayRange, int]:
    """Return the histories without the days before the first run of any, the days left, and how many were left out."""
    firsts = [
        next((place for place, value in enumerate(each.history) if value is not None), None)
        for each in patterns
    ]
    empty = min((first for first in firsts if first is not None), default=0)
    cut = [replace(each, history=each.history[empty:]) for each in patterns]
    return cut, replace(days, count=days.count - empty), empty


def _read_histories(
    patterns: Mapping[int, _Place], days: DayRange | None
) -> dict[_Place, tuple[float | None, ...]]:
    """Return the relative level of each pattern of a target by day. patterns: of series by id."""
    names = list(dict.fromkeys(patterns.values()))
    histories = read_relative_levels(
        sql.SQL(
            "SELECT id, place, last_at FROM benchapp_series"
            " JOIN unnest(%(ids)s::bigint[], %(places)s::integer[]) AS wanted(id, place) USING (id)"
        ),
        {"ids": list(patterns), "places": [names.index(name) for name in patterns.values()]},
        days=days,
    )
    return {names[place]: history for place, history in histories.items()}


def _read_comparisons(
    host: HostRow, ids: Sequence[int], levels: Mapping[int, CurrentLevel], metrics: Mapping[int, Metric]
) -> dict[int, PeerComparison]:
    found: dict[int, PeerComparison] = {}
    for metric in (_IOPS, _ELAPSED):
        of_metric = [series_id for series_id in ids if metrics[series_id] == metric]
        if of_metric and host.pool:
            found |= _compare_in_pool(host.id, of_metric, metric)
        elif of_metric:
            found |= _compare_with_series(of_metric, levels, metric)
    return found


def _compare_with_series(
    ids: Sequence[int], levels: Mapping[int, CurrentLevel], metric: Metric
) -> dict[int, PeerComparison]:
    with connection.cursor() as cursor:
        cursor.execute(
            _PEER_LEVELS,
            [f"{STALE_AFTER.days} days", INTERVAL_FROM, INTERVALS, PEERS_MAXIMUM, metric.name, list(ids)],
        )
        rows: list[tuple[int, int, float, float, float]] = cursor.fetchall()
    return {
        series_id: PeerComparison(levels[series_id].median, n, middle, lowest, highest)
        for series_id, n, middle, lowest, highest in rows
    }


def _compare_in_pool(host_id: int, ids: Sequence[int], metric: Metric) -> dict[int, PeerComparison]:
    query = sql.SQL(_POOL_LEVELS).format(metric=sql.Identifier(metric.name))
    with connection.cursor() as cursor:
        cursor.execute(
            query.as_string(cursor.connection),
            [list(ids), metric.name, _POOL_RUNS_MAXIMUM, POOL_RUNS_MINIMUM],
        )
        rows: list[tuple[int, int, float]] = cursor.fetchall()
    by_series: dict[int, dict[int, float]] = {}
    for series_id, of_host_id, value in rows:
        by_series.setdefault(series_id, {})[of_host_id] = value
    found = {}
    for series_id, values in by_series.items():
        own = values.pop(host_id, None)
        if own is not None and values:
            peers = values.values()
            found[series_id] = PeerComparison(own, len(peers), median(peers), min(peers), max(peers))
    return found


def _rank(comparison: PeerComparison | None, metric: Metric) -> tuple[bool, float]:
    """Return a key that is largest for the series furthest on the worse side of its peers."""
    return (comparison is not None, 0.0 if comparison is None else _measure_loss(comparison, metric))


def _measure_loss(comparison: PeerComparison, metric: Metric) -> float:
    """Return how much worse than the peers a series is; negative if better."""
    return comparison.relative if metric.better == "lower" else -comparison.relative
