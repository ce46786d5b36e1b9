"""Totals, for monitoring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Sum
from django.utils import timezone

from benchapp.models import (
    SAMPLE_HOST,
    Host,
    Incident,
    Notice,
    NoticeState,
    Series,
    Severity,
    State,
    Submission,
)
from benchapp.requests.read.failing import list_failing, read_all_failed
from benchapp.requests.read.schedules import list_known, read_schedules


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts. submissions, notices: by state, with all states; open_incidents: of regressions, by severity, with all.

    to_evaluate: series with measurements since their last evaluation. hosts: not retired, without that of the sample
    data; silent_hosts, failing_hosts: of them.
    """

    submissions: Mapping[str, int]
    oldest_received_age_s: float
    runs: int
    series: int
    hosts: int
    silent_hosts: int
    failing_hosts: int
    to_evaluate: int
    notices: Mapping[str, int]
    oldest_notice_age_s: float
    open_incidents: Mapping[str, int]


def count_totals(*, now: datetime | None = None) -> Totals:
    """Return the totals; thirteen queries at most."""
    moment = now or timezone.now()
    due = Notice.objects.filter(state=NoticeState.WAITING, not_before_at__lte=moment)
    regressions = Incident.objects.filter(is_regression=True, is_open=True)
    return Totals(
        submissions=_count(Submission.objects.all(), "state", State.values),
        oldest_received_age_s=_measure_age(
            Submission.objects.waiting().aggregate(oldest=Min("received_at"))["oldest"], moment
        ),
        # Counted with each run: to count rows takes longer with each run.
        runs=Host.objects.aggregate(runs=Sum("run_count"))["runs"] or 0,
        series=Series.objects.filter(last_at__isnull=False).count(),
        hosts=Host.objects.active().exclude(name=SAMPLE_HOST).count(),
        silent_hosts=_count_silent(),
        failing_hosts=sum(bool(list_failing(failed)) for failed in read_all_failed(now=moment).values()),
        to_evaluate=Series.objects.filter(judging_is_due=True).count(),
        notices=_count(Notice.objects.all(), "state", NoticeState.values),
        oldest_notice_age_s=_measure_age(due.aggregate(oldest=Min("not_before_at"))["oldest"], moment),
        open_incidents=_count(regressions, "severity", Severity.values),
    )


def _count(rows: Any, column: str, values: Sequence[str]) -> dict[str, int]:
    counted = rows.order_by().values(column).annotate(count=Count("id")).values_list(column, "count")
    return dict.fromkeys(values, 0) | dict(counted)


def _measure_age(oldest: datetime | None, now: datetime) -> float:
    return max(0.0, (now - oldest).total_seconds()) if oldest else 0.0


def _count_silent() -> int:
    hosts = Host.objects.active().filter(schedule__isnull=False)
    rows = hosts.values("id", "retired_at", "schedule", "schedule_since_at", "schedule_reported_by")
    schedules = read_schedules(list_known(list(rows))).values()
    return sum(schedule.silent_since is not None for schedule in schedules)
