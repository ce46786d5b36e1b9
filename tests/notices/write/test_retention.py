"""Old settled notices are deleted, except those that prevent duplicates; waiting ones are kept."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.models import Incident, IncidentEvent, Notice, NoticeState, Subscription
from benchapp.notices.write.enqueue import enqueue
from benchapp.notices.write.outbox import forget_old_notices
from benchapp.notices.write.silence_notices import notify_silent_hosts
from benchapp.tasks import forget
from tests.factories import NOON, make_host, make_run
from tests.received_notices import make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db

LATER = NOON + timedelta(days=181)
HOUR = timedelta(hours=1)


@pytest.fixture
def subscription() -> Subscription:
    return make_subscription()


def make_notice(subscription: Subscription, key: str, **fields: Any) -> Notice:
    values: dict[str, Any] = {
        "state": NoticeState.SENT,
        "not_before_at": NOON,
        "created_at": NOON,
        "settled_at": NOON,
        **fields,
    }
    return Notice.objects.create(subscription=subscription, key=key, **values)


def keys() -> list[str]:
    return list(Notice.objects.order_by("pk").values_list("key", flat=True))


def test_settled_notices_are_forgotten_after_half_a_year(subscription: Subscription) -> None:
    for state in (NoticeState.SENT, NoticeState.FAILED, NoticeState.DROPPED):
        make_notice(subscription, f"old {state}", state=state)
    make_notice(subscription, "younger", settled_at=NOON + 2 * timedelta(days=1))

    assert forget_old_notices(now=LATER) == 3
    assert keys() == ["younger"]


def test_what_waits_is_never_forgotten_however_old(subscription: Subscription) -> None:
    make_notice(subscription, "waits", state=NoticeState.WAITING, settled_at=None)
    # Put back by hand, with the moment at which it was given up.
    make_notice(subscription, "waits again", state=NoticeState.WAITING)

    assert forget_old_notices(now=LATER + timedelta(days=9999)) == 0


def test_notices_of_an_open_incident_are_retained(subscription: Subscription) -> None:
    incident = make_incident(state="acknowledged")
    enqueue([make_event(incident).pk])
    Notice.objects.update(state=NoticeState.SENT, settled_at=NOON)

    assert forget_old_notices(now=LATER) == 0
    Incident.objects.update(recovered_at=LATER)
    enqueue([IncidentEvent.objects.create(incident=incident, at=LATER, kind="recovered").pk])
    assert len(keys()) == 2


@pytest.mark.parametrize("is_merged", [False, True])
def test_notices_of_an_incident_that_is_over_go(subscription: Subscription, is_merged: bool) -> None:
    other = make_incident(host="db-08", state="resolved")
    incident = make_incident(**{"merged_into": other} if is_merged else {"state": "resolved"})
    make_notice(subscription, f"incident {incident.pk}: opened", incident=incident)

    assert forget_old_notices(now=LATER) == 1


def test_notices_of_an_incident_that_is_part_of_an_open_one_are_retained(subscription: Subscription) -> None:
    merged = make_incident(state="resolved", merged_into=make_incident(host="db-08"))
    make_notice(subscription, f"incident {merged.pk}: opened", incident=merged)

    assert forget_old_notices(now=LATER) == 0


def watch(*moments: datetime) -> list[str]:
    """Queue and send notices of silent hosts, and return all keys so far."""
    for moment in moments:
        notify_silent_hosts(now=moment)
        Notice.objects.filter(state=NoticeState.WAITING).update(state=NoticeState.SENT, settled_at=moment)
    told = Notice.objects.filter(body__has_key="subject").order_by("pk")
    return [notice.body["subject"] for notice in told]


def test_open_silence_is_retained_and_its_end_notified_once(subscription: Subscription) -> None:
    entry = {"profile": "quick", "every_s": 21_600, "splay_s": 600, "directory": "/data"}
    host = make_host("db-1", schedule=[entry], schedule_since_at=NOON - timedelta(days=1))
    make_run(host, started_at=NOON)
    assert watch(NOON + 8 * HOUR) == ["Silent host: db-1"]

    assert forget_old_notices(now=LATER) == 0
    make_run(host, started_at=LATER)
    assert watch(LATER + HOUR) == ["Silent host: db-1", "Host is back: db-1"]

    # Long after it, both go: first what was told, then that it is over, and nothing is told again.
    assert forget_old_notices(now=LATER + timedelta(days=182), limit=1) == 2
    make_run(host, started_at=LATER + timedelta(days=182))
    assert watch(LATER + timedelta(days=182, hours=1)) == []


def test_end_of_a_silence_is_retained_as_long_as_its_start(subscription: Subscription) -> None:
    moment = NOON.isoformat()
    make_notice(subscription, f"host 1 silent {moment}", settled_at=NOON + 5 * HOUR)
    make_notice(subscription, f"host 1 back {moment}")

    assert forget_old_notices(now=NOON + timedelta(days=180) + HOUR) == 0
    assert forget_old_notices(now=LATER, limit=1) == 2


def test_batches_end_with_the_last_one_and_each_is_bounded(
    subscription: Subscription, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        make_notice(subscription, f"test {number}")

    # Three batches that find something and one that does not, each with its savepoint here.
    with django_assert_num_queries(12):
        assert forget_old_notices(now=LATER, limit=2) == 5


def test_retention_of_zero_days_keeps_all(subscription: Subscription, settings: Any) -> None:
    settings.NOTICE_RETENTION_DAYS = 0
    make_notice(subscription, "old")

    assert forget_old_notices(now=LATER) == 0


def test_beat_forgets_every_hour(subscription: Subscription, settings: Any) -> None:
    entry = settings.CELERY_BEAT_SCHEDULE["forget"]
    assert (entry["task"], entry["schedule"]) == (forget.name, 3600.0)
    settings.NOTICE_RETENTION_DAYS = 1
    make_notice(subscription, "old", settled_at=timezone.now() - timedelta(days=2))

    forget()

    assert keys() == []
