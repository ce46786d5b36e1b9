"""The outbox: notices are written in the transaction of their event and sent by one sender at a time.

A sender claims a notice for LEASE in a short transaction, contacts the receiver outside of any transaction, and stores
the outcome in another one. If a sender is killed, the notice is sent again when the lease is over. A duplicate is
possible only if the process ends between the receiver's answer and the second transaction. All attempts have the same
id, so that a receiver can drop duplicates (docs/notifications.md).

Lock order: the subscription before its notices. Code that has not locked the subscription skips locked notices.

Old settled notices are deleted. A row also records that a subscription was notified, and is kept while that is needed:
for an open incident, because closing notices go only to notified subscriptions; and for a silence that is not over,
because it would be reported again. The row of a silence is deleted before the row of its end, or the end would be
reported again.
"""

import random
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid5

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.incidents.write.incidents import has_lasted
from benchapp.models import CONFIRMED_RUNS, Incident, Notice, NoticeState, Phase, Subscription
from benchapp.notices.channels.transport import Message, get_transport
from benchapp.notices.write.delivery_times import GIVE_UP_AFTER, Times, defer, due_at, retry_at
from benchapp.notices.write.email_confirmation import may_be_sent

log = structlog.get_logger(__name__)

# About 0.5 s of locks on rows that have no other writers.
_BATCH_SIZE: Final = 2000
_BUDGET_S: Final = 20.0
_FORGET: Final = """
DELETE FROM benchapp_notice WHERE id IN (
  SELECT notice.id FROM benchapp_notice AS notice
  LEFT JOIN benchapp_incident AS incident ON incident.id = notice.incident_id
  LEFT JOIN benchapp_incident AS home ON home.id = incident.merged_into_id
  WHERE notice.settled_at < %(before)s AND notice.state <> 'waiting'
   AND (incident.id IS NULL OR coalesce(home.state, incident.state) = 'resolved')
   AND CASE
    WHEN notice.key ~ '^host \\d+ (silent|failing) ' AND notice.state <> 'dropped' THEN EXISTS (
     SELECT FROM benchapp_notice AS back WHERE back.subscription_id = notice.subscription_id
      AND back.key = replace(replace(notice.key, ' silent ', ' back '), ' failing ', ' valid ')
      AND back.settled_at < %(before)s)
    WHEN notice.key ~ '^host \\d+ (back|valid) ' THEN NOT EXISTS (
     SELECT FROM benchapp_notice AS silent WHERE silent.subscription_id = notice.subscription_id
      AND silent.key = replace(replace(notice.key, ' back ', ' silent '), ' valid ', ' failing '))
    ELSE TRUE END
  ORDER BY notice.settled_at LIMIT %(limit)s FOR UPDATE OF notice SKIP LOCKED)
"""


def forget_old_notices(*, now: datetime | None = None, limit: int = _BATCH_SIZE) -> int:
    """Delete notices that were settled more than BENCHAPP_NOTICE_RETENTION_DAYS ago; return their number.

    In batches of `limit`, one transaction each, for at most 20 s. 0 days keeps all. Queued notices are never deleted.
    """
    if not settings.NOTICE_RETENTION_DAYS:
        return 0
    before = (now or timezone.now()) - timedelta(days=settings.NOTICE_RETENTION_DAYS)
    started, forgotten = time.monotonic(), 0
    while time.monotonic() - started < _BUDGET_S:
        deleted = _forget_batch(before, limit)
        forgotten += deleted
        if not deleted:
            break
    if forgotten:
        log.info("notices.forgotten", notices=forgotten, settled_before=before.isoformat())
    return forgotten


def _forget_batch(before: datetime, limit: int) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_FORGET, {"before": before, "limit": limit})
        return int(cursor.rowcount)


# Longer than the hard limit of the sending task (90 s): claims of a running task never expire.
LEASE: Final = timedelta(minutes=2)
LOG_MAXIMUM: Final = 10
# Time after which an incident that is snoozed, or not certain yet for a subscription, is looked at again.
_LOOK_AGAIN: Final = timedelta(minutes=10)
# From this number of due notices on, a person gets one message for all.
TOGETHER_FROM: Final = 6
_TOGETHER_MAXIMUM: Final = 100
_IDS: Final = UUID("b3a9e2f0-55c4-4c1e-9d5b-6f0f6f1f0c6e")


@dataclass(frozen=True, slots=True)
class Draft:
    """A notice to queue. key: unique for each subscription; an existing key is ignored."""

    subscription: Subscription
    key: str
    message: Message
    incident_id: int | None = None


@dataclass(frozen=True, slots=True)
class NoticeClaim:
    """Claimed notices that are sent as one message, with their subscription."""

    subscription: Subscription
    notices: tuple[Notice, ...]

    @property
    def message_id(self) -> str:
        """Return an id that is the same for all attempts to send these notices."""
        named = ",".join(f"{notice.pk}@{notice.created_at.isoformat()}" for notice in self.notices)
        return f"msg_{uuid5(_IDS, named).hex}"


def read_times(subscription: Subscription) -> Times:
    """Return the delivery times of a subscription."""
    return Times(
        is_digest=subscription.is_digest,
        digest_hour=subscription.digest_hour,
        quiet_from_hour=subscription.quiet_from_hour,
        quiet_to_hour=subscription.quiet_to_hour,
    )


def put_notices(drafts: Iterable[Draft], *, now: datetime) -> None:
    """Queue notices, ignoring existing keys. Call it in the transaction of their event.

    Notices of subscriptions that were deleted meanwhile are ignored.
    """
    new = list(drafts)
    if not new:
        return
    existing = lock_existing({draft.subscription.pk for draft in new})
    Notice.objects.bulk_create(
        (
            Notice(
                subscription=draft.subscription,
                incident_id=draft.incident_id,
                key=draft.key,
                body=draft.message.to_json(),
                not_before_at=due_at(read_times(draft.subscription), now),
                created_at=now,
            )
            for draft in new
            if draft.subscription.pk in existing
        ),
        ignore_conflicts=True,
    )


@retry_conflicts
def claim_next(*, now: datetime) -> NoticeClaim | None:
    """Claim the first due notice for LEASE and count the attempt; None if nothing is due.

    Notices that are no longer true are dropped here. Two senders never claim the same notice: locked rows are skipped.
    """
    with transaction.atomic():
        due = _find_due(now)
        first = due.order_by("not_before_at", "attempts", "id").first()
        if first is None:
            return None
        notices = _select_true([first, *_find_companions(due, first)], now=now)
        for notice in notices:
            _begin(notice, now=now)
        return NoticeClaim(first.subscription, tuple(notices))


@retry_conflicts
def settle_sent(claim: NoticeClaim, outcome: str, *, now: datetime) -> None:
    """Store that the notices were delivered."""
    with transaction.atomic():
        if lock_subscription(claim.subscription.pk) is None:
            return
        for notice in claim.notices:
            _settle(notice, outcome, now=now, state=NoticeState.SENT, settled_at=now)
        Subscription.objects.filter(pk=claim.subscription.pk).exclude(failures=0).update(failures=0)


@retry_conflicts
def settle_failed(
    claim: NoticeClaim, outcome: str, *, now: datetime, is_final: bool, retry_after: timedelta | None = None
) -> None:
    """Store a failure: retry later, give up after a day, and pause after FAILURES_MAXIMUM consecutive failures.

    All queued notices of the subscription wait too, so that an unavailable receiver is contacted once, not per notice.
    retry_after: the delay that the receiver requested.
    """
    subscription_id = claim.subscription.pk
    with transaction.atomic():
        subscription = lock_subscription(subscription_id)
        if subscription is None:
            return
        subscription.failures += 1
        subscription.save(update_fields=["failures"])
        if is_final or subscription.failures >= Subscription.FAILURES_MAXIMUM:
            pause(subscription_id, _format_pause_reason(subscription.failures, outcome))
        times = read_times(subscription)
        for notice in claim.notices:
            retry = defer(
                times, _choose_retry(times, notice.attempts, now=now), retry_after=retry_after, now=now
            )
            _postpone(notice, outcome, times=times, now=now, later=None if is_final else retry)
        later = defer(
            times, _choose_retry(times, subscription.failures, now=now), retry_after=retry_after, now=now
        )
        Notice.objects.filter(
            subscription_id=subscription_id, state=NoticeState.WAITING, not_before_at__lt=later
        ).exclude(pk__in=[notice.pk for notice in claim.notices]).update(not_before_at=later)


def lock_subscription(subscription_id: int) -> Subscription | None:
    """Return a subscription, locked for changes of its notices; None if it was deleted."""
    return Subscription.objects.select_for_update(no_key=True).filter(pk=subscription_id).first()


def pause(subscription_id: int, reason: str) -> bool:
    """Pause a subscription with a reason; False if it is already paused."""
    changed = Subscription.objects.filter(pk=subscription_id, is_active=True).update(
        is_active=False, paused_reason=reason[:500]
    )
    return changed == 1


def drop_paused(*, now: datetime) -> int:
    """Drop notices that were queued for a day while their subscription was paused; return their number."""
    with transaction.atomic():
        waiting = Notice.objects.select_for_update(skip_locked=True, of=("self",), no_key=True).filter(
            state=NoticeState.WAITING,
            subscription__is_active=False,
            not_before_at__lt=now,
            created_at__lt=now - GIVE_UP_AFTER,
        )
        ids = list(waiting.values_list("pk", flat=True))
        return Notice.objects.filter(pk__in=ids).update(state=NoticeState.DROPPED, settled_at=now)


def lock_existing(ids: Iterable[int]) -> set[int]:
    """Return the existing ids, locked against deletion until the transaction ends.

    FOR KEY SHARE, which Django does not support: senders do not wait for detection.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id FROM benchapp_subscription WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE", [list(ids)]
        )
        return {subscription_id for (subscription_id,) in cursor.fetchall()}


def _find_due(now: datetime) -> QuerySet[Notice]:
    return (
        Notice.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
        .select_related("subscription")
        .filter(
            may_be_sent(),
            state=NoticeState.WAITING,
            not_before_at__lte=now,
            subscription__is_active=True,
            subscription__owner__is_active=True,
            subscription__owner__pools=[],
        )
    )


def _find_companions(due: QuerySet[Notice], first: Notice) -> list[Notice]:
    """Return the notices to send with the first: all due ones of a digest, or from TOGETHER_FROM on for people."""
    subscription = first.subscription
    if get_transport(subscription.channel).is_for_programs and not subscription.is_digest:
        return []
    others = list(
        due.filter(subscription=subscription).exclude(pk=first.pk).order_by("id")[: _TOGETHER_MAXIMUM - 1]
    )
    return others if subscription.is_digest or len(others) + 1 >= TOGETHER_FROM else []


def _select_true(notices: Sequence[Notice], *, now: datetime) -> list[Notice]:
    """Return the notices that are true now, by id; drop the others, and postpone what is snoozed or not certain yet.

    notices: of one subscription. What it was told already is not told again, unless the incident grew since.
    """
    subscription = notices[0].subscription
    incidents = Incident.objects.in_bulk([notice.incident_id for notice in notices if notice.incident_id])
    told = read_told(incidents, subscription=subscription) if incidents else {}
    kept = []
    for notice in sorted(notices, key=lambda notice: notice.pk):
        incident = incidents.get(notice.incident_id or 0)
        if incident is None:
            kept.append(notice)
            continue
        phase, key, event = incident.phase, (subscription.pk, incident.pk), notice.body["facts"]["event"]
        grew_at = datetime.fromisoformat(event["at"]) if event["kind"] == "grew" else None
        if notice.body["kind"] != f"incident.{phase}" or not is_news(
            subscription, incident, told.get(key), grew_at=grew_at
        ):
            Notice.objects.filter(pk=notice.pk).update(state=NoticeState.DROPPED, settled_at=now)
        elif phase != Phase.OVER and _must_wait(subscription, incident, now=now):
            later = due_at(read_times(subscription), now + _LOOK_AGAIN)
            Notice.objects.filter(pk=notice.pk).update(not_before_at=later, created_at=later)
        else:
            told[key] = Told(phase, now)
            kept.append(notice)
    return kept


def _must_wait(subscription: Subscription, incident: Incident, *, now: datetime) -> bool:
    """Return whether an incident is snoozed, or a subscription asks for more runs than it has."""
    if incident.snoozed_until is not None and incident.snoozed_until > now:
        return True
    runs = subscription.further_runs
    return runs > CONFIRMED_RUNS and not has_lasted(incident, further_runs=runs)


@dataclass(frozen=True, slots=True)
class Told:
    """The phase of the last notice of an incident, and when it was sent, or queued if it waits."""

    phase: str
    at: datetime


def is_news(
    subscription: Subscription, incident: Incident, told: Told | None, *, grew_at: datetime | None
) -> bool:
    """Return whether a subscription gets the phase of an incident, after what it was told.

    Whoever got another phase gets the end. grew_at: of a growth, which later notices have stated.
    """
    phase, before = incident.phase, told and told.phase
    if incident.merged_into_id is not None or not incident.is_regression:
        return False
    if phase == Phase.OVER:
        return before not in (None, Phase.OVER)
    if phase == Phase.SUSPECTED:
        return subscription.further_runs == 0 and before in (None, Phase.OVER)
    return told is None or before != phase or (grew_at is not None and grew_at > told.at)


def read_told(
    incident_ids: Collection[int], *, subscription: Subscription | None = None
) -> dict[tuple[int, int], Told]:
    """Return what was told last, by subscription and incident, with those of incidents merged into it.

    subscription: only what was sent to it; otherwise also what waits.
    """
    homes = {incident_id: incident_id for incident_id in incident_ids}
    joined: Collection[int] = incident_ids
    while joined:
        rows = Incident.objects.filter(merged_into__in=joined).values_list("pk", "merged_into_id")
        merged = {pk: homes[into] for pk, into in rows if into is not None}
        joined = merged.keys() - homes.keys()
        homes |= merged
    notices = Notice.objects.filter(incident_id__in=homes).order_by("pk")
    if subscription is None:
        notices = notices.filter(state__in=(NoticeState.WAITING, NoticeState.SENT))
    else:
        notices = notices.filter(state=NoticeState.SENT, subscription=subscription)
    return {
        (subscription_id, homes[incident_id]): Told(kind.removeprefix("incident."), sent_at or created_at)
        for subscription_id, incident_id, kind, sent_at, created_at in notices.values_list(
            "subscription_id", "incident_id", "body__kind", "settled_at", "created_at"
        )
        if incident_id is not None
    }


def _begin(notice: Notice, *, now: datetime) -> None:
    """Count an attempt before it is made: one that kills its sender is counted too, without an outcome."""
    notice.attempts += 1
    notice.not_before_at = now + LEASE
    notice.log = [*notice.log, {"at": now.isoformat(), "outcome": ""}][-LOG_MAXIMUM:]
    notice.save(update_fields=["attempts", "not_before_at", "log"])


def _format_pause_reason(failures: int, outcome: str) -> str:
    return outcome if failures == 1 else f"{failures} consecutive failures, the last one: {outcome}"


def _choose_retry(times: Times, failures: int, *, now: datetime) -> datetime:
    return retry_at(times, failures, now=now, draw=random.random())


def _postpone(notice: Notice, outcome: str, *, times: Times, now: datetime, later: datetime | None) -> None:
    """Schedule the next attempt of a notice; give up if there is none or a day has passed."""
    last_at = due_at(times, notice.created_at) + GIVE_UP_AFTER
    if later is None or now >= last_at:
        _settle(notice, outcome, now=now, state=NoticeState.FAILED, settled_at=now)
        return
    _settle(notice, outcome, now=now, not_before_at=min(later, last_at))


def _settle(notice: Notice, outcome: str, *, now: datetime, **changes: Any) -> None:
    """Store the outcome of this attempt, unless another sender has started a later one."""
    log = [*notice.log[:-1], {**notice.log[-1], "ended_at": now.isoformat(), "outcome": outcome[:300]}]
    Notice.objects.filter(pk=notice.pk, state=NoticeState.WAITING, attempts=notice.attempts).update(
        log=log, **changes
    )
