"""Queue notices of incident events in the transaction of the event, and send due notices."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import SMALLEST_CHANGES, list_detected_metrics
from benchapp.incidents.rules.incidents import measure_multiple
from benchapp.models import (
    Change,
    Incident,
    IncidentEvent,
    Notice,
    NoticeState,
    Severity,
    Subscription,
    Verdict,
)
from benchapp.models.filtering import match_series
from benchapp.notices.channels.transport import (
    CLOSING_KINDS,
    Message,
    NotDelivered,
    get_transport,
    make_test_message,
)
from benchapp.notices.write.email_confirmation import (
    MESSAGE_KIND,
    add_link,
    make_link_secret,
    prepare_confirmations,
    store_link,
)
from benchapp.notices.write.incident_message import (
    LEVELS_SHOWN,
    make_incident_message,
)
from benchapp.notices.write.outbox import (
    Draft,
    NoticeClaim,
    claim_next,
    drop_paused,
    pause,
    put_notices,
    settle_failed,
    settle_sent,
)

log = structlog.get_logger(__name__)

NOTIFIED_KINDS: Final = CLOSING_KINDS | {"opened", "grew", "reopened"}
# Filter and metrics of a subscription.
_Scope = tuple[str, tuple[str, ...]]
_RANK: Final = {Severity.LOW.value: 0, Severity.MEDIUM.value: 1, Severity.HIGH.value: 2}


def enqueue(event_ids: Sequence[int]) -> None:
    """Queue notices of these events; call it in the transaction that writes them.

    Notified: an incident opened, increased in severity, reopened, recovered, was resolved or accepted; the last three
    only for subscriptions with an earlier notice of it, or of an incident that was merged into it. A severity increase
    before confirmation is sent only to subscriptions without a notice, as detection is still in progress. Improvements
    and merged incidents send nothing, expected and snoozed ones only that they are over. Each event is queued once.
    """
    now = timezone.now()
    events = [event for event in _read_events(event_ids) if _should_notify(event, now)]
    subscriptions = list(list_active().filter(notify_incidents=True)) if events else []
    if not subscriptions:
        return
    incident_ids = {event.incident_id for event in events}
    wanted = _match(subscriptions, incident_ids)
    last_kinds = _read_last_kinds(incident_ids)
    for event in events:
        recipients = [
            each
            for each in subscriptions
            if _wants(each, event, wanted=wanted, last_kind=last_kinds.get((each.pk, event.incident_id)))
        ]
        last_kinds |= {(each.pk, event.incident_id): event.kind for each in recipients}
        if recipients:
            _queue(event, recipients, now=now)


def send_due(*, budget_s: float = 20.0) -> int:
    """Send due notices until none is left or the time budget is used; return the number of attempted messages."""
    started = time.monotonic()
    drop_paused(now=timezone.now())
    prepare_confirmations(now=timezone.now())
    attempted = 0
    while time.monotonic() - started < budget_s:
        claim = claim_next(now=timezone.now())
        if claim is None:
            break
        if claim.notices:
            send_claim(claim)
            attempted += 1
    return attempted


def send_claim(claim: NoticeClaim) -> None:
    """Send claimed notices outside of any transaction and store the outcome."""
    subscription, secret = claim.subscription, make_link_secret()
    try:
        messages = [_read_message(notice, secret) for notice in claim.notices]
        outcome = get_transport(subscription.channel).send(
            subscription, messages, message_id=claim.message_id, at=claim.notices[0].created_at
        )
        if any(message.kind == MESSAGE_KIND for message in messages):
            store_link(secret, subscription)
    except NotDelivered as error:
        log.warning("notice.not_delivered", subscription=subscription.pk, reason=str(error))
        settle_failed(
            claim, str(error), now=timezone.now(), is_final=error.is_final, retry_after=error.retry_after
        )
    except Exception as error:  # process boundary: an error in one notice must not block the others
        log.exception("notice.failed", subscription=subscription.pk)
        reason = f"internal error: {type(error).__name__}"
        settle_failed(claim, reason, now=timezone.now(), is_final=False)
    else:
        settle_sent(claim, outcome, now=timezone.now())


def _read_message(notice: Notice, secret: str) -> Message:
    message = Message.from_json(notice.body)
    return add_link(message, secret) if message.kind == MESSAGE_KIND else message


def put_test(subscription: Subscription, *, now: datetime | None = None) -> bool:
    """Queue a test notice that is due immediately; False if there was one within the last minute."""
    moment = now or timezone.now()
    message = make_test_message(str(subscription), base_url=settings.PUBLIC_URL)
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
        IncidentEvent.objects.filter(pk__in=list(event_ids), kind__in=NOTIFIED_KINDS, undone_at__isnull=True)
        .select_related("incident", "by")
        .order_by("pk")
    )


def _should_notify(event: IncidentEvent, now: datetime) -> bool:
    incident = event.incident
    if not incident.is_regression or incident.merged_into_id is not None:
        return False
    # For whoever was told that it is bad.
    if event.kind in CLOSING_KINDS:
        return True
    if incident.verdict == Verdict.EXPECTED:
        return False
    if incident.snoozed_until is not None and incident.snoozed_until > now:
        return False
    if event.kind != "grew":
        return True
    # More affected series are shown on its page, without a notice.
    before = event.before.get("severity")
    return before in _RANK and _RANK[before] < _RANK[incident.severity]


def _read_last_kinds(incident_ids: Collection[int]) -> dict[tuple[int, int], str]:
    """Return the kind of the last notice by subscription and incident, with those of incidents merged into it."""
    homes = {incident_id: incident_id for incident_id in incident_ids}
    joined: Collection[int] = incident_ids
    while joined:
        rows = Incident.objects.filter(merged_into__in=joined).values_list("pk", "merged_into_id")
        merged = {pk: homes[into] for pk, into in rows if into is not None}
        joined = merged.keys() - homes.keys()
        homes |= merged
    notices = Notice.objects.filter(
        incident_id__in=homes, state__in=(NoticeState.WAITING, NoticeState.SENT)
    ).order_by("pk")
    return {
        (subscription_id, homes[incident_id]): kind.removeprefix("incident.")
        for subscription_id, incident_id, kind in notices.values_list(
            "subscription_id", "incident_id", "body__kind"
        )
        if incident_id is not None
    }


def _match(subscriptions: Iterable[Subscription], incident_ids: Iterable[int]) -> dict[_Scope, set[int]]:
    """Return the incidents that match each filter with metrics: one of their changes is in a matching series.

    One query for each that is not empty; a filter that is no longer valid pauses its subscriptions.
    """
    wanted: dict[_Scope, set[int]] = {}
    by_scope: dict[_Scope, list[Subscription]] = defaultdict(list)
    for subscription in subscriptions:
        by_scope[_get_scope(subscription)].append(subscription)
    ids = list(incident_ids)
    invalid: dict[int, str] = {}
    for (text, metrics), owners in by_scope.items():
        try:
            condition = match_series(parse_filter(text), "series__")
        except BadFilter as error:
            invalid |= {subscription.pk: str(error) for subscription in owners}
            wanted[text, metrics] = set()
            continue
        if metrics:
            condition &= Q(metric__in=list_detected_metrics(metrics))
        changes = Change.objects.filter(condition, incident_id__in=ids) if text.strip() or metrics else None
        found = ids if changes is None else changes.values_list("incident_id", flat=True).distinct()
        wanted[text, metrics] = {each for each in found if each is not None}
    # In the order of ids, the lock order of all writers.
    for subscription_id, error_text in sorted(invalid.items()):
        pause(subscription_id, f"filter is no longer valid: {error_text}")
    return wanted


def _get_scope(subscription: Subscription) -> _Scope:
    return subscription.filter, tuple(subscription.metrics)


def _wants(
    subscription: Subscription,
    event: IncidentEvent,
    *,
    wanted: dict[_Scope, set[int]],
    last_kind: str | None,
) -> bool:
    if event.kind in CLOSING_KINDS:
        return last_kind not in (None, event.kind)
    if event.kind == "grew" and last_kind and _is_unconfirmed(event):
        return False
    is_severe = _RANK[event.incident.severity] >= _RANK.get(subscription.minimum_severity, 0)
    return is_severe and event.incident_id in wanted[_get_scope(subscription)]


def _is_unconfirmed(event: IncidentEvent) -> bool:
    """Return whether the incident is not confirmed yet: its series are still being detected."""
    earlier = IncidentEvent.objects.filter(incident_id=event.incident_id, pk__lt=event.pk, undone_at=None)
    return not earlier.filter(kind="confirmed").exists()


def _queue(event: IncidentEvent, recipients: Sequence[Subscription], *, now: datetime) -> None:
    changes = Change.objects.stated().filter(incident_id=event.incident_id)
    sizes = changes.values_list("pk", "metric", "relative")
    ordered = sorted(sizes, key=lambda row: (-measure_multiple(row[2], SMALLEST_CHANGES[row[1]]), row[0]))
    largest = [change_id for change_id, *_ in ordered[:LEVELS_SHOWN]]
    rows = changes.select_related("series").in_bulk(largest)
    message = make_incident_message(
        event.incident,
        event,
        changes=[rows[change_id] for change_id in largest],
        change_count=len(ordered),
        base_url=settings.PUBLIC_URL,
    )
    key = _make_key(event)
    put_notices((Draft(each, key, message, event.incident_id) for each in recipients), now=now)


def _make_key(event: IncidentEvent) -> str:
    """Return the key of a notice: "incident 12: opened", "incident 12: recovered 2"; an incident opens once."""
    if event.kind == "opened":
        return f"incident {event.incident_id}: opened"
    number = IncidentEvent.objects.filter(
        incident_id=event.incident_id, kind=event.kind, pk__lte=event.pk
    ).count()
    return f"incident {event.incident_id}: {event.kind} {number}"
