"""What waits for a person or for a worker: uploads, paused subscriptions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count
from django.utils import timezone

from benchapp.models import State, Submission, Subscription, User
from benchapp.queries.runs.submissions import ReasonCount

RECENT: Final = timedelta(days=7)
COUNT_MAXIMUM: Final = 1000


@dataclass(frozen=True, slots=True)
class Backlog:
    """Uploads that are not stored.

    rejected: of the last seven days by reason, most frequent first. waiting: not processed yet, at most 1 000;
    oldest_at: when the first of these was received.
    """

    rejected: tuple[ReasonCount, ...]
    waiting: int
    oldest_at: datetime | None

    @property
    def rejected_count(self) -> int:
        """Return the number of rejected uploads."""
        return sum(reason.count for reason in self.rejected)


def read_backlog() -> Backlog:
    """Return the backlog in two queries."""
    rejected = (
        Submission.objects.filter(state=State.REJECTED, received_at__gte=timezone.now() - RECENT)
        .values("reason_code")
        .annotate(count=Count("id"))
        .order_by("-count", "reason_code")
        .values_list("reason_code", "count")
    )
    waiting = list(
        Submission.objects.waiting()
        .order_by("received_at")
        .values_list("received_at", flat=True)[:COUNT_MAXIMUM]
    )
    return Backlog(
        rejected=tuple(ReasonCount(*row) for row in rejected),
        waiting=len(waiting),
        oldest_at=waiting[0] if waiting else None,
    )


@dataclass(frozen=True, slots=True)
class PausedSubscription:
    """A subscription that stopped after failed deliveries."""

    id: int
    address: str
    reason: str


def list_paused_subscriptions(owner: User) -> list[PausedSubscription]:
    """Return the paused subscriptions of a user; one query."""
    rows = Subscription.objects.filter(owner=owner, is_active=False).exclude(paused_reason="").order_by("id")
    return [PausedSubscription(*row) for row in rows.values_list("id", "address", "paused_reason")]
