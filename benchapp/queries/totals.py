"""Totals."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Min
from django.utils import timezone

from benchapp.models import Host, Run, Series, State, Submission


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts; submissions: by state, with all states."""

    submissions: Mapping[str, int]
    oldest_received_age_s: float
    runs: int
    series: int
    hosts: int


def count_totals(*, now: datetime | None = None) -> Totals:
    """Return the totals; five queries."""
    moment = now or timezone.now()
    states = dict.fromkeys(State.values, 0) | dict(
        Submission.objects.order_by()
        .values("state")
        .annotate(count=Count("id"))
        .values_list("state", "count")
    )
    oldest = Submission.objects.waiting().aggregate(oldest=Min("received_at"))["oldest"]
    return Totals(
        submissions=states,
        oldest_received_age_s=max(0.0, (moment - oldest).total_seconds()) if oldest else 0.0,
        runs=Run.objects.count(),
        series=Series.objects.filter(last_at__isnull=False).count(),
        hosts=Host.objects.active().count(),
    )
