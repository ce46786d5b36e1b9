"""Throughput of the fleet by pattern and day, relative to each series' own level; changes and submissions over time."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import Annotated, Final

import numpy as np
from django.db import connection
from django.db.models import Min, Q
from django.utils import timezone
from msgspec import Meta, Struct
from numpy.typing import NDArray
from psycopg import sql

from benchapp.catalog.dimensions import name_rw, split_pattern
from benchapp.catalog.metrics import list_detected_metrics
from benchapp.detection.rules.levels import Quantiles, find_stale_after
from benchapp.detection.rules.recovery import find_recoveries
from benchapp.framework.read.binary_columns import DAYS_S, fetch_arrays, read_cached, to_us
from benchapp.framework.read.days import DayRange
from benchapp.incidents.rules.incidents import measure_multiple
from benchapp.models import Change, ChangeState, Series, State, Submission
from benchapp.models.coverage import match_maintenance, read_thresholds
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
    """The patterns that have series, over some days. Values: 1 is the level of the series.

    below: series of these patterns, of all and not of the sample, whose level fell by its smallest change or more;
    below_scopes: their scopes, in alphabetical order.
    """

    range: DayRange
    patterns: tuple[PatternDays, ...]
    below: int
    below_scopes: tuple[str, ...]


def read_fleet_days(days: DayRange | None = None) -> FleetDays:
    """Return the quantiles of each pattern and day, and the series that are below.

    Two queries if the patterns are cached, which may be a minute old; else four and those of maintenance; three more
    with regressions.

    days: by default 90 up to today. The value of a series on a day (UTC) is that of its last valid run up to the end of
    the day, until it is stale, divided by the median of the level that the series had when the days began, or of its
    first level if it is newer. At most 200 series of a pattern are read, with one index entry for each of their days,
    however often they are measured.
    """
    days = days or DayRange(timezone.now(), DAYS)
    first, count = days.first, days.count
    patterns = read_cached("fleet", first, count, load=partial(_read_patterns, first, count), age_s=DAYS_S)
    below = _find_losses(_begin(first), min(_begin(first + count * _DAY), days.end_at))
    return FleetDays(days, patterns, len(below), tuple(sorted(set(below.values()))))


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


def _find_losses(from_at: datetime, to_at: datetime) -> dict[int, str]:
    """Return the series, with their scopes, that are below the level that they had when the days began."""
    patterns = Q()
    for rw in PATTERNS:
        patterns |= Q(series__rw=rw, series__direction=split_pattern(rw)[1])
    regressed = Change.objects.filter(
        patterns,
        metric__in=list_detected_metrics([METRIC]),
        state__in=(ChangeState.PROVISIONAL, ChangeState.CONFIRMED),
        is_regression=True,
        started_at__gte=from_at,
        started_at__lt=to_at,
    )
    scopes = dict(regressed.values_list("series_id", "series__scope").distinct())
    if not scopes:
        return {}
    levels, thresholds = read_levels(list(scopes), [METRIC]), read_thresholds(scopes)
    below = []
    for series_id in scopes:
        known = levels[series_id][METRIC]
        last = find_level(known, to_at)
        reference = find_level(known, from_at) or (known[0] if known else None)
        if last is None or reference is None or not reference.median:
            continue
        relative = last.median / reference.median - 1
        if relative < 0 and measure_multiple(relative, thresholds[series_id][METRIC]) >= 1:
            below.append(series_id)
    return {series_id: scopes[series_id] for series_id in below}


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
