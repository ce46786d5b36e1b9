"""Detection report of one metric of one series: the detection function itself, run on the stored measurements.

A dry run applies another policy: another threshold, another baseline, or an earlier time. It writes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db.models import Count, Q

from benchapp.analysis.detection.baselines import BASELINE_RUNS_MINIMUM, BaselineComparison
from benchapp.analysis.detection.suspicion_test import FAR_SPREADS
from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES, list_judged_metrics
from benchapp.models import Judgement, Measurement, Series
from benchapp.pipeline.detection.drift import compare_metric_to_baseline
from benchapp.pipeline.detection.histories import (
    WINDOW,
    StoredHistory,
    read_histories,
    to_microseconds,
    to_time,
)
from benchapp.pipeline.detection.metric import (
    METHOD,
    RUNS_MINIMUM,
    DetectedChange,
    MetricJudgement,
    judge_metric,
)
from benchapp.pipeline.detection.series import STATUSES, MetricHistory, select_metric

# Threshold of the search for changes below the policy's threshold.
_FINEST: Final = 0.01


class UnknownSeries(Exception):
    """The series does not exist."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of detection. smallest_change: relative threshold; baseline_from_at: earlier runs are ignored.

    until_at: runs from then on are ignored; None for now.
    """

    smallest_change: float
    baseline_from_at: datetime | None = None
    until_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A detected or suspected change, with its first run and the last good one."""

    found: DetectedChange
    at: datetime
    run_id: int
    last_good_run_id: int


@dataclass(frozen=True, slots=True)
class DetectionReport:
    """Inputs and results of detection for one metric of a series; values in the base unit, spreads relative.

    failed_count, excluded_count: measurements of the series that are not used. without_value_count: of those read.
    band: newer runs outside of it are suspected; None if the level is unknown. too_small: changes below the threshold.
    comparison: to the baseline; None without one, or with too few runs. why_not: reasons why changes are not reported.
    """

    series_id: int
    metric: str
    method: str
    policy: Policy
    is_dry_run: bool
    input: MetricHistory
    failed_count: int
    excluded_count: int
    without_value_count: int
    judgement: MetricJudgement
    band: tuple[float, float] | None
    changes: tuple[FoundChange, ...]
    too_small: tuple[FoundChange, ...]
    suspicion: FoundChange | None
    comparison: BaselineComparison | None
    why_not: tuple[str, ...]

    @property
    def status(self) -> str:
        """Return the detection status."""
        return STATUSES[self.judgement.state.state].value

    def list_inputs(self) -> list[dict[str, Any]]:
        """Return the valid runs, oldest first."""
        inputs = self.input
        rows = zip(inputs.run_ids.tolist(), inputs.times.tolist(), inputs.values.tolist(), strict=True)
        return [{"run": run, "started_at": to_time(at), "value": value} for run, at, value in rows]


def report_detection(
    series_id: int,
    metric: str,
    *,
    smallest_change: float | None = None,
    baseline_from_at: datetime | None = None,
    until_at: datetime | None = None,
) -> DetectionReport:
    """Return the detection report; given values replace those of the policy. Raises UnknownSeries.

    Four queries, one more with a baseline, and one for each maintenance window in its time.
    """
    series = Series.objects.filter(pk=series_id).values_list("block_size_bytes").first()
    if series is None:
        raise UnknownSeries(f"series {series_id} does not exist")
    pinned = Judgement.objects.filter(series_id=series_id, metric=metric).values_list(
        "baseline_from_at", flat=True
    )
    policy = Policy(
        smallest_change=SMALLEST_CHANGES[metric] if smallest_change is None else smallest_change,
        baseline_from_at=pinned.first() if baseline_from_at is None else baseline_from_at,
        until_at=until_at,
    )
    history = read_histories([series_id])[series_id]
    if until_at is not None:
        history = history.select(history.times < to_microseconds(until_at))
    inputs = select_metric(history, series_id, metric, baseline_from_at=policy.baseline_from_at)
    judged = judge_metric(inputs.values, smallest_change=policy.smallest_change)
    found = [_place(inputs, change) for change in judged.changes]
    counts = Measurement.objects.filter(series_id=series_id).aggregate(
        failed=Count("pk", filter=~Q(error=0)), excluded=Count("pk", filter=Q(is_excluded=True))
    )
    too_small = _find_too_small(inputs, judged, policy)
    is_read = _reaches(history, policy.baseline_from_at)
    comparison = (
        compare_metric_to_baseline(inputs, tolerated_change=policy.smallest_change) if is_read else None
    )
    return DetectionReport(
        series_id=series_id,
        metric=metric,
        method=METHOD,
        policy=policy,
        is_dry_run=any(given is not None for given in (smallest_change, baseline_from_at, until_at)),
        input=inputs,
        failed_count=counts["failed"],
        excluded_count=counts["excluded"],
        without_value_count=int(np.count_nonzero(~np.isfinite(history.values[metric]))),
        judgement=judged,
        band=_find_band(judged),
        changes=tuple(each for each in found if abs(each.found.relative) >= policy.smallest_change),
        too_small=too_small,
        suspicion=_place(inputs, judged.suspicion) if judged.suspicion else None,
        comparison=comparison,
        why_not=(
            *_list_reasons(judged, metric, policy, is_one_size=series[0] is not None),
            *_describe_missing_comparison(policy, comparison, is_read=is_read),
        ),
    )


def _reaches(history: StoredHistory, baseline_from_at: datetime | None) -> bool:
    """Return whether a baseline exists and its first runs are among those that are read."""
    if baseline_from_at is None:
        return False
    return not history.is_cut or to_microseconds(baseline_from_at) >= int(history.times[0])


def _find_too_small(
    inputs: MetricHistory, judged: MetricJudgement, policy: Policy
) -> tuple[FoundChange, ...]:
    finer = judge_metric(inputs.values, smallest_change=min(_FINEST, policy.smallest_change))
    return tuple(
        _place(inputs, change) for change in finer.changes if abs(change.relative) < policy.smallest_change
    )


def _place(inputs: MetricHistory, found: DetectedChange) -> FoundChange:
    return FoundChange(
        found=found,
        at=to_time(inputs.times[found.index]),
        run_id=int(inputs.run_ids[found.index]),
        last_good_run_id=int(inputs.run_ids[found.index - 1]),
    )


def _find_band(judged: MetricJudgement) -> tuple[float, float] | None:
    if judged.level is None or judged.profile.smallest_change is None:
        return None
    reach = FAR_SPREADS * judged.profile.spread * abs(judged.level)
    return judged.level - reach, judged.level + reach


def _list_reasons(
    judged: MetricJudgement, metric: str, policy: Policy, *, is_one_size: bool
) -> Iterator[str]:
    """Yield reasons why changes are not reported."""
    metrics = list_judged_metrics(has_one_block_size=is_one_size)
    if metric not in metrics:
        judged_ones = ", ".join(CATALOGUE[name].label for name in metrics)
        yield f"No detection in this metric of this series. Detected metrics: {judged_ones}."
    runs = len(judged.values)
    if runs < RUNS_MINIMUM:
        yield f"{runs} valid runs; detection starts at {RUNS_MINIMUM}."
        return
    smallest, wanted = judged.profile.smallest_change, policy.smallest_change
    if smallest is not None and smallest > wanted:
        yield (
            f"The noise is too high for the threshold of {wanted:.0%}: the smallest change detectable in five runs is"
            f" {smallest:.0%}.".replace("%", " %")
        )
    if policy.baseline_from_at is not None:
        yield f"Baseline accepted from {policy.baseline_from_at:%Y-%m-%d %H:%M} UTC; earlier runs are not compared."
    if runs >= WINDOW:
        yield f"Only the newest {WINDOW} runs are evaluated; earlier changes are kept as stored."


def _describe_missing_comparison(
    policy: Policy, comparison: BaselineComparison | None, *, is_read: bool
) -> Iterator[str]:
    """Yield the reason why there is no comparison to the baseline."""
    if policy.baseline_from_at is None or comparison is not None:
        return
    if is_read:
        yield f"Drift detection starts at {2 * BASELINE_RUNS_MINIMUM} runs of the baseline."
    else:
        yield f"No drift detection: the baseline begins before the newest {WINDOW} runs."
