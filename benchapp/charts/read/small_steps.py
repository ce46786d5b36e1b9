"""Steps of series below the reporting threshold: histories show them, they are not reported as changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.charts.read.downsampling import from_us, read_columns, to_us
from benchapp.charts.rules.downsampling import SampledPoints
from benchapp.detection.changepoints.detector import change_indices
from benchapp.framework.read.result_cache import read_versioned
from benchapp.models.coverage import read_thresholds
from benchapp.series.read.levels import LevelRow

# Of all series of a chart together: finding the steps of as many takes 0.15 s, once after each new run.
POINTS_MAXIMUM: Final = 20_000
# Runs within which a step is that of a stored change.
_SAME_STEP_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class SmallStep:
    """A step below the threshold, in the base unit of the metric."""

    at: Annotated[datetime, Meta(tz=True, description="first run of the step")]
    relative: Annotated[float, Meta(description="after / before − 1")]
    before: Annotated[float, Meta(description="median of the runs since the last step, in the base unit")]
    after: Annotated[float, Meta(description="median of the runs until the next step")]
    from_at: Annotated[datetime, Meta(tz=True, description="first run of these")]
    to_at: Annotated[datetime, Meta(tz=True, description="first run of the next step, or the last run")]
    threshold: Annotated[float, Meta(description="reporting threshold of the series, relative")]


def read_small_steps(
    versions: Mapping[int, str], metric: str, *, levels: Mapping[int, Sequence[LevelRow]]
) -> dict[int, tuple[SmallStep, ...]]:
    """Return the steps of a metric, oldest first, of each series; queries as of `read_thresholds`, and one more if
    they are not cached.

    versions: as `read_series_versions` returns them. levels: those of the metric, whose starts are stored changes. Of
    each series its newest runs are read, 20 000 of all together. None for a metric without a threshold.
    """
    if metric not in SMALLEST_CHANGES or not versions:
        return dict.fromkeys(versions, ())
    newest = POINTS_MAXIMUM // len(versions)
    thresholds = {series_id: of[metric] for series_id, of in read_thresholds(list(versions)).items()}
    starts = {
        series_id: tuple(to_us(level.from_at) for level in levels[series_id][1:]) for series_id in versions
    }

    def load() -> dict[int, tuple[SmallStep, ...]]:
        columns = read_columns(list(versions), metrics=[metric], newest=newest)
        return {
            series_id: _find_steps(
                columns[series_id].points, metric, starts[series_id], threshold=thresholds[series_id]
            )
            for series_id in versions
        }

    return read_versioned("small steps", metric, versions, starts, thresholds, load=load)


def _find_steps(
    points: SampledPoints, metric: str, starts: Sequence[int], *, threshold: float
) -> tuple[SmallStep, ...]:
    known = np.flatnonzero(points.counts & ~np.isnan(points.values[metric]))
    values, times = points.values[metric][known], points.at_us[known]
    stored = np.searchsorted(times, starts)
    indices = change_indices(values)
    steps = []
    for first, index, end in zip((0, *indices), indices, (*indices[1:], len(values)), strict=False):
        before, after = float(np.median(values[first:index])), float(np.median(values[index:end]))
        relative = after / before - 1 if before else 0.0
        is_stored = bool((np.abs(stored - index) <= _SAME_STEP_RUNS).any())
        if not is_stored and 0 < abs(relative) < threshold:
            steps.append(
                SmallStep(
                    at=from_us(times[index]),
                    relative=relative,
                    before=before,
                    after=after,
                    from_at=from_us(times[first]),
                    to_at=from_us(times[min(end, len(values) - 1)]),
                    threshold=threshold,
                )
            )
    return tuple(steps)
