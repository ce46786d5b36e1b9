"""Judge one series: from its history and the rows there are to the rows that are to be. Plain values in and out."""

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

# Of a history that was cut the first runs prove nothing: what was before them is not read.
_MARGIN: Final = 128
# Newest runs whose usual distance is that of the series.
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

    reach_from: before this moment (µs since 2000) rows stay as they are.
    """

    series_id: int
    metric: str
    times: NDArray[np.int64]
    run_ids: NDArray[np.int64]
    values: NDArray[np.float64]
    reach_from: int


@dataclass(frozen=True, slots=True)
class SeriesOutcome:
    """The rows of one metric of one series: changes to update, changes to insert, and where its judging stands."""

    updates: tuple[Row, ...]
    inserts: tuple[Row, ...]
    judgement: Row | None


def cut_metric(
    history: StoredHistory, series_id: int, metric: str, *, baseline_from_at: datetime | None
) -> SeriesMetric:
    """Return the values of a metric that count."""
    values = history.values[metric]
    kept = np.isfinite(values)
    reach_from = np.iinfo(np.int64).min
    if baseline_from_at is not None:
        kept &= history.times >= to_microseconds(baseline_from_at)
        # The change to the accepted level itself stays as it was found.
        reach_from = to_microseconds(baseline_from_at) + 1
    times = history.times[kept]
    if history.is_cut and len(times):
        reach_from = max(reach_from, int(times[min(_MARGIN, len(times) - 1)]))
    return SeriesMetric(series_id, metric, times, history.run_ids[kept], values[kept], int(reach_from))


def judge_series_metric(cut: SeriesMetric, rows: Sequence[Row], *, now: datetime) -> SeriesOutcome:
    """Return the rows after a look at the values, given those before it."""
    smallest = SMALLEST_CHANGES[cut.metric]
    reached = {row["id"]: row for row in rows if to_microseconds(row["started_at"]) >= cut.reach_from}
    if not len(cut.values) and not reached:
        return SeriesOutcome((), (), None)
    known = [_place(cut, row) for row in reached.values()]
    confirmed = [(row.index, row.is_rise) for row in known if row.state == ChangeState.CONFIRMED]
    judged = judge_metric(cut.values, smallest_change=smallest, confirmed=confirmed)
    changes = _list_worth_saying(cut, judged, known, smallest)
    said = list_reported_changes(known, reached)
    changes += list_ended(cut.values, changes, said, reached, smallest_change=smallest)
    standing = find_retained(cut.values, changes, said, reached)
    decisions = reconcile(known, changes, judged.suspicion, runs=len(cut.values), standing=standing)
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
    # Its run may be gone (null equals none) or excluded: then where it would be.
    places = np.flatnonzero(cut.run_ids == (row["run_id"] or 0))
    nearest = int(np.argmin(np.abs(cut.times[places] - at))) if places.size else 0
    index = int(places[nearest]) if places.size else int(np.searchsorted(cut.times, at))
    return StoredChange(row["id"], ChangeState(row["state"]), index, at, row["relative"] > 0)


def _list_worth_saying(
    cut: SeriesMetric, judged: MetricJudgement, known: Sequence[StoredChange], smallest: float
) -> list[DetectedChange]:
    """Leave out what begins where rows are out of reach, and what is new and too small to be said.

    A change that was said before may come out a little smaller: it is not taken back for that.
    """
    said = {row.change_id for row in known if row.state != ChangeState.WITHDRAWN}
    kept: list[DetectedChange] = []
    for found in judged.changes:
        near = [row for row in known if row.change_id in said and abs(row.index - found.index) <= 1]
        is_taken = any(cut.times[other.index] == cut.times[found.index] for other in kept)
        is_reached = cut.times[found.index] >= cut.reach_from
        if is_reached and not is_taken and (abs(found.relative) >= smallest or near):
            kept.append(found)
    return kept


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
    """Return both levels of a change, its size with interval, and how sure it is, by the names of Change's columns."""
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
    """Return the usual distance of runs around a place, in s."""
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
    """Have one live row a moment, in an order of writing that never has two.

    A row that waits is withdrawn for one that is found at its moment. One that would move onto the moment of another
    that moves away in the same look (a change that turns round within 5 runs) is withdrawn and made anew.
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
