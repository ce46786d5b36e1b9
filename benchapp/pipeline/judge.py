"""Detection, levels, grouping and notices in one transaction: claim, read, detect, reconcile, group; idempotent.

Whoever changes measurements marks their series (`judging_is_due`) in the same transaction. A killed worker leaves only
the mark; concurrent workers take different series. `redetect` evaluates history again, for example with a new method.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.grammar import parse_filter
from benchapp.models import METRIC_FIELDS, ChangeState, Series
from benchapp.models.filtering import match_series
from benchapp.pipeline.conflicts import retry_conflicts
from benchapp.pipeline.detection.drift import judge_drift
from benchapp.pipeline.detection.histories import (
    Claimed,
    StoredHistory,
    claim_due,
    lock_series,
    read_histories,
)
from benchapp.pipeline.detection.levels import store_levels
from benchapp.pipeline.detection.pooled import judge_pooled
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
from benchapp.pipeline.incidents.grouping import group_changes, lock_incidents
from benchapp.pipeline.notifications.enqueue import enqueue


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

    event_ids: incident events to notify about. transitions: changes with another state.
    """

    series_ids: tuple[int, ...] = ()
    change_ids: tuple[int, ...] = ()
    incident_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()
    transitions: tuple[Transition, ...] = ()


def has_judging_due() -> bool:
    """Return whether any series is due."""
    return Series.objects.filter(judging_is_due=True).exists()


@transaction.atomic
def judge_due(*, limit: int = 1000) -> Judged:
    """Evaluate up to `limit` series that are due, and group changes; `series_ids` is empty if none is left.

    Also bounded by measurements: batches of long histories are smaller.
    """
    return _judge(claim_due(limit))


@transaction.atomic
def judge_series(ids: Sequence[int]) -> Judged:
    """Evaluate these series, due or not; only the first ones if they have too many measurements for one batch."""
    return _judge(lock_series(ids))


def _judge(claimed: Sequence[Claimed]) -> Judged:
    if not claimed:
        return Judged()
    ids = [series.series_id for series in claimed]
    # A separate statement after the locks, so that it sees everything committed before them.
    histories = read_histories(ids)
    stored = read_changes(ids)
    outcomes = _detect_all(claimed, histories, stored)
    updates = [record for outcome in outcomes for record in outcome.updates]
    inserts = [record for outcome in outcomes for record in outcome.inserts]
    if updates:
        # Before any change is written: the holder of this lock writes changes of all series.
        lock_incidents()
    update_changes(updates)
    inserted = [replace(record, id=pk) for record, pk in zip(inserts, insert_changes(inserts), strict=True)]
    upsert_statuses([outcome.status for outcome in outcomes if outcome.status], ids)
    Series.objects.filter(pk__in=ids).update(judging_is_due=False)
    metrics = {series.series_id: series.metrics for series in claimed}
    drifted = judge_drift(histories, metrics, now=timezone.now())
    store_levels(histories, metrics)
    pooled = judge_pooled({series.scope for series in claimed}, now=timezone.now())
    written = [*updates, *inserted]
    change_ids = (*(record.id for record in written if record.id is not None), *drifted, *pooled)
    grouped = group_changes(change_ids, ids)
    return Judged(
        tuple(ids),
        change_ids,
        grouped.incident_ids,
        grouped.event_ids,
        tuple(_list_transitions(stored, written)),
    )


def _detect_all(
    claimed: Sequence[Claimed],
    histories: Mapping[int, StoredHistory],
    stored: dict[MetricKey, list[ChangeRecord]],
) -> list[SeriesOutcome]:
    baselines, now = read_baselines([series.series_id for series in claimed]), timezone.now()
    usual_spreads = read_usual_spreads(
        [series.series_id for series in claimed if histories[series.series_id].is_young]
    )
    outcomes = []
    for series in claimed:
        for metric in METRIC_FIELDS:
            key = (series.series_id, metric)
            if metric in series.metrics or key in stored:
                history = select_metric(
                    histories[series.series_id], *key, baseline_from_at=baselines.get(key)
                )
                outcomes.append(
                    judge_series_metric(
                        history, stored.get(key, ()), usual_spread=usual_spreads.get(key), now=now
                    )
                )
    return outcomes


def _list_transitions(
    stored: dict[MetricKey, list[ChangeRecord]], written: Sequence[ChangeRecord]
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
    """Evaluate up to `limit` series that are due, and write notices to the outbox; nothing is sent yet."""
    judged = judge_due(limit=limit)
    if judged.event_ids:
        enqueue(judged.event_ids)
    return judged


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
