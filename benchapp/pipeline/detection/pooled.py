"""Detect changes of pooled levels: of all series of a host or pool, and of those with a volume type or stripe count.

A pooled level is evaluated like a single series, once for each sweep of its host or pool. Its change is stored as a
change of method `pooled-v1` in each series that changed in its direction (pooled_rows.py), if it is significant.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, F, Value
from numpy.typing import NDArray

from benchapp.analysis.changepoints.level_shift import ShiftLevel, describe_level
from benchapp.analysis.detection.pooled_levels import (
    CHANGED_SHARE_MINIMUM,
    MEMBERS_MINIMUM,
    SLOTS_MINIMUM,
    THRESHOLD_SHARE,
    SlotGrid,
    align_members,
    count_changed,
    find_grid,
    may_have_changed,
    pool_ratios,
)
from benchapp.analysis.detection.recovery import find_end, is_recovery
from benchapp.analysis.incidents.significance import ChangeClaim, ScopeTests, filter_significant
from benchapp.metrics import CATALOG, list_judged_metrics
from benchapp.models import ChangeState, Host, PooledEvaluation, Series
from benchapp.models.policies.thresholds import read_thresholds
from benchapp.pipeline.detection.histories import StoredHistory, read_histories, to_time
from benchapp.pipeline.detection.metric import DetectedChange, is_back, judge_metric
from benchapp.pipeline.detection.pooled_rows import (
    Line,
    PooledChange,
    PooledGroup,
    PooledWrites,
    StoredRows,
    read_stored_rows,
    write_pooled,
)
from benchapp.pipeline.detection.reconcile import (
    Decision,
    StoredChange,
    find_retained,
    list_ended,
    reconcile,
)

# Slots that are evaluated: the detector compares 60 on each side of a change.
_SLOTS_MAXIMUM: Final = 130
# Slots from the newest one in which new changes are found.
_REACH_SLOTS: Final = 60
# Slots from the newest one in which stored changes are updated; earlier ones have too few slots before them.
_UPDATED_SLOTS: Final = 100
# Slots on each side of a stored change for its level.
_SIDE_SLOTS: Final = 60
# Series of a host or pool that are pooled, the first ones by id: 20 MB.
_MEMBERS_MAXIMUM: Final = 2000
# Share of the series measured in the last slots that must be measured, and evaluated, since the newest evaluated slot.
_COMPLETE_SHARE: Final = 0.8
_ACTIVE_SLOTS: Final = 3
# Dimensions whose values have pooled levels.
_DIMENSIONS: Final = ("volume_type", "stripe_count")
_LIST_COMPLETE: Final = (
    "SELECT series.scope, pooled.evaluated_to_at, max(series.last_at) FROM benchapp_series series"
    " LEFT JOIN benchapp_pooledevaluation pooled ON pooled.scope = series.scope"
    " WHERE series.scope = ANY(%(scopes)s) AND series.measurement_count >= %(runs)s"
    " AND (pooled.scope IS NULL OR series.last_at >= pooled.evaluated_to_at"
    "  - make_interval(secs => %(slots)s * pooled.interval_s))"
    " GROUP BY series.scope, pooled.evaluated_to_at HAVING count(*) >= %(members)s"
    " AND count(*) FILTER (WHERE NOT series.judging_is_due AND (pooled.scope IS NULL"
    "  OR series.last_at >= pooled.evaluated_to_at)) >= %(share)s * count(*) ORDER BY series.scope"
)


@dataclass(frozen=True, slots=True)
class _Member:
    """One series of a scope. values: of its dimensions, as text, by name; thresholds: of its metrics."""

    series_id: int
    metrics: tuple[str, ...]
    values: Mapping[str, str]
    thresholds: Mapping[str, float]


def judge_pooled(scopes: Iterable[str], *, now: datetime) -> tuple[int, ...]:
    """Evaluate the pooled levels of these scopes whose newest sweep is complete; return the written changes.

    The single series must have been evaluated before. One query if no scope has a complete sweep.
    """
    writes = PooledWrites()
    for scope, evaluated_to_at, newest_at in _list_complete(scopes):
        evaluation = _claim(scope, evaluated_to_at, newest_at)
        if evaluation is not None:
            _judge_scope(evaluation, writes, now)
    return write_pooled(writes, now)


def repeat_pooled_evaluations(series_ids: Sequence[int]) -> None:
    """Let the newest slot of the pooled levels of these series be evaluated again, with the batch of their last series.

    Their thresholds have changed; the series must be marked for evaluation in the same transaction.
    """
    scopes = Series.objects.filter(pk__in=series_ids).values("scope")
    slot = ExpressionWrapper(F("interval_s") * Value(timedelta(seconds=1)), output_field=DurationField())
    found = PooledEvaluation.objects.filter(scope__in=scopes)
    # Locked in the order of keys, as by two policies at the same time.
    list(found.select_for_update(no_key=True).order_by("pk").values_list("pk"))
    found.update(evaluated_to_at=F("evaluated_to_at") - slot)


def _list_complete(scopes: Iterable[str]) -> list[tuple[str, datetime | None, datetime]]:
    """Return the scopes with a complete sweep since the newest evaluated slot, its end, and when the newest run was."""
    with connection.cursor() as cursor:
        cursor.execute(
            _LIST_COMPLETE,
            {
                "scopes": sorted(set(scopes)),
                "runs": SLOTS_MINIMUM,
                "slots": _ACTIVE_SLOTS,
                "members": MEMBERS_MINIMUM,
                "share": _COMPLETE_SHARE,
            },
        )
        return list(cursor.fetchall())


def _claim(scope: str, evaluated_to_at: datetime | None, newest_at: datetime) -> PooledEvaluation | None:
    """Lock the evaluation of a scope without waiting; None if another process has it, or had it meanwhile."""
    if evaluated_to_at is None:
        evaluation, is_new = PooledEvaluation.objects.get_or_create(
            scope=scope, defaults={"evaluated_to_at": newest_at, "interval_s": 0.0}
        )
        return evaluation if is_new else None
    unlocked = PooledEvaluation.objects.select_for_update(skip_locked=True)
    return unlocked.filter(scope=scope, evaluated_to_at=evaluated_to_at).first()


def _judge_scope(evaluation: PooledEvaluation, writes: PooledWrites, now: datetime) -> None:
    members = _read_members(evaluation.scope)
    ids = [member.series_id for member in members]
    metrics = tuple(sorted({metric for member in members for metric in member.metrics}))
    histories = read_histories(ids, window=_SLOTS_MAXIMUM, metrics=metrics)
    grid = find_grid([histories[series_id].times for series_id in ids])
    pools = list(_list_pools(members, histories, grid)) if grid else []
    if grid is None or not pools:
        return
    newest = max(int(pool.slots[-1]) for pool in pools)
    evaluation.evaluated_to_at = to_time(grid.find_start(newest + 1))
    evaluation.interval_s = grid.interval / 1e6
    evaluation.save(update_fields=["evaluated_to_at", "interval_s"])
    stored = read_stored_rows(ids, since=to_time(grid.find_start(newest - _UPDATED_SLOTS)))
    groups = list(_list_groups(members))
    hosts = max(Host.objects.active().count(), 1)
    for pool in pools:
        _judge_pool(pool, groups, stored, hosts=hosts, tests=len(pools), writes=writes, now=now)


def _read_members(scope: str) -> list[_Member]:
    found = Series.objects.filter(scope=scope, measurement_count__gte=SLOTS_MINIMUM).order_by("id")
    rows = list(found.values("id", "block_size_bytes", *_DIMENSIONS)[:_MEMBERS_MAXIMUM])
    thresholds = read_thresholds([row["id"] for row in rows])
    return [
        _Member(
            row["id"],
            list_judged_metrics(has_one_block_size=row["block_size_bytes"] is not None),
            {name: str(row[name]) for name in _DIMENSIONS if row[name] is not None},
            thresholds[row["id"]],
        )
        for row in rows
    ]


def _list_groups(members: Sequence[_Member]) -> Iterator[PooledGroup]:
    """Yield all members, and those of each value of a dimension that enough of them have, but not all."""
    yield PooledGroup("", "", np.arange(len(members)))
    for name in _DIMENSIONS:
        values = np.array([member.values.get(name, "") for member in members])
        for value in sorted(set(values.tolist()) - {""}):
            rows = np.flatnonzero(values == value)
            if MEMBERS_MINIMUM <= len(rows) < len(members):
                yield PooledGroup(name, value, rows)


@dataclass(frozen=True, slots=True)
class _Pool:
    """One metric of all members of a scope. slots: number of each column of `ratios`, a row for each member.

    thresholds: of each member.
    """

    metric: str
    lines: tuple[Line, ...]
    slots: NDArray[np.intp]
    ratios: NDArray[np.float64]
    weights: NDArray[np.float64]
    grid: SlotGrid
    thresholds: NDArray[np.float64]

    def find_time(self, index: int) -> int:
        """Return when the slot of a column begins, in µs since 2000."""
        return self.grid.find_start(int(self.slots[index]))

    def find_index(self, time: int) -> int:
        """Return the column of the slot of a time in µs since 2000, or of the next slot."""
        return int(np.searchsorted(self.slots, self.grid.find_slot(time)))


def _list_pools(
    members: Sequence[_Member], histories: Mapping[int, StoredHistory], grid: SlotGrid
) -> Iterator[_Pool]:
    """Yield the metrics of enough members and slots."""
    for metric in sorted({metric for member in members for metric in member.metrics}):
        lines = tuple(_take_line(member, metric, histories[member.series_id]) for member in members)
        if sum(len(line.times) >= SLOTS_MINIMUM for line in lines) < MEMBERS_MINIMUM:
            continue
        aligned = align_members(
            [line.times for line in lines],
            [line.values for line in lines],
            grid,
            slots_maximum=_SLOTS_MAXIMUM,
        )
        if len(aligned.slots) >= SLOTS_MINIMUM:
            thresholds = np.array([member.thresholds[metric] for member in members])
            yield _Pool(
                metric, lines, aligned.slots, aligned.ratios, aligned.weights, grid, thresholds=thresholds
            )


def _take_line(member: _Member, metric: str, history: StoredHistory) -> Line:
    values = history.values[metric]
    is_used = values > 0 if metric in member.metrics else np.zeros(len(values), np.bool_)
    if is_used.all():
        return Line(member.series_id, history.times, history.run_ids, values)
    return Line(member.series_id, history.times[is_used], history.run_ids[is_used], values[is_used])


def _judge_pool(
    pool: _Pool,
    groups: Sequence[PooledGroup],
    stored: StoredRows,
    *,
    hosts: int,
    tests: int,
    writes: PooledWrites,
    now: datetime,
) -> None:
    """Evaluate one metric of all groups. The changes of all members cover those of a part of them."""
    covered: list[StoredChange] = []
    for group in groups:
        is_whole = group.dimension == ""
        family = ScopeTests(tests=tests * (1 if is_whole else len(groups) - 1), series=1, scopes=hosts)
        for change in _judge_group(pool, group, stored, covered=covered, family=family):
            writes.add(change, [pool.lines[row] for row in group.rows], stored, now=now)
            if is_whole and change.state != ChangeState.WITHDRAWN:
                covered.append(_place(pool, change))


def _judge_group(
    pool: _Pool,
    group: PooledGroup,
    stored: StoredRows,
    *,
    covered: Sequence[StoredChange],
    family: ScopeTests,
) -> Iterator[PooledChange]:
    """Yield the stored changes of a group, and the new ones that are significant, by the rules of single series."""
    # Policies may differ between the members of a group.
    smallest = THRESHOLD_SHARE * float(np.median(pool.thresholds[group.rows]))
    values = pool_ratios(pool.ratios[group.rows], pool.weights[group.rows])
    earlier = stored.list_changes(group, pool.metric)
    if not earlier and not may_have_changed(values, tolerated_change=smallest):
        return
    known = [_place_stored(pool, values, number, change) for number, change in enumerate(earlier)]
    confirmed = [(one.index, one.is_rise) for one in known if one.state == ChangeState.CONFIRMED]
    detected = list(judge_metric(values, smallest_change=smallest, confirmed=confirmed).changes)
    detected += list_ended(values, known, detected, smallest_change=smallest)
    retained = find_retained(values, known, detected)
    for decision in reconcile(known, detected, None, runs=len(values), retained=retained):
        number, found = decision.change_id, decision.detected
        if number is None:
            is_old = found is None or found.index < len(values) - _REACH_SLOTS
            if found is None or is_old or any(one.is_same(found) for one in covered):
                continue
            change = _describe(pool, group, values, decision, None)
            is_common = change.changed.share >= CHANGED_SHARE_MINIMUM
            if (
                is_common
                and not _ends_regression(found, detected, pool.metric)
                and _is_significant(found, family)
            ):
                yield change
        else:
            yield _describe(pool, group, values, decision, earlier[number])


def _place_stored(
    pool: _Pool, values: NDArray[np.float64], number: int, change: PooledChange
) -> StoredChange:
    """Return a stored change with its place, and its levels relative to the current members."""
    index = pool.find_index(change.started_at)
    before, after = _describe_levels(values, index, change.relative)
    return StoredChange(
        number,
        change.state,
        index,
        change.is_rise,
        before,
        after,
        is_in_incident=change.incident_id is not None,
    )


def _place(pool: _Pool, change: PooledChange) -> StoredChange:
    level = ShiftLevel(1.0, 0.0, 0)
    return StoredChange(0, change.state, pool.find_index(change.started_at), change.is_rise, level, level)


def _describe_levels(
    values: NDArray[np.float64], index: int, relative: float
) -> tuple[ShiftLevel, ShiftLevel]:
    """Return the levels before and after a change of a known size: later runs may have returned."""
    if index == 0:
        level = ShiftLevel(float(values[0]), 0.0, 1)
    else:
        level = describe_level(values[max(index - _SIDE_SLOTS, 0) : index])
    return level, replace(level, median=level.median * (1 + relative))


def _describe(
    pool: _Pool,
    group: PooledGroup,
    values: NDArray[np.float64],
    decision: Decision,
    earlier: PooledChange | None,
) -> PooledChange:
    """Return a change as it is now: size and number of changed members, whether it is back, and where it ended."""
    found = decision.detected
    if found is not None:
        index, relative, is_rise = found.index, found.relative, found.is_rise
    else:
        assert earlier is not None
        index, relative, is_rise = pool.find_index(earlier.started_at), earlier.relative, earlier.is_rise
    before, after = _describe_levels(values, index, relative)
    was_back = earlier is not None and earlier.ended_at is not None
    end = None
    if is_back(values, index, before=before, after=after, was_back=was_back):
        end = index + find_end(
            values[index:].tolist(), before_median=before.median, after_median=after.median
        )
    return PooledChange(
        group=group,
        metric=pool.metric,
        started_at=pool.find_time(index),
        ended_at=pool.find_time(end) if end is not None and end < len(values) else None,
        interval_s=pool.grid.interval / 1e6,
        is_rise=is_rise,
        state=decision.state,
        relative=relative,
        changed=count_changed(
            pool.ratios[group.rows, :end], pool.weights[group.rows], index, is_rise=is_rise
        ),
        detected=found,
        rows=earlier.rows if earlier is not None else (),
    )


def _ends_regression(change: DetectedChange, others: Sequence[DetectedChange], metric: str) -> bool:
    """Return whether an improvement is the recovery from an earlier regression of the same pooled level."""
    is_better = change.is_rise == (CATALOG[metric].better == "higher")
    return is_better and any(
        other.index < change.index
        and other.is_rise != change.is_rise
        and is_recovery(
            change.after.median, before_median=other.before.median, after_median=other.after.median
        )
        for other in others
    )


def _is_significant(change: DetectedChange, family: ScopeTests) -> bool:
    return bool(filter_significant([ChangeClaim(0, 0, change.chance)], family))
