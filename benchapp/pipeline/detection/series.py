"""Detection for one series: from history and stored rows to the rows to write. Plain values in and out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchapp.analysis.detection.noise_profile import SeriesState
from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES
from benchapp.models import ChangeState, DetectionStatus
from benchapp.pipeline.detection.histories import StoredHistory, to_microseconds, to_time
from benchapp.pipeline.detection.metric import METHOD, DetectedChange, MetricJudgement, is_back, judge_metric
from benchapp.pipeline.detection.reconcile import (
    Decision,
    StoredChange,
    find_retained,
    list_ended,
    list_reported_changes,
    read_levels,
    reconcile,
)
from benchapp.pipeline.detection.rows import Row

# Runs at the start of a cut history that are not evaluated, because earlier runs are not read.
_MARGIN: Final = 128
# Runs around a change for the usual interval.
_INTERVAL_RUNS: Final = 30
STATUSES: Final = {
    SeriesState.LEARNING: DetectionStatus.LEARNING,
    SeriesState.TOO_NOISY: DetectionStatus.NOISY,
    SeriesState.STEADY: DetectionStatus.STEADY,
    SeriesState.STALE: DetectionStatus.STALE,
}


@dataclass(frozen=True, slots=True)
class SeriesMetric:
    """One metric of one series: its finite values from the accepted baseline on, oldest first.

    reach_from: rows before this time (µs since 2000) are not changed.
    """

    series_id: int
    metric: str
    times: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    values: NDArray[np.float64]
    reach_from: int


@dataclass(frozen=True, slots=True)
class SeriesOutcome:
    """The rows of one metric of one series: changes to update and to insert, and the detection status."""

    updates: tuple[Row, ...]
    inserts: tuple[Row, ...]
    judgement: Row | None


def cut_metric(
    history: StoredHistory, series_id: int, metric: str, *, baseline_from_at: datetime | None
) -> SeriesMetric:
    """Return the finite values of a metric from its baseline on."""
    values = history.values[metric]
    is_valid = np.isfinite(values)
    reach_from = np.iinfo(np.int64).min
    if baseline_from_at is not None:
        is_valid &= history.times >= to_microseconds(baseline_from_at)
        # The change to the baseline itself is not updated.
        reach_from = to_microseconds(baseline_from_at) + 1
    times = history.times[is_valid]
    if history.is_cut and len(times):
        reach_from = max(reach_from, int(times[min(_MARGIN, len(times) - 1)]))
    return SeriesMetric(
        series_id, metric, times, history.run_ids[is_valid], values[is_valid], int(reach_from)
    )


def judge_series_metric(cut: SeriesMetric, rows: Sequence[Row], *, now: datetime) -> SeriesOutcome:
    """Return the rows after an evaluation of the values, given the stored rows."""
    smallest = SMALLEST_CHANGES[cut.metric]
    reached = {row["id"]: row for row in rows if to_microseconds(row["started_at"]) >= cut.reach_from}
    if not len(cut.values) and not reached:
        return SeriesOutcome((), (), None)
    known = [_place(cut, row) for row in reached.values()]
    confirmed = [(row.index, row.is_rise) for row in known if row.state == ChangeState.CONFIRMED]
    judged = judge_metric(cut.values, smallest_change=smallest, confirmed=confirmed)
    changes = _list_reportable(cut, judged, known, smallest)
    reported = list_reported_changes(known, reached)
    changes += list_ended(cut.values, changes, reported, reached, smallest_change=smallest)
    retained = find_retained(cut.values, changes, reported, reached)
    decisions = reconcile(known, changes, judged.suspicion, runs=len(cut.values), retained=retained)
    updates, inserts = [], []
    for decision in decisions:
        row = _make_row(cut, reached.get(decision.change_id or 0), decision, now=now)
        if decision.change_id is None:
            inserts.append(row)
        elif _differs(row, reached[decision.change_id]):
            updates.append(row)
    updates, inserts = _settle_collisions(updates, inserts, reached)
    return SeriesOutcome(tuple(updates), tuple(inserts), _describe_judgement(cut, judged, now))


def _place(cut: SeriesMetric, row: Row) -> StoredChange:
    at = to_microseconds(row["started_at"])
    # If its run is deleted (null) or excluded, use the position by time.
    places = np.flatnonzero(cut.run_ids == (row["run_id"] or 0))
    nearest = int(np.argmin(np.abs(cut.times[places] - at))) if places.size else 0
    index = int(places[nearest]) if places.size else int(np.searchsorted(cut.times, at))
    return StoredChange(row["id"], ChangeState(row["state"]), index, at, row["relative"] > 0)


def _list_reportable(
    cut: SeriesMetric, judged: MetricJudgement, known: Sequence[StoredChange], smallest: float
) -> list[DetectedChange]:
    """Return detected changes within reach that exceed the threshold, or are stored already.

    A stored change may become slightly smaller than the threshold without being withdrawn.
    """
    live_ids = {row.change_id for row in known if row.state != ChangeState.WITHDRAWN}
    reportable: list[DetectedChange] = []
    for found in judged.changes:
        near = [row for row in known if row.change_id in live_ids and abs(row.index - found.index) <= 1]
        is_taken = any(cut.times[other.index] == cut.times[found.index] for other in reportable)
        is_reached = cut.times[found.index] >= cut.reach_from
        if is_reached and not is_taken and (abs(found.relative) >= smallest or near):
            reportable.append(found)
    return reportable


def _make_row(cut: SeriesMetric, before: Row | None, decision: Decision, *, now: datetime) -> Row:
    row: Row = dict(before) if before else {"series_id": cut.series_id, "metric": cut.metric, "found_at": now}
    row |= {"state": decision.state.value, "updated_at": now}
    if decision.found is not None:
        row |= _describe_found(cut, decision.found)
    row["withdrawn_at"] = None
    if decision.state == ChangeState.WITHDRAWN:
        row["withdrawn_at"] = (before or {}).get("withdrawn_at") or now
    evidence = {**(before or {}).get("evidence", {}), **row["evidence"]}
    if before is None or before["state"] != decision.state:
        evidence["history"] = [
            *evidence.get("history", []),
            {"state": decision.state.value, "at": now.isoformat()},
        ][-20:]
    evidence["is_back"] = _is_back(cut, row, was_back=bool(evidence.get("is_back")))
    return row | {"evidence": evidence}


def describe_levels(found: DetectedChange) -> Row:
    """Return levels, size, interval and confidence of a change by the names of the columns of `Change`."""
    return {
        "before_median": found.before.median,
        "before_n": found.before.points,
        "before_spread": found.before.spread,
        "after_median": found.after.median,
        "after_n": found.after.points,
        "after_spread": found.after.spread,
        "relative": found.relative,
        "relative_low": found.low,
        "relative_high": found.high,
        "confidence": 1 - found.chance,
    }


def _describe_found(cut: SeriesMetric, found: DetectedChange) -> Row:
    first, end = found.index - found.before.points, found.index + found.after.points
    is_rise_better = CATALOGUE[cut.metric].better == "higher"
    return {
        "run_id": int(cut.run_ids[found.index]),
        "started_at": to_time(cut.times[found.index]),
        "last_good_run_id": int(cut.run_ids[found.index - 1]),
        "is_regression": found.is_rise != is_rise_better,
        **describe_levels(found),
        "method": METHOD,
        "evidence": {
            "chance": found.chance,
            "t_score": found.t_score,
            "rank_score": found.rank_score,
            "correlation": found.correlation,
            "interval_s": _measure_interval(cut, found.index),
            "points_from": to_time(cut.times[max(first, 0)]).isoformat(),
            "points_to": to_time(cut.times[min(end, len(cut.times)) - 1]).isoformat(),
        },
    }


def _measure_interval(cut: SeriesMetric, index: int) -> float:
    """Return the usual interval of runs around an index, in s."""
    around = cut.times[max(index - _INTERVAL_RUNS, 0) : index + _INTERVAL_RUNS]
    return round(float(np.median(np.diff(around))) / 1e6, 3) if len(around) > 1 else 0.0


def _is_back(cut: SeriesMetric, row: Row, *, was_back: bool) -> bool:
    index = int(np.searchsorted(cut.times, to_microseconds(row["started_at"])))
    before, after = read_levels(row)
    return is_back(cut.values, index, before=before, after=after, was_back=was_back)


def _differs(row: Row, before: Row) -> bool:
    return any(row[name] != before[name] for name in row if name != "updated_at")


def _settle_collisions(
    updates: Sequence[Row], inserts: Sequence[Row], reached: Mapping[int, Row]
) -> tuple[list[Row], list[Row]]:
    """Keep live rows unique by start, also during writing.

    A row that is not updated is withdrawn if another one takes its start. A row that takes the start of one that is
    updated in the same evaluation (a change that reverses within 5 runs) is withdrawn and inserted again.
    """
    rows = {row["id"]: row for row in updates}
    live = {row["started_at"]: row["id"] for row in reached.values() if row["state"] != ChangeState.WITHDRAWN}
    made = list(inserts)
    for row in [*updates, *inserts]:
        owner = live.get(row["started_at"])
        if row["state"] == ChangeState.WITHDRAWN or owner in (None, row.get("id")):
            continue
        of_owner = rows.get(owner, reached[owner])
        if of_owner["state"] == ChangeState.WITHDRAWN:
            continue
        if of_owner["started_at"] == row["started_at"]:
            rows[owner] = _withdraw(of_owner, row["updated_at"])
        elif "id" in row:
            made.append({name: value for name, value in row.items() if name not in ("id", "incident_id")})
            rows[row["id"]] = _withdraw(reached[row["id"]], row["updated_at"])
    return list(rows.values()), made


def _withdraw(row: Row, now: datetime) -> Row:
    return row | {"state": ChangeState.WITHDRAWN.value, "updated_at": now, "withdrawn_at": now}


def _describe_judgement(cut: SeriesMetric, judged: MetricJudgement, now: datetime) -> Row | None:
    if not len(cut.values):
        return None
    return {
        "series_id": cut.series_id,
        "metric": cut.metric,
        "standing": STATUSES[judged.state.state].value,
        "n": len(cut.values),
        "level": judged.level,
        "spread": judged.profile.spread,
        "least_change": judged.profile.smallest_change,
        "runs_needed": judged.state.runs_needed,
        "method": METHOD,
        "judged_at": now,
    }
