"""Detection report of one metric of one series: the detection function itself, run on the stored measurements.

A dry run applies another policy: another threshold, another baseline, or an earlier time. It writes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import numpy as np
from django.db.models import Count, Q
from msgspec import Meta

from benchapp.catalog import Time
from benchapp.catalog.metrics import CATALOG, KIND_NAMES, format_count, format_percent, list_judged_metrics
from benchapp.detection.rules.baselines import DRIFT_RUNS_MINIMUM, BaselineComparison
from benchapp.detection.rules.evaluation_points import CalendarProfile
from benchapp.detection.rules.recovery import find_suspicion_band
from benchapp.detection.write.drift import compare_metric_to_baseline
from benchapp.detection.write.histories import (
    EVALUATION_WINDOW,
    WINDOW,
    StoredHistory,
    read_histories,
    to_microseconds,
    to_time,
)
from benchapp.detection.write.metric import (
    METHOD,
    RUNS_MINIMUM,
    DetectedChange,
    MetricResult,
    judge_metric,
)
from benchapp.detection.write.rows import read_results, read_usual_spreads
from benchapp.detection.write.series import (
    STATUSES,
    MetricHistory,
    plan_evaluation,
    read_watched,
    select_metric,
)
from benchapp.framework.times import format_moment
from benchapp.models import Measurement, Series
from benchapp.models.coverage import read_thresholds

# Threshold of the search for changes below the policy's threshold.
_FINEST: Final = 0.01


class UnknownSeries(Exception):
    """The series does not exist."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of detection. baseline_from_at: earlier runs are ignored.

    until_at: runs from then on are ignored; None for now.
    """

    smallest_change: Annotated[float, Meta(description="threshold, relative")]
    baseline_from_at: Time | None = None
    until_at: Time | None = None


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

    input: as measured, with quiet runs; evaluated: those of them that are evaluated, without calendar profiles.
    failed_count, excluded_count: measurements of the series that are not used. without_value_count: of those read.
    band: newer runs outside of it are suspected; None if the level is unknown. too_small: changes below the threshold.
    profiles: removed before detection. comparison: to the baseline; None without one, or with too few runs. why_not:
    reasons why changes are not reported.
    """

    series_id: int
    metric: str
    method: str
    policy: Policy
    is_dry_run: bool
    input: MetricHistory
    evaluated: MetricHistory
    failed_count: int
    excluded_count: int
    without_value_count: int
    profiles: tuple[CalendarProfile, ...]
    result: MetricResult
    band: tuple[float, float] | None
    changes: tuple[FoundChange, ...]
    too_small: tuple[FoundChange, ...]
    suspicion: FoundChange | None
    comparison: BaselineComparison | None
    why_not: tuple[str, ...]

    @property
    def status(self) -> str:
        """Return the detection status."""
        return STATUSES[self.result.state.state].value

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

    Six queries; more with policies, one more with a baseline, one of a young series, and one for each maintenance
    window in its time.
    """
    block_size = Series.objects.filter(pk=series_id).values_list("block_size_bytes").first()
    if block_size is None:
        raise UnknownSeries(f"series {series_id} does not exist")
    thresholds = read_thresholds([series_id])[series_id]
    results = {name: result for (_, name), result in read_results([series_id]).items()}
    policy = Policy(
        smallest_change=thresholds[metric] if smallest_change is None else smallest_change,
        baseline_from_at=baseline_from_at
        or (results[metric].baseline_from_at if metric in results else None),
        until_at=until_at,
    )
    history = read_histories([series_id], window=EVALUATION_WINDOW, until_at=policy.until_at)[series_id]
    metrics = list_judged_metrics(has_one_block_size=block_size[0] is not None)
    plan = plan_evaluation(
        history,
        metrics,
        smallest_changes=[thresholds[each] for each in metrics],
        watched=read_watched([series_id]).get(series_id, ()),
        evaluated_to={name: result.evaluated_to_at for name, result in results.items()},
    )
    history = plan.window
    measured = select_metric(
        plan.select_evaluated([metric])[metric], series_id, metric, baseline_from_at=policy.baseline_from_at
    )
    inputs = measured.without_seasons()
    usual_spread = _read_usual_spread(history, series_id, metric)
    judged = judge_metric(inputs.values, smallest_change=policy.smallest_change, usual_spread=usual_spread)
    has_baseline_runs = _has_baseline_runs(history, policy)
    comparison = (
        compare_metric_to_baseline(measured, tolerated_change=policy.smallest_change)
        if has_baseline_runs
        else None
    )
    counts = Measurement.objects.filter(series_id=series_id).aggregate(
        failed=Count("pk", filter=~Q(error=0)), excluded=Count("pk", filter=Q(is_excluded=True))
    )
    return DetectionReport(
        series_id=series_id,
        metric=metric,
        method=METHOD,
        policy=policy,
        is_dry_run=any(given is not None for given in (smallest_change, baseline_from_at, until_at)),
        input=select_metric(history, series_id, metric, baseline_from_at=policy.baseline_from_at),
        evaluated=inputs,
        failed_count=counts["failed"],
        excluded_count=counts["excluded"],
        without_value_count=int(np.count_nonzero(~np.isfinite(history.values[metric])))
        - history.count_other_kind(metric),
        profiles=inputs.profiles,
        result=judged,
        band=find_suspicion_band(
            judged.values.tolist(), [judged.level_start], least_relative_change=policy.smallest_change
        ),
        changes=tuple(
            _add_runs(inputs, change)
            for change in judged.changes
            if abs(change.relative) >= policy.smallest_change
        ),
        too_small=tuple(
            _add_runs(inputs, change) for change in _find_too_small(inputs, policy, usual_spread)
        ),
        suspicion=_add_runs(inputs, judged.suspicion) if judged.suspicion else None,
        comparison=comparison,
        why_not=(
            *_list_reasons(judged, metric, policy, has_one_block_size=block_size[0] is not None),
            *_describe_other_kinds(history, metric),
            *_describe_quiet_runs(len(plan.history.times) - plan.ends.get(metric, plan.end)),
            *_describe_repetitions(inputs),
            *_describe_missing_comparison(policy, comparison, has_baseline_runs=has_baseline_runs),
        ),
    )


def _read_usual_spread(history: StoredHistory, series_id: int, metric: str) -> float | None:
    return read_usual_spreads([series_id])[series_id, metric] if history.is_young else None


def _has_baseline_runs(history: StoredHistory, policy: Policy) -> bool:
    """Return whether a baseline exists and its first runs are among those that are read."""
    if policy.baseline_from_at is None:
        return False
    return not history.is_cut or to_microseconds(policy.baseline_from_at) >= int(history.times[0])


def _find_too_small(
    inputs: MetricHistory, policy: Policy, usual_spread: float | None
) -> list[DetectedChange]:
    """Return changes that only a lower threshold detects."""
    finer = judge_metric(
        inputs.values,
        smallest_change=min(_FINEST, policy.smallest_change),
        usual_spread=usual_spread,
    )
    return [change for change in finer.changes if abs(change.relative) < policy.smallest_change]


def _add_runs(inputs: MetricHistory, detected: DetectedChange) -> FoundChange:
    return FoundChange(
        found=detected,
        at=to_time(inputs.times[detected.index]),
        run_id=int(inputs.run_ids[detected.index]),
        last_good_run_id=int(inputs.run_ids[detected.index - 1]),
    )


def _list_reasons(
    judged: MetricResult, metric: str, policy: Policy, *, has_one_block_size: bool
) -> Iterator[str]:
    """Yield reasons why changes are not reported."""
    metrics = list_judged_metrics(has_one_block_size=has_one_block_size)
    if metric not in metrics:
        labels = ", ".join(CATALOG[name].label for name in metrics)
        yield f"No detection in this metric of this series. Detected metrics: {labels}."
    runs = len(judged.values)
    if runs < RUNS_MINIMUM:
        yield f"{format_count(RUNS_MINIMUM - runs, 'more valid run')} needed: detection starts at {RUNS_MINIMUM}."
        return
    smallest, wanted = judged.profile.smallest_change, policy.smallest_change
    if smallest is not None and smallest > wanted:
        yield (
            f"The noise is too high for the threshold of {format_percent(wanted)}: the smallest change detectable in"
            f" five runs is {format_percent(smallest)}."
        )
    if policy.baseline_from_at is not None:
        yield f"Baseline accepted from {format_moment(policy.baseline_from_at)}; earlier runs are not compared."
    if runs >= WINDOW:
        yield f"Only the newest {WINDOW} runs are evaluated; earlier changes are kept as stored."


def _describe_quiet_runs(runs: int) -> Iterator[str]:
    if runs:
        since = "The newest run is" if runs == 1 else f"The newest {runs} runs are"
        yield f"{since} quiet: not evaluated, because no window of runs that ends there is far from those before it."


def _describe_other_kinds(history: StoredHistory, metric: str) -> Iterator[str]:
    if count := history.count_other_kind(metric):
        kind = history.kinds[metric]
        (other,) = KIND_NAMES.keys() - {kind}
        yield (
            f"The values are {KIND_NAMES[kind]}, as in the newest run: {format_count(count, 'run')} with"
            f" {KIND_NAMES[other]} {'is' if count == 1 else 'are'} not compared."
        )


def _describe_repetitions(inputs: MetricHistory) -> Iterator[str]:
    if inputs.merged_runs:
        yield (
            f"Repetitions: {inputs.merged_runs} runs in {len(inputs.values)} groups. Runs of a group differ little,"
            " groups differ; each group counts as one value, its median."
        )


def _describe_missing_comparison(
    policy: Policy, comparison: BaselineComparison | None, *, has_baseline_runs: bool
) -> Iterator[str]:
    """Yield the reason why there is no comparison to the baseline."""
    if policy.baseline_from_at is None or comparison is not None:
        return
    if has_baseline_runs:
        yield f"Drift detection starts at {DRIFT_RUNS_MINIMUM} runs of the baseline."
    else:
        yield f"No drift detection: the baseline begins before the newest {WINDOW} runs."
