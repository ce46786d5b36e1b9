"""Subscriptions with their last deliveries, and the delivery log of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import JSONObject, Lower

from benchapp.catalog.metrics import format_with_unit
from benchapp.catalog.thresholds import NEWEST_RUNS, Threshold
from benchapp.models import (
    WITHHELD,
    Channel,
    EmailAddress,
    NewestValues,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
    ThresholdViolation,
    User,
)
from benchapp.models.coverage import read_stored_threshold
from benchapp.series.read.series import read_rows

NOTICES_SHOWN: Final = 50


def list_subscriptions(visitor: User, *, owner: User | None) -> list[Subscription]:
    """Return the subscriptions of one owner, or all with None, ordered by owner; one query."""
    rows = _annotate(
        Subscription.objects.all() if owner is None else Subscription.objects.filter(owner=owner)
    )
    return [_hide_secrets(row, visitor) for row in rows.order_by("owner__username", "id")]


def read_subscription(subscription_id: int, visitor: User) -> Subscription | None:
    """Return one subscription or None; one query."""
    row = _annotate(Subscription.objects.filter(pk=subscription_id)).first()
    return _hide_secrets(row, visitor) if row else None


def list_notices(subscription_id: int, *, limit: int = NOTICES_SHOWN) -> list[Notice]:
    """Return the newest notices of a subscription; markers of hosts reported in a group notice are excluded."""
    rows = Notice.objects.filter(subscription_id=subscription_id).exclude(body__has_key="reported_in")
    return list(rows.order_by("-id")[:limit])


def _annotate(rows: QuerySet[Any]) -> QuerySet[Any]:
    sent = Notice.objects.filter(subscription=OuterRef("pk"), state=NoticeState.SENT, attempts__gt=0)
    address = EmailAddress.objects.filter(owner=OuterRef("owner"), address=Lower(OuterRef("address")))
    counts = (
        ThresholdViolation.objects.filter(subscription=OuterRef("pk"))
        .values("threshold")
        .annotate(series=Count("pk"))
        .values(row=JSONObject(threshold="threshold", series="series"))
    )
    withheld = Q(notices__state=NoticeState.DROPPED, notices__log__contains=[{"outcome": WITHHELD}])
    refused = RefusedAddress.objects.filter(address=Lower(OuterRef("address")))
    annotated: QuerySet[Any] = (
        rows.select_related("owner")
        .defer("secret")
        .annotate(
            waiting=Count("notices", filter=Q(notices__state=NoticeState.WAITING)),
            withheld=Count("notices", filter=withheld),
            last_at=Subquery(sent.order_by("-settled_at").values("settled_at")[:1]),
            violation_rows=ArraySubquery(counts),
            confirmed_at=Subquery(address.values("confirmed_at")),
            confirmation_asked_at=Subquery(address.values("asked_at")),
            address_state=Case(
                When(~Q(channel=Channel.EMAIL), then=Value("")),
                When(confirmed_at__isnull=False, then=Value("confirmed")),
                When(Exists(refused), then=Value("refused")),
                default=Value("unconfirmed"),
            ),
        )
    )
    return annotated


def _hide_secrets(row: Subscription, visitor: User) -> Subscription:
    """Return the row, not to be saved: of the address of another person only what is no secret."""
    if row.owner_id != visitor.pk:
        row.address = row.display_address
    return row


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
