"""The series that violate thresholds of a subscription now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

from benchapp.catalog.metrics import format_with_unit
from benchapp.catalog.thresholds import NEWEST_RUNS, Threshold
from benchapp.models import NewestValues, ThresholdViolation
from benchapp.models.coverage import read_stored_threshold
from benchapp.series.read.series import read_rows

VIOLATIONS_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class ViolationRow:
    """A series that violates a threshold. since_at: start of the first run of the violation.

    value: median of the newest runs, in the base unit; None if the metric has no level. is_notified: whether the
    violation was reported.
    """

    threshold: Threshold
    series_id: int
    title: str
    scope: str
    since_at: datetime
    value: float | None
    is_notified: bool

    @property
    def value_text(self) -> str:
        """Return the value with its unit."""
        return format_with_unit(self.value, self.threshold.entry)


def list_violations(subscription_id: int, *, limit: int = VIOLATIONS_SHOWN) -> list[ViolationRow]:
    """Return the violations of a subscription, the newest first; three queries, one without any."""
    rows = ThresholdViolation.objects.filter(subscription_id=subscription_id).order_by("-since_at", "-pk")
    stored = list(rows[:limit])
    if not stored:
        return []
    series = {row.id: row for row in read_rows([each.series_id for each in stored], has_latest=False)}
    thresholds = {
        each.threshold: threshold
        for each in stored
        if (threshold := read_stored_threshold(each.threshold)) is not None
    }
    newest = _read_newest(
        [each.series_id for each in stored], [threshold.metric for threshold in thresholds.values()]
    )
    return [
        ViolationRow(
            threshold=thresholds[each.threshold],
            series_id=each.series_id,
            title=series[each.series_id].title,
            scope=series[each.series_id].scope_name,
            since_at=each.since_at,
            value=newest.get((each.series_id, thresholds[each.threshold].metric)),
            is_notified=each.is_notified,
        )
        for each in stored
        if each.series_id in series and each.threshold in thresholds
    ]


def _read_newest(series_ids: Sequence[int], metrics: Sequence[str]) -> dict[tuple[int, str], float]:
    """Return the median of the newest runs by series and metric."""
    rows = NewestValues.objects.filter(series_id__in=series_ids, metric__in=metrics)
    return {
        (series_id, metric): median(recent[-NEWEST_RUNS:])
        for series_id, metric, recent in rows.values_list("series_id", "metric", "recent")
    }
