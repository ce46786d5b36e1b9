"""Subscriptions with their last deliveries, and the delivery log of one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import JSONObject, Lower

from benchapp.catalog.metrics import CATALOG
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
from benchapp.models.subscription import hide_secret

NOTICES_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription. address: complete for its owner; others see only a webhook host, as its path is a secret.

    waiting: queued notices; last_at: when the last one was sent, None if never. violations: number of violating series
    by threshold, without zeros. address_state: "confirmed", "unconfirmed" or "refused" of an e-mail address, "" of a
    webhook; confirmation_asked_at: when the newest confirmation mail was requested. withheld: notices not sent because
    the address was not confirmed within a day.
    """

    id: int
    owner_id: int
    owner_name: str
    channel: str
    address: str
    filter: str
    minimum_severity: str
    metrics: Sequence[str]
    thresholds: Sequence[str]
    violations: Mapping[str, int]
    layout_question: str
    notify_incidents: bool
    notify_silent_hosts: bool
    is_digest: bool
    digest_hour: int
    quiet_from_hour: int | None
    quiet_to_hour: int | None
    is_active: bool
    failures: int
    paused_reason: str
    created_at: datetime
    waiting: int
    last_at: datetime | None
    address_state: str
    confirmed_at: datetime | None
    confirmation_asked_at: datetime | None
    withheld: int

    @property
    def is_confirmed(self) -> bool:
        """Return whether notices are sent; a webhook needs no confirmation."""
        return self.address_state in ("", "confirmed")

    @property
    def display_address(self) -> str:
        """Return the address for pages, without a webhook's secret path."""
        return hide_secret(self.channel, self.address)

    @property
    def metric_labels(self) -> str:
        """Return the metrics of incidents in words; "" for all."""
        return ", ".join(CATALOG[name].label for name in self.metrics)

    @property
    def threshold_counts(self) -> list[tuple[str, int]]:
        """Return each threshold with the number of series that violate it."""
        return [(text, self.violations.get(text, 0)) for text in self.thresholds]

    @property
    def violation_count(self) -> int:
        """Return the number of violations."""
        return sum(self.violations.values())

    @property
    def channel_label(self) -> str:
        """Return the name of the channel."""
        return str(Channel(self.channel).label)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to send. outcome: "" while it runs, or if its sender was killed."""

    at: datetime
    outcome: str


@dataclass(frozen=True, slots=True)
class NoticeRow:
    """One notice. not_before_at: time of the next attempt while queued; log: the last ten attempts, oldest first."""

    id: int
    key: str
    subject: str
    state: str
    state_label: str
    attempts: int
    not_before_at: datetime
    created_at: datetime
    settled_at: datetime | None
    incident_id: int | None
    log: tuple[Attempt, ...]

    @property
    def is_waiting(self) -> bool:
        """Return whether the notice is queued."""
        return self.state == NoticeState.WAITING


def list_subscriptions(visitor: User, *, owner: User | None) -> list[SubscriptionRow]:
    """Return the subscriptions of one owner, or all with None, ordered by owner; one query."""
    rows = _annotate(
        Subscription.objects.all() if owner is None else Subscription.objects.filter(owner=owner)
    )
    return [_make_row(row, visitor) for row in rows.order_by("owner__username", "id")]


def read_subscription(subscription_id: int, visitor: User) -> SubscriptionRow | None:
    """Return one subscription or None; one query."""
    row = _annotate(Subscription.objects.filter(pk=subscription_id)).first()
    return _make_row(row, visitor) if row else None


def list_notices(subscription_id: int, *, limit: int = NOTICES_SHOWN) -> list[NoticeRow]:
    """Return the newest notices of a subscription; markers of hosts reported in a group notice are excluded."""
    rows = Notice.objects.filter(subscription_id=subscription_id).exclude(body__has_key="reported_in")
    return [
        NoticeRow(
            id=row.pk,
            key=row.key,
            subject=str(row.body.get("subject", row.key)),
            state=row.state,
            state_label=str(NoticeState(row.state).label),
            attempts=row.attempts,
            not_before_at=row.not_before_at,
            created_at=row.created_at,
            settled_at=row.settled_at,
            incident_id=row.incident_id,
            log=_read_log(row.log),
        )
        for row in rows.order_by("-id")[:limit]
    ]


def _annotate(rows: QuerySet[Subscription]) -> QuerySet[Any]:
    sent = Notice.objects.filter(subscription=OuterRef("pk"), state=NoticeState.SENT, attempts__gt=0)
    address = EmailAddress.objects.filter(owner=OuterRef("owner"), address=Lower(OuterRef("address")))
    counts = (
        ThresholdViolation.objects.filter(subscription=OuterRef("pk"))
        .values("threshold")
        .annotate(series=Count("pk"))
        .values(row=JSONObject(threshold="threshold", series="series"))
    )
    withheld = Q(notices__state=NoticeState.DROPPED, notices__log__contains=[{"outcome": WITHHELD}])
    return rows.select_related("owner").annotate(
        waiting=Count("notices", filter=Q(notices__state=NoticeState.WAITING)),
        withheld=Count("notices", filter=withheld),
        last_at=Subquery(sent.order_by("-settled_at").values("settled_at")[:1]),
        violation_rows=ArraySubquery(counts),
        confirmed_at=Subquery(address.values("confirmed_at")),
        confirmation_asked_at=Subquery(address.values("asked_at")),
        is_refused=Exists(RefusedAddress.objects.filter(address=Lower(OuterRef("address")))),
    )


def _make_row(row: Any, visitor: User) -> SubscriptionRow:
    is_own = row.owner_id == visitor.pk
    own = {
        name: getattr(row, name)
        for name in SubscriptionRow.__dataclass_fields__
        if name != "violations" and hasattr(row, name)
    }
    address = row.address if is_own else hide_secret(row.channel, row.address)
    return SubscriptionRow(
        **{
            **own,
            "address": address,
            "owner_name": row.owner.username,
            "violations": {each["threshold"]: each["series"] for each in row.violation_rows},
            "address_state": _name_address_state(row),
        }
    )


def _name_address_state(row: Any) -> str:
    if row.channel != Channel.EMAIL:
        return ""
    if row.confirmed_at is not None:
        return "confirmed"
    return "refused" if row.is_refused else "unconfirmed"


def _read_log(log: Sequence[Mapping[str, Any]]) -> tuple[Attempt, ...]:
    return tuple(
        Attempt(datetime.fromisoformat(attempt["at"]), str(attempt.get("outcome", ""))) for attempt in log
    )
