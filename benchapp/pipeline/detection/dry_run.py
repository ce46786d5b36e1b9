"""Explain what the judge says of one metric of one series, by the very function that judges, on what is stored.

A dry run asks with another policy: another smallest change, another baseline, or as of an earlier moment. It writes
nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db.models import Count, Q

from benchapp.analysis.detection.baselines import LEAST_ACCEPTED_RUNS, BaselineComparison
from benchapp.analysis.detection.suspicion_test import FAR_SPREADS
from benchapp.metrics import CATALOGUE, SMALLEST_CHANGES, list_judged_metrics
from benchapp.models import Judgement, Measurement, Series
from benchapp.pipeline.detection.drift import hold_metric
from benchapp.pipeline.detection.histories import (
    WINDOW,
    StoredHistory,
    read_histories,
    to_microseconds,
    to_time,
)
from benchapp.pipeline.detection.metric import (
    LEAST_RUNS,
    METHOD,
    DetectedChange,
    MetricJudgement,
    judge_metric,
)
from benchapp.pipeline.detection.series import STATUSES, SeriesMetric, cut_metric

# What is looked for beside the policy, to say what is there and too small.
_FINEST: Final = 0.01


class UnknownSeries(Exception):
    """A series that there is not."""


@dataclass(frozen=True, slots=True)
class Policy:
    """By what it is judged. smallest_change: the relative one worth saying; baseline_from_at: nothing before counts.

    until_at: as if nothing had come from then on; None for now.
    """

    smallest_change: float
    baseline_from_at: datetime | None = None
    until_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FoundChange:
    """A new level, or the suspicion of one, with the runs on both sides of where it begins."""

    found: DetectedChange
    at: datetime
    run_id: int
    last_good_run_id: int


@dataclass(frozen=True, slots=True)
class SeriesExplanation:
    """What is said of one metric of a series, and from what; values in the base unit, spreads relative.

    failed_count, excluded_count: measurements of the series that count in nothing. without_value_count: of those read.
    band: beyond it the newest runs are suspected; None where the level is not known. too_small: found, and below the
    smallest change. held: against the accepted level; None without one, or too few runs. why_not: sentences on what is
    not said.
    """

    series_id: int
    metric: str
    method: str
    policy: Policy
    is_dry_run: bool
    input: SeriesMetric
    failed_count: int
    excluded_count: int
    without_value_count: int
    judgement: MetricJudgement
    band: tuple[float, float] | None
    changes: tuple[FoundChange, ...]
    too_small: tuple[FoundChange, ...]
    suspicion: FoundChange | None
    held: BaselineComparison | None
    why_not: tuple[str, ...]

    @property
    def status(self) -> str:
        """Return the detection status."""
        return STATUSES[self.judgement.state.state].value

    def list_inputs(self) -> list[dict[str, Any]]:
        """Return the runs that it was judged by, oldest first."""
        cut = self.input
        rows = zip(cut.run_ids.tolist(), cut.times.tolist(), cut.values.tolist(), strict=True)
        return [{"run": run, "started_at": to_time(at), "value": value} for run, at, value in rows]


def explain_series(
    series_id: int,
    metric: str,
    *,
    smallest_change: float | None = None,
    baseline_from_at: datetime | None = None,
    until_at: datetime | None = None,
) -> SeriesExplanation:
    """Return why the judge says what it says; what is given takes the place of the policy's own. Raises UnknownSeries.

    Four queries, one more where a level is accepted, and one for each maintenance in its time.
    """
    series = Series.objects.filter(pk=series_id).values_list("block_size_bytes").first()
    if series is None:
        raise UnknownSeries(f"there is no series {series_id}")
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
        history = history.keep(history.times < to_microseconds(until_at))
    cut = cut_metric(history, series_id, metric, baseline_from_at=policy.baseline_from_at)
    judged = judge_metric(cut.values, smallest_change=policy.smallest_change)
    found = [_place(cut, change) for change in judged.changes]
    counts = Measurement.objects.filter(series_id=series_id).aggregate(
        failed=Count("pk", filter=~Q(error=0)), excluded=Count("pk", filter=Q(is_excluded=True))
    )
    too_small = _find_too_small(cut, judged, policy)
    is_read = _reaches(history, policy.baseline_from_at)
    held = hold_metric(cut, tolerated_change=policy.smallest_change) if is_read else None
    return SeriesExplanation(
        series_id=series_id,
        metric=metric,
        method=METHOD,
        policy=policy,
        is_dry_run=any(given is not None for given in (smallest_change, baseline_from_at, until_at)),
        input=cut,
        failed_count=counts["failed"],
        excluded_count=counts["excluded"],
        without_value_count=int(np.count_nonzero(~np.isfinite(history.values[metric]))),
        judgement=judged,
        band=_find_band(judged),
        changes=tuple(each for each in found if abs(each.found.relative) >= policy.smallest_change),
        too_small=too_small,
        suspicion=_place(cut, judged.suspicion) if judged.suspicion else None,
        held=held,
        why_not=(
            *_say_why_not(judged, metric, policy, is_one_size=series[0] is not None),
            *_say_not_held(policy, held, is_read=is_read),
        ),
    )


def _reaches(history: StoredHistory, baseline_from_at: datetime | None) -> bool:
    """Say whether a level was accepted, and its first runs are among those that are read."""
    if baseline_from_at is None:
        return False
    return not history.is_cut or to_microseconds(baseline_from_at) >= int(history.times[0])


def _find_too_small(cut: SeriesMetric, judged: MetricJudgement, policy: Policy) -> tuple[FoundChange, ...]:
    finer = judge_metric(cut.values, smallest_change=min(_FINEST, policy.smallest_change))
    return tuple(
        _place(cut, change) for change in finer.changes if abs(change.relative) < policy.smallest_change
    )


def _place(cut: SeriesMetric, found: DetectedChange) -> FoundChange:
    return FoundChange(
        found=found,
        at=to_time(cut.times[found.index]),
        run_id=int(cut.run_ids[found.index]),
        last_good_run_id=int(cut.run_ids[found.index - 1]),
    )


def _find_band(judged: MetricJudgement) -> tuple[float, float] | None:
    if judged.level is None or judged.profile.smallest_change is None:
        return None
    reach = FAR_SPREADS * judged.profile.spread * abs(judged.level)
    return judged.level - reach, judged.level + reach


def _say_why_not(judged: MetricJudgement, metric: str, policy: Policy, *, is_one_size: bool) -> Iterator[str]:
    """Say what keeps changes from being said."""
    metrics = list_judged_metrics(has_one_block_size=is_one_size)
    if metric not in metrics:
        judged_ones = ", ".join(CATALOGUE[name].label for name in metrics)
        yield f"Changes are not looked for in this metric of this series; they are in {judged_ones}."
    runs = len(judged.values)
    if runs < LEAST_RUNS:
        yield f"{runs} runs count; a series is judged from {LEAST_RUNS} on."
        return
    smallest, wanted = judged.profile.smallest_change, policy.smallest_change
    if smallest is not None and smallest > wanted:
        yield (
            f"Its runs are too rough for the change that is worth saying ({wanted:.0%}): five new runs show one of"
            f" {smallest:.0%} or more.".replace("%", " %")
        )
    if policy.baseline_from_at is not None:
        yield f"A level was accepted: nothing before {policy.baseline_from_at:%Y-%m-%d %H:%M} UTC is compared."
    if runs >= WINDOW:
        yield f"Only the newest {WINDOW} runs are judged; what was found before stays as it is."


def _say_not_held(policy: Policy, held: BaselineComparison | None, *, is_read: bool) -> Iterator[str]:
    """Say why nothing is held against the level that was accepted."""
    if policy.baseline_from_at is None or held is not None:
        return
    if is_read:
        yield f"Drift from the accepted level is looked for from {2 * LEAST_ACCEPTED_RUNS} runs on."
    else:
        yield f"The level was accepted before the newest {WINDOW} runs: drift from it is not looked for any more."
