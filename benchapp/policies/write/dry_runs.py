"""Dry runs of another threshold over a period: which incidents would be added, and which would disappear.

A dry run is a row. The task evaluates its series in batches, and writes the changes it finds and its progress after
each, so that a killed worker loses one batch. Nothing else is written.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any, Final

import numpy as np
import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchapp.catalog.metrics import list_judged_metrics
from benchapp.detection.write.histories import read_histories, to_microseconds, to_time
from benchapp.detection.write.metric import judge_metric
from benchapp.detection.write.rows import MetricKey, read_baselines, read_usual_spreads
from benchapp.detection.write.series import MetricHistory, select_metric
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import AuditKind, DetectionDryRun, DetectionPolicy, DryRunState, Series, User
from benchapp.models.policies.thresholds import list_matching_series, read_thresholds
from benchapp.policies.write.policies import check_threshold
from benchapp.policies.write.simulated_incidents import (
    SimulatedChange,
    SimulatedIncident,
    describe_candidate,
    simulate_incidents,
)

log = structlog.get_logger(__name__)


class UnknownDryRun(Exception):
    """The dry run does not exist; after 30 days they are deleted."""


DRY_RUN_DAYS: Final = 90
# Series of a dry run, the first ones by id: with 360 runs each they take 7 s of CPU time (measured).
DRY_RUN_SERIES_MAXIMUM: Final = 1000
# Dry runs that may run at the same time; a worker advances one after the other.
RUNNING_MAXIMUM: Final = 5
# Incidents that are listed as added, and as removed.
LISTED_MAXIMUM: Final = 200
_KEPT: Final = timedelta(days=30)
_SERIES_AT_ONCE: Final = 25
# Attempts of a batch: one that ends the worker (memory, time limit) would be repeated with every sweep.
_ATTEMPTS_MAXIMUM: Final = 3
_Found = dict[str, list[dict[str, Any]]]


def start_dry_run(
    metric: str, smallest_change: float, *, filter: str, label: str, by: User | None
) -> DetectionDryRun:
    """Create a dry run over the newest 90 days, which the task advances. Raises BadValue."""
    plan = DetectionPolicy(metric=metric, smallest_change=smallest_change, filter=filter, label=label)
    check_threshold(plan)
    with transaction.atomic():
        running = DetectionDryRun.objects.select_for_update(no_key=True).filter(state=DryRunState.RUNNING)
        if len(running) >= RUNNING_MAXIMUM:
            text = f"{RUNNING_MAXIMUM} dry runs are running: wait until one is done, or cancel one"
            raise BadValue("", text)
        ids = list_matching_series(plan.filter, plan.label)
        dry_run = DetectionDryRun.objects.create(
            filter=plan.filter,
            label=plan.label,
            metric=plan.metric,
            smallest_change=plan.smallest_change,
            from_at=timezone.now() - timedelta(days=DRY_RUN_DAYS),
            series_ids=ids[:DRY_RUN_SERIES_MAXIMUM],
            series_count=len(ids),
            created_by=by,
        )
        record_write(
            AuditKind.DRY_RUN,
            "started",
            object_id=dry_run.pk,
            after=snapshot(dry_run, "metric", "smallest_change", "filter", "label"),
            by=by,
        )
        return dry_run


@transaction.atomic
def cancel_dry_run(dry_run_id: int) -> DetectionDryRun:
    """Cancel a running dry run: nothing more is evaluated. Raises UnknownDryRun; BadValue if it has ended.

    Waits for the batch that a worker evaluates.
    """
    running = DetectionDryRun.objects.filter(pk=dry_run_id, state=DryRunState.RUNNING)
    is_canceled = running.update(state=DryRunState.CANCELED, finished_at=timezone.now(), found={})
    dry_run = DetectionDryRun.objects.filter(pk=dry_run_id).first()
    if dry_run is None:
        raise UnknownDryRun(f"dry run {dry_run_id} does not exist")
    if not is_canceled:
        raise BadValue("", f"dry run {dry_run_id} has ended: it is {dry_run.state}")
    before, after = {"state": DryRunState.RUNNING.value}, {"state": DryRunState.CANCELED.value}
    record_write(AuditKind.DRY_RUN, "canceled", object_id=dry_run_id, before=before, after=after)
    return dry_run


def has_running_dry_runs() -> bool:
    """Return whether any dry run is not done."""
    return DetectionDryRun.objects.filter(state=DryRunState.RUNNING).exists()


def advance_dry_runs(*, budget_s: float) -> bool:
    """Advance running dry runs, the oldest first, for this time; return whether any is left that can be advanced."""
    started = time.monotonic()
    while time.monotonic() - started < budget_s:
        if not _advance_oldest():
            return False
    return True


def forget_old_dry_runs() -> int:
    """Delete dry runs that were started more than 30 days ago; return how many."""
    deleted, _ = DetectionDryRun.objects.filter(created_at__lt=timezone.now() - _KEPT).delete()
    return deleted


def _advance_oldest() -> bool:
    """Evaluate one batch of the oldest running dry run that no other worker has; False without one."""
    claimed = _claim_oldest()
    return claimed is not None and _evaluate_batch(claimed)


@transaction.atomic
def _claim_oldest() -> int | None:
    """Count an attempt of the oldest running dry run that no other worker has, and return its id; None without one.

    In a separate transaction: the attempt also counts if the batch ends the worker. After the last one the dry run has
    failed.
    """
    dry_run = _select_running().order_by("id").first()
    while dry_run is not None and dry_run.attempts >= _ATTEMPTS_MAXIMUM:
        log.error("dry_run.failed", dry_run=dry_run.pk, attempts=dry_run.attempts)
        _fail(dry_run)
        dry_run.save(update_fields=["found", "state", "finished_at"])
        dry_run = _select_running().order_by("id").first()
    if dry_run is None:
        return None
    dry_run.attempts += 1
    dry_run.save(update_fields=["attempts"])
    return dry_run.pk


@transaction.atomic
def _evaluate_batch(dry_run_id: int) -> bool:
    """Evaluate the next batch of a dry run; False if another worker has it."""
    dry_run = _select_running().filter(pk=dry_run_id).first()
    if dry_run is None:
        return False
    batch = dry_run.series_ids[dry_run.done_count : dry_run.done_count + _SERIES_AT_ONCE]
    try:
        with transaction.atomic():
            found = _evaluate(batch, dry_run)
            dry_run.found = {
                side: [*dry_run.found.get(side, ()), *found[side]] for side in ("current", "proposed")
            }
            dry_run.done_count += len(batch)
            dry_run.attempts = 0
            if dry_run.done_count >= len(dry_run.series_ids):
                dry_run.result = _compare(dry_run.found)
                dry_run.state, dry_run.finished_at, dry_run.found = DryRunState.DONE, timezone.now(), {}
    except Exception:
        # The edge of a job: it would fail in the same way with every sweep.
        log.exception("dry_run.failed", dry_run=dry_run.pk)
        _fail(dry_run)
    dry_run.save(update_fields=["found", "done_count", "attempts", "result", "state", "finished_at"])
    return True


def _select_running() -> QuerySet[DetectionDryRun]:
    """Select the running dry runs that no other worker has, for an update."""
    unlocked = DetectionDryRun.objects.select_for_update(no_key=True, skip_locked=True)
    return unlocked.filter(state=DryRunState.RUNNING)


def _fail(dry_run: DetectionDryRun) -> None:
    dry_run.state, dry_run.finished_at, dry_run.found = DryRunState.FAILED, timezone.now(), {}


def _evaluate(ids: Sequence[int], dry_run: DetectionDryRun) -> _Found:
    """Return the regressions since the start of the period, with the thresholds of today and with the proposed one.

    Policies that precede the proposed one remain in effect.
    """
    found: _Found = {"current": [], "proposed": []}
    histories, thresholds, baselines = read_histories(ids), read_thresholds(ids), read_baselines(ids)
    policy = DetectionPolicy(
        metric=dry_run.metric,
        smallest_change=dry_run.smallest_change,
        filter=dry_run.filter,
        label=dry_run.label,
    )
    proposed_thresholds = read_thresholds(ids, proposed=policy)
    usual = read_usual_spreads([series_id for series_id in ids if histories[series_id].is_young])
    for row in Series.objects.filter(pk__in=ids).order_by("id").values("id", "scope", "block_size_bytes"):
        key_of = row["id"]
        for metric in list_judged_metrics(has_one_block_size=row["block_size_bytes"] is not None):
            key: MetricKey = (key_of, metric)
            history = select_metric(histories[key_of], *key, baseline_from_at=baselines.get(key))
            inputs = history.without_seasons()
            threshold, other = thresholds[key_of][metric], proposed_thresholds[key_of][metric]
            current = _find(inputs, dry_run, row["scope"], threshold, usual.get(key))
            proposed = current
            if other != threshold:
                proposed = _find(inputs, dry_run, row["scope"], other, usual.get(key))
            found["current"] += current
            found["proposed"] += proposed
    return found


def _find(
    inputs: MetricHistory, dry_run: DetectionDryRun, scope: str, threshold: float, usual_spread: float | None
) -> list[dict[str, Any]]:
    if not len(inputs.times) or inputs.times[-1] < to_microseconds(dry_run.from_at):
        return []
    judged = judge_metric(inputs.values, smallest_change=threshold, usual_spread=usual_spread)
    interval_s = float(np.median(np.diff(inputs.times))) / 1e6 if len(inputs.times) > 1 else 0.0
    return [
        asdict(
            SimulatedChange(
                series_id=inputs.series_id,
                scope=scope,
                metric=inputs.metric,
                at=to_time(int(inputs.times[change.index])).isoformat(),
                **describe_candidate(change, judged, interval_s=interval_s),
            )
        )
        for change in judged.changes
        if inputs.times[change.index] >= to_microseconds(dry_run.from_at)
        and abs(change.relative) >= threshold
        and change.is_rise != inputs.is_rise_better
    ]


def _compare(found: _Found) -> dict[str, Any]:
    """Return the numbers of incidents, and those that differ."""
    current, proposed = (
        simulate_incidents([SimulatedChange(**change) for change in found.get(side, ())])
        for side in ("current", "proposed")
    )
    added = [one for one in proposed if not any(one.is_same(other) for other in current)]
    removed = [one for one in current if not any(one.is_same(other) for other in proposed)]
    return {
        "current": len(current),
        "proposed": len(proposed),
        "added_count": len(added),
        "removed_count": len(removed),
        "added": list(map(_describe, added[:LISTED_MAXIMUM])),
        "removed": list(map(_describe, removed[:LISTED_MAXIMUM])),
    }


def _describe(incident: SimulatedIncident) -> dict[str, Any]:
    return {
        "scope": incident.scope,
        "started_at": incident.started_at.isoformat(),
        "metric": incident.metric,
        "relative": incident.relative,
        "series": incident.series,
        "series_id": incident.series_id,
        "incident": incident.incident_id,
    }
