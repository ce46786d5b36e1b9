"""The thresholds of series by the policies that match them."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import orjson
from django.db import connection

from benchapp.catalog.metrics import SMALLEST_CHANGES
from benchapp.models.filtering import match_series
from benchapp.models.planned_event_filtering import match_stored_filters, read_stored_filter
from benchapp.models.policies.detection_policy import DetectionPolicy
from benchapp.models.series import Series

# The labels of the newest run of each series.
_READ_LABELS = (
    "SELECT wanted.id, run.labels FROM unnest(%s::bigint[]) AS wanted(id) CROSS JOIN LATERAL ("
    " SELECT run_id FROM benchapp_measurement WHERE series_id = wanted.id ORDER BY started_at DESC, id DESC LIMIT 1"
    ") AS newest JOIN benchapp_run AS run ON run.id = newest.run_id"
)


def read_thresholds(
    series_ids: Collection[int], *, proposed: DetectionPolicy | None = None
) -> dict[int, Mapping[str, float]]:
    """Return the threshold of each metric of these series, by series id: those of the catalog without a policy.

    proposed: a policy that is not saved, as if it were the newest. One query without policies; with them as
    `match_stored_filters`, and one more for labels.
    """
    in_effect = [*DetectionPolicy.objects.filter(canceled_at=None), *([proposed] if proposed else [])]
    policies = sorted(in_effect, key=lambda policy: policy.rank)
    if not policies or not series_ids:
        return dict.fromkeys(series_ids, SMALLEST_CHANGES)
    found = {series_id: dict(SMALLEST_CHANGES) for series_id in series_ids}
    for policy, ids in zip(policies, match_policies(policies, series_ids), strict=True):
        for series_id in ids:
            found[series_id][policy.metric] = policy.smallest_change
    return dict(found)


def match_policies(policies: Sequence[DetectionPolicy], series_ids: Collection[int]) -> list[Collection[int]]:
    """Return which of these series each policy matches; queries as above."""
    series = Series.objects.filter(pk__in=series_ids)
    by_filter = match_stored_filters((policy.filter for policy in policies if policy.filter), series)
    labeled = match_labels((policy.label for policy in policies), series_ids)
    return [
        [
            series_id
            for series_id in (by_filter[policy.filter] if policy.filter else series_ids)
            if not policy.label or series_id in labeled[policy.label]
        ]
        for policy in policies
    ]


def list_matching_series(filter: str, label: str) -> list[int]:
    """Return the measured series that a policy applies to, by id; one query, two with a label."""
    read = read_stored_filter(filter)
    if read is None:
        return []
    matched = Series.objects.filter(match_series(read), measurement_count__gt=0)
    ids = list(matched.order_by("id").values_list("id", flat=True))
    if not label:
        return ids
    labeled = match_labels([label], ids)[label]
    return [series_id for series_id in ids if series_id in labeled]


def match_labels(labels: Iterable[str], series_ids: Collection[int]) -> dict[str, frozenset[int]]:
    """Return the series whose newest run has each label, KEY=VALUE; one query, none without labels."""
    wanted = sorted({label for label in labels if label})
    if not wanted:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(_READ_LABELS, [list(series_ids)])
        rows = [
            (series_id, {f"{key}={value}" for key, value in orjson.loads(labels).items()})
            for series_id, labels in cursor.fetchall()
        ]
    return {label: frozenset(series_id for series_id, known in rows if label in known) for label in wanted}
