"""Detection, levels, grouping and notices in one transaction: claim, read, detect, reconcile, group; idempotent.

Whoever changes measurements marks their series (`judging_is_due`) in the same transaction. A killed worker leaves only
the mark; concurrent workers take different series. `redetect` evaluates history again, for example with a new method.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.catalog.grammar import parse_filter
from benchapp.catalog.metrics import CATALOG
from benchapp.detection.write.drift import judge_drift
from benchapp.detection.write.histories import (
    EVALUATION_WINDOW,
    Claimed,
    claim_due,
    lock_series,
    read_histories,
)
from benchapp.detection.write.levels import store_levels
from benchapp.detection.write.pooled import judge_pooled
from benchapp.detection.write.rows import (
    ChangeRecord,
    MetricKey,
    insert_changes,
    read_changes,
    read_results,
    read_usual_spreads,
    update_changes,
    update_counts,
    upsert_statuses,
)
from benchapp.detection.write.series import (
    EvaluationPlan,
    hash_inputs,
    judge_series_metric,
    plan_evaluations,
    select_metric,
)
from benchapp.framework.write.conflicts import end_if_frozen, lock_incidents, retry_conflicts
from benchapp.incidents.write.grouping import group_changes
from benchapp.models import Change, ChangeState, DetectionResult, IncidentEvent, Series
from benchapp.models.filtering import match_series
from benchapp.notices.write.enqueue import enqueue
from benchapp.notices.write.thresholds import notify_violations

# Series of one claim, which a busy machine evaluates within the time limit of a transaction. A transaction claims up to
# five times while most series are only extended.
JUDGED_AT_ONCE: Final = 200


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

    event_ids: events of incidents. transitions: changes with another state. has_notices: whether notices
    were queued. reread_ids: of the series those whose history was only read again.
    """

    series_ids: tuple[int, ...] = ()
    change_ids: tuple[int, ...] = ()
    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()
    transitions: tuple[Transition, ...] = ()
    has_notices: bool = False
    reread_ids: tuple[int, ...] = ()


def has_judging_due() -> bool:
    """Return whether any series is due."""
    return Series.objects.filter(judging_is_due=True).exists()


@transaction.atomic
def judge_due(*, limit: int = JUDGED_AT_ONCE) -> Judged:
    """Evaluate series that are due, and group changes; `series_ids` is empty if none is left.

    Those with quiet runs only are not evaluated again. Also bounded by measurements: batches of long histories are
    smaller.
    """
    return _judge(claim_due(limit))


@transaction.atomic
def judge_series(ids: Sequence[int]) -> Judged:
    """Evaluate these series again; only the first ones if they have too many measurements for one batch."""
    return _judge(lock_series(ids), repeats=True)


@dataclass(frozen=True, slots=True)
class _Written:
    """Rows of changes that an evaluation wrote, ids of the drifts among them, and the rows as they were."""

    records: Sequence[ChangeRecord] = ()
    drift_ids: Sequence[int] = ()
    stored: Mapping[MetricKey, Sequence[ChangeRecord]] = field(default_factory=dict)


def _judge(claimed: Sequence[Claimed], *, repeats: bool = False) -> Judged:
    """Evaluate series; repeats: also those of which nothing changed that the evaluation depends on."""
    if not claimed:
        return Judged()
    ids = [series.series_id for series in claimed]
    written = _evaluate(claimed, repeats=repeats)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE benchapp_series SET judging_is_due = FALSE, is_reread = FALSE WHERE id = ANY(%s)", [ids]
        )
    # After the marks are cleared: it marks the series of pooled changes.
    pooled = judge_pooled({series.scope for series in claimed}, now=timezone.now())
    change_ids = (
        *(record.id for record in written.records if record.id is not None),
        *written.drift_ids,
        *pooled,
    )
    incident_ids, event_ids = group_changes(change_ids, ids)
    return Judged(
        tuple(ids),
        change_ids,
        incident_ids,
        event_ids,
        tuple(_list_transitions(written.stored, written.records)),
        reread_ids=tuple(series.series_id for series in claimed if series.is_reread),
    )


def _evaluate(claimed: Sequence[Claimed], *, repeats: bool) -> _Written:
    """Detect changes and drifts in the series whose evaluation would differ, and write levels of all."""
    ids = [series.series_id for series in claimed]
    # A separate statement after the locks, so that it sees everything committed before them.
    results = read_results(ids)
    plans = plan_evaluations(claimed, read_histories(ids, window=EVALUATION_WINDOW), results)
    usual_spreads = read_usual_spreads([series_id for series_id in ids if plans[series_id].history.is_young])
    hashes = hash_inputs(claimed, plans, results, usual_spreads)
    moved = {
        series_id for (series_id, _), result in results.items() if result.input_hash != hashes[series_id]
    }
    quiet = set() if repeats else {series_id for series_id, _ in results} - moved
    update_counts(
        {
            key: _count_values(plans[key[0]], key, result)
            for key, result in results.items()
            if key[0] in quiet
        },
        now=timezone.now(),
    )
    written = _detect(
        [series for series in claimed if series.series_id not in quiet],
        plans,
        results,
        usual_spreads=usual_spreads,
        hashes=hashes,
    )
    metrics = {series.series_id: series.metrics for series in claimed}
    store_levels({series_id: plan.window for series_id, plan in plans.items()}, metrics)
    return written


def _count_values(plan: EvaluationPlan, key: MetricKey, result: DetectionResult) -> int:
    """Return the number of valid runs of a metric, as an evaluation counts them."""
    evaluated = plan.select_evaluated([key[1]])[key[1]]
    measured = select_metric(evaluated, *key, baseline_from_at=result.baseline_from_at)
    return len(measured.values) + plan.count_quiet(key[1])


def _detect(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    results: Mapping[MetricKey, DetectionResult],
    *,
    usual_spreads: Mapping[MetricKey, float],
    hashes: Mapping[int, int],
) -> _Written:
    """Detect changes and drifts in these series, and write them."""
    if not claimed:
        return _Written()
    ids = [series.series_id for series in claimed]
    stored = read_changes(ids)
    outcomes = _detect_all(claimed, plans, stored, results, usual_spreads)
    updates = [record for updated, _, _ in outcomes for record in updated]
    inserts = [record for _, inserted, _ in outcomes for record in inserted]
    statuses = [status for *_, status in outcomes if status]
    for status in statuses:
        status.input_hash = hashes[status.series_id]
    if updates:
        # Before any change is written: the holder of this lock writes changes of all series.
        lock_incidents()
    update_changes(updates)
    inserted = [replace(record, id=pk) for record, pk in zip(inserts, insert_changes(inserts), strict=True)]
    upsert_statuses(statuses, ids)
    metrics = {series.series_id: series.metrics for series in claimed}
    evaluated = {series_id: plans[series_id].evaluated for series_id in ids}
    thresholds = {series.series_id: series.thresholds for series in claimed}
    drifted = judge_drift(evaluated, metrics, thresholds=thresholds, now=timezone.now())
    return _Written([*updates, *inserted], drifted, stored)


def _detect_all(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    stored: Mapping[MetricKey, Sequence[ChangeRecord]],
    results: Mapping[MetricKey, DetectionResult],
    usual_spreads: Mapping[MetricKey, float],
) -> list[tuple[list[ChangeRecord], list[ChangeRecord], DetectionResult | None]]:
    now = timezone.now()
    outcomes = []
    for series in claimed:
        plan = plans[series.series_id]
        metrics = [
            metric for metric in CATALOG if metric in series.metrics or (series.series_id, metric) in stored
        ]
        for metric, evaluated in plan.select_evaluated(metrics).items():
            key = (series.series_id, metric)
            baseline_from_at = results[key].baseline_from_at if key in results else None
            outcomes.append(
                judge_series_metric(
                    select_metric(evaluated, *key, baseline_from_at=baseline_from_at),
                    stored.get(key, ()),
                    smallest_change=series.thresholds[metric],
                    quiet_count=plan.count_quiet(metric),
                    usual_spread=usual_spreads.get(key),
                    now=now,
                )
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
def detect_and_notify(*, limit: int = JUDGED_AT_ONCE) -> Judged:
    """Evaluate series that are due, as `judge_due`, and write notices to the outbox; nothing is sent yet.

    Changes that are found because history was read again are not news.
    """
    end_if_frozen()
    judged = judge_due(limit=limit)
    reread = set(judged.reread_ids)
    event_ids = _select_news(judged, reread) if reread else judged.event_ids
    has_notices = enqueue(event_ids)
    threshold_notices = notify_violations([each for each in judged.series_ids if each not in reread])
    return replace(judged, has_notices=bool(has_notices or threshold_notices))


def _select_news(judged: Judged, reread: set[int]) -> list[int]:
    """Return the events without those of incidents that concern no other judged series than those read again."""
    events = IncidentEvent.objects.filter(pk__in=judged.event_ids)
    incidents = dict(events.values_list("pk", "incident_id"))
    rows = Change.objects.filter(incident__in=incidents.values(), series__in=judged.series_ids)
    judged_of: dict[int | None, set[int]] = defaultdict(set)
    for incident_id, series_id in rows.values_list("incident_id", "series_id"):
        judged_of[incident_id].add(series_id)
    return [
        pk for pk in judged.event_ids if not judged_of[incidents[pk]] or judged_of[incidents[pk]] - reread
    ]


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
            judged = judge_series(left[:JUDGED_AT_ONCE])
            transaction.set_rollback(is_dry_run)
        yield judged
        # A batch with too many measurements evaluates its first series only; a deleted series counts as done.
        done = set(judged.series_ids) or set(left[:JUDGED_AT_ONCE])
        gone = set(left[:JUDGED_AT_ONCE]) - set(
            Series.objects.filter(pk__in=left[:JUDGED_AT_ONCE]).values_list("pk", flat=True)
        )
        left = [series_id for series_id in left if series_id not in done | gone]
