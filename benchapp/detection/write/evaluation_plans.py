"""Which runs of a series are evaluated, and whether they were already: later, quiet runs extend its levels only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import Final

import numpy as np
from django.conf import settings
from django.db import connection
from django.db.models import Q

from benchapp.detection.rules.baselines import DRIFT_METHOD
from benchapp.detection.rules.evaluation_points import find_evaluation_points
from benchapp.detection.rules.repetitions import may_have_repetitions
from benchapp.detection.write.histories import WINDOW, Claimed, StoredHistory, to_microseconds
from benchapp.detection.write.metric import METHOD
from benchapp.detection.write.rows import MetricKey, StoredResult
from benchapp.models import METRIC_FIELDS, Change, ChangeState

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
    results: Mapping[MetricKey, StoredResult],
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
    results: Mapping[MetricKey, StoredResult],
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
        keys = [(series_id, metric) for metric in METRIC_FIELDS]
        known = (
            *(METHOD, DRIFT_METHOD, settings.DETECTION_SEASONS, METRIC_FIELDS, inputs.is_cut),
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
