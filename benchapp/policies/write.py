"""Create, cancel and restore detection policies; dry runs: which incidents another threshold would add or remove.

A dry run is a row. The task evaluates its series in batches, and writes the changes it finds and its progress after
each, so that a killed worker loses one batch. Nothing else is written.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import log1p
from typing import Any, Final

import numpy as np
import structlog
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS, SMALLEST_CHANGES, list_judged_metrics
from benchapp.detection.rules.noise_profile import BASELINE_RUNS, SeriesState
from benchapp.detection.rules.significance import (
    ChangeClaim,
    ScopeTests,
    count_separated,
    filter_significant,
    find_belonging,
)
from benchapp.detection.write.histories import read_histories, to_microseconds, to_time
from benchapp.detection.write.metric import DetectedChange, MetricResult, judge_metric
from benchapp.detection.write.pooled import repeat_pooled_evaluations
from benchapp.detection.write.rows import MetricKey, read_baselines, read_usual_spreads
from benchapp.detection.write.series import MetricHistory, select_metric
from benchapp.framework.write.audit import record_write, snapshot
from benchapp.framework.write.conflicts import BadValue
from benchapp.framework.write.list_entries import EntryList, read_entry_reason, read_series_filter
from benchapp.incidents.rules.incidents import (
    ChangeSize,
    IncidentSpan,
    Moment,
    cluster_moments,
    find_matching_incident,
    summarize_metrics,
)
from benchapp.incidents.write.candidates import ChangeStart, find_expected, read_families
from benchapp.models import (
    THRESHOLD_MAXIMUM,
    THRESHOLD_MINIMUM,
    AuditKind,
    Change,
    ChangeState,
    DetectionDryRun,
    DetectionPolicy,
    DryRunState,
    Series,
    User,
)
from benchapp.models.coverage import list_matching_series, read_thresholds

LABEL_MAXIMUM: Final = 300
# Detection evaluates each different filter for each batch of series.
POLICIES_MAXIMUM: Final = 100


class DetectionPolicyList(EntryList[DetectionPolicy]):
    """The thresholds other than those of the catalog."""

    model = DetectionPolicy
    kind = AuditKind.DETECTION_POLICY
    noun = "detection policy"

    def check(self, entry: DetectionPolicy) -> None:
        """Write the threshold and the reason in their canonical form. Raises BadValue."""
        check_threshold(entry)
        entry.reason = read_entry_reason(entry.reason)

    def refuse_more(self, entry: DetectionPolicy) -> None:
        """Raise BadValue if the policies in effect are too many for one more."""
        if DetectionPolicy.objects.filter(canceled_at=None).count() >= POLICIES_MAXIMUM:
            raise BadValue("", f"the limit of {POLICIES_MAXIMUM} policies is reached: cancel some first")

    def apply(self, entry: DetectionPolicy) -> None:
        """Mark matching series and their pooled levels for evaluation; rows are locked in the order of ids."""
        ids = list_matching_series(entry.filter, entry.label)
        list(
            Series.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk").values_list("pk")
        )
        Series.objects.filter(pk__in=ids).update(judging_is_due=True)
        repeat_pooled_evaluations(ids)


def check_threshold(policy: DetectionPolicy) -> None:
    """Write the filter and the label of a policy in their canonical form. Raises BadValue."""
    if policy.metric not in JUDGED_METRICS:
        raise BadValue("metric", f"choose one of {', '.join(JUDGED_METRICS)}")
    # Also false for NaN.
    if not THRESHOLD_MINIMUM <= policy.smallest_change <= THRESHOLD_MAXIMUM:
        raise BadValue(
            "smallest_change", f"choose {THRESHOLD_MINIMUM * 100:.0f} to {THRESHOLD_MAXIMUM * 100:.0f} %"
        )
    policy.filter = read_series_filter(policy.filter)
    key, separator, value = (part.strip() for part in policy.label.partition("="))
    policy.label = f"{key}{separator}{value}"
    if policy.label and not (separator and key and value):
        raise BadValue("label", "write KEY=VALUE")
    if len(policy.label) > LABEL_MAXIMUM or "\x00" in policy.label:
        raise BadValue("label", f"at most {LABEL_MAXIMUM} characters, without NUL")


POLICIES: Final = DetectionPolicyList()


# Runs by which the start of a change may differ from that of the stored one.
_SAME_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class SimulatedChange:
    """A regression of level as a dry run finds it. at: ISO 8601; the other fields as of a candidate."""

    series_id: int
    scope: str
    metric: str
    at: str
    interval_s: float
    relative: float
    chance: float
    separated_before: int
    may_join: bool
    may_open: bool

    @property
    def started_at(self) -> datetime:
        """Return the start."""
        return datetime.fromisoformat(self.at)


@dataclass(frozen=True, slots=True)
class SimulatedIncident:
    """An incident of a dry run. metric, relative: the typical metric and its median; series: changed ones.

    series_id: the series with the largest change of that metric. incident_id: the stored incident with these changes.
    """

    scope: str
    started_at: datetime
    ended_at: datetime
    metric: str
    relative: float
    series: int
    series_id: int
    members: frozenset[int]
    incident_id: int | None

    def is_same(self, other: "SimulatedIncident") -> bool:
        """Return whether another incident of the same host or pool has changes of the same series at the same time."""
        is_near = self.started_at <= other.ended_at and other.started_at <= self.ended_at
        return self.scope == other.scope and is_near and bool(self.members & other.members)


def describe_candidate(
    change: DetectedChange, judged: MetricResult, *, interval_s: float
) -> Mapping[str, Any]:
    """Return the fields of a `SimulatedChange` that decide whether it opens an incident, by the rules of candidates."""
    is_young = change.usual_spread is not None
    may_join = change.is_lasting or is_young or len(judged.values) >= BASELINE_RUNS
    smallest = judged.profile.smallest_change
    is_noisy = judged.state.state == SeriesState.TOO_NOISY and smallest is not None
    exceeds = not is_noisy or abs(log1p(max(change.relative, -0.999999))) > log1p(smallest or 0.0)
    separated = count_separated(
        separation=change.separation,
        t_score=change.t_score or 0.0,
        before_n=change.before.points,
        after_n=change.after.points,
    )
    return {
        "interval_s": interval_s,
        "relative": change.relative,
        "chance": 1.0 if is_young else change.chance,
        "separated_before": 0 if is_young else separated,
        "may_join": may_join,
        "may_open": may_join and exceeds,
    }


def simulate_incidents(changes: Sequence[SimulatedChange]) -> list[SimulatedIncident]:
    """Return the incidents of regressions, by time; expected changes are omitted.

    Each host or pool separately: incidents of several are not merged. Two queries, one for stored incidents, and those
    of planned events.
    """
    expected = find_expected(
        [
            ChangeStart(number, change.series_id, change.metric, is_regression=True, at=change.started_at)
            for number, change in enumerate(changes)
        ]
    )
    by_scope: dict[str, list[SimulatedChange]] = defaultdict(list)
    for number, change in enumerate(changes):
        if number not in expected:
            by_scope[change.scope].append(change)
    families = read_families(list(by_scope))
    known = _read_stored({change.series_id for change in changes})
    found = [
        _simulate(members, known)
        for scope, of in sorted(by_scope.items())
        for members in _group(of, families[scope])
    ]
    return sorted(found, key=lambda incident: (incident.started_at, incident.scope))


def _group(changes: Sequence[SimulatedChange], family: ScopeTests) -> Iterator[list[SimulatedChange]]:
    """Yield the changes of each incident of a scope."""
    groups: list[list[SimulatedChange]] = []
    spans: list[IncidentSpan] = []
    moments = [Moment(number, change.started_at, change.interval_s) for number, change in enumerate(changes)]
    for cluster in cluster_moments(moments):
        claims = [_claim(moment.key, changes[moment.key]) for moment in cluster]
        span = find_matching_incident(spans, cluster)
        keys = find_belonging(claims, family) if span else filter_significant(claims, family)
        members = [changes[key] for key in sorted(keys) if changes[key].may_join]
        if not members:
            continue
        if span:
            groups[span.key] += members
        else:
            groups.append(members)
        key = span.key if span else len(groups) - 1
        times = [change.started_at for change in groups[key]]
        spans = [one for one in spans if one.key != key] + [IncidentSpan(key, min(times), max(times))]
    yield from groups


def _claim(key: int, change: SimulatedChange) -> ChangeClaim:
    return ChangeClaim(
        key,
        change.series_id,
        change.chance,
        counts=change.may_open,
        separated_before=change.separated_before,
    )


_Stored = Mapping[tuple[int, str], Sequence[tuple[datetime, int]]]


def _read_stored(series_ids: Collection[int]) -> _Stored:
    """Return start and incident of the stored regressions by series and metric."""
    rows = Change.objects.filter(series_id__in=series_ids, is_regression=True).exclude(incident=None)
    found: dict[tuple[int, str], list[tuple[datetime, int]]] = defaultdict(list)
    for series_id, metric, at, incident_id, merged_into in rows.exclude(
        state=ChangeState.WITHDRAWN
    ).values_list("series_id", "metric", "started_at", "incident_id", "incident__merged_into_id"):
        found[series_id, metric].append((at, merged_into or incident_id))
    return found


def _simulate(members: Sequence[SimulatedChange], stored: _Stored) -> SimulatedIncident:
    sizes = summarize_metrics(
        [
            ChangeSize(change.series_id, change.metric, change.relative, SMALLEST_CHANGES[change.metric])
            for change in members
        ],
        preference=list(CATALOG),
    )
    typical = sizes[0]
    largest = max(
        (change for change in members if change.metric == typical.metric),
        key=lambda change: abs(log1p(max(change.relative, -0.999999))),
    )
    incidents = Counter(
        incident_id
        for change in members
        for at, incident_id in stored.get((change.series_id, change.metric), ())
        if abs((at - change.started_at).total_seconds()) <= max(_SAME_RUNS * change.interval_s, 1.0)
    )
    times = [change.started_at for change in members]
    return SimulatedIncident(
        scope=members[0].scope,
        started_at=min(times),
        ended_at=max(times),
        metric=typical.metric,
        relative=typical.relative,
        series=len({change.series_id for change in members}),
        series_id=largest.series_id,
        members=frozenset(change.series_id for change in members),
        incident_id=incidents.most_common(1)[0][0] if incidents else None,
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
        "added": list(map(_list_facts, added[:LISTED_MAXIMUM])),
        "removed": list(map(_list_facts, removed[:LISTED_MAXIMUM])),
    }


def _list_facts(incident: SimulatedIncident) -> dict[str, Any]:
    return {
        "scope": incident.scope,
        "started_at": incident.started_at.isoformat(),
        "metric": incident.metric,
        "relative": incident.relative,
        "series": incident.series,
        "series_id": incident.series_id,
        "incident": incident.incident_id,
    }
