"""Detection for one metric of one series: from its history and stored rows to the rows to write. Plain values.

1. Detect changes in the values (metric.py).
2. Add reported changes whose level ended, and find those to retain although they are not detected (metric.py).
3. Match detected with stored changes, and decide for each row: update, insert or withdraw (metric.py).
4. Fill the rows, and keep the starts of live rows unique.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Q
from numpy.typing import NDArray

from benchapp.catalog.metrics import CATALOG
from benchapp.detection.changepoints.segmentation import take_median
from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.evaluation_points import (
    CalendarProfile,
    find_evaluation_points,
    find_repetitions,
    learn_profiles,
    may_have_repetitions,
    merge_repetitions,
    remove_profiles,
)
from benchapp.detection.rules.noise_profile import SeriesState, SpreadIncrease, TwoStates
from benchapp.detection.write.histories import WINDOW, Claimed, StoredHistory, to_microseconds, to_time
from benchapp.detection.write.metric import (
    METHOD,
    Decision,
    DetectedChange,
    MetricResult,
    StoredChange,
    find_retained,
    is_back,
    judge_metric,
    list_ended,
    reconcile,
)
from benchapp.detection.write.rows import (
    TRANSITIONS_MAXIMUM,
    ChangeRecord,
    MetricKey,
)
from benchapp.models import Change, ChangeState, DetectionResult, DetectionStatus

# Runs at the start of a cut history that are not evaluated, because earlier runs are not read; half of fewer runs.
_MARGIN: Final = 128
# Runs around a change for the usual interval.
_INTERVAL_RUNS: Final = 30
STATUSES: Final = {
    SeriesState.LEARNING: DetectionStatus.LEARNING,
    SeriesState.TOO_NOISY: DetectionStatus.NOISY,
    SeriesState.STEADY: DetectionStatus.STEADY,
}


@dataclass(frozen=True, slots=True)
class MetricHistory:
    """One metric of one series: its finite values from the accepted baseline on, oldest first.

    times: µs since 2000. updates_from: stored changes that start before this time (µs since 2000) are not updated.
    Repetitions are one value, their median, with the time and run of the first; merged_runs: the runs if they were
    merged, else 0. profiles: what was removed from the values.
    """

    series_id: int
    metric: str
    times: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    values: NDArray[np.float64]
    updates_from: int
    merged_runs: int = 0
    profiles: tuple[CalendarProfile, ...] = ()

    @property
    def is_rise_better(self) -> bool:
        """Return whether higher values are an improvement."""
        return CATALOG[self.metric].better == "higher"

    def without_seasons(self) -> "MetricHistory":
        """Return the history without what recurs with the hour and the weekday; itself if nothing does."""
        profiles = learn_profiles(self.times, self.values) if settings.DETECTION_SEASONS else ()
        if not profiles:
            return self
        return replace(self, values=remove_profiles(self.times, self.values, profiles), profiles=profiles)


def select_metric(
    history: StoredHistory, series_id: int, metric: str, *, baseline_from_at: datetime | None
) -> MetricHistory:
    """Return the finite values of a metric from its baseline on, repetitions merged."""
    values = history.values[metric]
    is_valid = np.isfinite(values)
    updates_from = np.iinfo(np.int64).min
    if baseline_from_at is not None:
        is_valid &= history.times >= to_microseconds(baseline_from_at)
        # The change to the baseline itself is not updated.
        updates_from = to_microseconds(baseline_from_at) + 1
    times = history.times[is_valid]
    if (kind_start := history.find_kind_start(metric)) is not None:
        # Changes in values of another kind of latency are not updated.
        updates_from = max(updates_from, kind_start)
    if history.is_cut and len(times):
        updates_from = max(updates_from, int(times[min(_MARGIN, len(times) // 2)]))
    run_ids, selected = history.run_ids[is_valid], values[is_valid]
    starts = find_repetitions(times, selected)
    if starts is None:
        return MetricHistory(series_id, metric, times, run_ids, selected, int(updates_from))
    return MetricHistory(
        series_id,
        metric,
        times[starts],
        run_ids[starts],
        merge_repetitions(selected, starts),
        int(updates_from),
        merged_runs=len(selected),
    )


def judge_series_metric(
    history: MetricHistory,
    records: Sequence[ChangeRecord],
    *,
    smallest_change: float,
    quiet_count: int = 0,
    usual_spread: float | None = None,
    now: datetime,
) -> tuple[list[ChangeRecord], list[ChangeRecord], DetectionResult | None]:
    """Return the rows to write after an evaluation of the values: updates, inserts, status (None without values).

    records: all stored changes of the metric. Its values without their seasons are evaluated. smallest_change: the
    relative threshold. quiet_count: values since. usual_spread: as of `judge_metric`.
    """
    history = history.without_seasons()
    values = history.values
    updatable = {
        record.id: record
        for record in records
        if record.id is not None and to_microseconds(record.started_at) >= history.updates_from
    }
    if not len(values) and not updatable:
        return [], [], None
    stored = [_locate(history, change_id, record) for change_id, record in updatable.items()]
    confirmed = [(change.index, change.is_rise) for change in stored if change.state == ChangeState.CONFIRMED]
    judged = judge_metric(
        values, smallest_change=smallest_change, confirmed=confirmed, usual_spread=usual_spread
    )
    detected = _list_updatable(history, judged.changes, stored, smallest_change)
    ended, unchanged = list_ended(values, stored, detected, smallest_change=smallest_change)
    detected += ended
    retained = find_retained(values, stored, detected) | unchanged
    decisions = reconcile(stored, detected, judged.suspicion, runs=len(values), retained=retained)
    updates, inserts = _fill_rows(history, decisions, updatable, now)
    updates, inserts = _separate_starts(updates, inserts, updatable)
    status = None
    if len(values):
        count = len(values) + quiet_count
        status = _make_status(history, judged, count, smallest_change=smallest_change, now=now)
    return updates, inserts, status


def _locate(history: MetricHistory, change_id: int, record: ChangeRecord) -> StoredChange:
    """Return a stored change with the index of its run; by time if the run is deleted (null) or excluded."""
    at = to_microseconds(record.started_at)
    index = int(np.searchsorted(history.times, at))
    of_run = np.flatnonzero(history.run_ids == (record.run_id or 0))
    if of_run.size:
        index = int(of_run[np.argmin(np.abs(history.times[of_run] - at))])
    return StoredChange(
        change_id,
        record.state,
        index,
        record.relative > 0,
        record.before,
        record.after,
        is_in_incident=record.incident_id is not None,
    )


def _list_updatable(
    history: MetricHistory,
    detected: Sequence[DetectedChange],
    stored: Sequence[StoredChange],
    smallest_change: float,
) -> list[DetectedChange]:
    """Return detected changes that exceed the threshold, or are stored already; one of each start.

    A stored change may become slightly smaller than the threshold without being withdrawn.
    """
    live_indices = [change.index for change in stored if not change.is_withdrawn]
    chosen: dict[int, DetectedChange] = {}
    for change in detected:
        start = int(history.times[change.index])
        is_stored = any(abs(index - change.index) <= 1 for index in live_indices)
        if start >= history.updates_from and (abs(change.relative) >= smallest_change or is_stored):
            chosen.setdefault(start, change)
    return list(chosen.values())


def _fill_rows(
    history: MetricHistory,
    decisions: Sequence[Decision],
    updatable: Mapping[int, ChangeRecord],
    now: datetime,
) -> tuple[list[ChangeRecord], list[ChangeRecord]]:
    """Return the rows to update, without unchanged ones, and those to insert."""
    updates, inserts = [], []
    for decision in decisions:
        stored = None if decision.change_id is None else updatable[decision.change_id]
        record = _fill_row(history, decision, stored, now)
        if stored is None:
            inserts.append(record)
        elif record != replace(stored, updated_at=now):
            updates.append(record)
    return updates, inserts


def _fill_row(
    history: MetricHistory, decision: Decision, stored: ChangeRecord | None, now: datetime
) -> ChangeRecord:
    columns: dict[str, Any] = {"state": decision.state, "updated_at": now, "withdrawn_at": None}
    evidence: dict[str, Any] = dict(stored.evidence) if stored else {}
    if decision.detected is not None:
        columns |= _list_columns(history, decision.detected)
        evidence |= _describe_evidence(history, decision.detected)
    if decision.state == ChangeState.WITHDRAWN:
        columns["withdrawn_at"] = (stored and stored.withdrawn_at) or now
    if stored is None or stored.state != decision.state:
        transition = {"state": decision.state.value, "at": now.isoformat()}
        evidence["history"] = [*evidence.get("history", []), transition][-TRANSITIONS_MAXIMUM:]
    if stored is None:
        record = ChangeRecord(
            series_id=history.series_id, metric=history.metric, found_at=now, evidence=evidence, **columns
        )
    else:
        record = replace(stored, evidence=evidence, **columns)
    return replace(record, evidence={**evidence, "is_back": _is_back(history, record)})


def describe_levels(detected: DetectedChange) -> dict[str, Any]:
    """Return levels, size, interval and confidence of a change by the names of the columns of `Change`."""
    return {
        "before_median": detected.before.median,
        "before_n": detected.before.points,
        "before_spread": detected.before.spread,
        "after_median": detected.after.median,
        "after_n": detected.after.points,
        "after_spread": detected.after.spread,
        "relative": detected.relative,
        "relative_low": detected.low,
        "relative_high": detected.high,
        "confidence": 1 - detected.chance,
    }


def describe_spread_increase(history: MetricHistory, found: SpreadIncrease | None) -> dict[str, Any] | None:
    """Return an increase in spread as it is stored: since when, and the relative spreads before and after."""
    if found is None:
        return None
    since = to_time(history.times[found.index])
    return {"from_at": since.isoformat(), "before": found.before, "after": found.after}


def describe_two_states(history: MetricHistory, found: TwoStates | None) -> dict[str, Any] | None:
    """Return two states as they are stored: medians in the base unit, share of the higher one, visits, since when."""
    if found is None:
        return None
    return {
        "low": found.low,
        "high": found.high,
        "high_share": found.high_share,
        "visits": found.visits,
        "from_at": to_time(history.times[found.from_index]).isoformat(),
    }


def _list_columns(history: MetricHistory, detected: DetectedChange) -> dict[str, Any]:
    return {
        "run_id": int(history.run_ids[detected.index]),
        "started_at": to_time(history.times[detected.index]),
        "last_good_run_id": int(history.run_ids[detected.index - 1]),
        "is_regression": detected.is_rise != history.is_rise_better,
        "method": METHOD,
        **describe_levels(detected),
    }


def _describe_evidence(history: MetricHistory, detected: DetectedChange) -> dict[str, Any]:
    first = max(detected.index - detected.before.points, 0)
    last = min(detected.index + detected.after.points, len(history.times)) - 1
    return {
        "chance": detected.chance,
        "t_score": detected.t_score,
        "rank_score": detected.rank_score,
        "correlation": detected.correlation,
        "separation": detected.separation,
        "usual_spread": detected.usual_spread,
        "interval_s": _measure_interval(history, detected.index),
        "points_from": to_time(history.times[first]).isoformat(),
        "points_to": to_time(history.times[last]).isoformat(),
    }


def _measure_interval(history: MetricHistory, index: int) -> float:
    """Return the usual interval of runs around an index, in s."""
    around = history.times[max(index - _INTERVAL_RUNS, 0) : index + _INTERVAL_RUNS]
    return round(take_median(np.diff(around)) / 1e6, 3) if len(around) > 1 else 0.0


def _is_back(history: MetricHistory, record: ChangeRecord) -> bool:
    """Return whether the values since a change are back at the level before it."""
    index = int(np.searchsorted(history.times, to_microseconds(record.started_at)))
    was_back = bool(record.evidence.get("is_back"))
    return is_back(history.values, index, before=record.before, after=record.after, was_back=was_back)


def _separate_starts(
    updates: Sequence[ChangeRecord], inserts: Sequence[ChangeRecord], updatable: Mapping[int, ChangeRecord]
) -> tuple[list[ChangeRecord], list[ChangeRecord]]:
    """Keep the starts of live rows unique, also between two statements; return the rows to update and to insert.

    A stored row whose start another row takes is withdrawn, unless it gets another start itself. Then the row that
    takes its start (of a change that reverses within 5 runs) is withdrawn and inserted again.
    """
    updated = {record.id: record for record in updates if record.id is not None}
    inserted = list(inserts)
    owners = {
        record.started_at: change_id
        for change_id, record in updatable.items()
        if record.state != ChangeState.WITHDRAWN
    }
    for record in [*updates, *inserts]:
        owner_id = owners.get(record.started_at)
        if record.state == ChangeState.WITHDRAWN or owner_id is None or owner_id == record.id:
            continue
        owner = updated.get(owner_id, updatable[owner_id])
        if owner.state == ChangeState.WITHDRAWN:
            continue
        if owner.started_at == record.started_at:
            updated[owner_id] = _withdraw(owner, record.updated_at)
        elif record.id is not None:
            inserted.append(replace(record, id=None, incident_id=None))
            updated[record.id] = _withdraw(updatable[record.id], record.updated_at)
    return list(updated.values()), inserted


def _withdraw(record: ChangeRecord, now: datetime) -> ChangeRecord:
    return replace(record, state=ChangeState.WITHDRAWN, updated_at=now, withdrawn_at=now)


def _make_status(
    history: MetricHistory, judged: MetricResult, count: int, *, smallest_change: float, now: datetime
) -> DetectionResult:
    """Return the row without the accepted baseline, which detection does not change, and without the input hash."""
    return DetectionResult(
        series_id=history.series_id,
        metric=history.metric,
        status=STATUSES[judged.state.state],
        n=count,
        spread=judged.profile.spread,
        smallest_detectable_change=judged.profile.smallest_change,
        runs_needed=judged.state.runs_needed,
        spread_increase=describe_spread_increase(history, judged.spread_increase),
        two_states=describe_two_states(history, judged.two_states),
        seasons={profile.season: list(profile.factors) for profile in history.profiles},
        smallest_change=smallest_change,
        method=METHOD,
        judged_at=now,
        evaluated_to_at=to_time(int(history.times[-1])),
    )


# Everything that is read of the changes of a series, and of their incidents.
_READ_CHANGES: Final = (
    "SELECT change.series_id, md5(string_agg(concat(change::text, incident.state, incident.scope,"
    " incident.metric_sizes), '' ORDER BY change.id)) FROM benchapp_change AS change"
    " LEFT JOIN benchapp_incident AS incident ON incident.id = change.incident_id"
    " WHERE change.series_id = ANY(%s) GROUP BY change.series_id"
)


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What is evaluated of a series.

    history: all runs that were read. ends: runs that are evaluated of each metric; the later ones are quiet.
    """

    history: StoredHistory
    ends: Mapping[str, int]

    @property
    def end(self) -> int:
        """Return the runs up to the last one that is evaluated in any metric."""
        return max(self.ends.values(), default=len(self.history.times))

    @property
    def window(self) -> StoredHistory:
        """Return at most the newest 2 000 measurements up to that run, and all runs since."""
        return self._select(self.end, len(self.history.times))

    @property
    def evaluated(self) -> StoredHistory:
        """Return at most the newest 2 000 measurements up to that run."""
        return self._select(self.end, self.end)

    @property
    def inputs(self) -> StoredHistory:
        """Return all runs that are evaluated in any metric."""
        return self._select(min(self.ends.values(), default=self.end), self.end)

    def select_evaluated(self, metrics: Iterable[str]) -> dict[str, StoredHistory]:
        """Return the evaluated runs of each metric, at most the newest 2 000 measurements up to the last one."""
        ends = {metric: self.ends.get(metric, self.end) for metric in metrics}
        windows = {end: self._select(end, end) for end in set(ends.values())}
        return {metric: windows[end] for metric, end in ends.items()}

    def count_quiet(self, metric: str) -> int:
        """Return the number of values in the runs after those that are evaluated of a metric."""
        values = self.history.values[metric][self.ends.get(metric, self.end) :]
        return int(np.count_nonzero(np.isfinite(values)))

    def _select(self, end: int, until: int) -> StoredHistory:
        """Return the window that ends with `end` runs, and the runs up to `until`."""
        history = self.history
        if not end:
            return history.select(slice(until))
        first = int(np.searchsorted(history.positions, history.positions[end - 1] - WINDOW, side="right"))
        return replace(history.select(slice(first, until)), is_cut=history.is_cut or first > 0)


def plan_evaluations(
    claimed: Sequence[Claimed],
    histories: Mapping[int, StoredHistory],
    results: Mapping[MetricKey, DetectionResult],
) -> dict[int, EvaluationPlan]:
    """Return the plan of each series; its history is of the newest EVALUATION_WINDOW measurements. One query."""
    watched = read_watched([series.series_id for series in claimed])
    return {
        series.series_id: plan_evaluation(
            histories[series.series_id],
            series.metrics,
            smallest_changes=series.smallest_changes,
            watched=watched.get(series.series_id, ()),
            evaluated_to={
                metric: result.evaluated_to_at
                for metric in series.metrics
                if (result := results.get((series.series_id, metric)))
            },
        )
        for series in claimed
    }


def read_watched(ids: Sequence[int]) -> dict[int, set[str]]:
    """Return the metrics of these series that are evaluated with every run; one query.

    Those with a change that may still be withdrawn, and those that drift.
    """
    is_unsettled = Q(state__in=(ChangeState.SUSPECTED, ChangeState.PROVISIONAL)) | Q(evidence__continues=True)
    rows = Change.objects.filter(is_unsettled, series_id__in=ids).exclude(state=ChangeState.WITHDRAWN)
    found: dict[int, set[str]] = {}
    for series_id, metric in rows.values_list("series_id", "metric").distinct():
        found.setdefault(series_id, set()).add(metric)
    return found


def plan_evaluation(
    history: StoredHistory,
    metrics: Sequence[str],
    *,
    smallest_changes: Sequence[float],
    watched: Collection[str],
    evaluated_to: Mapping[str, datetime | None],
) -> EvaluationPlan:
    """Return which runs are evaluated. smallest_changes: of the metrics; watched: to be evaluated with every run.

    evaluated_to: start of the newest run that was evaluated. A metric that was evaluated beyond its evaluation point is
    evaluated with every run until the next one: an evaluation of fewer runs would find again what that withdrew.
    """
    count = len(history.times)
    every_run = EvaluationPlan(history, dict.fromkeys(metrics, count))
    if not count or history.has_repetitions:
        return every_run
    points = find_evaluation_points(
        np.stack([history.values[metric] for metric in metrics]),
        history.positions,
        smallest_changes=smallest_changes,
    )
    ahead = [
        metric
        for metric, end in zip(metrics, points, strict=True)
        if (moment := evaluated_to.get(metric)) and to_microseconds(moment) > history.times[end - 1]
    ]
    ends = dict(zip(metrics, points, strict=True)) | dict.fromkeys([*ahead, *watched], count)
    if may_have_repetitions(history.times[: max(ends.values())]):
        return every_run
    return EvaluationPlan(history, ends)


def hash_inputs(
    claimed: Sequence[Claimed],
    plans: Mapping[int, EvaluationPlan],
    results: Mapping[MetricKey, DetectionResult],
    usual_spreads: Mapping[MetricKey, float],
) -> dict[int, int]:
    """Return of each series a hash of all that its evaluation depends on: values, thresholds, changes. One query."""
    with connection.cursor() as cursor:
        cursor.execute(_READ_CHANGES, [[series.series_id for series in claimed]])
        changes = dict(cursor.fetchall())
    hashes = {}
    for series in claimed:
        series_id, plan = series.series_id, plans[series.series_id]
        inputs = plan.inputs
        keys = [(series_id, metric) for metric in CATALOG]
        known = (
            *(METHOD, DRIFT_METHOD, settings.DETECTION_SEASONS, tuple(CATALOG), inputs.is_cut),
            sorted((metric, plan.end - end) for metric, end in plan.ends.items()),
            *(sorted(series.thresholds.items()), changes.get(series_id)),
            [usual_spreads.get(key) for key in keys],
            [results[key].baseline_from_at if key in results else None for key in keys],
            [(metric, [section.kind for section in of]) for metric, of in inputs.earlier.items()],
        )
        digest = blake2b(repr(known).encode(), digest_size=8)
        for column in (inputs.times, inputs.run_ids, *inputs.list_arrays()):
            digest.update(column.tobytes())
        hashes[series_id] = int.from_bytes(digest.digest(), signed=True)
    return hashes
