"""Detect drift: compare series with their accepted baselines.

Many small steps and a slow slope are not changes of level, but add up. A drift is a change of method `drift-v1`: it
starts at the first run beyond the threshold, exists as long as the baseline, and records its recovery.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np

from benchapp.analysis.detection.baselines import DRIFT_METHOD, BaselineComparison, compare_to_baseline
from benchapp.analysis.detection.suspicion_test import CONFIRMED_AFTER_RUNS
from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES
from benchapp.models import Change, ChangeState, IncidentState
from benchapp.pipeline.detection.histories import read_histories, to_microseconds, to_time
from benchapp.pipeline.detection.rows import MetricKey, read_baselines
from benchapp.pipeline.detection.series import MetricHistory, select_metric
from benchapp.pipeline.incidents.drift import assign_drifts
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.grouping import lock_incidents

# Two live changes of a series cannot have the same start: drift starts 1 µs after its run.
_TICK: Final = timedelta(microseconds=1)
# Chance of noise beyond the 95 % interval on one side.
_CHANCE: Final = 0.025
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)


@dataclass(frozen=True, slots=True)
class Drifted:
    """Drifts that were created, updated or withdrawn, and the events to notify about."""

    change_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()


def judge_drift(series_ids: Sequence[int], *, now: datetime) -> Drifted:
    """Compare these series with their baselines; their rows must be locked. Two queries without a baseline."""
    baselines = read_baselines(series_ids)
    stored = _read_drifts(series_ids)
    if not baselines and not stored:
        return Drifted()
    lock_incidents()
    written = [drift for drift in stored if _withdraw_outdated(drift, baselines, now)]
    live = {
        (drift.series_id, drift.metric): drift for drift in stored if drift.state != ChangeState.WITHDRAWN
    }
    steps = _read_steps({series_id for series_id, _ in baselines})
    new = []
    for key, history in _list_histories(baselines):
        from_at = baselines[key]
        comparison = _compare(history, steps.get(key, ()), tolerated_change=SMALLEST_CHANGES[history.metric])
        if comparison is None:
            continue
        drift = _find_open(live.get(key), from_at, comparison)
        if drift is not None:
            written += [drift] if _update(drift, history, comparison, now) else []
        elif comparison.drift.is_beyond and not _is_covered(comparison, steps.get(key, ()), since=from_at):
            new.append(_make(history, comparison, from_at, now))
    created = Change.objects.bulk_create(new)
    events = Events(now)
    assign_drifts(created, events)
    return Drifted(tuple(change.pk for change in (*written, *created)), events.list_to_notify())


def compare_metric_to_baseline(
    history: MetricHistory, *, tolerated_change: float
) -> BaselineComparison | None:
    """Compare the values of a metric from its baseline on with that baseline; None for too few values."""
    rows = Change.objects.filter(series_id=history.series_id, metric=history.metric, state__in=_LIVE)
    return _compare(history, list(rows.exclude(method=DRIFT_METHOD)), tolerated_change=tolerated_change)


def _read_drifts(series_ids: Sequence[int]) -> list[Change]:
    """Return the live drifts, the newest of a metric last."""
    rows = Change.objects.filter(series_id__in=series_ids, method=DRIFT_METHOD)
    live = rows.exclude(state=ChangeState.WITHDRAWN).select_related("incident")
    return list(live.order_by("started_at", "id"))


def _read_steps(series_ids: set[int]) -> dict[MetricKey, list[Change]]:
    rows = Change.objects.filter(series_id__in=series_ids, state__in=_LIVE).exclude(method=DRIFT_METHOD)
    found: dict[MetricKey, list[Change]] = defaultdict(list)
    for change in rows.order_by("started_at", "id"):
        found[change.series_id, change.metric].append(change)
    return found


def _list_histories(baselines: Mapping[MetricKey, datetime]) -> Iterator[tuple[MetricKey, MetricHistory]]:
    """Yield the values since each baseline, except baselines whose first runs are not read."""
    histories = read_histories(sorted({series_id for series_id, _ in baselines}))
    for (series_id, metric), from_at in sorted(baselines.items()):
        history = histories[series_id]
        if history.is_cut and to_time(int(history.times[0])) > from_at:
            continue
        yield (series_id, metric), select_metric(history, series_id, metric, baseline_from_at=from_at)


def _compare(
    history: MetricHistory, steps: Sequence[Change], *, tolerated_change: float
) -> BaselineComparison | None:
    moments = [to_microseconds(step.started_at) for step in steps]
    return compare_to_baseline(
        history.values.tolist(),
        np.searchsorted(history.times, moments).tolist(),
        tolerated_change=tolerated_change,
    )


def _find_open(drift: Change | None, from_at: datetime, comparison: BaselineComparison) -> Change | None:
    """Return the live drift of this baseline, unless it has ended: recovered, resolved, and the series drifts again."""
    if drift is None or _read_accepted(drift) != from_at:
        return None
    is_over = drift.evidence.get("is_back") and (
        drift.incident is None or drift.incident.state == IncidentState.RESOLVED
    )
    return None if is_over and comparison.drift.is_beyond else drift


def _is_covered(comparison: BaselineComparison, steps: Sequence[Change], *, since: datetime) -> bool:
    """Return whether a change of level since then already covers the drift, with its own incident."""
    is_fall = (comparison.drift.shift.relative or 0.0) < 0
    return any((step.relative < 0) == is_fall for step in steps if step.started_at > since)


def _make(history: MetricHistory, comparison: BaselineComparison, from_at: datetime, now: datetime) -> Change:
    relative = comparison.drift.shift.relative or 0.0
    is_rise_better = CATALOGUE[history.metric].better == "higher"
    first_good = len(comparison.accepted.values) - 1
    intervals = np.diff(history.times)
    return Change(
        series_id=history.series_id,
        metric=history.metric,
        run_id=int(history.run_ids[comparison.start]),
        started_at=to_time(int(history.times[comparison.start])) + _TICK,
        last_good_run_id=int(history.run_ids[first_good]),
        state=ChangeState.PROVISIONAL,
        is_regression=(relative > 0) != is_rise_better,
        confidence=1 - _CHANCE,
        method=DRIFT_METHOD,
        evidence={
            "chance": _CHANCE,
            "interval_s": round(float(np.median(intervals)) / 1e6, 3),
            "accepted_from": from_at.isoformat(),
            "runs": len(history.values),
            "points_from": to_time(int(history.times[0])).isoformat(),
            "points_to": to_time(int(history.times[-1])).isoformat(),
            "is_back": False,
            "history": [{"state": ChangeState.PROVISIONAL.value, "at": now.isoformat()}],
        },
        found_at=now,
        updated_at=now,
        **_describe(comparison),
    )


def _update(drift: Change, history: MetricHistory, comparison: BaselineComparison, now: datetime) -> bool:
    """Update a drift by the newest runs; return whether it changed."""
    evidence = {**drift.evidence, "points_to": to_time(int(history.times[-1])).isoformat()}
    if comparison.is_back or comparison.drift.is_beyond:
        evidence["is_back"] = not comparison.drift.is_beyond
    state = drift.state
    if comparison.drift.is_beyond and len(history.values) >= evidence["runs"] + CONFIRMED_AFTER_RUNS:
        state = ChangeState.CONFIRMED.value
    if state != drift.state:
        evidence["history"] = [*evidence["history"], {"state": state, "at": now.isoformat()}][-20:]
    columns: dict[str, Any] = {"state": state, "evidence": evidence}
    if comparison.drift.is_beyond:
        # The size of the drift is retained after a recovery.
        columns |= _describe(comparison)
    if all(getattr(drift, name) == value for name, value in columns.items()):
        return False
    for name, value in columns.items():
        setattr(drift, name, value)
    drift.updated_at = now
    drift.save(update_fields=[*columns, "updated_at"])
    return True


def _withdraw_outdated(drift: Change, baselines: Mapping[MetricKey, datetime], now: datetime) -> bool:
    """Withdraw a drift from a baseline that was undone; one from before a newer baseline stays as it is."""
    from_at = baselines.get((drift.series_id, drift.metric))
    if from_at is not None and (_read_accepted(drift) == from_at or drift.started_at <= from_at):
        return False
    drift.state, drift.withdrawn_at, drift.updated_at = ChangeState.WITHDRAWN, now, now
    drift.save(update_fields=["state", "withdrawn_at", "updated_at"])
    return True


def _describe(comparison: BaselineComparison) -> dict[str, Any]:
    before, after, shift = comparison.accepted.level, comparison.drift.now, comparison.drift.shift
    return {
        "before_median": before.median,
        "before_n": before.points,
        "before_spread": before.spread,
        "after_median": after.median,
        "after_n": after.points,
        "after_spread": after.spread,
        "relative": shift.relative or 0.0,
        "relative_low": shift.low,
        "relative_high": shift.high,
    }


def _read_accepted(drift: Change) -> datetime:
    return datetime.fromisoformat(drift.evidence["accepted_from"])
