"""Levels of a series: start, median and spread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from benchapp.analysis.changepoints.v1 import change_indices
from benchapp.analysis.charts.downsampling import SampledPoints
from benchapp.analysis.charts.segments import cut_segments
from benchapp.queries.charts.downsampling import from_us, read_columns
from benchapp.queries.series_versions import VersionedCache

# Of one series, the newest: finding the changes of as many takes 0.15 s, once after each new run.
POINTS_MAXIMUM: Final = 20_000


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One level of one metric: its median and spread in the base unit, from its first run to its last."""

    from_at: datetime
    to_at: datetime
    first_run_id: int
    n: int
    median: float
    p10: float
    p90: float


def read_levels(
    versions: Mapping[int, str], *, metrics: Sequence[str]
) -> dict[int, Mapping[str, tuple[LevelRow, ...]]]:
    """Return the levels of each metric over the whole history, by series; one query, none where all are known.

    versions: as `read_series_versions` gives them. Runs that failed or are excluded, and those without a value, are
    left out; of more than 20 000 runs, the older ones have no level.
    """
    return _KEPT.read(versions, tuple(metrics), load=lambda ids: _read_levels(ids, metrics))


def find_level(levels: Sequence[LevelRow], at: datetime) -> LevelRow | None:
    """Return the level that a moment lies in: the last that has begun; None before the first."""
    return next((level for level in reversed(levels) if level.from_at <= at), None)


def _read_levels(
    series_ids: Sequence[int], metrics: Sequence[str]
) -> dict[int, Mapping[str, tuple[LevelRow, ...]]]:
    columns = read_columns(series_ids, metrics=metrics, newest=POINTS_MAXIMUM)
    return {
        series_id: {metric: _find_levels(found.points, metric) for metric in metrics}
        for series_id, found in columns.items()
    }


def _find_levels(points: SampledPoints, metric: str) -> tuple[LevelRow, ...]:
    known = np.flatnonzero(points.counts & ~np.isnan(points.values[metric]))[-POINTS_MAXIMUM:]
    values, times, runs = points.values[metric][known], points.at_us[known], points.run_id[known]
    return tuple(
        LevelRow(
            from_at=from_us(times[segment.first]),
            to_at=from_us(times[segment.last]),
            first_run_id=int(runs[segment.first]),
            n=segment.n,
            median=segment.median,
            p10=segment.p10,
            p90=segment.p90,
        )
        for segment in cut_segments(values, change_indices(values))
    )


_KEPT: Final = VersionedCache[Mapping[str, tuple[LevelRow, ...]]](4096)
