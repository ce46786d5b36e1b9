"""Queue notices of incident events in the transaction of the event, and send due notices."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from benchapp.catalog.grammar import BadFilter, parse_filter
from benchapp.catalog.metrics import SMALLEST_CHANGES, list_detected_metrics
from benchapp.incidents.rules.incidents import measure_multiple
from benchapp.models import (
    CONFIRMED_RUNS,
    Change,
    Incident,
    IncidentEvent,
    Notice,
    Phase,
    Severity,
    Subscription,
    Verdict,
)
from benchapp.models.filtering import match_series
from benchapp.notices.channels.transport import (
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
    Told,
    claim_next,
    drop_paused,
    is_news,
    pause,
    put_notices,
    read_told,
    settle_failed,
    settle_sent,
)

log = structlog.get_logger(__name__)

# Phase of an incident after an event of a kind; "undone" may change it, too.
_PHASES: Final = {
    "opened": Phase.SUSPECTED,
    "reopened": Phase.SUSPECTED,
    "confirmed": Phase.WORSE,
    "grew": Phase.WORSE,
    "intermittent": Phase.INTERMITTENT,
    "recovered": Phase.OVER,
    "resolved": Phase.OVER,
    "accepted": Phase.OVER,
}
_TOLD_KINDS: Final = (*_PHASES, "undone")
# Days whose notices a subscription shows for other numbers of further runs.
PAST_DAYS: Final = 90
# Filter and metrics of a subscription.
_Scope = tuple[str, tuple[str, ...]]
_RANK: Final = {Severity.LOW.value: 0, Severity.MEDIUM.value: 1, Severity.HIGH.value: 2}


def enqueue(event_ids: Sequence[int]) -> bool:
    """Queue notices of the phases of incidents that these events changed, and return whether there are any.

    Call it in the transaction that writes them. A notice of a phase goes to those who were told another one, or none
    (`is_news`); it is looked at again when it is sent. Each event is queued once.
    """
    now = timezone.now()
    events = list(_read_events(event_ids))
    subscriptions = list(list_active().filter(notify_incidents=True)) if events else []
    if not subscriptions:
        return False
    incident_ids = {event.incident_id for event in events}
    wanted = _match(subscriptions, incident_ids)
    told = read_told(incident_ids)
    queued = False
    for event in events:
        incident = event.incident
        recipients = [
            each
            for each in subscriptions
            if is_news(
                each,
                incident,
                told.get((each.pk, incident.pk)),
                grew_at=event.at if event.kind == "grew" else None,
            )
            and (incident.phase == Phase.OVER or _wants(each, incident, wanted=wanted))
        ]
        told |= {(each.pk, incident.pk): Told(incident.phase, event.at) for each in recipients}
        if recipients:
            _queue(event, recipients, now=now)
            queued = True
    return queued


def count_past_notices(subscription: Subscription, *, further_runs: Sequence[int]) -> list[int]:
    """Return how many notices of incidents it would have had in the last 90 days, by further runs that it asked for.

    By the events of these days; a number of runs takes so many usual intervals.
    """
    since = timezone.now() - timedelta(days=PAST_DAYS)
    rows = IncidentEvent.objects.filter(kind__in=_PHASES, undone_at=None, at__gt=since)
    rows = rows.filter(incident__is_regression=True, incident__merged_into=None).exclude(
        incident__verdict=Verdict.EXPECTED
    )
    events: dict[int, list[IncidentEvent]] = defaultdict(list)
    for event in rows.select_related("incident").order_by("pk"):
        events[event.incident_id].append(event)
    wanted = _match([subscription], events)
    intervals: dict[int, list[float]] = defaultdict(list)
    changes = Change.objects.filter(incident__in=events)
    for incident_id, interval_s in changes.values_list("incident_id", "evidence__interval_s"):
        intervals[incident_id or 0].append(interval_s or 0.0)
    counts = [0] * len(further_runs)
    for incident_id, of in events.items():
        if not _wants(subscription, of[0].incident, wanted=wanted):
            continue
        interval = timedelta(seconds=median(intervals.get(incident_id, [0.0])))
        for place, runs in enumerate(further_runs):
            counts[place] += _count_told(of, runs, wait=max(runs - CONFIRMED_RUNS, 0) * interval)
    return counts


def _count_told(events: Sequence[IncidentEvent], further_runs: int, *, wait: timedelta) -> int:
    """Return how many notices these events of an incident are; wait: from its confirmation until it is certain."""
    count, told = 0, Phase.OVER
    ends = [*(event.at for event in events[1:]), timezone.now()]
    for event, until in zip(events, ends, strict=True):
        phase = _PHASES[event.kind]
        is_early = phase == Phase.WORSE and until - event.at < wait
        is_hidden = phase == Phase.SUSPECTED and further_runs > 0
        if not is_early and not is_hidden and (phase != told or event.kind == "grew"):
            count, told = count + 1, phase
    return count


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
    if notice.incident_id is not None:
        # As it is now.
        event = IncidentEvent.objects.select_related("incident", "by").get(pk=message.facts["event"]["id"])
        message = _make_message(event)
        Notice.objects.filter(pk=notice.pk).update(body=message.to_json())
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
    """Return the subscriptions that get notices: none of people who are limited to pools."""
    return Subscription.objects.filter(is_active=True, owner__is_active=True, owner__pools=[]).order_by("pk")


def _read_events(event_ids: Iterable[int]) -> QuerySet[IncidentEvent]:
    events = IncidentEvent.objects.filter(pk__in=list(event_ids), kind__in=_TOLD_KINDS, undone_at=None)
    return events.select_related("incident", "by").order_by("pk")


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


def _wants(subscription: Subscription, incident: Incident, *, wanted: dict[_Scope, set[int]]) -> bool:
    is_severe = _RANK[incident.severity] >= _RANK.get(subscription.minimum_severity, 0)
    return is_severe and incident.pk in wanted[_get_scope(subscription)]


def _queue(event: IncidentEvent, recipients: Sequence[Subscription], *, now: datetime) -> None:
    message, key = _make_message(event), _make_key(event)
    put_notices((Draft(each, key, message, event.incident_id) for each in recipients), now=now)


def _make_message(event: IncidentEvent) -> Message:
    changes = Change.objects.stated().filter(incident_id=event.incident_id)
    sizes = changes.values_list("pk", "metric", "relative")
    ordered = sorted(sizes, key=lambda row: (-measure_multiple(row[2], SMALLEST_CHANGES[row[1]]), row[0]))
    largest = [change_id for change_id, *_ in ordered[:LEVELS_SHOWN]]
    rows = changes.select_related("series").in_bulk(largest)
    return make_incident_message(
        event.incident,
        event,
        changes=[rows[change_id] for change_id in largest],
        change_count=len(ordered),
        base_url=settings.PUBLIC_URL,
        allows_requests=event.incident.phase == Phase.SUSPECTED
        and changes.filter(
            ~Q(run__host__request_policy__policy__profiles=[]), run__host__request_policy__isnull=False
        ).exists(),
    )


def _make_key(event: IncidentEvent) -> str:
    """Return the key of a notice: "incident 12: opened", "incident 12: recovered 2"; an incident opens once."""
    if event.kind == "opened":
        return f"incident {event.incident_id}: opened"
    number = IncidentEvent.objects.filter(
        incident_id=event.incident_id, kind=event.kind, pk__lte=event.pk
    ).count()
    return f"incident {event.incident_id}: {event.kind} {number}"
