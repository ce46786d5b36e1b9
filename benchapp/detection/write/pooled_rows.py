"""Rows of pooled changes: one in each member that changed in their direction, with the levels of that series.

A member whose own values changed in that direction within five runs has no row; its own change joins the incident.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

import numpy as np
from django.db import connection
from numpy.typing import NDArray

from benchapp.catalog.metrics import CATALOG
from benchapp.detection.changepoints.estimates import describe_level, measure_shift
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.pooled_levels import POOLED_METHOD, POOLED_TICK, ChangedMembers
from benchapp.detection.rules.recovery import NOT_RETURNED, SAME_CHANGE_RUNS, LevelReturn
from benchapp.detection.write.histories import to_microseconds, to_time
from benchapp.detection.write.metric import DetectedChange
from benchapp.detection.write.pooled_members import PooledGroup
from benchapp.detection.write.rows import (
    TRANSITIONS_MAXIMUM,
    ChangeRecord,
    insert_changes,
    read_pooled_changes,
    update_changes,
)
from benchapp.framework.write.conflicts import lock_incidents
from benchapp.models import Change, ChangeState

# Runs of a member that are compared on each side.
_SIDE_RUNS: Final = 60
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)
# Without waiting for other evaluations, which have these rows while they wait for the lock of incidents.
_MARK: Final = (
    "UPDATE benchapp_series SET judging_is_due = TRUE WHERE id IN ("
    "SELECT id FROM benchapp_series WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True, slots=True)
class Line:
    """The positive values of one metric of a member, oldest first. times: µs since 2000."""

    series_id: int
    times: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PooledChange:
    """A change of the pooled level of one metric of a group.

    started_at: start of its first slot; ended_at: of the first slot after it, None while it lasts; in µs since 2000.
    relative: of the pooled level. detected: None if a stored change was not detected now. returned: whether the pooled
    level is back at the one before. rows: those of its members.
    """

    group: PooledGroup
    metric: str
    started_at: int
    ended_at: int | None
    interval_s: float
    is_rise: bool
    state: ChangeState
    relative: float
    changed: ChangedMembers
    detected: DetectedChange | None = None
    returned: LevelReturn = NOT_RETURNED
    rows: tuple[ChangeRecord, ...] = ()

    @property
    def is_regression(self) -> bool:
        """Return whether the metric became worse."""
        return self.is_rise != (CATALOG[self.metric].better == "higher")

    @property
    def incident_id(self) -> int | None:
        """Return the incident of its rows; None while they wait for one."""
        return next((row.incident_id for row in self.rows if row.incident_id is not None), None)


@dataclass(frozen=True, slots=True)
class _OwnChange:
    """A live change of level of one series, found in its own values."""

    id: int
    series_id: int
    is_regression: bool
    at: datetime
    incident_id: int | None


@dataclass(frozen=True)
class StoredRows:
    """What is stored about the members of a scope since a time: rows of pooled changes, and own changes."""

    series_ids: Sequence[int]
    since: datetime
    records: Sequence[ChangeRecord]

    @cached_property
    def own(self) -> Sequence[_OwnChange]:
        """Return the live changes found in the values of single series, by time. Most evaluations need none."""
        found = (
            Change.objects.filter(series_id__in=self.series_ids, state__in=_LIVE, started_at__gte=self.since)
            .exclude(method__in=(DRIFT_METHOD, POOLED_METHOD))
            .order_by("started_at", "id")
        )
        rows = found.values_list("id", "series_id", "is_regression", "started_at", "incident_id")
        return [_OwnChange(*row) for row in rows]

    @cached_property
    def levels(self) -> Mapping[tuple[str, str, str], Sequence[ChangeRecord]]:
        """Return the rows of each pooled level, by metric, dimension and value."""
        found: dict[tuple[str, str, str], list[ChangeRecord]] = {}
        for record in self.records:
            pooled = record.evidence["pooled"]
            found.setdefault((record.metric, pooled["dimension"], pooled["value"]), []).append(record)
        return found

    @cached_property
    def starts(self) -> frozenset[tuple[int, str, datetime]]:
        """Return series, metric and start of all rows."""
        return frozenset((record.series_id, record.metric, record.started_at) for record in self.records)

    def has_row(self, made: ChangeRecord, change: PooledChange) -> bool:
        """Return whether the series has a row of another pooled level with the same change."""
        reach = timedelta(seconds=SAME_CHANGE_RUNS * change.interval_s)
        return any(
            record.series_id == made.series_id
            and record.metric == made.metric
            and (record.relative > 0) == change.is_rise
            and abs(record.started_at - made.started_at) <= reach
            for record in self.records
        )

    def list_changes(self, group: PooledGroup, metric: str) -> list[PooledChange]:
        """Return the stored changes of a pooled level, by time."""
        of_level = self.levels.get((metric, group.dimension, group.value), ())
        starts = sorted(
            {(record.evidence["pooled"]["started_at"], record.relative > 0) for record in of_level}
        )
        return [
            _read_change(
                group,
                [
                    record
                    for record in of_level
                    if (record.evidence["pooled"]["started_at"], record.relative > 0) == start
                ],
            )
            for start in starts
        ]

    def find_own(self, change: PooledChange) -> dict[int, _OwnChange]:
        """Return the own changes of its direction within five runs of a pooled change, by series."""
        moment = to_time(change.started_at)
        reach = timedelta(seconds=SAME_CHANGE_RUNS * change.interval_s)
        return {
            own.series_id: own
            for own in self.own
            if own.is_regression == change.is_regression and abs(own.at - moment) <= reach
        }


def read_stored_rows(
    members: Mapping[str, Sequence[int]], *, since: Mapping[str, datetime]
) -> dict[str, StoredRows]:
    """Return what is stored about the members of each scope since a time; one query.

    members: ids of their series, by scope.
    """
    scopes = {series_id: scope for scope, ids in members.items() for series_id in ids}
    records: dict[str, list[ChangeRecord]] = {scope: [] for scope in members}
    for record in read_pooled_changes(list(scopes), since=min(since.values())):
        scope = scopes[record.series_id]
        if record.started_at >= since[scope]:
            records[scope].append(record)
    return {scope: StoredRows(ids, since[scope], records[scope]) for scope, ids in members.items()}


def _read_change(group: PooledGroup, rows: Sequence[ChangeRecord]) -> PooledChange:
    first, pooled = rows[0], rows[0].evidence["pooled"]
    ended_at = first.evidence.get("ended_at")
    is_confirmed = any(row.state == ChangeState.CONFIRMED for row in rows)
    return PooledChange(
        group=group,
        metric=first.metric,
        started_at=to_microseconds(datetime.fromisoformat(pooled["started_at"])),
        ended_at=to_microseconds(datetime.fromisoformat(ended_at)) if ended_at else None,
        interval_s=first.evidence["interval_s"],
        is_rise=first.relative > 0,
        state=ChangeState.CONFIRMED if is_confirmed else ChangeState.PROVISIONAL,
        relative=pooled["relative"],
        changed=ChangedMembers(pooled["members"], pooled["changed"], 1.0, pooled["median"]),
        rows=tuple(rows),
    )


@dataclass(slots=True)
class PooledWrites:
    """What evaluations write.

    replaced: ids of rows whose series has an own change. joined: the incident that own changes join, by id.
    taken: series, metric and start of new and moved rows. marked: series whose levels change.
    """

    updates: list[ChangeRecord] = field(default_factory=list)
    inserts: list[ChangeRecord] = field(default_factory=list)
    replaced: list[int] = field(default_factory=list)
    joined: dict[int, int] = field(default_factory=dict)
    taken: set[tuple[int, str, datetime]] = field(default_factory=set)
    marked: set[int] = field(default_factory=set)

    def add(self, change: PooledChange, lines: Iterable[Line], stored: StoredRows, *, now: datetime) -> None:
        """Add the rows of a pooled change. lines: the values of its members."""
        own = stored.find_own(change)
        rows = {row.series_id: row for row in change.rows}
        incident_id = change.incident_id
        for line in lines:
            row, other = rows.get(line.series_id), own.get(line.series_id)
            if change.state == ChangeState.WITHDRAWN:
                if row is not None:
                    self._update(row, replace(row, state=change.state, updated_at=now, withdrawn_at=now))
                continue
            if other is not None:
                if other.incident_id is None and incident_id is not None:
                    self.joined[other.id] = incident_id
                if row is not None and row.id is not None and incident_id is not None:
                    self.replaced.append(row.id)
                    self.marked.add(row.series_id)
                continue
            made = _make_row(change, line, row, now)
            # Later runs add members until the change is confirmed. A new one may be confirmed at once, after an import
            # or a time without workers.
            is_open = change.detected is not None and (
                change.state == ChangeState.PROVISIONAL or not change.rows
            )
            if row is not None:
                if made is None or (made.started_at != row.started_at and not self._take(made, stored)):
                    made = _keep_row(change, row, now)
                self._update(row, made)
            elif (
                made is not None and is_open and not stored.has_row(made, change) and self._take(made, stored)
            ):
                self.inserts.append(made)
                self.marked.add(line.series_id)

    def _take(self, made: ChangeRecord, stored: StoredRows) -> bool:
        """Return whether no other row of the metric has the start of a new or moved one."""
        key = (made.series_id, made.metric, made.started_at)
        if key in self.taken or key in stored.starts:
            return False
        self.taken.add(key)
        return True

    def _update(self, row: ChangeRecord, made: ChangeRecord) -> None:
        if made == replace(row, updated_at=made.updated_at):
            return
        self.updates.append(made)
        is_moved = (row.started_at, row.evidence.get("ended_at")) != (
            made.started_at,
            made.evidence.get("ended_at"),
        )
        if is_moved or made.state == ChangeState.WITHDRAWN:
            self.marked.add(row.series_id)


def write_pooled(writes: PooledWrites, now: datetime) -> tuple[int, ...]:
    """Write rows, and mark series whose levels change for an evaluation; return the ids of the written changes."""
    if not (writes.updates or writes.inserts or writes.replaced or writes.joined):
        return ()
    lock_incidents()
    update_changes(writes.updates)
    inserted = insert_changes(writes.inserts)
    Change.objects.filter(pk__in=writes.replaced).update(
        state=ChangeState.WITHDRAWN, withdrawn_at=now, updated_at=now, incident=None
    )
    for incident_id in sorted(set(writes.joined.values())):
        joining = [change_id for change_id, joined_id in writes.joined.items() if joined_id == incident_id]
        Change.objects.filter(pk__in=joining, incident=None).update(incident=incident_id)
    if writes.marked:
        with connection.cursor() as cursor:
            cursor.execute(_MARK, [sorted(writes.marked)])
    updated = (row.id for row in writes.updates if row.id is not None)
    return (*updated, *inserted, *writes.joined)


def _make_row(
    change: PooledChange, line: Line, row: ChangeRecord | None, now: datetime
) -> ChangeRecord | None:
    """Return the row of a member; None if it did not change in the direction, or has no run on a side."""
    first = int(np.searchsorted(line.times, change.started_at))
    end = len(line.times) if change.ended_at is None else int(np.searchsorted(line.times, change.ended_at))
    before = line.values[max(first - _SIDE_RUNS, 0) : first]
    after = line.values[first : min(first + _SIDE_RUNS, end)]
    if not len(before) or not len(after):
        return None
    shift = measure_shift(before, after)
    if not shift.relative or (shift.relative > 0) != change.is_rise:
        return None
    old, new = describe_level(before), describe_level(after)
    evidence = {**(row.evidence if row else {}), **_describe_evidence(change)}
    if row is None or row.state != change.state:
        transition = {"state": change.state.value, "at": now.isoformat()}
        evidence["history"] = [*evidence.get("history", []), transition][-TRANSITIONS_MAXIMUM:]
    evidence["points_from"] = to_time(line.times[max(first - _SIDE_RUNS, 0)]).isoformat()
    evidence["points_to"] = to_time(line.times[first + len(after) - 1]).isoformat()
    confidence = row.confidence if row else 0.0
    return ChangeRecord(
        id=row.id if row else None,
        series_id=line.series_id,
        metric=change.metric,
        run_id=int(line.run_ids[first]),
        started_at=to_time(line.times[first]) + POOLED_TICK,
        last_good_run_id=int(line.run_ids[first - 1]),
        state=change.state,
        is_regression=change.is_regression,
        before_median=old.median,
        before_n=old.points,
        before_spread=old.spread,
        after_median=new.median,
        after_n=new.points,
        after_spread=new.spread,
        relative=shift.relative,
        relative_low=shift.low,
        relative_high=shift.high,
        confidence=1 - change.detected.chance if change.detected else confidence,
        method=POOLED_METHOD,
        evidence=evidence,
        incident_id=row.incident_id if row else None,
        found_at=row.found_at if row else now,
        updated_at=now,
    )


def _keep_row(change: PooledChange, row: ChangeRecord, now: datetime) -> ChangeRecord:
    """Return a row with its earlier levels: its series is not on the side of the change now, or the start is taken."""
    evidence = {**row.evidence, **_describe_evidence(change)}
    return replace(row, state=change.state, evidence=evidence, updated_at=now)


def _describe_evidence(change: PooledChange) -> dict[str, Any]:
    found = change.detected
    tests = {}
    if found is not None:
        tests = {
            "chance": found.chance,
            "t_score": found.t_score,
            "rank_score": found.rank_score,
            "correlation": found.correlation,
        }
    return {
        **tests,
        "interval_s": change.interval_s,
        "is_back": change.ended_at is not None,
        "ended_at": None if change.ended_at is None else to_time(change.ended_at).isoformat(),
        "pooled": {
            "dimension": change.group.dimension,
            "value": change.group.value,
            "started_at": to_time(change.started_at).isoformat(),
            "relative": change.relative,
            "members": change.changed.members,
            "changed": change.changed.changed,
            "median": change.changed.relative,
            "has_returned": change.returned.has_returned,
            "is_nearer_before": change.returned.is_nearer,
        },
    }
