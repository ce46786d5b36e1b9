"""Levels of series in a time range, and of the runs with some facts.

`read_levels_in` stands behind every page, export, answer and image with a time range and one number for each series.

Levels are those that detection stored. Runs that share their level with runs of other environments are read, and those
of a profile, sweep or label; others are the stored level itself.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import BooleanField, Exists, OuterRef, Q
from django.db.models.expressions import RawSQL
from django.utils import timezone
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.grammar import Term, Value
from benchapp.catalog.metrics import Metric, is_latency
from benchapp.detection.rules.levels import INTERVAL_FROM, INTERVALS, STALE_AFTER, describe_values
from benchapp.framework.read.binary_columns import DAYS_S, fetch_arrays, from_us, read_cached, to_us
from benchapp.framework.read.days import DayRange
from benchapp.models import Environment, Measurement, Run, SeriesEnvironment
from benchapp.models.coverage import match_maintenance
from benchapp.models.filtering import match_environment, match_facts
from benchapp.models.measurement import KIND_CODE, are_same_kind, read_kind_code
from benchapp.series.read.levels import (
    MAIN_METRICS,
    CurrentLevel,
    LevelRuns,
    LevelSpan,
    MainLevel,
    compose_run_condition,
    read_begun_levels,
    read_current_levels,
    read_level_history,
    read_level_runs,
)

# Charts with a past end read the runs of the levels that went on: of at most so many series.
PAST_SERIES_MAXIMUM: Final = 2000
# Of the sparkline of an earlier level, as many as of a current one.
_RECENT: Final = 20
_MICROSECOND: Final = timedelta(microseconds=1)
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LevelRange:
    """A time range of charts with one number for each series. None is open.

    from_at: only series with a valid run from then on, inclusive. to_at: numbers are those of the level that was
    current then, exclusive.
    """

    from_at: datetime | None = None
    to_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Return whether numbers are those of all current levels."""
        return self.from_at is None and self.to_at is None

    def has_run(self, last_at: datetime) -> bool:
        """Return whether the last run of a level, which ended by the end of the range, is in the range."""
        return self.from_at is None or last_at >= self.from_at


# All current levels.
NOW: Final = LevelRange()


def make_level_range(from_at: datetime | None, to_at: datetime | None) -> LevelRange:
    """Return the range with these ends; an end that is not past is open: until then the current levels are current."""
    return LevelRange(from_at, None if to_at is not None and to_at >= timezone.now() else to_at)


def match_span(span: LevelRange) -> Q:
    """Return the condition that a series has a run in a range, also one that failed."""
    matched = Q()
    if span.from_at is not None:
        matched &= Q(last_at__gte=span.from_at)
    if span.to_at is not None:
        matched &= Q(first_at__lt=span.to_at)
    if span.from_at is not None and span.to_at is not None:
        runs = Measurement.objects.filter(started_at__gte=span.from_at, started_at__lt=span.to_at)
        matched &= Q(Exists(runs.filter(series=OuterRef("pk"))))
    return matched


def read_levels_in(
    series_ids: Sequence[int], metric: Metric, *, span: LevelRange, has_recent: bool = True
) -> dict[int, CurrentLevel]:
    """Return the level of each series in a range by id, without series without one; one query, with an end four.

    The level at a past end is the stored one that had begun by then, of its runs until then. `recent` has only these,
    and nothing of a past level without has_recent. It is never stale.
    """
    if span.to_at is None:
        levels = read_current_levels(series_ids, metric)
    else:
        levels = _read_past(series_ids, metric, before_at=span.to_at, has_recent=has_recent)
    return {series_id: level for series_id, level in levels.items() if span.has_run(level.last_at)}


def read_main_levels(series_ids: Sequence[int], *, span: LevelRange = NOW) -> dict[int, MainLevel]:
    """Return the level that represents each series in a range, without series without one."""
    found: dict[int, MainLevel] = {}
    for metric in MAIN_METRICS:
        missing = [series_id for series_id in series_ids if series_id not in found]
        levels = read_levels_in(missing, metric, span=span, has_recent=False) if missing else {}
        found |= {series_id: MainLevel(metric, level) for series_id, level in levels.items()}
    return found


def _read_past(
    series_ids: Sequence[int], metric: Metric, *, before_at: datetime, has_recent: bool
) -> dict[int, CurrentLevel]:
    begun = read_begun_levels(series_ids, metric, before_at=before_at)
    ended = {series_id for series_id, level in begun.items() if level.last_at < before_at}
    runs = read_level_runs(
        {
            series_id: LevelSpan(
                series_id,
                level.from_at,
                min(level.last_at, before_at - _MICROSECOND),
                latency_kind=level.latency_kind,
            )
            for series_id, level in begun.items()
            if has_recent or series_id not in ended
        },
        metric.name,
        newest=dict.fromkeys(ended, _RECENT),
    )
    found = {series_id: replace(begun[series_id], recent=(), stale_after=_NEVER) for series_id in ended}
    for series_id, own in runs.items():
        recent = tuple(own.values[-_RECENT:].tolist())
        if series_id in ended:
            found[series_id] = replace(found[series_id], recent=recent)
        else:
            found[series_id] = _describe(begun[series_id], own, recent)
    return found


def _describe(level: CurrentLevel, runs: LevelRuns, recent: tuple[float, ...]) -> CurrentLevel:
    """Return a level that went on as it was when it had these runs."""
    own = describe_values(runs.values, 0, len(runs.values))
    return replace(
        level,
        n=own.n,
        median=own.median,
        p10=own.p10,
        p90=own.p90,
        minimum=own.minimum,
        maximum=own.maximum,
        last=own.last,
        recent=recent,
        last_at=from_us(runs.at_us[-1]),
        stale_after=_NEVER,
    )


# Series whose levels are divided by an environment change; so many are read at once, which bounds the memory.
_DIVIDED_AT_ONCE: Final = 2000
# A plain join: PostgreSQL begins with the runs if few of them match the condition, with the series if these are few.
# Of each series no more runs are read than its levels have: from the beginning of the oldest.
_READ: Final = sql.SQL(
    "SELECT m.series_id, m.run_id, m.started_at, run.environment_id, m.{metric} AS value{kind_code}"
    " FROM unnest(%s::bigint[], %s::timestamptz[]) AS wanted(id, from_at)"
    " JOIN benchapp_measurement m ON m.series_id = wanted.id AND m.started_at >= wanted.from_at"
    " JOIN benchapp_run run ON run.id = m.run_id"
    " WHERE m.error = 0 AND NOT m.is_excluded AND m.{metric} IS NOT NULL{condition}"
)

_READ_BADGES: Final = sql.SQL(
    "SELECT coalesce(newest.codes, ARRAY[]::text[]) FROM unnest(%s::bigint[], %s::timestamptz[])"
    " WITH ORDINALITY AS wanted(id, at, place) LEFT JOIN LATERAL ("
    "  SELECT ARRAY(SELECT badge->>'code' FROM jsonb_array_elements(badges) AS badge) AS codes"
    "  FROM benchapp_measurement"
    "  WHERE series_id = wanted.id AND started_at {until} wanted.at{condition}"
    "  ORDER BY started_at DESC, id DESC LIMIT 1) AS newest ON true ORDER BY wanted.place"
)


@dataclass(frozen=True, slots=True)
class EnvironmentSpan:
    """When a series was measured in an environment: start of its first and of its last run there."""

    environment_id: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class RunGroup:
    """The runs of a series in the environments with these values. values: of the facts that make the groups.

    spans: of its environments; other_spans: of the other environments of the series.
    """

    series_id: int
    values: tuple[Value | None, ...]
    spans: tuple[EnvironmentSpan, ...]
    other_spans: tuple[EnvironmentSpan, ...]

    @property
    def environment_ids(self) -> tuple[int, ...]:
        """Return its environments."""
        return tuple(span.environment_id for span in self.spans)


@dataclass(frozen=True, slots=True)
class GroupLevel:
    """The level of a group: its runs in the latest level that has any. is_current: in the current level.

    environment_ids: the environments of the group.
    """

    level: CurrentLevel
    is_current: bool
    environment_ids: tuple[int, ...]

    @property
    def span(self) -> LevelSpan:
        """Return which runs of the series they are."""
        level = self.level
        return LevelSpan(
            level.series_id, level.from_at, level.last_at, self.environment_ids, level.latency_kind
        )


def read_run_groups(
    series_ids: Sequence[int], *, terms: Sequence[Term] = (), names: Sequence[str] = ()
) -> list[RunGroup]:
    """Return the groups of runs of each series, in the order of the series; three queries.

    terms: for facts of the environment, which the runs match. names: facts; runs with the same values are a group.
    """
    spans: dict[int, list[EnvironmentSpan]] = defaultdict(list)
    rows = SeriesEnvironment.objects.filter(series_id__in=series_ids).order_by("series_id", "first_at", "id")
    columns = rows.values_list("series_id", "environment_id", "first_at", "last_at")
    for series_id, environment_id, first_at, last_at in columns:
        spans[series_id].append(EnvironmentSpan(environment_id, first_at, last_at))
    ids = {span.environment_id for own in spans.values() for span in own}
    matched = Environment.objects.filter(match_environment(terms), pk__in=ids).values_list("pk", *names)
    values = {pk: tuple(None if each == "" else each for each in own) for pk, *own in matched}
    return [group for series_id in series_ids for group in _divide(series_id, spans[series_id], values)]


def read_group_badges(groups: Sequence[RunGroup], *, terms: Sequence[Term] = ()) -> list[tuple[str, ...]]:
    """Return the codes of the badges of each group's newest measurement; terms: as of its levels; one query."""
    condition, values = compose_run_condition(terms, "benchapp_measurement.run_id")
    query = _READ_BADGES.format(condition=condition, until=sql.SQL("<=" if terms else "="))
    ats = [max(span.last_at for span in group.spans) for group in groups]
    with connection.cursor() as cursor:
        cursor.execute(query, [[group.series_id for group in groups], ats, *values])
        return [tuple(codes) for (codes,) in cursor.fetchall()]


def _divide(
    series_id: int, spans: Sequence[EnvironmentSpan], values: Mapping[int, tuple[Value | None, ...]]
) -> list[RunGroup]:
    own: dict[tuple[Value | None, ...], list[EnvironmentSpan]] = defaultdict(list)
    for span in spans:
        if span.environment_id in values:
            own[values[span.environment_id]].append(span)
    return [
        RunGroup(series_id, each, tuple(inside), tuple(span for span in spans if span not in inside))
        for each, inside in own.items()
    ]


def read_group_levels(
    groups: Sequence[RunGroup], metric: str, *, terms: Sequence[Term] = ()
) -> list[GroupLevel | None]:
    """Return the level of each group, None if none of its runs is valid.

    terms: for profile, sweep and labels, which the runs of the groups match. One query, and two for every 2 000 series
    whose levels have runs of several environments; with terms, of all series.
    """
    history = read_level_history(list(dict.fromkeys(group.series_id for group in groups)), metric)
    found: list[GroupLevel | None] = []
    divided: list[int] = []
    for place, group in enumerate(groups):
        levels = history.get(group.series_id, ())
        first = next((level for level in levels if _overlaps(group.spans, level)), None)
        found.append(None if first is None else GroupLevel(first, first is levels[0], group.environment_ids))
        if first is not None and (terms or _overlaps(group.other_spans, first)):
            divided.append(place)
    read = _read_divided([groups[place] for place in divided], history, metric, terms=terms)
    for place in divided:
        found[place] = read[groups[place]]
    return found


def _overlaps(spans: Sequence[EnvironmentSpan], level: CurrentLevel) -> bool:
    return any(span.first_at <= level.last_at and span.last_at >= level.from_at for span in spans)


def _read_divided(
    groups: Sequence[RunGroup],
    history: Mapping[int, Sequence[CurrentLevel]],
    metric: str,
    *,
    terms: Sequence[Term],
) -> dict[RunGroup, GroupLevel | None]:
    ids = sorted({group.series_id for group in groups})
    found: dict[RunGroup, GroupLevel | None] = {}
    for start in range(0, len(ids), _DIVIDED_AT_ONCE):
        # The oldest level is the last.
        wanted = {each: history[each][-1].from_at for each in ids[start : start + _DIVIDED_AT_ONCE]}
        arrays = _read_valid(wanted, metric, terms)
        for group in groups:
            if group.series_id not in wanted:
                continue
            first, end = np.searchsorted(arrays["series_id"], (group.series_id, group.series_id + 1))
            own = {name: array[first:end] for name, array in arrays.items()}
            found[group] = _find_group_level(group, own, history[group.series_id], metric)
    return found


def _read_valid(
    starts: Mapping[int, datetime], metric: str, terms: Sequence[Term]
) -> dict[str, NDArray[Any]]:
    """Return the valid measurements of series from a time on, by series and time; starts: of each series."""
    columns = {
        "series_id": "bigint",
        "run_id": "bigint",
        "started_at": "timestamptz",
        "environment_id": "bigint",
        "value": "double precision",
    }
    if is_latency(metric):
        columns["kind_code"] = "integer"
    condition, values = compose_run_condition(terms, "m.run_id")
    kind_code = sql.SQL(f", {KIND_CODE} AS kind_code" if is_latency(metric) else "")
    query = _READ.format(metric=sql.Identifier(metric), condition=condition, kind_code=kind_code)
    arrays = fetch_arrays(query, [list(starts), list(starts.values()), *values], columns=columns)
    # Here: PostgreSQL would sort a million rows on disk.
    order = np.lexsort((arrays["run_id"], arrays["started_at"], arrays["series_id"]))
    arrays = {name: array[order] for name, array in arrays.items()}
    counts = ~find_maintenance(arrays["series_id"], arrays["started_at"])
    return {name: array[counts] for name, array in arrays.items()}


def _find_group_level(
    group: RunGroup, own: Mapping[str, NDArray[Any]], levels: Sequence[CurrentLevel], metric: str
) -> GroupLevel | None:
    """Return the level of a group from the valid values of its series in chronological order."""
    starts = [to_us(level.from_at) for level in reversed(levels)]
    is_member = np.isin(own["environment_id"], group.environment_ids)
    if is_latency(metric):
        is_member &= _are_of_levels(own, starts, [level.latency_kind for level in reversed(levels)], metric)
    selected = select_latest_level(own["started_at"], starts, is_member=is_member)
    if not selected.any():
        return None
    times, values = _merge_repetitions(
        own["run_id"][selected], own["started_at"][selected], own["value"][selected]
    )
    statistics = describe_values(values, 0, len(values))
    at = from_us(times[0])
    stored = next(level for level in levels if level.from_at <= at)
    level = replace(
        stored,
        n=statistics.n,
        median=statistics.median,
        p10=statistics.p10,
        p90=statistics.p90,
        minimum=statistics.minimum,
        maximum=statistics.maximum,
        last=statistics.last,
        recent=tuple(values[-_RECENT:].tolist()),
        from_at=at,
        last_at=from_us(times[-1]),
    )
    return GroupLevel(level, stored is levels[0], group.environment_ids)


def _are_of_levels(
    own: Mapping[str, NDArray[Any]], starts: Sequence[int], kinds: Sequence[str], metric: str
) -> NDArray[np.bool_]:
    """Return which runs of a series have the kind of latency of the level in whose time they are."""
    if len(set(kinds)) < 2 and (own["kind_code"] == own["kind_code"][:1]).all():
        return np.ones(len(own["kind_code"]), dtype=bool)
    places = np.searchsorted(np.array(starts, dtype=np.int64), own["started_at"], side="right") - 1
    codes = own["kind_code"].tolist()
    return np.array(
        [
            are_same_kind(kinds[max(place, 0)], read_kind_code(metric, code))
            for place, code in zip(places.tolist(), codes, strict=True)
        ],
        dtype=bool,
    )


def select_latest_level(
    times: NDArray[np.int64], starts: Sequence[int], *, is_member: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which runs of a series are members in the latest level that has a member.

    times, starts: µs since 1970, of the runs and of the levels, the latter ascending. Runs before the first have none.
    """
    numbers = np.searchsorted(np.array(starts, dtype=np.int64), times, side="right")
    is_member = is_member & (numbers > 0)
    return is_member & (numbers == numbers[is_member].max()) if is_member.any() else is_member


def find_maintenance(series_ids: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which measurements were made during maintenance of their series; times: µs since 1970."""
    is_during = np.zeros(len(times), dtype=bool)
    if not len(times):
        return is_during
    matched = match_maintenance(
        np.unique(series_ids).tolist(), from_at=from_us(times.min()), to_at=from_us(times.max())
    )
    for series_id, events in matched.items():
        for event in events:
            is_inside = (times >= to_us(event.from_at)) & (times < to_us(event.ends_at))
            is_during |= (series_ids == series_id) & is_inside
    return is_during


def _merge_repetitions(
    run_ids: NDArray[np.int64], times: NDArray[np.int64], values: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Replace repetitions within a run by their median, as in a level."""
    _, first, place = np.unique(run_ids, return_index=True, return_inverse=True)
    if len(first) == len(run_ids):
        return times, values
    merged = np.array([np.median(values[place == number]) for number in range(len(first))])
    order = np.argsort(first)
    return times[first][order], merged[order]


def find_environment_ids(terms: Collection[Term]) -> list[int]:
    """Return the ids of the environments that match terms for facts; one query."""
    return list(Environment.objects.filter(match_environment(terms)).values_list("pk", flat=True))


def find_runs(run_ids: NDArray[np.int64], terms: Collection[Term]) -> list[int]:
    """Return which of these runs match terms for profile, sweep and labels; one query."""
    # As one value: of thousands Django writes each into the query.
    is_one = RawSQL("benchapp_run.id = ANY(%s)", [run_ids.tolist()], output_field=BooleanField())
    return list(Run.objects.filter(is_one).filter(match_facts(terms)).order_by().values_list("pk", flat=True))


HISTORY_DAYS: Final = 90
_DAY_US: Final = 86_400_000_000
# A level of zero has no logarithm; no change is as large as this.
_RATIO_MINIMUM: Final = 1e-3
# The main metric of a series: IOPS, or the elapsed time of a workload that is timed as a whole. A series whose current
# level began before the period, or is its first, is at its reference on each day: such series are only counted, by
# group and days. The others are listed. When a series is no longer measured: as `is_stale`.
_CURRENT_LEVELS: Final = sql.SQL(
    "SELECT place, first_day, end_day, count(*) FILTER (WHERE NOT is_changed AND median <> 0),"
    " array_agg(id) FILTER (WHERE is_changed)"
    " FROM (SELECT wanted.place, wanted.id, level.median,"
    "  CASE WHEN level.from_at <= %(first_at)s THEN 0"
    "   ELSE least(ceil(extract(epoch FROM level.from_at - %(first_at)s) / 86400), %(days)s)::integer"
    "   END AS first_day,"
    "  CASE WHEN wanted.last_at >= %(stale_at)s THEN %(days)s ELSE ("
    "   SELECT CASE WHEN measurement_count >= %(interval_from)s AND last_at"
    "     >= %(now)s - %(intervals)s * (last_at - first_at) / (measurement_count - 1) THEN %(days)s"
    "    ELSE greatest(ceil(extract(epoch FROM last_at + interval '1 day' - %(first_at)s) / 86400), 0)::integer END"
    "   FROM benchapp_series WHERE id = wanted.id) END AS end_day,"
    "  level.from_at > %(first_at)s AND level.previous_until_at IS NOT NULL AS is_changed"
    "  FROM ({wanted}) AS wanted(id, place, last_at)"
    "  LEFT JOIN benchapp_level iops ON iops.series_id = wanted.id AND iops.metric = 'iops' AND iops.is_current"
    "  LEFT JOIN benchapp_level elapsed ON elapsed.series_id = wanted.id AND elapsed.metric = 'elapsed_s'"
    "   AND elapsed.is_current AND iops.id IS NULL"
    "  CROSS JOIN LATERAL (SELECT coalesce(iops.from_at, elapsed.from_at) AS from_at,"
    "   coalesce(iops.previous_until_at, elapsed.previous_until_at) AS previous_until_at,"
    "   coalesce(iops.median, elapsed.median) AS median) AS level"
    "  WHERE level.from_at IS NOT NULL) AS days GROUP BY place, first_day, end_day"
)
_ALL_LEVELS: Final = sql.SQL(
    "SELECT wanted.number, wanted.place, wanted.end_day, (level.metric = 'elapsed_s')::integer AS is_time,"
    " level.from_at, level.median FROM unnest(%s::bigint[], %s::integer[], %s::integer[])"
    " WITH ORDINALITY AS wanted(id, place, end_day, number)"
    " JOIN benchapp_level level ON level.series_id = wanted.id AND level.metric = ANY('{iops,elapsed_s}')"
    " ORDER BY wanted.number, level.from_at"
)
_COLUMNS: Final = {
    "number": "bigint",
    "place": "integer",
    "end_day": "integer",
    "is_time": "integer",
    "from_at": "timestamptz",
    "median": "double precision",
}


def read_relative_levels(
    wanted: sql.Composable,
    values: Mapping[str, Any],
    *,
    days: DayRange | None = None,
) -> dict[int, tuple[float | None, ...]]:
    """Return the relative level of each group of series at the end of each day, oldest first.

    wanted: a query of series: id, number of the group, last_at; values: its named parameters. Of a series: the
    level in effect on a day / the level on the first of these days, or the first level of a later series; of IOPS, or
    of the elapsed time where there is none; above 1 is better. Of a group: the geometric mean of its series that have
    a level on the day; None without one: before the first run, and after the last one of series that are no longer
    measured. Groups without a level are left out.

    days: by default 90 until now. Read from stored levels: the cost depends on the number of series, not of runs. One
    query, and one for the series whose level changed in the period; one if the result is cached, which may be a minute
    old. 4 000 series: about 4 ms.
    """
    days = days or DayRange(timezone.now(), HISTORY_DAYS)
    end, length = days.end_at.replace(second=0, microsecond=0), days.count
    load = partial(_read_relative_levels, wanted, values, end=end, length=length)
    return read_cached("relative levels", wanted.as_string(), values, end, length, load=load, age_s=DAYS_S)


def _read_relative_levels(
    wanted: sql.Composable, values: Mapping[str, Any], *, end: datetime, length: int
) -> dict[int, tuple[float | None, ...]]:
    first_at = end - timedelta(days=length - 1)
    asked = {
        **values,
        "first_at": first_at,
        "now": end,
        "days": length,
        "stale_at": end - STALE_AFTER,
        "interval_from": INTERVAL_FROM,
        "intervals": INTERVALS,
    }
    # Not `fetch_rows`: prepared, the query gets a plan for any number of series, which takes a third longer.
    with connection.cursor() as cursor:
        cursor.execute(_CURRENT_LEVELS.format(wanted=wanted).as_string(cursor.connection), asked)
        rows: list[tuple[int, int, int, int, list[int] | None]] = cursor.fetchall()
    if not rows:
        return {}
    # Each level is added on its first day and subtracted on the day after its last one: what remains of the sums is
    # on each day what is in effect.
    groups = max(row[0] for row in rows) + 1
    counts = np.zeros((groups, length + 1), dtype=np.int64)
    logarithms = np.zeros((groups, length + 1))
    changed: list[tuple[int, int, int]] = []
    for place, first_day, end_day, count, ids in rows:
        if end_day > first_day:
            counts[place, first_day] += count
            counts[place, end_day] -= count
        changed += [(series_id, place, end_day) for series_id in ids or ()]
    if changed:
        _add_changed(counts, logarithms, changed, first_us=round(first_at.timestamp() * 1e6))
    counts, logarithms = np.cumsum(counts, axis=1), np.cumsum(logarithms, axis=1)
    means = np.round(np.exp(logarithms / np.maximum(counts, 1)), 6)
    return {
        place: tuple(
            mean if count else None
            for mean, count in zip(
                means[place, :length].tolist(), counts[place, :length].tolist(), strict=True
            )
        )
        for place in dict.fromkeys(row[0] for row in rows)
    }


def _add_changed(
    counts: NDArray[np.int64],
    logarithms: NDArray[np.float64],
    changed: Sequence[tuple[int, int, int]],
    *,
    first_us: int,
) -> None:
    """Add the levels of these series: (id, group, day after the last one)."""
    days = counts.shape[1] - 1
    found = fetch_arrays(
        _ALL_LEVELS, [list(column) for column in zip(*changed, strict=True)], columns=_COLUMNS
    )
    is_time = found["is_time"] == 1
    kept = ~is_time | ~np.isin(found["number"], found["number"][~is_time])
    series, is_time, median = found["number"][kept], is_time[kept], found["median"][kept]
    # The first day at or after the start of each level.
    start = np.clip(-((first_us - found["from_at"][kept]) // _DAY_US), 0, days)
    is_last = np.append(series[1:] != series[:-1], True)
    end = np.where(is_last, found["end_day"][kept], np.append(start[1:], days))
    reference = _find_references(series, start, median)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(is_time, reference / median, median / reference)
    shown = np.isfinite(relative) & (end > start)
    place, start, end = found["place"][kept][shown], start[shown], end[shown]
    logarithm = np.log(np.maximum(relative[shown], _RATIO_MINIMUM))
    for day, sign in ((start, 1), (end, -1)):
        np.add.at(counts, (place, day), sign)
        np.add.at(logarithms, (place, day), sign * logarithm)


def _find_references(
    series: NDArray[np.int64], start: NDArray[np.int64], median: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return for each level the median that it is compared to: of the last level that began before the period."""
    first = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    earlier = np.add.reduceat((start == 0).astype(np.int64), first)
    chosen = median[first + np.maximum(earlier - 1, 0)]
    references: NDArray[np.float64] = np.repeat(chosen, np.diff(np.append(first, len(series))))
    return references
