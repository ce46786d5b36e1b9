"""Detect changes of pooled levels: of all series of a host or pool, and of those with a volume type or stripe count.

A pooled level is evaluated like a single series, once for each sweep of its host or pool. Its change is stored as a
change of method `pooled-v1` in each series that changed in its direction (pooled_rows.py), if it is significant.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db import connection
from django.db.models import DurationField, ExpressionWrapper, F, Value
from numpy.typing import NDArray

from benchapp.catalog.metrics import CATALOG
from benchapp.detection.changepoints.estimates import ShiftLevel, describe_level
from benchapp.detection.changepoints.segmentation import take_median
from benchapp.detection.rules.noise_profile import profile_noise
from benchapp.detection.rules.pooled_levels import (
    CHANGED_SHARE_MINIMUM,
    MEMBERS_MINIMUM,
    SLOTS_MINIMUM,
    THRESHOLD_SHARE,
    UPDATED_SLOTS,
    SlotGrid,
    align_members,
    count_changed,
    do_others_follow,
    find_grid,
    may_have_changed,
    pool_ratios,
)
from benchapp.detection.rules.recovery import (
    SAME_CHANGE_RUNS,
    LevelReturn,
    find_end,
    is_recovery,
    measure_return,
)
from benchapp.detection.rules.significance import ChangeClaim, ScopeTests, filter_significant
from benchapp.detection.write.histories import to_microseconds, to_time
from benchapp.detection.write.metric import (
    Decision,
    DetectedChange,
    StoredChange,
    find_retained,
    is_back,
    judge_metric,
    list_ended,
    reconcile,
)
from benchapp.detection.write.pooled_members import (
    MEMBERS_MAXIMUM,
    MemberHistories,
    PooledGroup,
    PooledMember,
    ReadFrom,
    choose_read_from,
    list_groups,
    read_member_histories,
    read_members,
)
from benchapp.detection.write.pooled_rows import (
    Line,
    PooledChange,
    PooledWrites,
    StoredRows,
    read_stored_rows,
    write_pooled,
)
from benchapp.models import ChangeState, Host, PooledEvaluation, Series

# Slots that are evaluated: the detector compares 60 on each side of a change.
_SLOTS_MAXIMUM: Final = 130
# Slots from the newest one in which new changes are found.
_REACH_SLOTS: Final = 60
# Slots of a new level from which an evaluation can find it. A change that an earlier one could have found is not
# reported once it is confirmed: noise of all series of a host in between made it significant.
_FOUND_FROM_SLOTS: Final = 3
# Slots on each side of a stored change for its level.
_SIDE_SLOTS: Final = 60
# Share of the series measured in the last slots that must be measured, and evaluated, since the newest evaluated slot.
_COMPLETE_SHARE: Final = 0.8
_ACTIVE_SLOTS: Final = 3
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


def judge_pooled(scopes: Iterable[str], *, now: datetime) -> tuple[int, ...]:
    """Evaluate the pooled levels of these scopes whose newest sweep is complete; return the written changes.

    The single series must have been evaluated before. One query if no scope has a complete sweep.
    """
    complete = _list_complete(scopes)
    evaluations = list(_claim(complete))
    if not evaluations:
        return ()
    writes = PooledWrites()
    members = read_members([evaluation.scope for evaluation in evaluations])
    hosts = max(Host.objects.active().count(), 1)
    # A clock that is ahead does not postpone the next evaluation.
    newest = {scope: min(newest_at, now) for scope, _, newest_at in complete}
    for batch in _divide(evaluations, members):
        _judge_scopes(batch, members, newest, writes, hosts=hosts, now=now)
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


def _claim(complete: Sequence[tuple[str, datetime | None, datetime]]) -> Iterator[PooledEvaluation]:
    """Lock the evaluations of scopes without waiting, except of those that another process has, or had meanwhile."""
    known = {scope: evaluated_to_at for scope, evaluated_to_at, _ in complete if evaluated_to_at is not None}
    if known:
        unlocked = PooledEvaluation.objects.select_for_update(skip_locked=True)
        for evaluation in unlocked.filter(scope__in=known).order_by("scope"):
            if evaluation.evaluated_to_at == known[evaluation.scope]:
                yield evaluation
    for scope, evaluated_to_at, newest_at in complete:
        if evaluated_to_at is None:
            evaluation, is_new = PooledEvaluation.objects.get_or_create(
                scope=scope, defaults={"evaluated_to_at": newest_at, "interval_s": 0.0}
            )
            if is_new:
                yield evaluation


def _divide(
    evaluations: Sequence[PooledEvaluation], members: Mapping[str, Sequence[PooledMember]]
) -> Iterator[list[PooledEvaluation]]:
    """Yield scopes that are evaluated together: their members are read at once."""
    batch: list[PooledEvaluation] = []
    count = 0
    for evaluation in evaluations:
        count += len(members[evaluation.scope])
        if batch and count > MEMBERS_MAXIMUM:
            yield batch
            batch, count = [], len(members[evaluation.scope])
        batch.append(evaluation)
    yield batch


def _judge_scopes(
    evaluations: Sequence[PooledEvaluation],
    members: Mapping[str, Sequence[PooledMember]],
    newest: Mapping[str, datetime],
    writes: PooledWrites,
    *,
    hosts: int,
    now: datetime,
) -> None:
    """Evaluate scopes, and note their newest slot.

    members: by scope. newest: start of the newest run, valid or not. hosts: active ones of the fleet.
    """
    pools = {
        scope: found
        for scope, histories in _read_histories(evaluations, members)
        if (found := list(_list_pools(members[scope], histories)))
    }
    # 0 before the first evaluation.
    evaluated_to = {
        evaluation.scope: to_microseconds(evaluation.evaluated_to_at) if evaluation.interval_s else None
        for evaluation in evaluations
    }
    _note_evaluated(evaluations, pools, newest)
    if not pools:
        return
    stored = read_stored_rows(
        {scope: [member.series_id for member in members[scope]] for scope in pools},
        since={
            scope: to_time(of_scope[0].grid.find_start(_find_newest(of_scope) - UPDATED_SLOTS))
            for scope, of_scope in pools.items()
        },
    )
    for scope, of_scope in pools.items():
        groups = list(list_groups(members[scope]))
        for pool in of_scope:
            _judge_pool(
                pool,
                groups,
                stored[scope],
                evaluated_to=evaluated_to[scope],
                hosts=hosts,
                tests=len(of_scope),
                writes=writes,
                now=now,
            )


def _read_histories(
    evaluations: Sequence[PooledEvaluation], members: Mapping[str, Sequence[PooledMember]]
) -> Iterator[tuple[str, MemberHistories]]:
    """Yield each scope with the newest runs of its members; as many queries as `read_member_histories` for all."""
    found = [member for evaluation in evaluations for member in members[evaluation.scope]]
    read_from: dict[int, ReadFrom] = {}
    for evaluation in evaluations:
        # 0 before the first evaluation.
        if evaluation.interval_s:
            read_from |= choose_read_from(
                members[evaluation.scope],
                evaluated_to_at=evaluation.evaluated_to_at,
                interval_s=evaluation.interval_s,
                window=_SLOTS_MAXIMUM,
            )
    histories = read_member_histories(
        [member.series_id for member in found],
        window=_SLOTS_MAXIMUM,
        metrics=tuple(sorted({metric for member in found for metric in member.metrics})),
        read_from=read_from,
    )
    first = 0
    for evaluation in evaluations:
        end = first + len(members[evaluation.scope])
        yield evaluation.scope, histories.take_members(first, end)
        first = end


def _note_evaluated(
    evaluations: Sequence[PooledEvaluation],
    pools: Mapping[str, Sequence["_Pool"]],
    newest: Mapping[str, datetime],
) -> None:
    """Note the newest slot of each scope as evaluated; that of its newest run if no later slot has enough valid runs.

    Otherwise runs that failed or are excluded would complete the same sweep with every batch. Without a pooled level
    the newest run is noted.
    """
    for evaluation in evaluations:
        of_scope = pools.get(evaluation.scope)
        if of_scope is None:
            after = newest[evaluation.scope] + timedelta(microseconds=1)
            evaluation.evaluated_to_at = max(evaluation.evaluated_to_at, after)
            continue
        grid = of_scope[0].grid
        evaluated_to_at = to_time(grid.find_start(_find_newest(of_scope) + 1))
        if evaluated_to_at <= evaluation.evaluated_to_at:
            slot = grid.find_slot(to_microseconds(newest[evaluation.scope]))
            evaluated_to_at = max(evaluated_to_at, to_time(grid.find_start(slot + 1)))
        evaluation.evaluated_to_at = evaluated_to_at
        evaluation.interval_s = grid.interval / 1e6
    PooledEvaluation.objects.bulk_update(evaluations, ["evaluated_to_at", "interval_s"])


@dataclass(frozen=True, slots=True)
class _Pool:
    """One metric of all members of a scope. slots: number of each row of `ratios`, which has a column for each member.

    histories: the runs with positive values. thresholds: of each member.
    """

    metric: str
    members: Sequence[PooledMember]
    histories: MemberHistories
    slots: NDArray[np.intp]
    ratios: NDArray[np.float64]
    weights: NDArray[np.float64]
    grid: SlotGrid
    thresholds: NDArray[np.float64]

    def select_slots(self, selected: NDArray[np.bool_]) -> "_Pool":
        """Return these slots only."""
        if selected.all():
            return self
        return replace(self, slots=self.slots[selected], ratios=self.ratios[selected])

    def find_time(self, index: int) -> int:
        """Return when the slot of a row begins, in µs since 2000."""
        return self.grid.find_start(int(self.slots[index]))

    def find_index(self, time: int) -> int:
        """Return the row of the slot of a time in µs since 2000, or of the next slot."""
        return int(np.searchsorted(self.slots, self.grid.find_slot(time)))

    def pool_members(self, numbers: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the pooled level of some members in each slot."""
        return pool_ratios(*self.take_members(numbers))

    def take_members(self, numbers: NDArray[np.intp]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ratios of some members, a row for each slot, and their weights."""
        return np.take(self.ratios, numbers, axis=1), self.weights[numbers]

    def list_lines(self, group: PooledGroup) -> Iterator[Line]:
        """Yield the values of some members."""
        for number in group.members.tolist():
            history = self.histories.take_members(number, number + 1)
            yield Line(
                self.members[number].series_id, history.times, history.run_ids, history.values[self.metric]
            )


def _find_newest(pools: Sequence[_Pool]) -> int:
    """Return the newest slot of the metrics of a scope."""
    return max(int(pool.slots[-1]) for pool in pools)


def _list_pools(members: Sequence[PooledMember], histories: MemberHistories) -> Iterator[_Pool]:
    """Yield the metrics of enough members and slots."""
    grid = find_grid(histories.members, histories.times)
    if grid is None:
        return
    slots = grid.find_slots(histories.times)
    for metric in sorted({metric for member in members for metric in member.metrics}):
        is_judged = np.array([metric in member.metrics for member in members])
        is_used = (histories.values[metric] > 0) & is_judged[histories.members]
        counts = np.bincount(histories.members[is_used], minlength=len(members))
        if int((counts >= SLOTS_MINIMUM).sum()) < MEMBERS_MINIMUM:
            continue
        used = histories if is_used.all() else histories.select(is_used)
        aligned = align_members(
            used.members,
            slots[is_used],
            used.values[metric],
            count=len(members),
            slots_maximum=_SLOTS_MAXIMUM,
        )
        if len(aligned.slots) >= SLOTS_MINIMUM:
            yield _Pool(
                metric,
                members,
                used,
                aligned.slots,
                aligned.ratios,
                aligned.weights,
                grid,
                thresholds=np.array([member.thresholds[metric] for member in members]),
            )


def _judge_pool(
    pool: _Pool,
    groups: Sequence[PooledGroup],
    stored: StoredRows,
    *,
    evaluated_to: int | None,
    hosts: int,
    tests: int,
    writes: PooledWrites,
    now: datetime,
) -> None:
    """Evaluate one metric of all groups. The changes of all members cover those of a part of them.

    evaluated_to: end of the newest slot that was evaluated before, in µs since 2000.
    """
    levels = np.stack([pool.pool_members(group.members) for group in groups])
    # Policies may differ between the members of a group.
    smallest = THRESHOLD_SHARE * np.array([take_median(pool.thresholds[group.members]) for group in groups])
    is_known = np.isfinite(levels)
    # A slot may have no value of a volume type, although it has half of the series: such a level is always evaluated.
    is_candidate = may_have_changed(levels, tolerated_changes=smallest) | ~is_known.all(axis=1)
    covered: list[PooledChange] = []
    for number, group in enumerate(groups):
        # Those before the first slot were of another kind of latency.
        first_at = pool.find_time(0)
        earlier = [
            change for change in stored.list_changes(group, pool.metric) if change.started_at > first_at
        ]
        if not earlier and not is_candidate[number]:
            continue
        if np.count_nonzero(is_known[number]) < SLOTS_MINIMUM:
            continue
        known = pool.select_slots(is_known[number])
        is_whole = group.dimension == ""
        family = ScopeTests(tests=tests * (1 if is_whole else len(groups) - 1), series=1, scopes=hosts)
        found = _judge_group(
            known,
            group,
            levels[number][is_known[number]],
            earlier,
            smallest=float(smallest[number]),
            covered=[_place(known, change) for change in covered],
            family=family,
            stored=stored,
            evaluated_to=evaluated_to,
        )
        for change in found:
            writes.add(change, pool.list_lines(group), stored, now=now)
            if is_whole and change.state != ChangeState.WITHDRAWN:
                covered.append(change)


def _judge_group(
    pool: _Pool,
    group: PooledGroup,
    values: NDArray[np.float64],
    earlier: Sequence[PooledChange],
    *,
    smallest: float,
    covered: Sequence[StoredChange],
    family: ScopeTests,
    stored: StoredRows,
    evaluated_to: int | None,
) -> Iterator[PooledChange]:
    """Yield the stored changes of a group, and the new ones that are significant, by the rules of single series.

    values: its pooled level in each slot. earlier: stored changes. smallest: relative change that is reported. The
    members without an individual change must show a significant change, too, and half of it until it is confirmed.
    """
    known = [_place_stored(pool, values, number, change) for number, change in enumerate(earlier)]
    confirmed = [(one.index, one.is_rise) for one in known if one.state == ChangeState.CONFIRMED]
    detected = list(judge_metric(values, smallest_change=smallest, confirmed=confirmed).changes)
    ended, unchanged = list_ended(
        values,
        known,
        detected,
        smallest_change=smallest,
        describe_levels=lambda found: _describe_levels(values, found.index, found.relative),
    )
    detected += ended
    retained = find_retained(values, known, detected) | unchanged
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
                and not _could_be_found(pool, change, evaluated_to)
                and not _ends_regression(found, detected, pool.metric)
                and _is_significant(found, family)
                and _is_found_in_others(pool, change, stored, smallest=smallest, family=family)
            ):
                yield change
        else:
            change = _describe(pool, group, values, decision, earlier[number])
            is_open = earlier[number].state == ChangeState.PROVISIONAL
            if (
                is_open
                and change.detected is not None
                and not _do_others_follow(pool, change, _list_others(pool, change, stored))
            ):
                change = replace(change, state=ChangeState.WITHDRAWN)
            yield change


def _could_be_found(pool: _Pool, change: PooledChange, evaluated_to: int | None) -> bool:
    """Return whether a change that is confirmed when it is found could have been found by an earlier evaluation."""
    if change.state != ChangeState.CONFIRMED or evaluated_to is None:
        return False
    return evaluated_to - change.started_at >= _FOUND_FROM_SLOTS * pool.grid.interval


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
    ratios, weights = pool.take_members(group.members)
    return PooledChange(
        group=group,
        metric=pool.metric,
        started_at=pool.find_time(index),
        ended_at=pool.find_time(end) if end is not None and end < len(values) else None,
        interval_s=pool.grid.interval / 1e6,
        is_rise=is_rise,
        state=decision.state,
        relative=relative,
        changed=count_changed(ratios[:end], weights, index, is_rise=is_rise),
        detected=found,
        returned=_measure_return(values, index, before=before, after=after),
        rows=earlier.rows if earlier is not None else (),
    )


def _measure_return(
    values: NDArray[np.float64], index: int, *, before: ShiftLevel, after: ShiftLevel
) -> LevelReturn:
    """Return whether a pooled level is back at the one before a change, by the noise of that one."""
    noise = profile_noise(values[max(index - _SIDE_SLOTS, 0) : index])
    return measure_return(
        values[index:].tolist(),
        before_median=before.median,
        after_median=after.median,
        # Fewer slots do not show the noise: no return is certain.
        spread=noise.spread * before.median if index >= SLOTS_MINIMUM else math.inf,
        correlation=noise.correlation,
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


def _list_others(pool: _Pool, change: PooledChange, stored: StoredRows) -> NDArray[np.intp]:
    """Return the members without an individual change at the time of a pooled one."""
    own = stored.find_own(change)
    members = change.group.members
    return members[[pool.members[number].series_id not in own for number in members.tolist()]]


def _do_others_follow(pool: _Pool, change: PooledChange, others: NDArray[np.intp]) -> bool:
    """Return whether the members without an individual change show at least half of a pooled change."""
    ratios, weights = pool.take_members(others)
    return do_others_follow(ratios, weights, pool.find_index(change.started_at), relative=change.relative)


def _is_found_in_others(
    pool: _Pool, change: PooledChange, stored: StoredRows, *, smallest: float, family: ScopeTests
) -> bool:
    """Return whether the members without an individual change show at least half of a pooled change.

    If some members have an individual change, the pooled level of the other members must have a significant change in
    the same direction within five slots, too: a large change of some makes noise of the others significant in the
    pooled level of all.
    """
    others = _list_others(pool, change, stored)
    if not _do_others_follow(pool, change, others):
        return False
    if len(others) == len(change.group.members):
        return True
    levels = pool.pool_members(others)
    is_known = np.isfinite(levels)
    index = int(np.count_nonzero(is_known[: pool.find_index(change.started_at)]))
    return any(
        found.is_rise == change.is_rise
        and abs(found.index - index) <= SAME_CHANGE_RUNS
        and _is_significant(found, family)
        for found in judge_metric(levels[is_known], smallest_change=smallest).changes
    )


def _is_significant(change: DetectedChange, family: ScopeTests) -> bool:
    return bool(filter_significant([ChangeClaim(0, 0, change.chance)], family))
