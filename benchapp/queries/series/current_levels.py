"""Current level of a metric of several series, with the newest values."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from benchapp.analysis.charts.shift import RecentShift, find_shift, is_stale
from benchapp.metrics import Metric
from benchapp.models import SeriesSummary

__all__ = ["CurrentLevel", "RecentShift", "read_current_levels"]


@dataclass(frozen=True, slots=True)
class CurrentLevel:
    """Current level of one series, in the base unit of the metric. recent: newest values in chronological order.

    shift: how its recent level stands to its baseline, None where there are too few values. is_stale: it is no longer
    measured as it used to be.
    """

    series_id: int
    n: int
    median: float
    p10: float
    p90: float
    recent: tuple[float, ...]
    recent_median: float | None
    baseline_median: float | None
    first_at: datetime
    last_at: datetime
    shift: RecentShift | None
    is_stale: bool


def read_current_levels(series_ids: Sequence[int], metric: Metric) -> dict[int, CurrentLevel]:
    """Return the current level of each series by id, without series without a value; one query."""
    now = timezone.now()
    summaries = SeriesSummary.objects.filter(metric=metric.name, series_id__in=series_ids).values_list(
        "series_id",
        "n",
        "median",
        "p10",
        "p90",
        "recent",
        "recent_median",
        "baseline_median",
        "first_at",
        "last_at",
    )
    return {
        series_id: CurrentLevel(
            series_id,
            n,
            median,
            p10,
            p90,
            tuple(recent),
            recent_median,
            baseline_median,
            first_at,
            last_at,
            find_shift(recent_median, baseline_median, values=recent, better=metric.better),
            is_stale(first_at, last_at, n=n, now=now),
        )
        for series_id, n, median, p10, p90, recent, recent_median, baseline_median, first_at, last_at in summaries
    }
