"""Tell people of incidents: into the outbox with the event itself, and out of it by whoever comes first."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

import structlog
from django.conf import settings
from django.db.models import QuerySet
from django.db.models.functions import Abs
from django.utils import timezone

from benchapp.grammar import BadFilter, parse_filter
from benchapp.models import (
    Change,
    ChangeState,
    IncidentEvent,
    Notice,
    NoticeState,
    Severity,
    Subscription,
    Verdict,
)
from benchapp.models.filtering import match_series
from benchapp.pipeline.notifications.channels.webhook import NotDelivered
from benchapp.pipeline.notifications.email_confirmation import prepare_confirmations
from benchapp.pipeline.notifications.incident_message import GOOD_ENDS, LEVELS_SHOWN, tell_incident
from benchapp.pipeline.notifications.message import Message, tell_test
from benchapp.pipeline.notifications.outbox import (
    Draft,
    NoticeClaim,
    claim_next,
    drop_paused,
    pause,
    put_notices,
    settle_failed,
    settle_sent,
)
from benchapp.pipeline.notifications.send import deliver

log = structlog.get_logger(__name__)

TELLING_KINDS: Final = frozenset({"opened", "grew", "reopened", "recovered", "resolved"})
_RANK: Final = {Severity.LOW.value: 0, Severity.MEDIUM.value: 1, Severity.HIGH.value: 2}


def enqueue(event_ids: Sequence[int]) -> None:
    """Put notices of these events into the outbox; call it in the transaction that writes them.

    Told: that an incident opened, grew in severity, reopened, recovered or was resolved; the last two to those who were
    told of it before. That it grew before it was confirmed is told to those alone who have not heard of it yet: it
    unfolds, and does not get worse. An incident of improvements, an expected, a snoozed and a merged one tells nobody.
    The same event twice is told once.
    """
    now = timezone.now()
    events = [event for event in _read_events(event_ids) if _is_telling(event, now)]
    subscriptions = list(list_active()) if events else []
    if not subscriptions:
        return
    incident_ids = {event.incident_id for event in events}
    wanted = _match(subscriptions, incident_ids)
    told: set[tuple[int, int | None]] = set(
        Notice.objects.filter(
            incident_id__in=incident_ids, state__in=(NoticeState.WAITING, NoticeState.SENT)
        ).values_list("subscription_id", "incident_id")
    )
    for event in events:
        hearers = [each for each in subscriptions if _wants(each, event, wanted=wanted, told=told)]
        told.update((each.pk, event.incident_id) for each in hearers)
        if hearers:
            _put(event, hearers, now=now)


def send_due(*, budget_s: float = 20.0) -> int:
    """Send what is due until nothing is, or the budget is used up; return how many messages were tried."""
    started = time.monotonic()
    drop_paused(now=timezone.now())
    prepare_confirmations(now=timezone.now())
    tried = 0
    while time.monotonic() - started < budget_s:
        claim = claim_next(now=timezone.now())
        if claim is None:
            break
        if claim.notices:
            send_claim(claim)
            tried += 1
    return tried


def send_claim(claim: NoticeClaim) -> None:
    """Send what was claimed, outside of any transaction, and write down what came of it."""
    subscription = claim.subscription
    try:
        messages = [Message.from_json(notice.body) for notice in claim.notices]
        outcome = deliver(subscription, messages, message_id=claim.message_id, at=claim.notices[0].created_at)
    except NotDelivered as error:
        log.warning("notice.not_delivered", subscription=subscription.pk, reason=str(error))
        settle_failed(
            claim, str(error), now=timezone.now(), is_final=error.is_final, retry_after=error.retry_after
        )
    except Exception as error:  # the edge of a process: what one notice breaks must not hold up the others
        log.exception("notice.failed", subscription=subscription.pk)
        reason = f"a fault of this server: {type(error).__name__}"
        settle_failed(claim, reason, now=timezone.now(), is_final=False)
    else:
        settle_sent(claim, outcome, now=timezone.now())


def put_test(subscription: Subscription, *, now: datetime | None = None) -> bool:
    """Put a test notice into the outbox, due at once; False where there was one within this minute."""
    moment = now or timezone.now()
    message = tell_test(str(subscription), base_url=settings.PUBLIC_URL)
    _, is_new = Notice.objects.get_or_create(
        subscription=subscription,
        key=f"test {moment:%Y-%m-%d %H:%M}",
        defaults={"body": message.to_json(), "not_before_at": moment, "created_at": moment},
    )
    return is_new


def list_active() -> QuerySet[Subscription]:
    """Return the subscriptions that get notices."""
    return Subscription.objects.filter(is_active=True, owner__is_active=True).order_by("pk")


def _read_events(event_ids: Iterable[int]) -> QuerySet[IncidentEvent]:
    return (
        IncidentEvent.objects.filter(pk__in=list(event_ids), kind__in=TELLING_KINDS, undone_at__isnull=True)
        .select_related("incident", "by")
        .order_by("pk")
    )


def _is_telling(event: IncidentEvent, now: datetime) -> bool:
    incident = event.incident
    if not incident.is_regression or incident.merged_into_id is not None:
        return False
    if incident.verdict == Verdict.EXPECTED:
        return False
    if incident.snoozed_until is not None and incident.snoozed_until > now:
        return False
    if event.kind != "grew":
        return True
    # It also grows in breadth: that is on its page, and no news.
    before = event.before.get("severity")
    return before in _RANK and _RANK[before] < _RANK[incident.severity]


def _match(subscriptions: Iterable[Subscription], incident_ids: Iterable[int]) -> dict[str, set[int]]:
    """Return the incidents that each filter leaves: one of their changes is of a series that it leaves.

    One query for each filter that says something; what can no longer be understood pauses its subscriptions.
    """
    wanted: dict[str, set[int]] = {}
    by_filter: dict[str, list[Subscription]] = defaultdict(list)
    for subscription in subscriptions:
        by_filter[subscription.filter].append(subscription)
    ids = list(incident_ids)
    unreadable: dict[int, str] = {}
    for text, whose in by_filter.items():
        try:
            condition = match_series(parse_filter(text), "series__")
        except BadFilter as error:
            unreadable |= {subscription.pk: str(error) for subscription in whose}
            wanted[text] = set()
            continue
        changes = Change.objects.filter(condition, incident_id__in=ids) if text.strip() else None
        found = ids if changes is None else changes.values_list("incident_id", flat=True).distinct()
        wanted[text] = {each for each in found if each is not None}
    # In the order of ids, as everybody locks several.
    for subscription_id, error_words in sorted(unreadable.items()):
        pause(subscription_id, f"its filter is understood no longer: {error_words}")
    return wanted


def _wants(
    subscription: Subscription,
    event: IncidentEvent,
    *,
    wanted: dict[str, set[int]],
    told: set[tuple[int, int | None]],
) -> bool:
    has_heard = (subscription.pk, event.incident_id) in told
    if event.kind in GOOD_ENDS:
        return has_heard
    if event.kind == "grew" and has_heard and _is_unfolding(event):
        return False
    is_severe = _RANK[event.incident.severity] >= _RANK.get(subscription.least_severity, 0)
    return is_severe and event.incident_id in wanted[subscription.filter]


def _is_unfolding(event: IncidentEvent) -> bool:
    """Say whether the incident was not confirmed yet: its cells are still found one after the other."""
    earlier = IncidentEvent.objects.filter(incident_id=event.incident_id, pk__lt=event.pk, undone_at=None)
    return not earlier.filter(kind="confirmed").exists()


def _put(event: IncidentEvent, hearers: Sequence[Subscription], *, now: datetime) -> None:
    changes = Change.objects.filter(incident_id=event.incident_id).exclude(state=ChangeState.WITHDRAWN)
    worst = changes.select_related("series").order_by("-is_regression", Abs("relative").desc(), "pk")
    message = tell_incident(
        event.incident,
        event,
        changes=list(worst[:LEVELS_SHOWN]),
        change_count=changes.count(),
        base_url=settings.PUBLIC_URL,
    )
    key = _make_key(event)
    put_notices((Draft(each, key, message, event.incident_id) for each in hearers), now=now)


def _make_key(event: IncidentEvent) -> str:
    """Name what is told: "incident 12: opened", "incident 12: recovered 2"; an incident opens once."""
    if event.kind == "opened":
        return f"incident {event.incident_id}: opened"
    number = IncidentEvent.objects.filter(
        incident_id=event.incident_id, kind=event.kind, pk__lte=event.pk
    ).count()
    return f"incident {event.incident_id}: {event.kind} {number}"
