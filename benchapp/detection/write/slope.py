"""The part of a history that may be a slope across steps of one direction, without the steps of several hosts.

A gradual change is also detected as several steps, at other runs in each series and metric. A level that begins with
each of them shows no drift. Therefore the values are compared across those steps if a slope explains them better.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from benchapp.detection.rules.slope import DetectedStep, find_slope
from benchapp.detection.write.histories import to_microseconds
from benchapp.detection.write.series import MetricHistory
from benchapp.models import Change

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
