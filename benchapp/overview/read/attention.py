"""What waits for a person or for a worker: uploads, paused subscriptions."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils import timezone

from benchapp.framework.read.binary_columns import fetch_rows
from benchapp.intake.read.submissions import ReasonCount
from benchapp.models import State, Subscription, User

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


def read_backlog() -> Backlog:
    """Return the backlog in two queries over the indexes of submissions by state."""
    rejected = fetch_rows(
        "SELECT reason_code, count(*) FROM benchapp_submission WHERE state = %s AND received_at >= %s"
        " GROUP BY reason_code ORDER BY count(*) DESC, reason_code",
        [State.REJECTED.value, timezone.now() - RECENT],
    )
    ((waiting, oldest_at),) = fetch_rows(
        "SELECT count(*), min(received_at) FROM (SELECT received_at FROM benchapp_submission WHERE state = %s"
        " ORDER BY received_at LIMIT %s) AS waiting",
        [State.RECEIVED.value, COUNT_MAXIMUM],
    )
    return Backlog(
        rejected=tuple(ReasonCount(*row) for row in rejected), waiting=waiting, oldest_at=oldest_at
    )


def list_paused_subscriptions(owner: User) -> list[Subscription]:
    """Return the subscriptions of a user that stopped after failed deliveries, without their addresses; one query."""
    rows = Subscription.objects.filter(owner=owner, is_active=False).exclude(paused_reason="")
    return list(rows.only("paused_reason").order_by("id"))
