"""Out of the outbox: exactly once, again after a failure, and never for ever."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from ipaddress import ip_network
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from benchapp.framework.env import EmailServer
from benchapp.models import Channel, Incident, Notice, NoticeState, Subscription
from benchapp.notices.channels.transport import Message
from benchapp.notices.write.enqueue import enqueue, put_test, send_due
from benchapp.notices.write.outbox import (
    LEASE,
    Draft,
    claim_next,
    drop_paused,
    put_notices,
    settle_sent,
)
from tests.factories import NOON
from tests.hook_server import HookServer, serve_hook
from tests.mail_server import MailServer, serve_mail
from tests.received_notices import make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail(settings: Any) -> Iterator[MailServer]:
    with serve_mail() as server:
        settings.EMAIL_SERVER = EmailServer("127.0.0.1", server.port, "", "", "none")
        settings.EMAIL_FROM = "benchapp <bench@example.org>"
        settings.PUBLIC_URL = "https://bench.example.org"
        yield server


@pytest.fixture
def hook(settings: Any) -> Iterator[HookServer]:
    with serve_hook() as server:
        settings.WEBHOOK_PORTS = (server.port,)
        settings.WEBHOOK_ALLOW_PRIVATE = [ip_network("127.0.0.0/8")]
        yield server


def put(subscription: Subscription, *keys: str) -> None:
    drafts = [
        Draft(subscription, key, Message(kind="test", subject=key, sentence=f"Of {key}.")) for key in keys
    ]
    put_notices(drafts, now=timezone.now())


def make_due(**fields: Any) -> None:
    """Let time pass for what waits."""
    Notice.objects.filter(state=NoticeState.WAITING).update(not_before_at=timezone.now(), **fields)


def outcomes(notice: Notice) -> list[str]:
    return [attempt["outcome"] for attempt in notice.log]


def test_incident_arrives_by_mail_once(mail: MailServer) -> None:
    make_subscription()
    incident = make_incident()
    enqueue([make_event(incident).pk])

    assert (send_due(), send_due()) == (1, 0)

    (letter,) = mail.letters
    assert letter.message["Subject"] == "[benchapp] Worse, medium: p99 latency up 38 % on db-07"
    assert "p99 latency 2.90 ms, up 38 % from 2.10 ms" in letter.part("plain")
    assert f"https://bench.example.org/incidents/{incident.pk}/" in letter.part("html")
    notice = Notice.objects.get()
    assert (notice.state, notice.attempts) == (NoticeState.SENT, 1)
    assert outcomes(notice) == ["delivered: accepted by the mail server"]


def test_webhook_is_signed_and_slack_is_not(hook: HookServer) -> None:
    for channel in (Channel.WEBHOOK, Channel.SLACK):
        make_subscription(channel=channel, address=hook.url)
    incident = make_incident()
    enqueue([make_event(incident).pk])

    send_due()

    event, slack = (json.loads(request.body) for request in hook.requests)
    assert (event["type"], event["data"]["incident"]["id"]) == ("incident.worse", incident.pk)
    assert hook.requests[0].headers["webhook-signature"].startswith("v1,")
    assert slack["text"] == "Worse, medium: p99 latency up 38 % on db-07"
    assert "webhook-signature" not in hook.requests[1].headers


def test_all_that_waits_for_a_busy_receiver_leaves_it_alone_as_long_as_it_asks(hook: HookServer) -> None:
    subscription = make_subscription(channel=Channel.WEBHOOK, address=hook.url)
    put(subscription, "first", "second")
    hook.status, hook.headers = 429, {"Retry-After": "3000"}

    assert send_due() == 1

    for notice in Notice.objects.all():
        waited = (notice.not_before_at - timezone.now()).total_seconds()
        assert 2900 < waited <= 3000
    assert outcomes(Notice.objects.get(key="first")) == ["answered 429 with Retry-After 3000 s"]


def test_receiver_that_asks_for_for_ever_is_given_up_after_a_day(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), "first")
    hook.status, hook.headers = 503, {"Retry-After": "999999999"}
    send_due()
    assert Notice.objects.get().not_before_at <= timezone.now() + timedelta(hours=6)

    make_due(created_at=timezone.now() - timedelta(hours=25))
    send_due()

    assert Notice.objects.get().state == NoticeState.FAILED


def test_failure_is_tried_again_later_with_the_same_id(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), "a")
    hook.status = 503
    assert (send_due(), send_due()) == (1, 0)
    waited = (Notice.objects.get().not_before_at - timezone.now()).total_seconds()
    hook.status = 200
    make_due()

    send_due()

    notice = Notice.objects.get()
    assert 20 < waited <= 72
    assert outcomes(notice) == ["answered 503", "delivered: answered 200"]
    assert len({request.headers["webhook-id"] for request in hook.requests}) == 1
    assert Subscription.objects.get().failures == 0


def test_receiver_that_is_away_is_asked_once_and_not_for_each_notice(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), "a", "b", "c")
    hook.status = 500

    assert send_due() == 1

    assert len(hook.requests) == 1
    assert Subscription.objects.get().failures == 1
    assert not Notice.objects.filter(not_before_at__lte=timezone.now()).exists()


def test_notice_is_given_up_after_a_day(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), "a")
    hook.status = 500
    make_due(created_at=timezone.now() - timedelta(hours=24))

    send_due()

    notice = Notice.objects.get()
    assert notice.state == NoticeState.FAILED
    assert notice.settled_at is not None


def test_subscription_is_paused_with_a_reason_after_twenty_consecutive_failures(hook: HookServer) -> None:
    subscription = make_subscription(channel=Channel.WEBHOOK, address=hook.url)
    put(subscription, "a")
    hook.status = 500
    for _ in range(25):
        make_due()
        send_due()

    subscription.refresh_from_db()
    assert len(hook.requests) == 20
    assert not subscription.is_active
    assert subscription.paused_reason == "20 consecutive failures, the last one: answered 500"
    assert len(Notice.objects.get().log) == 10


def test_receiver_that_is_gone_pauses_at_once(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), "a")
    hook.status = 410

    send_due()

    assert Notice.objects.get().state == NoticeState.FAILED
    assert "410" in Subscription.objects.get().paused_reason


def test_notices_of_a_paused_subscription_are_dropped_after_a_day(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url, is_active=False), "a")

    assert (send_due(), drop_paused(now=timezone.now())) == (0, 0)
    assert drop_paused(now=timezone.now() + timedelta(hours=25)) == 1
    assert Notice.objects.get().state == NoticeState.DROPPED


def test_what_is_over_before_its_time_is_dropped(mail: MailServer) -> None:
    make_subscription()
    event = make_event(make_incident())
    enqueue([event.pk])
    Incident.objects.update(recovered_at=timezone.now())

    send_due()

    assert mail.letters == []
    assert Notice.objects.get().state == NoticeState.DROPPED


def test_what_was_expected_or_merged_before_its_time_is_dropped(mail: MailServer) -> None:
    make_subscription()
    expected, merged = make_incident(), make_incident(host="db-08")
    enqueue([make_event(expected).pk, make_event(merged).pk])
    Incident.objects.filter(pk=expected.pk).update(verdict="expected", state="resolved")
    Incident.objects.filter(pk=merged.pk).update(merged_into=expected)

    send_due()

    assert mail.letters == []
    assert set(Notice.objects.values_list("state", flat=True)) == {NoticeState.DROPPED}


@pytest.mark.parametrize(("recovered_at", "count"), [(None, 1), (NOON, 0)])
def test_snoozed_incident_is_told_once_when_the_snooze_ends_if_it_is_still_bad(
    mail: MailServer, recovered_at: datetime | None, count: int
) -> None:
    make_subscription()
    incident = make_incident(snoozed_until=timezone.now() + timedelta(days=1))
    events = [make_event(incident, kind, at=timezone.now()) for kind in ("confirmed", "grew")]
    for event in events:
        enqueue([event.pk])
    send_due()
    assert mail.letters == []

    Incident.objects.update(snoozed_until=timezone.now(), recovered_at=recovered_at)
    make_due()
    send_due()

    assert len(mail.letters) == count
    assert Notice.objects.filter(state=NoticeState.WAITING).count() == 0


def test_end_of_an_expected_incident_is_sent_after_its_beginning(mail: MailServer) -> None:
    make_subscription()
    incident = make_incident()
    enqueue([make_event(incident).pk])
    send_due()
    Incident.objects.filter(pk=incident.pk).update(verdict="expected", state="resolved")

    enqueue([make_event(incident, "resolved").pk])
    send_due()

    assert len(mail.letters) == 2


def test_sender_that_was_killed_leaves_the_notice_waiting(mail: MailServer) -> None:
    put(make_subscription(), "a")
    assert claim_next(now=timezone.now()) is not None  # and the process is gone

    assert send_due() == 0
    later = timezone.now() + LEASE
    claim = claim_next(now=later)

    assert claim is not None
    settle_sent(claim, "delivered", now=later)
    assert outcomes(Notice.objects.get()) == ["", "delivered"]


def test_sender_that_comes_too_late_does_not_overwrite_the_next_ones_outcome() -> None:
    put(make_subscription(), "a")
    slow = claim_next(now=timezone.now())
    fast = claim_next(now=timezone.now() + LEASE)
    assert slow is not None
    assert fast is not None
    settle_sent(fast, "delivered by the fast one", now=timezone.now())

    settle_sent(slow, "delivered by the slow one", now=timezone.now())

    assert outcomes(Notice.objects.get())[-1] == "delivered by the fast one"
    assert slow.message_id == fast.message_id


def test_digest_is_one_email_at_its_hour(mail: MailServer) -> None:
    hour = (timezone.now() + timedelta(hours=2)).hour
    put(make_subscription(is_digest=True, digest_hour=hour), "a", "b")
    assert send_due() == 0
    make_due()

    assert send_due() == 1

    (letter,) = mail.letters
    assert letter.message["Subject"] == "[benchapp] 2 notices: a, …"
    assert "Of a." in letter.part("plain")
    assert "Of b." in letter.part("plain")
    assert set(Notice.objects.values_list("state", flat=True)) == {"sent"}


@pytest.mark.parametrize(("count", "letters"), [(5, 5), (6, 1), (150, 2)])
def test_many_notices_are_sent_in_few_emails(mail: MailServer, count: int, letters: int) -> None:
    put(make_subscription(), *(f"incident {number}: opened" for number in range(count)))

    send_due()

    assert len(mail.letters) == letters
    assert not Notice.objects.exclude(state=NoticeState.SENT).exists()


def test_webhook_gets_each_notice_separately(hook: HookServer) -> None:
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), *"abcdefgh")

    send_due()

    assert len(hook.requests) == 8


def test_what_one_notice_breaks_does_not_hold_up_the_others(mail: MailServer) -> None:
    put(make_subscription(), "broken")
    Notice.objects.update(body={"levels": [{"no": "level"}]})
    put(make_subscription(), "fine")

    send_due()

    assert [letter.message["Subject"] for letter in mail.letters] == ["[benchapp] fine"]
    assert outcomes(Notice.objects.get(key="broken")) == ["internal error: TypeError"]


def test_missing_mail_configuration_names_the_setting(settings: Any) -> None:
    settings.EMAIL_SERVER = None
    put(make_subscription(), "a")

    send_due()

    assert "BENCHAPP_EMAIL_URL" in outcomes(Notice.objects.get())[0]


def test_test_notice_goes_out_at_once_and_once_a_minute(mail: MailServer) -> None:
    subscription = make_subscription(is_digest=True, quiet_from_hour=0, quiet_to_hour=23)

    assert put_test(subscription, now=NOON)
    assert not put_test(subscription, now=NOON + timedelta(seconds=59))
    send_due()

    assert "Test notification" in mail.letters[0].message["Subject"]


@pytest.mark.django_db(transaction=True)
def test_two_senders_at_once_send_each_notice_once(hook: HookServer) -> None:
    keys = [f"notice {number}" for number in range(12)]
    put(make_subscription(channel=Channel.WEBHOOK, address=hook.url), *keys)

    def send() -> None:
        try:
            send_due()
        finally:
            connection.close()

    senders = [threading.Thread(target=send) for _ in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()

    said = sorted(json.loads(request.body)["data"]["subject"] for request in hook.requests)
    assert said == sorted(keys)
    assert set(Notice.objects.values_list("state", "attempts")) == {("sent", 1)}


@pytest.mark.django_db(transaction=True)
def test_concurrent_processes_queue_a_notice_once(settings: Any) -> None:
    make_subscription()
    event = make_event(make_incident())

    def put_in() -> None:
        try:
            enqueue([event.pk])
        finally:
            connection.close()

    writers = [threading.Thread(target=put_in) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert Notice.objects.count() == 1
