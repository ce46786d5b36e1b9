"""Detect drift: compare each level with its own beginning, and with the accepted baseline if there is one.

Many small steps and a slow slope are not changes of level, but add up. A drift is a change of method `drift-v1`, from
the level before the slope to the newest one. Each evaluation updates both, until the series recovers.

A gradual change is also detected as several steps, at other runs in each series and metric. A level that begins with
each of them shows no drift. Therefore the values are compared across those steps if a slope explains them better.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchapp.detection.rules.baselines import (
    BACK_SHARE,
    BASELINE_RUNS_MINIMUM,
    CLEAR_SCORE,
    DRIFT_METHOD,
    INTERVAL_SCORE,
    BaselineComparison,
    DetectedStep,
    GradualChange,
    compare_to_baseline,
    find_slope,
    may_have_drifted,
)
from benchapp.detection.rules.recovery import CONFIRMED_AFTER_RUNS
from benchapp.detection.write.histories import StoredHistory, to_microseconds, to_time
from benchapp.detection.write.rows import MetricKey, read_baselines
from benchapp.detection.write.series import MetricHistory, select_metric
from benchapp.framework.write.conflicts import lock_incidents
from benchapp.models import Change, ChangeState, IncidentState

_LEAST_RELATIVE: Final = -0.999999


@dataclass(frozen=True, slots=True)
class SlopeHistory:
    """Values that a slope explains better than steps. advantage: of the slope (`measure_slope_advantage`).

    history: without the steps of incidents of several hosts or pools: earlier values are multiplied by their size.
    without_incidents: the ids of these.
    """

    history: MetricHistory
    advantage: float
    without_incidents: tuple[int, ...]


def select_slope(
    history: MetricHistory, steps: Sequence[Change], *, tolerated_change: float
) -> SlopeHistory | None:
    """Return the values with the newest steps of one direction, if they are a slope.

    steps: of all metrics, with incidents, oldest first. Those of other metrics count if the metric has none; those of
    incidents of several hosts or pools do not. The values begin with the step of the other direction before them, if
    any. None if the values are not a slope, or have not changed by the tolerated change.
    """
    wide = [step for step in steps if _is_wide(step) and step.metric == history.metric]
    narrow = [step for step in steps if not _is_wide(step)]
    own = [step for step in narrow if step.metric == history.metric] or narrow
    values = history.values.copy()
    for step in wide:
        values[: _find_place(history, step)] *= 1 + _read_wide_size(step)
    slope = find_slope(
        values,
        [
            DetectedStep(_find_place(history, step), is_rise=step.is_regression != history.is_rise_better)
            for step in own
        ],
        tolerated_change=tolerated_change,
    )
    if slope is None:
        return None
    first = slope.first
    selected = replace(
        history, times=history.times[first:], run_ids=history.run_ids[first:], values=values[first:]
    )
    removed = {step.incident_id or 0 for step in wide if _find_place(history, step) > first}
    return SlopeHistory(selected, slope.advantage, tuple(sorted(removed)))


def _is_wide(step: Change) -> bool:
    return step.incident is not None and step.incident.scope == ""


def _read_wide_size(step: Change) -> float:
    """Return the median size of the incident in this metric: unlike that of the series it contains no slope."""
    sizes = step.incident.metric_sizes if step.incident else []
    own = (float(size["relative"]) for size in sizes if size["metric"] == step.metric)
    return max(next(own, step.relative), _LEAST_RELATIVE)


def _find_place(history: MetricHistory, step: Change) -> int:
    return int(np.searchsorted(history.times, to_microseconds(step.started_at)))


# Two live changes of a series cannot have the same start: drift starts 1 µs after its run.
_TICK: Final = timedelta(microseconds=1)
# Chance of noise beyond the 95 % interval on one side.
_CHANCE: Final = 0.025
_LIVE: Final = (ChangeState.PROVISIONAL, ChangeState.CONFIRMED)
_STEP_FIELDS: Final = (
    *("series_id", "metric", "started_at", "relative", "is_regression", "incident_id"),
    *("incident__scope", "incident__metric_sizes"),
)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison with the beginning of a history. accepted_from: of the accepted baseline; None: of the level.

    is_covered: a change of level since the baseline already reports it. slope: where steps are compared across.
    """

    history: MetricHistory
    comparison: BaselineComparison
    accepted_from: datetime | None
    is_covered: bool = False
    slope: SlopeHistory | None = None

    @property
    def compared_from(self) -> datetime:
        """Return when the first compared run started."""
        return to_time(int(self.history.times[0]))

    @property
    def starts_at(self) -> datetime | None:
        """Return the start of the drift; None if there is none."""
        if (change := self.comparison.change) is None:
            return None
        return to_time(int(self.history.times[change.first])) + _TICK

    @property
    def score(self) -> float:
        """Return how far the drift is beyond the tolerated change: also by the ends of a slope that explains it."""
        change = self.comparison.change
        of_slope = change.drift.score if self.slope and change else 0.0
        return max(self.comparison.drift.score, of_slope)

    @property
    def is_beyond(self) -> bool:
        """Return whether the series has drifted."""
        return self.comparison.change is not None and self.score > INTERVAL_SCORE


def judge_drift(
    histories: Mapping[int, StoredHistory],
    metrics: Mapping[int, Sequence[str]],
    *,
    thresholds: Mapping[int, Mapping[str, float]],
    now: datetime,
) -> tuple[int, ...]:
    """Compare these series, whose rows must be locked, with the beginnings of their levels and with their baselines.

    metrics: those that are evaluated, by series; thresholds: of their metrics. Return the changes that were created,
    updated or withdrawn; those without incident wait for `assign_drifts`. Three queries without a drift.
    """
    baselines = read_baselines(list(histories))
    stored = _read_drifts(list(histories))
    steps = _read_steps(list(histories))
    if stored:
        lock_incidents()
    written, new = [], []
    for series_id, history in histories.items():
        for metric in metrics[series_id]:
            key = (series_id, metric)
            drifts, from_at = stored.get(key, []), baselines.get(key)
            compared = _compare_metric(
                history,
                key,
                from_at,
                smallest=thresholds[series_id][metric],
                steps=steps.get(series_id, ()),
                is_watched=bool(drifts),
            )
            current = _find_current(drifts, compared)
            written += [
                drift
                for drift in drifts
                if drift is not current
                and to_microseconds(drift.started_at) >= (history.find_kind_start(metric) or 0)
                and _update_earlier(
                    drift, history.values[metric], from_at, smallest=thresholds[series_id][metric], now=now
                )
            ]
            if current is not None and compared is not None:
                written += [current] if _update(current, compared, now) else []
            elif compared is not None and compared.is_beyond and not compared.is_covered:
                new.append(_make(compared, now))
    created = Change.objects.bulk_create(new)
    if created and not stored:
        lock_incidents()
    return tuple(change.pk for change in (*written, *created))


def compare_metric_to_baseline(
    history: MetricHistory, *, tolerated_change: float
) -> BaselineComparison | None:
    """Compare the values of a metric from its baseline on with that baseline; None for too few values."""
    rows = Change.objects.filter(series_id=history.series_id, metric=history.metric, state__in=_LIVE)
    return _compare(history, list(rows.exclude(method=DRIFT_METHOD)), tolerated_change=tolerated_change)


def _read_drifts(series_ids: Sequence[int]) -> dict[MetricKey, list[Change]]:
    """Return the live drifts of each metric, the newest last."""
    rows = Change.objects.filter(series_id__in=series_ids, method=DRIFT_METHOD)
    live = rows.exclude(state=ChangeState.WITHDRAWN).select_related("incident")
    found: dict[MetricKey, list[Change]] = defaultdict(list)
    for change in live.order_by("started_at", "id"):
        found[change.series_id, change.metric].append(change)
    return found


def _read_steps(series_ids: Sequence[int]) -> dict[int, list[Change]]:
    """Return the changes of level of each series, in all metrics, with their incidents."""
    rows = Change.objects.filter(series_id__in=series_ids, state__in=_LIVE).exclude(method=DRIFT_METHOD)
    rows = rows.select_related("incident").only(*_STEP_FIELDS).order_by("started_at", "id")
    found: dict[int, list[Change]] = defaultdict(list)
    for change in rows:
        found[change.series_id].append(change)
    return found


def _compare_metric(
    history: StoredHistory,
    key: MetricKey,
    from_at: datetime | None,
    *,
    smallest: float,
    steps: Sequence[Change],
    is_watched: bool,
) -> _Compared | None:
    """Compare with the accepted baseline, across the steps of a slope, or with the beginning of the current level.

    The first one that is beyond its threshold counts, otherwise the last one. smallest: the threshold. steps: of all
    metrics. A level begins with a change of any of them: one of IOPS changes latencies, too, perhaps by less than their
    threshold, and several of these would add up to a drift. is_watched: the metric has drifts, whose end is to be
    found; otherwise equal medians are not compared.
    """
    values = select_metric(history, *key, baseline_from_at=from_at)
    own_steps = [step for step in steps if step.metric == key[1]]
    accepted = None
    is_read = from_at is not None and not (history.is_cut and to_time(int(history.times[0])) > from_at)
    if is_read and (comparison := _compare(values, own_steps, tolerated_change=smallest)):
        is_covered = _is_covered(comparison, own_steps, since=from_at)
        accepted = _Compared(values, comparison, from_at, is_covered)
        if accepted.is_beyond and not is_covered:
            return accepted
    slope = select_slope(values, steps, tolerated_change=smallest)
    if slope is not None and (comparison := _compare(slope.history, (), tolerated_change=smallest)):
        across = _Compared(slope.history, comparison, None, slope=slope)
        if across.is_beyond:
            return across
    level = _select_level(values, steps)
    if not is_watched and not may_have_drifted(level.values, tolerated_change=smallest):
        return accepted
    if (of_level := _compare(level, (), tolerated_change=smallest)) is None:
        return accepted
    own = _Compared(level, of_level, None)
    return own if own.is_beyond or accepted is None else accepted


def _select_level(history: MetricHistory, steps: Sequence[Change]) -> MetricHistory:
    """Return the values since the last change of level."""
    moments = [to_microseconds(step.started_at) for step in steps]
    start = int(np.searchsorted(history.times, max(moments, default=np.iinfo(np.int64).min)))
    return replace(
        history,
        times=history.times[start:],
        run_ids=history.run_ids[start:],
        values=history.values[start:],
    )


def _compare(
    history: MetricHistory, steps: Sequence[Change], *, tolerated_change: float
) -> BaselineComparison | None:
    moments = [to_microseconds(step.started_at) for step in steps]
    return compare_to_baseline(
        history.values.tolist(),
        np.searchsorted(history.times, moments).tolist(),
        tolerated_change=tolerated_change,
    )


def _find_current(drifts: Sequence[Change], compared: _Compared | None) -> Change | None:
    """Return the drift of what is compared, unless it has ended: recovered, resolved, and the series drifts again."""
    if compared is None:
        return None
    # Two live drifts cannot have the same start.
    same = (drift for drift in drifts if drift.started_at == compared.starts_at)
    if (drift := next(same, None)) is not None:
        return drift
    for drift in reversed(drifts):
        # One from before a new baseline, or from before a change of level, is an earlier one.
        if drift.started_at <= compared.compared_from or not _is_of(drift, compared):
            continue
        is_over = drift.evidence.get("is_back") and (
            drift.incident is None or drift.incident.state == IncidentState.RESOLVED
        )
        return None if is_over and compared.is_beyond else drift
    return None


def _is_of(drift: Change, compared: _Compared) -> bool:
    """Return whether a drift was compared with the same beginning, or a later one; a slope contains any in its way."""
    change = compared.comparison.change
    if change is not None and (drift.relative < 0) != ((change.drift.shift.relative or 0.0) < 0):
        return False
    return compared.slope is not None or _read_compared(drift) >= compared.compared_from


def _is_covered(comparison: BaselineComparison, steps: Sequence[Change], *, since: datetime | None) -> bool:
    """Return whether a change of level since the baseline already covers the drift, with its own incident."""
    is_fall = (comparison.drift.shift.relative or 0.0) < 0
    return any((step.relative < 0) == is_fall for step in steps if since is None or step.started_at > since)


def _make(compared: _Compared, now: datetime) -> Change:
    history = compared.history
    intervals = np.diff(history.times)
    return Change(
        series_id=history.series_id,
        metric=history.metric,
        state=ChangeState.PROVISIONAL,
        confidence=1 - _CHANCE,
        method=DRIFT_METHOD,
        evidence={
            "chance": _CHANCE,
            "interval_s": round(float(np.median(intervals)) / 1e6, 3),
            "runs": len(history.values),
            "is_back": False,
            "history": [{"state": ChangeState.PROVISIONAL.value, "at": now.isoformat()}],
            **_describe_evidence(compared),
        },
        found_at=now,
        updated_at=now,
        **_list_columns(compared),
    )


def _update(drift: Change, compared: _Compared, now: datetime) -> bool:
    """Update a drift by the newest runs; return whether it changed. Its sizes are retained after a recovery."""
    evidence = {**drift.evidence, **_describe_evidence(compared)}
    if compared.comparison.is_back or compared.is_beyond:
        evidence["is_back"] = not compared.is_beyond
    state = drift.state
    if compared.is_beyond and len(compared.history.values) >= evidence["runs"] + CONFIRMED_AFTER_RUNS:
        state = ChangeState.CONFIRMED.value
    if state != drift.state:
        evidence["history"] = [*evidence["history"], {"state": state, "at": now.isoformat()}][-20:]
    return _save(drift, {**_list_columns(compared), "state": state, "evidence": evidence}, now)


def _update_earlier(
    drift: Change,
    values: NDArray[np.float64],
    from_at: datetime | None,
    *,
    smallest: float,
    now: datetime,
) -> bool:
    """Update a drift of an earlier level or baseline: withdraw it if its baseline was undone, and find its recovery."""
    evidence = {**drift.evidence, "continues": False}
    columns: dict[str, Any] = {"evidence": evidence}
    accepted = drift.evidence.get("accepted_from")
    newest = values[np.isfinite(values)][-BASELINE_RUNS_MINIMUM:]
    shift = drift.after_median - drift.before_median
    if accepted is not None:
        is_old = datetime.fromisoformat(accepted) != from_at
        if from_at is None or (is_old and drift.started_at > from_at):
            columns |= {"state": ChangeState.WITHDRAWN.value, "withdrawn_at": now}
    elif drift.incident and drift.incident.state != IncidentState.RESOLVED and len(newest) and shift:
        left = (float(np.median(newest)) - drift.before_median) / shift * abs(drift.relative)
        evidence["is_back"] = left < BACK_SHARE * smallest
    return _save(drift, columns, now)


def _save(drift: Change, columns: Mapping[str, Any], now: datetime) -> bool:
    """Save the columns; return whether any differs."""
    if all(getattr(drift, name) == value for name, value in columns.items()):
        return False
    for name, value in columns.items():
        setattr(drift, name, value)
    drift.updated_at = now
    drift.save(update_fields=[*columns, "updated_at"])
    return True


def _list_columns(compared: _Compared) -> dict[str, Any]:
    """Return start, levels and size of a drift by the names of the columns; none of a series that is back."""
    history, change = compared.history, compared.comparison.change
    if change is None:
        return {}
    now, shift, relative = change.drift.now, change.drift.shift, change.drift.shift.relative or 0.0
    return {
        "run_id": int(history.run_ids[change.first]),
        "started_at": compared.starts_at,
        "last_good_run_id": int(history.run_ids[change.first - 1]),
        "is_regression": (relative > 0) != history.is_rise_better,
        "before_median": change.before.median,
        "before_n": change.before.points,
        "before_spread": change.before.spread,
        "after_median": now.median,
        "after_n": now.points,
        "after_spread": now.spread,
        "relative": relative,
        "relative_low": shift.low,
        "relative_high": shift.high,
    }


def _describe_evidence(compared: _Compared) -> dict[str, Any]:
    """Return what was compared, and the slope.

    slope_per_day: relative, at a constant rate. newest_from: first run of the newest level. score: in standard errors.
    """
    history, change, slope = compared.history, compared.comparison.change, compared.slope
    evidence = {
        "slope_advantage": slope and round(slope.advantage, 1),
        "without_incidents": list(slope.without_incidents) if slope else [],
        "accepted_from": compared.accepted_from and compared.accepted_from.isoformat(),
        "compared_from": compared.compared_from.isoformat(),
        "points_from": compared.compared_from.isoformat(),
        "points_to": to_time(int(history.times[-1])).isoformat(),
        "continues": change is not None and change.continues,
    }
    if change is None:
        return evidence
    times = [to_time(int(at)) for at in history.times[[change.first, change.newest, -1]]]
    first_at, newest_at, last_at = (at.isoformat() for at in times)
    return evidence | {
        "slope_from": first_at,
        "slope_to": last_at if change.continues else newest_at,
        "newest_from": newest_at,
        "slope_per_day": _measure_slope(history, change),
        "is_clear": compared.score > CLEAR_SCORE,
        "score": round(compared.score, 2),
    }


def _measure_slope(history: MetricHistory, change: GradualChange) -> float | None:
    """Return the relative change a day from the level before to the end of the slope, or the middle of its newest runs.

    None if the sizes have no common rate, as of values of 0, or one of hours: more than e-fold a day.
    """
    end = (change.newest + len(history.times) - 1) // 2 if change.continues else change.newest
    days = (history.times[end] - history.times[change.first - 1]) / 86_400e6
    ratio = change.drift.now.median / change.before.median if change.before.median else 0.0
    if ratio <= 0 or days <= 0 or abs(math.log(ratio)) > days:
        return None
    return round(math.expm1(math.log(ratio) / days), 6)


def _read_compared(drift: Change) -> datetime:
    # Drifts from before levels were compared with their beginning have only a baseline.
    return datetime.fromisoformat(drift.evidence.get("compared_from") or drift.evidence["accepted_from"])
