"""The thresholds of a reader's own subscriptions that concern the series of a chart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from benchapp.catalog.thresholds import Threshold
from benchapp.models import Series, Subscription, ThresholdViolation
from benchapp.models.coverage import match_stored_filters, read_stored_threshold


@dataclass(frozen=True, slots=True)
class ChartThreshold:
    """A threshold of a metric of a chart. series_ids: of the chart that it concerns, ascending.

    violated: those that violate it, with the start of the first run of the violation.
    """

    threshold: Threshold
    series_ids: tuple[int, ...]
    violated: Mapping[int, datetime]


def list_chart_thresholds(
    owner_id: int | None, series_ids: Sequence[int], metrics: Sequence[str]
) -> list[ChartThreshold]:
    """Return the thresholds of a user's subscriptions for these series and metrics, by metric and value.

    owner_id: None for a reader without an account, who has none. One query; if there are any, also those of
    `match_stored_filters` and one more.
    """
    if owner_id is None or not series_ids:
        return []
    rows = Subscription.objects.filter(owner_id=owner_id).exclude(thresholds=[]).order_by("pk")
    asked = [
        (pk, filter, threshold)
        for pk, filter, texts in rows.values_list("pk", "filter", "thresholds")
        for threshold in map(read_stored_threshold, texts)
        if threshold is not None and threshold.metric in metrics
    ]
    if not asked:
        return []
    matched = match_stored_filters(
        [filter for _, filter, _ in asked], Series.objects.filter(pk__in=series_ids)
    )
    concerned: dict[Threshold, set[int]] = {}
    for _, filter, threshold in asked:
        concerned.setdefault(threshold, set()).update(matched[filter])
    violated: dict[str, dict[int, datetime]] = {}
    violations = ThresholdViolation.objects.filter(
        subscription_id__in={pk for pk, _, _ in asked}, series_id__in=series_ids
    )
    for text, series_id, since_at in violations.values_list("threshold", "series_id", "since_at"):
        known = violated.setdefault(text, {})
        known[series_id] = min(since_at, known.get(series_id, since_at))
    found = [
        ChartThreshold(threshold, tuple(sorted(ids)), violated.get(threshold.text, {}))
        for threshold, ids in concerned.items()
        if ids
    ]
    return sorted(
        found,
        key=lambda each: (metrics.index(each.threshold.metric), each.threshold.limit, each.threshold.text),
    )
