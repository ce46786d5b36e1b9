"""Hold series against the levels that people accepted, and say once where one has drifted away.

Many small steps and a slow slope are no changes of level, and add up. What is found is a change of method `drift-v1`:
it begins at the first run that lies away, stays as long as the level is pinned, and says by itself when it is back.
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

# Two live changes of a series may not share a moment: drift begins a tick behind its run.
_TICK: Final = timedelta(microseconds=1)
# That noise alone lies beyond, of one look: half of what a 95 % interval leaves out.
_CHANCE: Final = 0.025
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)

Place = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Changes of drift that were made, moved or withdrawn, and events that somebody may want to be told of."""

    change_ids: tuple[int, ...] = ()
    event_ids: tuple[int, ...] = ()


def judge_drift(series_ids: Sequence[int], *, now: datetime) -> Drifted:
    """Hold these series against their accepted levels; their rows must be locked. Two queries where none is pinned."""
    pinned = read_baselines(series_ids)
    rows = _read_drifts(series_ids)
    if not pinned and not rows:
        return Drifted()
    lock_incidents()
    touched = [row for row in rows if _withdraw(row, pinned, now)]
    current = {(row.series_id, row.metric): row for row in rows if row.state != ChangeState.WITHDRAWN}
    steps = _read_steps({series_id for series_id, _ in pinned})
    made = []
    for place, cut in _cut_all(pinned):
        held = _hold(cut, steps.get(place, ()), tolerated_change=SMALLEST_CHANGES[cut.metric])
        row = _find_open(current.get(place), pinned[place], held)
        if row is not None:
            touched += [row] if held and _update(row, cut, held, now) else []
        elif (
            held
            and held.drift.is_beyond
            and not _is_notified(held, steps.get(place, ()), since=pinned[place])
        ):
            made.append(_make(cut, held, pinned[place], now))
    created = Change.objects.bulk_create(made)
    events = Events(now)
    assign_drifts(created, events)
    return Drifted(tuple(change.pk for change in (*touched, *created)), events.list_to_notify())


def hold_metric(cut: SeriesMetric, *, tolerated_change: float) -> BaselineComparison | None:
    """Hold the values of a metric, from its accepted level on, against that level; None where too few say it."""
    rows = Change.objects.filter(series_id=cut.series_id, metric=cut.metric, state__in=_LIVE)
    return _hold(cut, list(rows.exclude(method=DRIFT_METHOD)), tolerated_change=tolerated_change)


def _read_drifts(series_ids: Sequence[int]) -> list[Change]:
    """Return the drifts that stand, the newest of a metric last."""
    rows = Change.objects.filter(series_id__in=series_ids, method=DRIFT_METHOD)
    live = rows.exclude(state=ChangeState.WITHDRAWN).select_related("incident")
    return list(live.order_by("started_at", "id"))


def _read_steps(series_ids: set[int]) -> dict[Place, list[Change]]:
    rows = Change.objects.filter(series_id__in=series_ids, state__in=_LIVE).exclude(method=DRIFT_METHOD)
    found: dict[Place, list[Change]] = defaultdict(list)
    for change in rows.order_by("started_at", "id"):
        found[change.series_id, change.metric].append(change)
    return found


def _cut_all(pinned: Mapping[Place, datetime]) -> Iterator[tuple[Place, SeriesMetric]]:
    """Give the values since each accepted level; not where the runs that made it are beyond what is read."""
    histories = read_histories(sorted({series_id for series_id, _ in pinned}))
    for (series_id, metric), from_at in sorted(pinned.items()):
        history = histories[series_id]
        if history.is_cut and to_time(int(history.times[0])) > from_at:
            continue
        yield (series_id, metric), cut_metric(history, series_id, metric, baseline_from_at=from_at)


def _hold(
    cut: SeriesMetric, steps: Sequence[Change], *, tolerated_change: float
) -> BaselineComparison | None:
    moments = [to_microseconds(step.started_at) for step in steps]
    return compare_to_baseline(
        cut.values.tolist(),
        np.searchsorted(cut.times, moments).tolist(),
        tolerated_change=tolerated_change,
    )


def _find_open(row: Change | None, from_at: datetime, held: BaselineComparison | None) -> Change | None:
    """Return the drift that stands; one that was resolved after the level came back is over when it goes away again."""
    if row is None or _read_accepted(row) != from_at:
        return None
    is_over = row.evidence.get("is_back") and (
        row.incident is None or row.incident.state == IncidentState.RESOLVED
    )
    return None if is_over and held and held.drift.is_beyond else row


def _is_notified(held: BaselineComparison, steps: Sequence[Change], *, since: datetime) -> bool:
    """Say whether a change of level since then says it already: it has an incident of its own."""
    is_fall = (held.drift.shift.relative or 0.0) < 0
    return any((step.relative < 0) == is_fall for step in steps if step.started_at > since)


def _make(cut: SeriesMetric, held: BaselineComparison, from_at: datetime, now: datetime) -> Change:
    relative = held.drift.shift.relative or 0.0
    is_rise_better = CATALOGUE[cut.metric].better == "higher"
    first_good = len(held.accepted.values) - 1
    intervals = np.diff(cut.times)
    return Change(
        series_id=cut.series_id,
        metric=cut.metric,
        run_id=int(cut.run_ids[held.start]),
        started_at=to_time(int(cut.times[held.start])) + _TICK,
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
        **_describe(held),
    )


def _update(row: Change, cut: SeriesMetric, held: BaselineComparison, now: datetime) -> bool:
    """Write what the newest runs say; return whether that is anything new."""
    evidence = {**row.evidence, "points_to": to_time(int(cut.times[-1])).isoformat()}
    if held.is_back or held.drift.is_beyond:
        evidence["is_back"] = not held.drift.is_beyond
    state = row.state
    if held.drift.is_beyond and len(cut.values) >= evidence["runs"] + CONFIRMED_AFTER_RUNS:
        state = ChangeState.CONFIRMED.value
    if state != row.state:
        evidence["history"] = [*evidence["history"], {"state": state, "at": now.isoformat()}][-20:]
    fresh: dict[str, Any] = {"state": state, "evidence": evidence}
    if held.drift.is_beyond:
        # What it said while it lasted stays when the level is back.
        fresh |= _describe(held)
    if all(getattr(row, name) == value for name, value in fresh.items()):
        return False
    for name, value in fresh.items():
        setattr(row, name, value)
    row.updated_at = now
    row.save(update_fields=[*fresh, "updated_at"])
    return True


def _withdraw(row: Change, pinned: Mapping[Place, datetime], now: datetime) -> bool:
    """Withdraw a drift from a level that nobody accepts any more; one from before a newer level stays as it was."""
    from_at = pinned.get((row.series_id, row.metric))
    if from_at is not None and (_read_accepted(row) == from_at or row.started_at <= from_at):
        return False
    row.state, row.withdrawn_at, row.updated_at = ChangeState.WITHDRAWN, now, now
    row.save(update_fields=["state", "withdrawn_at", "updated_at"])
    return True


def _describe(held: BaselineComparison) -> dict[str, Any]:
    before, after, shift = held.accepted.level, held.drift.now, held.drift.shift
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
