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
from benchapp.pipeline.detection.rows import read_baselines
from benchapp.pipeline.detection.series import SeriesMetric, cut_metric
from benchapp.pipeline.incidents.drift import assign_drifts
from benchapp.pipeline.incidents.events import Events
from benchapp.pipeline.incidents.grouping import lock_incidents

# Two live changes of a series cannot have the same start: drift starts 1 µs after its run.
_TICK: Final = timedelta(microseconds=1)
# Chance of noise beyond the 95 % interval on one side.
_CHANCE: Final = 0.025
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)

Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Drifts that were created, updated or withdrawn, and the events to notify about."""

    change_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()


def judge_drift(series_ids: Sequence[int], *, now: datetime) -> Drifted:
    """Compare these series with their baselines; their rows must be locked. Two queries without a baseline."""
    baselines = read_baselines(series_ids)
    rows = _read_drifts(series_ids)
    if not baselines and not rows:
        return Drifted()
    lock_incidents()
    touched = [row for row in rows if _withdraw(row, baselines, now)]
    current = {(row.series_id, row.metric): row for row in rows if row.state != ChangeState.WITHDRAWN}
    steps = _read_steps({series_id for series_id, _ in baselines})
    made = []
    for place, cut in _list_cuts(baselines):
        comparison = _compare(cut, steps.get(place, ()), tolerated_change=SMALLEST_CHANGES[cut.metric])
        row = _find_open(current.get(place), baselines[place], comparison)
        if row is not None:
            touched += [row] if comparison and _update(row, cut, comparison, now) else []
        elif (
            comparison
            and comparison.drift.is_beyond
            and not _is_covered(comparison, steps.get(place, ()), since=baselines[place])
        ):
            made.append(_make(cut, comparison, baselines[place], now))
    created = Change.objects.bulk_create(made)
    events = Events(now)
    assign_drifts(created, events)
    return Drifted(tuple(change.pk for change in (*touched, *created)), events.list_to_notify())


def compare_metric_to_baseline(cut: SeriesMetric, *, tolerated_change: float) -> BaselineComparison | None:
    """Compare the values of a metric from its baseline on with that baseline; None for too few values."""
    rows = Change.objects.filter(series_id=cut.series_id, metric=cut.metric, state__in=_LIVE)
    return _compare(cut, list(rows.exclude(method=DRIFT_METHOD)), tolerated_change=tolerated_change)


def _read_drifts(series_ids: Sequence[int]) -> list[Change]:
    """Return the live drifts, the newest of a metric last."""
    rows = Change.objects.filter(series_id__in=series_ids, method=DRIFT_METHOD)
    live = rows.exclude(state=ChangeState.WITHDRAWN).select_related("incident")
    return list(live.order_by("started_at", "id"))


def _read_steps(series_ids: set[int]) -> dict[Place, list[Change]]:
    rows = Change.objects.filter(series_id__in=series_ids, state__in=_LIVE).exclude(method=DRIFT_METHOD)
    found: dict[Place, list[Change]] = defaultdict(list)
    for change in rows.order_by("started_at", "id"):
        found[change.series_id, change.metric].append(change)
    return found


def _list_cuts(baselines: Mapping[Place, datetime]) -> Iterator[tuple[Place, SeriesMetric]]:
    """Yield the values since each baseline, except baselines whose first runs are not read."""
    histories = read_histories(sorted({series_id for series_id, _ in baselines}))
    for (series_id, metric), from_at in sorted(baselines.items()):
        history = histories[series_id]
        if history.is_cut and to_time(int(history.times[0])) > from_at:
            continue
        yield (series_id, metric), cut_metric(history, series_id, metric, baseline_from_at=from_at)


def _compare(
    cut: SeriesMetric, steps: Sequence[Change], *, tolerated_change: float
) -> BaselineComparison | None:
    moments = [to_microseconds(step.started_at) for step in steps]
    return compare_to_baseline(
        cut.values.tolist(),
        np.searchsorted(cut.times, moments).tolist(),
        tolerated_change=tolerated_change,
    )


def _find_open(row: Change | None, from_at: datetime, comparison: BaselineComparison | None) -> Change | None:
    """Return the live drift; a recovered and resolved one ends if the series drifts again."""
    if row is None or _read_accepted(row) != from_at:
        return None
    is_over = row.evidence.get("is_back") and (
        row.incident is None or row.incident.state == IncidentState.RESOLVED
    )
    return None if is_over and comparison and comparison.drift.is_beyond else row


def _is_covered(comparison: BaselineComparison, steps: Sequence[Change], *, since: datetime) -> bool:
    """Return whether a change of level since then already covers the drift, with its own incident."""
    is_fall = (comparison.drift.shift.relative or 0.0) < 0
    return any((step.relative < 0) == is_fall for step in steps if step.started_at > since)


def _make(cut: SeriesMetric, comparison: BaselineComparison, from_at: datetime, now: datetime) -> Change:
    relative = comparison.drift.shift.relative or 0.0
    is_rise_better = CATALOGUE[cut.metric].better == "higher"
    first_good = len(comparison.accepted.values) - 1
    intervals = np.diff(cut.times)
    return Change(
        series_id=cut.series_id,
        metric=cut.metric,
        run_id=int(cut.run_ids[comparison.start]),
        started_at=to_time(int(cut.times[comparison.start])) + _TICK,
        last_good_run_id=int(cut.run_ids[first_good]),
        state=ChangeState.PROVISIONAL,
        is_regression=(relative > 0) != is_rise_better,
        confidence=1 - _CHANCE,
        method=DRIFT_METHOD,
        evidence={
            "chance": _CHANCE,
            "interval_s": round(float(np.median(intervals)) / 1e6, 3),
            "accepted_from": from_at.isoformat(),
            "runs": len(cut.values),
            "points_from": to_time(int(cut.times[0])).isoformat(),
            "points_to": to_time(int(cut.times[-1])).isoformat(),
            "is_back": False,
            "history": [{"state": ChangeState.PROVISIONAL.value, "at": now.isoformat()}],
        },
        found_at=now,
        updated_at=now,
        **_describe(comparison),
    )


def _update(row: Change, cut: SeriesMetric, comparison: BaselineComparison, now: datetime) -> bool:
    """Update a drift by the newest runs; return whether it changed."""
    evidence = {**row.evidence, "points_to": to_time(int(cut.times[-1])).isoformat()}
    if comparison.is_back or comparison.drift.is_beyond:
        evidence["is_back"] = not comparison.drift.is_beyond
    state = row.state
    if comparison.drift.is_beyond and len(cut.values) >= evidence["runs"] + CONFIRMED_AFTER_RUNS:
        state = ChangeState.CONFIRMED.value
    if state != row.state:
        evidence["history"] = [*evidence["history"], {"state": state, "at": now.isoformat()}][-20:]
    fresh: dict[str, Any] = {"state": state, "evidence": evidence}
    if comparison.drift.is_beyond:
        # Sizes of the drift are kept after a recovery.
        fresh |= _describe(comparison)
    if all(getattr(row, name) == value for name, value in fresh.items()):
        return False
    for name, value in fresh.items():
        setattr(row, name, value)
    row.updated_at = now
    row.save(update_fields=[*fresh, "updated_at"])
    return True


def _withdraw(row: Change, baselines: Mapping[Place, datetime], now: datetime) -> bool:
    """Withdraw a drift from a baseline that was undone; one from before a newer baseline stays as it is."""
    from_at = baselines.get((row.series_id, row.metric))
    if from_at is not None and (_read_accepted(row) == from_at or row.started_at <= from_at):
        return False
    row.state, row.withdrawn_at, row.updated_at = ChangeState.WITHDRAWN, now, now
    row.save(update_fields=["state", "withdrawn_at", "updated_at"])
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


def _read_accepted(row: Change) -> datetime:
    return datetime.fromisoformat(row.evidence["accepted_from"])
