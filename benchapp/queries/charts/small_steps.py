"""Steps of a series below the reporting threshold: shown on its page only, as they are no changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from benchapp.analysis.changepoints.v1 import change_indices
from benchapp.metrics import SMALLEST_CHANGES
from benchapp.queries.charts.downsampling import from_us, read_columns, to_us
from benchapp.queries.series.levels import LevelRow
from benchapp.queries.series_versions import VersionedCache

# Of one series, the newest: finding the steps of as many takes 0.15 s, once after each new run.
POINTS_MAXIMUM: Final = 20_000
# Runs within which a step is that of a stored change.
_SAME_STEP_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class SmallStep:
    """A step below the threshold. at: its first run; relative: median after / before − 1."""

    at: datetime
    relative: float


def read_small_steps(
    versions: Mapping[int, str], series_id: int, metric: str, *, levels: Sequence[LevelRow]
) -> tuple[SmallStep, ...]:
    """Return the steps of a metric, oldest first; one query, none if they are cached.

    versions: as `read_series_versions` returns them. levels: those of the metric, whose starts are stored changes. None
    for a metric without a threshold.
    """
    if metric not in SMALLEST_CHANGES or series_id not in versions:
        return ()
    starts = tuple(to_us(level.from_at) for level in levels[1:])

    def load(ids: list[int]) -> dict[int, tuple[SmallStep, ...]]:
        return {series_id: _find_steps(series_id, metric, starts)}

    return _CACHE.read({series_id: versions[series_id]}, (metric, starts), load=load)[series_id]


def _find_steps(series_id: int, metric: str, starts: Sequence[int]) -> tuple[SmallStep, ...]:
    points = read_columns([series_id], metrics=[metric], newest=POINTS_MAXIMUM)[series_id].points
    known = np.flatnonzero(points.counts & ~np.isnan(points.values[metric]))
    values, times = points.values[metric][known], points.at_us[known]
    stored = np.searchsorted(times, starts)
    indices = change_indices(values)
    steps = []
    for first, index, end in zip((0, *indices), indices, (*indices[1:], len(values)), strict=False):
        before, after = float(np.median(values[first:index])), float(np.median(values[index:end]))
        relative = after / before - 1 if before else 0.0
        is_stored = bool((np.abs(stored - index) <= _SAME_STEP_RUNS).any())
        if not is_stored and 0 < abs(relative) < SMALLEST_CHANGES[metric]:
            steps.append(SmallStep(from_us(times[index]), relative))
    return tuple(steps)


_CACHE: Final = VersionedCache[tuple[SmallStep, ...]](2048)
