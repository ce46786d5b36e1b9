"""Detection, levels, grouping and notices in one transaction: claim, read, detect, reconcile, group; idempotent.

Whoever changes measurements marks their series (`judging_is_due`) in the same transaction. A killed worker leaves only
the mark; concurrent workers take different series. `redetect` evaluates history again, for example with a new method.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.grammar import parse_filter
from benchapp.models import METRIC_FIELDS, ChangeState, Series
from benchapp.models.filtering import match_series
from benchapp.pipeline.conflicts import end_if_frozen, lock_incidents, retry_conflicts
from benchapp.pipeline.detection.drift import judge_drift
from benchapp.pipeline.detection.histories import (
    EVALUATION_WINDOW,
    Claimed,
    claim_due,
    lock_series,
    read_histories,
)
from benchapp.pipeline.detection.levels import store_levels
from benchapp.pipeline.detection.pooled import judge_pooled
from benchapp.pipeline.detection.quiet_runs import (
    EvaluationPlan,
    ExtendedResult,
    extend_quiet_series,
    plan_evaluations,
    write_states,
)
from benchapp.pipeline.detection.rows import (
    ChangeRecord,
    MetricKey,
    insert_changes,
    read_baselines,
    read_changes,
    read_usual_spreads,
    update_changes,
    upsert_statuses,
)
from benchapp.pipeline.detection.series import SeriesOutcome, judge_series_metric, select_metric
from benchapp.pipeline.incidents.grouping import group_changes
from benchapp.pipeline.notifications.enqueue import enqueue
from benchapp.pipeline.notifications.thresholds import notify_violations


@dataclass(frozen=True, slots=True)
class Transition:
    """State transition of one change; before: None for a new one."""

    change_id: int
    series_id: int
    metric: str
    started_at: datetime
    relative: float
    before: ChangeState | None
    after: ChangeState


@dataclass(frozen=True, slots=True)
class Judged:
    """Result of one batch: evaluated series, written changes, updated incidents.

    event_ids: incident events to notify about. transitions: changes with another state. has_notices: whether notices
    were queued.
    """

    series_ids: tuple[int, ...] = ()
    change_ids: tuple[int, ...] = ()
    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()
    transitions: tuple[Transition, ...] = ()
    has_notices: bool = False


# Claims of one batch. Each adds 8 statements; a batch with changes has 45 others.
_CLAIMS_MAXIMUM: Final = 5


def has_judging_due() -> bool:
    """Return whether any series is due."""
    return Series.objects.filter(judging_is_due=True).exists()


@transaction.atomic
def judge_due(*, limit: int = 1000) -> Judged:
    """Evaluate series that are due, and group changes; `series_ids` is empty if none is left.

    Series with quiet runs only are extended, in a tenth of the time. Therefore `limit` series are claimed up to 5
    times, until half as many must be evaluated. Also bounded by measurements: batches of long histories are smaller.
    """
    evaluated: list[Claimed] = []
    quiet: list[Claimed] = []
    results: dict[MetricKey, ExtendedResult] = {}
    after_id = 0
    for _ in range(_CLAIMS_MAXIMUM):
        claimed = claim_due(limit, after_id=after_id, known=evaluated)
        if not claimed:
            break
        extended = extend_quiet_series(claimed, now=timezone.now())
        quiet += [series for series in claimed if series.series_id in extended.series_ids]
        evaluated += [series for series in claimed if series.series_id not in extended.series_ids]
        results |= extended.results
        if len(claimed) < limit or len(evaluated) >= limit // 2:
            break
        after_id = claimed[-1].series_id
    return _judge(evaluated, quiet=quiet, extended=results)


@transaction.atomic
def judge_series(ids: Sequence[int]) -> Judged:
    """Evaluate these series, due or not; only the first ones if they have too many measurements for one batch."""
    return _judge(lock_series(ids))


@dataclass(frozen=True, slots=True)
class _Written:
    """Rows of changes that an evaluation wrote, ids of the drifts among them, and the rows as they were."""

    records: Sequence[ChangeRecord] = ()
    drift_ids: Sequence[int] = ()
    stored: Mapping[MetricKey, Sequence[ChangeRecord]] = field(default_factory=dict)


def _judge(
    claimed: Sequence[Claimed],
    *,
    quiet: Sequence[Claimed] = (),
    extended: Mapping[MetricKey, ExtendedResult] = MappingProxyType({}),
) -> Judged:
    """Evaluate series. quiet: others, whose levels are extended already; extended: results of quiet metrics."""
    if not claimed and not quiet:
        return Judged()
    ids, quiet_ids = ([series.series_id for series in each] for each in (claimed, quiet))
    _clear_due(quiet_ids, resumable=quiet_ids)
    written = _evaluate(claimed, extended) if claimed else _Written()
    # After the marks are cleared: it marks the series of pooled changes.
    pooled = judge_pooled({series.scope for series in (*claimed, *quiet)}, now=timezone.now())
    change_ids = (
        *(record.id for record in written.records if record.id is not None),
        *written.drift_ids,
        *pooled,
    )
    grouped = group_changes(change_ids, ids)
    return Judged(
        (*quiet_ids, *ids),
        change_ids,
        grouped.incident_ids,
        grouped.event_ids,
        tuple(_list_transitions(written.stored, written.records)),
    )


def _evaluate(claimed: Sequence[Claimed], extended: Mapping[MetricKey, ExtendedResult]) -> _Written:
    """Detect changes and drifts in these series, write them with levels and states, and clear the marks.

    extended: results of metrics in which no change is detected, because their new runs are quiet.
    """
    ids = [series.series_id for series in claimed]
    # A separate statement after the locks, so that it sees everything committed before them.
    plans = plan_evaluations(claimed, read_histories(ids, window=EVALUATION_WINDOW))
    # Without a state to be written, every metric is evaluated.
    extended = {key: result for key, result in extended.items() if plans[key[0]].references}
    stored = read_changes(ids)
    judged = _detect_all(claimed, plans, stored, extended)
    outcomes = list(judged.values())
    updates = [record for outcome in outcomes for record in outcome.updates]
    inserts = [record for outcome in outcomes for record in outcome.inserts]
    if updates:
        # Before any change is written: the holder of this lock writes changes of all series.
        lock_incidents()
    update_changes(updates)
    inserted = [replace(record, id=pk) for record, pk in zip(inserts, insert_changes(inserts), strict=True)]
    upsert_statuses([outcome.status for outcome in outcomes if outcome.status], ids, extended=extended)
    metrics = {series.series_id: series.metrics for series in claimed}
    evaluated = {series_id: plan.evaluated for series_id, plan in plans.items()}
    thresholds = {series.series_id: series.thresholds for series in claimed}
    drifted = judge_drift(evaluated, metrics, thresholds=thresholds, now=timezone.now())
    levels = store_levels({series_id: plan.window for series_id, plan in plans.items()}, metrics)
    found = {key: outcome.level for key, outcome in judged.items() if outcome.level}
    _clear_due(ids, resumable=write_states(claimed, plans, found, extended=extended, levels=levels))
    return _Written([*updates, *inserted], drifted, stored)


def _clear_due(ids: Collection[int], *, resumable: Collection[int]) -> None:
    """Clear the mark of these series; resumable: those that have a valid state."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_series SET judging_is_due = FALSE, judging_resumes = id = ANY(%s) WHERE id = ANY(%s)",
            [list(resumable), list(ids)],
        )


def _detect_all(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    stored: dict[MetricKey, list[ChangeRecord]],
    extended: Mapping[MetricKey, ExtendedResult],
) -> dict[MetricKey, SeriesOutcome]:
    baselines, now = read_baselines([series.series_id for series in claimed]), timezone.now()
    usual_spreads = read_usual_spreads(
        [series.series_id for series in claimed if plans[series.series_id].history.is_young]
    )
    outcomes = {}
    for series in claimed:
        plan = plans[series.series_id]
        metrics = [
            metric
            for metric in METRIC_FIELDS
            if (key := (series.series_id, metric)) not in extended
            and (metric in series.metrics or key in stored)
        ]
        for metric, evaluated in plan.select_evaluated(metrics).items():
            key = (series.series_id, metric)
            outcomes[key] = judge_series_metric(
                select_metric(evaluated, *key, baseline_from_at=baselines.get(key)),
                stored.get(key, ()),
                smallest_change=series.thresholds[metric],
                quiet=plan.list_quiet(metric),
                usual_spread=usual_spreads.get(key),
                now=now,
            )
    return outcomes


def _list_transitions(
    stored: Mapping[MetricKey, Sequence[ChangeRecord]], written: Sequence[ChangeRecord]
) -> Iterator[Transition]:
    states = {record.id: record.state for records in stored.values() for record in records}
    for record in written:
        before = states.get(record.id)
        if record.id is not None and record.state != before:
            yield Transition(
                change_id=record.id,
                series_id=record.series_id,
                metric=record.metric,
                started_at=record.started_at,
                relative=record.relative,
                before=before,
                after=record.state,
            )


@retry_conflicts
@transaction.atomic
def detect_and_notify(*, limit: int = 1000) -> Judged:
    """Evaluate series that are due, as `judge_due`, and write notices to the outbox; nothing is sent yet."""
    end_if_frozen()
    judged = judge_due(limit=limit)
    if judged.event_ids:
        enqueue(judged.event_ids)
    threshold_notices = notify_violations(judged.series_ids)
    return replace(judged, has_notices=bool(judged.event_ids or threshold_notices))


_BATCH: Final = 200


def select_series(text: str = "") -> list[int]:
    """Return the measured series of a filter by id; all for "". Raises BadFilter."""
    condition = match_series(parse_filter(text)) if text.strip() else Q()
    return list(
        Series.objects.filter(condition, measurement_count__gt=0).order_by("id").values_list("id", flat=True)
    )


def redetect(ids: Sequence[int], *, is_dry_run: bool) -> Iterator[Judged]:
    """Evaluate these series in batches, and yield the result of each; a dry run is rolled back.

    No notices are written: changes in old history are not news.
    """
    left = list(ids)
    while left:
        with transaction.atomic():
            judged = judge_series(left[:_BATCH])
            transaction.set_rollback(is_dry_run)
        yield judged
        # A batch with too many measurements evaluates its first series only; a deleted series counts as done.
        done = set(judged.series_ids) or set(left[:_BATCH])
        gone = set(left[:_BATCH]) - set(
            Series.objects.filter(pk__in=left[:_BATCH]).values_list("pk", flat=True)
        )
        left = [series_id for series_id in left if series_id not in done | gone]
