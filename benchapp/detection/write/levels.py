"""Store the levels of series: every number that represents a series on a page or in the API is one of these.

A level begins with a stored change (not a suspected or withdrawn one), where a series recovered from it, and where its
kind of latency begins. A drift begins two: the runs of its slope, and the newest level; steps of the slope begin none.
Metrics in which no changes are detected take the changes of the metric that they depend on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import orjson
from django.db import connection
from numpy.typing import NDArray

from benchapp.catalog.metrics import CATALOG, find_detected_metric
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.levels import LevelStatistics, divide_levels
from benchapp.detection.rules.recovery import SAME_CHANGE_RUNS, find_end, find_recoveries
from benchapp.detection.write.histories import KindValues, StoredHistory, to_microseconds, to_time
from benchapp.models import Change, ChangeState, Level

# Values of a sparkline.
RECENT_MAXIMUM: Final = 20
# A change begins a level once it is more than suspected.
_BEGINS_LEVEL: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)

_EVER: Final = datetime(1, 1, 1, tzinfo=UTC)
_COLUMNS: Final = {
    "series_id": "bigint",
    "metric": "varchar",
    "from_at": "timestamptz",
    "to_at": "timestamptz",
    "first_run_id": "bigint",
    "n": "int",
    "median": "float8",
    "p10": "float8",
    "p90": "float8",
    "minimum": "float8",
    "maximum": "float8",
    "last": "float8",
    "previous_median": "float8",
    "previous_until_at": "timestamptz",
    "change_id": "bigint",
    "is_recovery": "boolean",
    "is_current": "boolean",
    "latency_kind": "varchar",
}
_KEY: Final = ("series_id", "metric", "from_at")
# What a level keeps whose first runs are not read.
_CONTINUED: Final = (
    *("from_at", "first_run_id", "previous_median", "previous_until_at", "change_id", "is_recovery"),
)
_VALUES: Final = [name for name in _COLUMNS if name not in _KEY]
# One JSON document for all rows: psycopg takes four times as long to write arrays of 5 000 values each (measured).
_FRESH: Final = (
    f"json_to_recordset(%s::json) AS fresh({', '.join(f'{name} {kind}' for name, kind in _COLUMNS.items())},"
    " recent float8[])"
)
# The keys alone where the other columns are not needed: a document takes PostgreSQL ten times as long to read.
_FRESH_KEYS: Final = f"unnest(%s::bigint[], %s::varchar[], %s::timestamptz[]) AS fresh({', '.join(_KEY)})"
# Not those before the first run that was read: histories are read up to a maximum.
_DELETE_OTHERS: Final = (
    "DELETE FROM benchapp_level AS stored"  # noqa: S608
    " USING unnest(%s::bigint[], %s::timestamptz[]) AS read(series_id, from_at)"
    " WHERE stored.series_id = read.series_id AND stored.to_at >= read.from_at AND NOT EXISTS ("
    f"SELECT 1 FROM {_FRESH_KEYS} WHERE (fresh.series_id, fresh.metric, fresh.from_at)"
    " = (stored.series_id, stored.metric, stored.from_at))"
)
_END_OTHERS: Final = (
    "UPDATE benchapp_level AS stored SET is_current = FALSE WHERE series_id = ANY(%s) AND is_current"  # noqa: S608
    f" AND NOT EXISTS (SELECT 1 FROM {_FRESH_KEYS}"
    " WHERE (fresh.series_id, fresh.metric, fresh.from_at) = (stored.series_id, stored.metric, stored.from_at))"
)
# Equal rows are not written again: most runs of old history change nothing. (Names of our own columns.)
_UPSERT: Final = (
    f"WITH fresh AS MATERIALIZED (SELECT * FROM {_FRESH}), newest AS ("  # noqa: S608
    "INSERT INTO benchapp_newestvalues AS stored (series_id, metric, to_at, recent)"
    " SELECT series_id, metric, to_at, recent FROM fresh WHERE is_current"
    " ON CONFLICT (series_id, metric) DO UPDATE SET to_at = excluded.to_at, recent = excluded.recent"
    " WHERE (stored.to_at, stored.recent) IS DISTINCT FROM (excluded.to_at, excluded.recent))"
    f" INSERT INTO benchapp_level AS stored ({', '.join(_COLUMNS)}) SELECT {', '.join(_COLUMNS)}"
    f" FROM fresh ON CONFLICT ({', '.join(_KEY)})"
    f" DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _VALUES)}"
    f" WHERE ({', '.join(f'stored.{name}' for name in _VALUES)})"
    f" IS DISTINCT FROM ({', '.join(f'excluded.{name}' for name in _VALUES)})"
)
_DELETE_NEWEST: Final = (
    "DELETE FROM benchapp_newestvalues AS stored WHERE series_id = ANY(%s) AND NOT EXISTS ("
    "SELECT FROM benchapp_level AS level WHERE (level.series_id, level.metric) = (stored.series_id, stored.metric)"
    " AND level.is_current)"
)


@dataclass(frozen=True, slots=True)
class _Boundary:
    """The start of a level, in µs since 2000, with the change that causes it.

    is_newest: the newest level of a drift; the one before it is that before the slope.
    """

    at: int
    change_id: int
    is_recovery: bool = False
    is_newest: bool = False


def store_levels(histories: Mapping[int, StoredHistory], metrics: Mapping[int, Sequence[str]]) -> None:
    """Store the levels of these series, whose rows are locked; one or two queries, and four statements.

    metrics: those in which changes are detected, by series. Of a history that was not read whole, the first level
    continues the stored one.
    """
    changes = _read_changes(histories)
    continued = _read_continued(histories)
    rows = [
        row
        for series_id, history in histories.items()
        for row in _list_rows(
            series_id,
            history,
            changes.get(series_id, {}),
            metrics[series_id],
            continued.get(series_id, {}),
        )
    ]
    document = orjson.dumps(rows).decode()
    ids = list(histories)
    # From the first run that was read on; everything if all runs were read.
    read_from = [
        to_time(int(history.times[0])) if history.is_cut else _EVER for history in histories.values()
    ]
    with connection.cursor() as cursor:
        cursor.execute(_DELETE_OTHERS, [ids, read_from, *_list_keys(rows)])
        # Before the new ones: each metric of a series has one current level.
        cursor.execute(_END_OTHERS, [ids, *_list_keys([row for row in rows if row["is_current"]])])
        cursor.execute(_UPSERT, [document])
        cursor.execute(_DELETE_NEWEST, [ids])


def _list_keys(rows: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """Return the columns of the keys of these rows."""
    return [[row[name] for row in rows] for name in _KEY]


def _read_changes(series_ids: Mapping[int, Any]) -> dict[int, dict[str, list[Change]]]:
    rows = Change.objects.filter(series_id__in=list(series_ids), state__in=_BEGINS_LEVEL)
    found: dict[int, dict[str, list[Change]]] = {}
    for change in rows.order_by("started_at", "id"):
        found.setdefault(change.series_id, {}).setdefault(change.metric, []).append(change)
    return found


def _read_continued(histories: Mapping[int, StoredHistory]) -> dict[int, dict[str, Level]]:
    """Return the stored level of each metric that the first run of a cut history belongs to."""
    starts = {
        series_id: to_time(int(history.times[0]))
        for series_id, history in histories.items()
        if history.is_cut
    }
    found: dict[int, dict[str, Level]] = {}
    if starts:
        for level in Level.objects.filter(series_id__in=starts).order_by("from_at"):
            if level.from_at <= starts[level.series_id]:
                found.setdefault(level.series_id, {})[level.metric] = level
    return found


def _list_rows(
    series_id: int,
    history: StoredHistory,
    changes: Mapping[str, Sequence[Change]],
    detected: Sequence[str],
    continued: Mapping[str, Level],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all levels."""
    boundaries = {
        metric: [
            boundary
            for section in _list_sections(history, metric)
            for boundary in _find_boundaries(history, section, changes.get(metric, ()))
        ]
        for metric in detected
    }
    for metric in CATALOG:
        known = boundaries.get(find_detected_metric(metric, detected), [])
        sections = _list_sections(history, metric)
        for section in sections:
            values, times, run_ids = section.values, section.times, section.run_ids
            boundaries_by_index = _locate([one for one in known if section.includes(one.at)], times)
            levels = divide_levels(values, sorted(boundaries_by_index.keys() - {0}))
            before: LevelStatistics | None = None
            for previous, level in zip((None, *levels), levels, strict=False):
                boundary = boundaries_by_index.get(level.first)
                if boundary is None or not boundary.is_newest:
                    before = previous
                is_current = section is sections[-1] and level is levels[-1]
                row: dict[str, Any] = {
                    "series_id": series_id,
                    "metric": metric,
                    "from_at": to_time(times[level.first]),
                    "to_at": to_time(times[level.end - 1]),
                    "first_run_id": int(run_ids[level.first]),
                    **describe_statistics(level),
                    "previous_median": before and before.median,
                    "previous_until_at": before and to_time(times[before.end - 1]),
                    "change_id": boundary and boundary.change_id,
                    "is_recovery": boundary is not None and boundary.is_recovery,
                    "is_current": is_current,
                    "latency_kind": section.kind,
                    "recent": values[-RECENT_MAXIMUM:].tolist() if is_current else None,
                }
                if section is sections[0] and previous is None and metric in continued:
                    row |= {name: getattr(continued[metric], name) for name in _CONTINUED}
                yield row


@dataclass(frozen=True, slots=True)
class _Section:
    """The known values of a metric of one kind of latency, oldest first. is_first: no other kind before them."""

    kind: str
    values: NDArray[np.float64]
    times: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    is_first: bool

    def includes(self, at: int) -> bool:
        """Return whether a level of the section may begin at a time."""
        return self.is_first or at > int(self.times[0])


def _list_sections(history: StoredHistory, metric: str) -> list[_Section]:
    """Return the sections of a metric, the current one last; empty without values."""
    found: list[_Section] = []
    current = KindValues(history.kinds.get(metric, ""), history.values[metric])
    for each in (*history.earlier.get(metric, ()), current):
        is_known = np.isfinite(each.values)
        if is_known.any():
            columns = (each.values[is_known], history.times[is_known], history.run_ids[is_known])
            found.append(_Section(each.kind, *columns, is_first=not found))
    return found


def _find_end(change: Change, times: NDArray[np.int64], values: NDArray[np.float64], index: int) -> int:
    """Return the index of the first run after the level of a change that recovered; that of a pooled one is stored."""
    if ended_at := change.evidence.get("ended_at"):
        return int(np.searchsorted(times, to_microseconds(datetime.fromisoformat(ended_at))))
    return index + find_end(
        values[index:].tolist(), before_median=change.before_median, after_median=change.after_median
    )


def _find_boundaries(history: StoredHistory, section: _Section, changes: Sequence[Change]) -> list[_Boundary]:
    """Return the starts of levels by a metric's changes: their first runs, and the ends of those that recovered."""
    values, times = section.values, section.times
    # A drift starts 1 µs after its first run, a pooled change 2 µs. Changes before a cut history belong to the stored
    # level that continues.
    read_from = int(history.times[0]) if history.is_cut else np.iinfo(np.int64).min
    recoveries = find_recoveries(changes)
    drifts = [change for change in changes if change.method == DRIFT_METHOD]
    # Those of drifts whose slope began before.
    cut = [
        _Boundary(to_microseconds(drift.level_from_at), drift.pk, is_newest=True)
        for drift in drifts
        if to_microseconds(drift.started_at) <= read_from < to_microseconds(drift.level_from_at)
    ]
    changes = [
        change
        for change in changes
        if to_microseconds(change.started_at) > read_from
        and section.includes(to_microseconds(change.started_at))
        and not any(_is_step_of(change, drift) for drift in drifts)
    ]
    starts = [to_microseconds(change.started_at) - 2 for change in changes]
    found = cut + [
        _Boundary(at, recoveries.get(change.pk, change).pk, is_recovery=change.pk in recoveries)
        for at, change in zip(starts, changes, strict=True)
    ]
    places = np.searchsorted(times, starts).tolist()
    for index, change in zip(places, changes, strict=True):
        is_back = change.evidence.get("is_back")
        if not is_back and change.level_from_at > change.started_at:
            found.append(_Boundary(to_microseconds(change.level_from_at), change.pk, is_newest=True))
        if not is_back or index >= len(values):
            continue
        newest = int(np.searchsorted(times, to_microseconds(change.level_from_at)))
        end = _find_end(change, times, values, max(index, newest))
        # The recovery may be a separate change.
        if end < len(values) and not any(index < other <= end + SAME_CHANGE_RUNS for other in places):
            found.append(_Boundary(int(times[end]), change.pk, is_recovery=True))
    return sorted(found, key=lambda boundary: boundary.at)


def _is_step_of(change: Change, drift: Change) -> bool:
    """Return whether a step is part of the slope of a drift, which explains its values better."""
    return (
        change.method != DRIFT_METHOD
        and change.is_regression == drift.is_regression
        and drift.started_at <= change.started_at <= drift.level_from_at
        and change.incident_id not in drift.evidence.get("without_incidents", ())
    )


def _locate(boundaries: Sequence[_Boundary], times: NDArray[np.int64]) -> dict[int, _Boundary]:
    """Return the boundaries by the index of their first run; the last of several, none behind the newest run."""
    places = np.searchsorted(times, [boundary.at for boundary in boundaries]).tolist()
    return {place: one for place, one in zip(places, boundaries, strict=True) if place < len(times)}


def describe_statistics(level: LevelStatistics) -> dict[str, Any]:
    """Return the statistics of a level by the names of the columns of `Level`."""
    return {
        "n": level.n,
        "median": level.median,
        "p10": level.p10,
        "p90": level.p90,
        "minimum": level.minimum,
        "maximum": level.maximum,
        "last": level.last,
    }
