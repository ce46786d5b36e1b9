"""The fleet by day: series that are worse, throughput by pattern relative to each series' level, submissions."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Annotated, Final

import numpy as np
from django.db import connection
from django.db.models import Min
from django.utils import timezone
from msgspec import Meta, Struct
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.dimensions import name_rw, split_pattern
from benchapp.catalog.grammar import Filter
from benchapp.detection.rules.levels import Quantiles, find_stale_after
from benchapp.detection.rules.recovery import find_recoveries
from benchapp.framework.read.binary_columns import DAYS_S, fetch_arrays, fetch_rows, read_cached, to_us
from benchapp.framework.read.days import DayRange
from benchapp.incidents.read.series_status import IS_OPEN, LIVE
from benchapp.models import STATED_CHANGE, Change, ChangeState, Series, State, Submission
from benchapp.models.coverage import match_maintenance
from benchapp.models.filtering import match_series
from benchapp.series.read.levels import find_level, read_levels


def find_day_quantiles(values: NDArray[np.float64]) -> list[Quantiles | None]:
    """Return the quantiles of each column; values: series × days, NaN without a value. None without any value.

    Quantiles are interpolated linearly, as by numpy's default.
    """
    found: list[Quantiles | None] = []
    for column in values.T:
        known = column[~np.isnan(column)]
        if len(known) == 0:
            found.append(None)
            continue
        p10, median, p90 = np.quantile(known, (0.1, 0.5, 0.9)).tolist()
        found.append(Quantiles(median, p10, p90, len(known)))
    return found


DAYS: Final = 90
PATTERNS: Final = ("read", "write", "randread", "randwrite", "unknown-read", "unknown-write")
# IOPS and bandwidth of a series are proportional, as its block size is fixed.
METRIC: Final = "iops"
# Of each pattern: the quantiles of 200 series say as much of the fleet as those of 100 000.
SERIES_MAXIMUM: Final = 200
# The order of the keys, SHA-256 of what identifies a series, is random, and the same in each request.
_CANDIDATES: Final = 5_000
_DAY: Final = timedelta(days=1)
_DAY_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class PatternDays:
    """One pattern. series: how many were read; is_sample: more match.

    days, run_counts: as long as those of the fleet; run_counts: series with a valid run on the day itself.
    """

    pattern: str
    name: str
    series: int
    is_sample: bool
    days: tuple[Quantiles | None, ...]
    run_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FleetDays:
    """The patterns that have series, over some days. Values: 1 is the level of the series."""

    range: DayRange
    patterns: tuple[PatternDays, ...]


def read_fleet_days(days: DayRange | None = None) -> FleetDays:
    """Return the quantiles of each pattern and day.

    No query if they are cached, which may be for a minute; else four and those of maintenance.

    days: by default 90 up to today. The value of a series on a day (UTC) is that of its last valid run up to the end of
    the day, until it is stale, divided by the median of the level that the series had when the days began, or of its
    first level if it is newer. At most 200 series of a pattern are read, with one index entry for each of their days,
    however often they are measured.
    """
    days = days or DayRange(timezone.now(), DAYS)
    first, count = days.first, days.count
    patterns = read_cached("fleet", first, count, load=partial(_read_patterns, first, count), age_s=DAYS_S)
    return FleetDays(days, patterns)


def _read_patterns(first: date, count: int) -> tuple[PatternDays, ...]:
    sampled = _sample_series(_begin(first), _begin(first + count * _DAY))
    values = _load([series_id for ids, _ in sampled.values() for series_id in ids], first, count)
    return tuple(
        _make_pattern(pattern, np.array(rows), is_sample=is_sample)
        for pattern, (ids, is_sample) in sampled.items()
        if (rows := [values[each] for each in ids if values[each].size])
    )


def _make_pattern(pattern: str, values: NDArray[np.float64], *, is_sample: bool) -> PatternDays:
    """values: of each series as of `_load`."""
    carried, measured = values[:, 0], values[:, 1]
    return PatternDays(
        pattern,
        name_rw(pattern),
        len(values),
        is_sample,
        tuple(find_day_quantiles(carried)),
        tuple((~np.isnan(measured)).sum(axis=0).tolist()),
    )


def _begin(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


def _sample_series(from_at: datetime, to_at: datetime) -> dict[str, tuple[list[int], bool]]:
    """Return series of each pattern whose first and last run may enclose a run of this time, and whether more are."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wanted.rw, sampled.id, EXISTS (SELECT FROM benchapp_series OFFSET %s) AS has_more"
            " FROM unnest(%s::text[], %s::text[]) AS wanted(rw, direction)"
            " CROSS JOIN LATERAL (SELECT id FROM ("
            " SELECT id, key, rw, direction, first_at, last_at FROM benchapp_series ORDER BY key LIMIT %s) AS candidate"
            " WHERE candidate.rw = wanted.rw AND candidate.direction = wanted.direction"
            " AND candidate.last_at >= %s AND candidate.first_at < %s ORDER BY key LIMIT %s) AS sampled",
            [
                _CANDIDATES,
                list(PATTERNS),
                [split_pattern(rw)[1] for rw in PATTERNS],
                _CANDIDATES,
                from_at,
                to_at,
                SERIES_MAXIMUM + 1,
            ],
        )
        found: dict[str, list[int]] = {}
        rows = cursor.fetchall()
    for pattern, series_id, _ in rows:
        found.setdefault(pattern, []).append(series_id)
    has_more = any(row[2] for row in rows)
    return {
        pattern: (found[pattern][:SERIES_MAXIMUM], has_more or len(found[pattern]) > SERIES_MAXIMUM)
        for pattern in PATTERNS
        if pattern in found
    }


# One entry of the index measurement_by_series for each day of a series, from its newer end.
_LAST_OF_DAYS: Final = sql.SQL(
    "SELECT wanted.id AS series_id, newest.started_at, newest.value FROM unnest(%s::bigint[]) AS wanted(id)"
    " CROSS JOIN generate_series(0, %s - 1) AS day(number) CROSS JOIN LATERAL ("
    "SELECT started_at, {metric} AS value FROM benchapp_measurement"
    " WHERE series_id = wanted.id AND started_at >= %s::timestamptz + day.number * interval '1 day'"
    " AND started_at < %s::timestamptz + (day.number + 1) * interval '1 day'"
    " AND error = 0 AND NOT is_excluded AND {metric} IS NOT NULL"
    " ORDER BY started_at DESC, id DESC LIMIT 1) AS newest ORDER BY series_id, started_at"
).format(metric=sql.Identifier(METRIC))


def _load(series_ids: Sequence[int], first: date, count: int) -> dict[int, NDArray[np.float64]]:
    """Return the relative values of the days of each series; empty without a level.

    Two rows: with the last value on days without a valid run, and without; NaN where there is none.
    """
    first_at = _begin(first)
    columns = fetch_arrays(
        _LAST_OF_DAYS,
        [list(series_ids), count, first_at, first_at],
        columns={"series_id": "bigint", "started_at": "timestamptz", "value": "double precision"},
    )
    levels = read_levels(series_ids, [METRIC])
    maintenance = match_maintenance(series_ids, from_at=first_at, to_at=first_at + count * _DAY)
    lives = Series.objects.filter(pk__in=series_ids, last_at__isnull=False)
    reaches = {
        series_id: (find_stale_after(first_run_at, last_at, n=n) - last_at) // _DAY
        for series_id, first_run_at, last_at, n in lives.values_list(
            "pk", "first_at", "last_at", "measurement_count"
        )
        if first_run_at and last_at
    }
    found = {}
    for series_id in series_ids:
        known = levels[series_id][METRIC]
        if not known:
            found[series_id] = np.empty(0)
            continue
        begin, end = np.searchsorted(columns["series_id"], (series_id, series_id + 1))
        at_us, values = columns["started_at"][begin:end], columns["value"][begin:end]
        days = np.full(count, np.nan)
        days[(at_us - to_us(first_at)) // _DAY_US] = values / (find_level(known, first_at) or known[0]).median
        for event in maintenance.get(series_id, ()):
            ends_at = min(event.to_at, event.ended_at or event.to_at)
            is_within = (at_us >= to_us(event.from_at)) & (at_us < to_us(ends_at))
            days[(at_us[is_within] - to_us(first_at)) // _DAY_US] = np.nan
        found[series_id] = np.stack([_carry(days, reach=reaches[series_id]), days])
    return found


def _carry(days: NDArray[np.float64], *, reach: int) -> NDArray[np.float64]:
    """Return the days with the last known value before each that has none, for so many days."""
    places = np.arange(len(days))
    last = np.maximum.accumulate(np.where(np.isnan(days), -1, places))
    return np.where((last >= 0) & (places - last <= reach), days[last], np.nan)


# A million series need not be counted one by one.
SERIES_COUNTED_MAXIMUM: Final = 100_000
_READ_REGRESSIONS: Final = (
    "SELECT change.series_id, change.started_at,"  # noqa: S608
    f" CASE WHEN NOT {IS_OPEN} THEN coalesce(incident.recovered_at, incident.resolved_at, (SELECT min(next.started_at)"
    "  FROM benchapp_change next WHERE next.series_id = change.series_id AND next.metric = change.metric"
    "  AND next.started_at > change.started_at AND next.state <> 'withdrawn'), change.started_at) END"
    " FROM benchapp_incident incident JOIN benchapp_change change ON change.incident_id = incident.id"
    " WHERE (incident.is_open OR coalesce(incident.recovered_at, incident.resolved_at) >= %s)"
    f" AND change.is_regression AND change.state = ANY(%s) AND change.started_at < %s AND {STATED_CHANGE}"
    "{of_filter} ORDER BY change.series_id, change.started_at"
)


class RegressedDay(Struct, frozen=True):
    """The series that were worse than their earlier level at the end of a day (UTC), or now."""

    day: Annotated[date, Meta(description="UTC")]
    open: Annotated[int, Meta(description="series with a regression of that day that is still open")]
    ended: Annotated[int, Meta(description="other series; they recovered, or the level was accepted")]


@dataclass(frozen=True, slots=True)
class RegressedDays:
    """Days without a gap, oldest first. series_count: measured in them, at most SERIES_COUNTED_MAXIMUM + 1."""

    range: DayRange
    series_count: int
    days: tuple[RegressedDay, ...]


def read_regressed_days(days: DayRange | None = None, filter: Filter | None = None) -> RegressedDays:
    """Return how many series of the filter were worse than their earlier level, by day; two queries.

    days: by default 90 up to today. A regression counts from its first run until it recovered or was resolved, in any
    metric; a series counts once.
    """
    days = days or DayRange(timezone.now(), DAYS)
    ends = [min(_begin(day + _DAY), days.end_at) for day in days.dates]
    text, values = "", []
    if filter:
        own, parameters = Series.objects.filter(match_series(filter)).values("pk").query.sql_with_params()
        text, values = f"IN ({own})", list(parameters)
    rows = fetch_rows(
        _READ_REGRESSIONS.replace("{of_filter}", f" AND change.series_id {text}" if text else ""),
        [_begin(days.first), LIVE, days.end_at, *values],
    )
    ((series_count,),) = fetch_rows(
        "SELECT count(*) FROM (SELECT FROM benchapp_series WHERE last_at >= %s AND first_at < %s"  # noqa: S608
        f"{f' AND id {text}' if text else ''} LIMIT %s) AS counted",
        [_begin(days.first), days.end_at, *values, SERIES_COUNTED_MAXIMUM + 1],
    )
    begun, ended = [0] * (len(ends) + 1), [0] * (len(ends) + 1)
    for _, of_series in groupby(rows, key=itemgetter(0)):
        spans = [
            (bisect_right(ends, start), None if end is None else bisect_right(ends, end))
            for _, start, end in of_series
        ]
        _count_spans(spans, begun, ended)
    counts = zip(days.dates, accumulate(begun), accumulate(ended), strict=False)
    return RegressedDays(days, series_count, tuple(RegressedDay(*count) for count in counts))


def _count_spans(spans: Sequence[tuple[int, int | None]], begun: list[int], ended: list[int]) -> None:
    """Add a series to the days that its spans cover; spans: (first place, place behind or None), by their start.

    begun, ended: differences to the day before, of spans that are open and of others.
    """
    last = len(begun) - 1
    open_from = min((first for first, behind in spans if behind is None), default=last)
    begun[open_from] += 1
    begun[last] -= 1
    covered = 0
    for first, behind in spans:
        start, end = max(first, covered), min(open_from if behind is None else behind, open_from)
        if end > start:
            ended[start] += 1
            ended[end] -= 1
            covered = end


WEEKS: Final = 13
# In as many weeks, the last of which may have just begun.
CHANGE_DAYS: Final = (WEEKS - 1) * 7 + 1
INGEST_DAYS: Final = 30
_WEEK: Final = timedelta(days=7)
_KINDS: Final = ("regressions", "improvements", "recoveries")


class ChangeWeek(Struct, frozen=True):
    """A week from Monday on (UTC): the number of series with a change of each kind that began in it.

    A recovery ends a regression: it is no improvement.
    """

    monday: Annotated[date, Meta(description="first day of the week, UTC")]
    regressions: Annotated[int, Meta(description="series with a regression that began in the week")]
    improvements: Annotated[int, Meta(description="series with an improvement that began in the week")]
    recoveries: Annotated[int, Meta(description="series with a regression that ended in the week")]


class IngestDay(Struct, frozen=True):
    """What was received on one day (UTC), by the state that it has now."""

    day: Annotated[date, Meta(description="of receipt, UTC")]
    stored: int
    rejected: int
    received: Annotated[int, Meta(description="waiting to be processed")]


def read_change_weeks(days: DayRange | None = None) -> list[ChangeWeek]:
    """Return the whole weeks of some days, oldest first; a query over change_by_time, and one of series that recovered.

    days: by default the last 13 weeks. Provisional and confirmed changes count, in any metric; a series counts once for
    each kind and week.
    """
    days = days or DayRange(timezone.now(), CHANGE_DAYS)
    first, last = (day - timedelta(days=day.weekday()) for day in (days.first, days.last))
    live = Change.objects.filter(state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED))
    begun = list(
        live.filter(
            started_at__gte=datetime.combine(first, time.min, UTC),
            started_at__lt=datetime.combine(last + _WEEK, time.min, UTC),
        ).values_list("id", "series_id", "started_at", "is_regression", "incident_id")
    )
    lines: dict[tuple[int, str], list[Change]] = defaultdict(list)
    candidates = {row[1] for row in begun if not row[3] and row[4] is None}
    for change in live.filter(series_id__in=candidates).order_by("started_at", "id") if candidates else ():
        lines[change.series_id, change.metric].append(change)
    recovered = {change_id for line in lines.values() for change_id in find_recoveries(line)}
    found: dict[tuple[date, str], set[int]] = defaultdict(set)
    for change_id, series_id, started_at, is_regression, _ in begun:
        day = started_at.astimezone(UTC).date()
        kind = "regressions" if is_regression else "recoveries" if change_id in recovered else "improvements"
        found[day - timedelta(days=day.weekday()), kind].add(series_id)
    mondays = (first + place * _WEEK for place in range((last - first) // _WEEK + 1))
    return [ChangeWeek(monday, **{kind: len(found[monday, kind]) for kind in _KINDS}) for monday in mondays]


def read_ingest_health(days: DayRange | None = None) -> tuple[tuple[IngestDay, ...], datetime | None]:
    """Return some days, oldest first, no day left out, and the receipt of the first submission that waits now, or None.

    days: by default the last 30. Two queries over the indexes of submissions by state.
    """
    days = days or DayRange(timezone.now(), INGEST_DAYS)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (received_at AT TIME ZONE 'UTC')::date, state, count(*) FROM benchapp_submission"
            " WHERE state = ANY(%s) AND received_at >= %s AND received_at < %s GROUP BY 1, 2",
            [
                State.values,
                datetime.combine(days.first, time.min, UTC),
                datetime.combine(days.last + _DAY, time.min, UTC),
            ],
        )
        counts = {(day, state): count for day, state, count in cursor.fetchall()}
    return (
        tuple(IngestDay(day, *(counts.get((day, state.value), 0) for state in _SHOWN)) for day in days.dates),
        Submission.objects.waiting().aggregate(oldest=Min("received_at"))["oldest"],
    )


_SHOWN: Final = (State.STORED, State.REJECTED, State.RECEIVED)
