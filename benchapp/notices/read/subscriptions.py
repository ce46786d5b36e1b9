"""Subscriptions with their last deliveries, and the delivery log of one."""

from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Case, Count, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import JSONObject, Lower

from benchapp.models import (
    WITHHELD,
    Channel,
    EmailAddress,
    Notice,
    NoticeState,
    RefusedAddress,
    Subscription,
    ThresholdViolation,
    User,
)

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
