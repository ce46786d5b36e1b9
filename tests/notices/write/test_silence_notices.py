"""Silent hosts: notified once, as a group if many become silent together, and when they return."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.catalog.grammar import parse_filter
from benchapp.models import Host, Notice, NoticeState, PlannedEvent, PlannedEventKind, State, Submission
from benchapp.models.coverage import matches_host
from benchapp.models.measurement import read_last_receipts
from benchapp.notices.write.silence_notices import notify_silent_hosts
from benchapp.storage.write.hosts import retire_host
from tests.factories import NOON, make_host, make_run, make_runs, make_series, make_submission, make_target
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)
# Every 6 h, up to 10 min late, a quarter of the interval granted: missed 7 h 40 min after the last run.
MISSED = timedelta(hours=7, minutes=40)
SOON = timedelta(minutes=1)


def make_scheduled(
    name: str, *, last_at: datetime | None = NOON, every_s: int = 21_600, **fields: Any
) -> Host:
    """Make a host that runs `quick` every six hours since a day, and did at last_at."""
    entry = {"profile": "quick", "every_s": every_s, "splay_s": 600, "directory": "/data"}
    host = make_host(name, schedule=[entry], schedule_since_at=NOON - timedelta(days=1), **fields)
    if last_at is not None:
        make_run(host, started_at=last_at)
    return host


def make_fleet(count: int, *, apart: timedelta = timedelta(0)) -> list[Host]:
    return [make_scheduled(f"db-{number}", last_at=NOON + number * apart) for number in range(count)]


def subjects() -> list[str]:
    """Return the subjects of the notices, without rows that only mark hosts."""
    notices = Notice.objects.filter(body__has_key="subject").order_by("pk")
    return [notice.body["subject"] for notice in notices]


def watch(*moments: datetime) -> list[str]:
    for moment in moments:
        notify_silent_hosts(now=moment)
    return subjects()


def expect_maintenance(filter: str, from_at: datetime, to_at: datetime, **fields: Any) -> None:
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter=filter,
        from_at=from_at,
        to_at=to_at,
        reason="disks",
        **fields,
    )


def test_host_is_silent_after_the_grace_period_and_notified_once() -> None:
    make_subscription()
    make_scheduled("db-1")

    assert watch(NOON + MISSED) == []
    assert watch(NOON + MISSED + SOON, NOON + MISSED + 2 * SOON, NOON + timedelta(days=3)) == [
        "Silent host: db-1"
    ]
    assert Notice.objects.get().body["sentence"] == (
        "db-1 has missed its scheduled run of quick: overdue since 21 Nov 2026 19:40 UTC; never seen."
    )


def test_host_that_never_ran_is_silent_too() -> None:
    make_subscription()
    make_scheduled("db-1", last_at=None)

    assert watch(NOON) == ["Silent host: db-1"]


def test_return_of_a_host_is_notified_once() -> None:
    make_subscription()
    host = make_scheduled("db-1")
    watch(NOON + 8 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)
    make_run(host, started_at=NOON + 9 * HOUR)

    assert watch(NOON + 10 * HOUR, NOON + 11 * HOUR) == ["Silent host: db-1", "Host is back: db-1"]
    assert watch(NOON + 9 * HOUR + MISSED + SOON)[2:] == ["Silent host: db-1"]


def test_host_that_returns_before_a_notice_is_not_notified() -> None:
    make_subscription(quiet_from_hour=18, quiet_to_hour=7)
    host = make_scheduled("db-1")
    watch(NOON + 8 * HOUR)
    make_run(host, started_at=NOON + 9 * HOUR)

    assert watch(NOON + 10 * HOUR) == ["Silent host: db-1"]
    assert Notice.objects.get().state == NoticeState.DROPPED


def test_fifty_hosts_that_fell_silent_together_are_one_notice() -> None:
    make_subscription()
    make_fleet(50, apart=timedelta(seconds=10))
    first = NOON + MISSED + SOON

    assert watch(first) == []  # only some are missed yet, the others are late
    assert watch(*(first + minute * SOON for minute in range(1, 60))) == ["50 silent hosts"]
    notice = Notice.objects.get(body__has_key="subject")
    assert [host["name"] for host in notice.body["facts"]["hosts"]][:3] == ["db-0", "db-1", "db-10"]


def test_few_hosts_are_notified_separately() -> None:
    make_subscription()
    make_fleet(4)

    assert watch(NOON + 8 * HOUR) == [f"Silent host: db-{number}" for number in range(4)]


def test_first_of_many_is_notified_within_an_hour_while_others_are_late() -> None:
    make_subscription()
    make_fleet(9, apart=timedelta(minutes=15))

    told_at = [
        minute
        for minute in range(0, 200, 5)
        if notify_silent_hosts(now=NOON + MISSED + minute * SOON + timedelta(seconds=1))
    ]

    assert told_at[0] == 60
    assert subjects()[0] == "5 silent hosts"
    assert Notice.objects.filter(key__startswith="host ").count() == 9


def test_many_that_are_back_together_are_one_notice() -> None:
    make_subscription()
    hosts = make_fleet(6)
    watch(NOON + 8 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)
    for number, host in enumerate(hosts):
        make_run(host, started_at=NOON + 9 * HOUR + number * SOON)
        watch(NOON + 9 * HOUR + number * SOON)

    assert subjects() == ["6 silent hosts", "6 hosts are back"]
    assert watch(NOON + 10 * HOUR) == subjects()


def test_partial_return_of_a_group_is_notified_after_an_hour() -> None:
    make_subscription()
    hosts = make_fleet(6)
    watch(NOON + 8 * HOUR)
    for host in hosts[:2]:
        make_run(host, started_at=NOON + 9 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)

    assert watch(NOON + 9.5 * HOUR)[1:] == []
    assert watch(NOON + 10.5 * HOUR, NOON + 11 * HOUR)[1:] == ["2 hosts are back"]


def test_retired_host_is_not_notified() -> None:
    make_subscription()
    make_scheduled("db-1", retired_at=NOON)
    make_scheduled("db-2")
    watch(NOON + 8 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)
    retire_host("db-2")

    assert watch(NOON + 9 * HOUR, NOON + 10 * HOUR) == ["Silent host: db-2"]


def test_host_without_schedule_is_never_silent() -> None:
    make_subscription()
    make_host("db-1")
    make_host("db-2", schedule=[], schedule_since_at=NOON)

    assert watch(NOON + timedelta(days=30)) == []


def test_maintenance_is_no_silence_and_a_run_is_expected_anew_after_it() -> None:
    make_subscription()
    make_scheduled("db-1")
    make_scheduled("web-1")
    expect_maintenance("host:db-*", NOON + 5 * HOUR, NOON + 10 * HOUR)

    assert watch(NOON + 8 * HOUR) == ["Silent host: web-1"]
    assert watch(NOON + 10 * HOUR + MISSED) == ["Silent host: web-1"]
    assert watch(NOON + 10 * HOUR + MISSED + SOON)[1:] == ["Silent host: db-1"]


def test_maintenance_that_was_canceled_hides_no_silence() -> None:
    make_subscription()
    make_scheduled("db-1")
    expect_maintenance("", NOON, NOON + timedelta(days=9), canceled_at=NOON + HOUR)

    assert watch(NOON + 8 * HOUR) == ["Silent host: db-1"]


def test_maintenance_that_was_ended_early_counts_until_then() -> None:
    make_subscription()
    make_scheduled("db-1")
    expect_maintenance("", NOON, NOON + timedelta(days=9), ended_at=NOON + HOUR)

    assert watch(NOON + HOUR + MISSED) == []
    assert watch(NOON + HOUR + MISSED + SOON) == ["Silent host: db-1"]


def test_maintenance_does_not_end_a_reported_silence() -> None:
    make_subscription()
    make_scheduled("db-1")
    watch(NOON + 8 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)
    expect_maintenance("", NOON + 8 * HOUR, NOON + 9 * HOUR)

    assert watch(NOON + 8.5 * HOUR, NOON + 9.5 * HOUR, NOON + timedelta(days=2)) == ["Silent host: db-1"]


def test_result_that_waits_to_be_read_is_no_silence() -> None:
    make_subscription()
    host = make_scheduled("db-1")
    make_submission(host, state=State.RECEIVED)

    assert watch(NOON + 8 * HOUR) == []
    Submission.objects.update(state=State.REJECTED, reason_code="x", settled_at=NOON, parser_version=1)
    assert watch(NOON + 8 * HOUR) == ["Silent host: db-1"]


def test_new_schedule_is_not_a_return() -> None:
    make_subscription()
    host = make_scheduled("db-1")
    watch(NOON + 8 * HOUR)
    Notice.objects.update(state=NoticeState.SENT)
    Host.objects.filter(pk=host.pk).update(schedule_since_at=NOON + 8.5 * HOUR)

    assert watch(NOON + 9 * HOUR) == ["Silent host: db-1"]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("", ["db-1", "web-1"]),
        ("host:db-*", ["db-1"]),
        ("-host:db-1", ["web-1"]),
        ("pool:blue", ["db-1"]),
        ("host:web-1 pool:blue", ["db-1", "web-1"]),
        ("volume_type:gp3", ["db-1"]),
        ("host:web-1 volume_type:gp3", []),
    ],
)
def test_filter_chooses_the_hosts(filter: str, expected: list[str]) -> None:
    make_subscription(filter=filter)
    make_series(pool="blue", host=make_scheduled("db-1", pool="blue"), target=make_target(volume_type="gp3"))
    make_scheduled("web-1")

    assert watch(NOON + 8 * HOUR) == [f"Silent host: {name}" for name in expected]


@pytest.mark.parametrize(
    ("filter", "name", "pool", "expected"),
    [
        ("host:DB-*", "db-7", "", True),
        ("host:*-7", "db-7", "", True),
        ("host:d*-*7", "db-17", "", True),
        ("host:db*b-7", "db-7", "", False),
        ("host:db-7", "db-70", "", False),
        ("host:db-7,db-8", "db-8", "", True),
        ("pool:unknown", "db-7", "", True),
        ("pool:unknown", "db-7", "blue", False),
        ("-pool:blue", "db-7", "blue", False),
        ("rw:read", "db-7", "blue", True),
        ("host:*a*a*a*a*a*a*a*b", "a" * 250, "", False),
    ],
)
def test_names_in_a_filter_are_matched_with_the_host(
    filter: str, name: str, pool: str, expected: bool
) -> None:
    assert matches_host(parse_filter(filter), name, pool) is expected


def test_silence_from_before_the_subscription_is_not_notified() -> None:
    subscription = make_subscription()
    make_scheduled("db-1")
    make_scheduled("db-2", last_at=NOON + 10 * HOUR)
    type(subscription).objects.update(created_at=NOON + 12 * HOUR)

    assert watch(NOON + timedelta(days=2)) == ["Silent host: db-2"]


def test_who_does_not_want_silence_is_spared(django_assert_num_queries: Any) -> None:
    make_subscription(notify_silent_hosts=False)
    make_scheduled("db-1")

    with django_assert_num_queries(1):
        assert notify_silent_hosts(now=NOON + 8 * HOUR) == 0


def test_watch_asks_as_much_for_many_hosts_as_for_one(django_assert_num_queries: Any) -> None:
    make_subscription()
    make_fleet(20)

    # any subscription, savepoint and its end, lock, subscriptions, hosts, last runs, maintenance, unread, told;
    # of failing: hosts, failed runs
    with django_assert_num_queries(12):
        notify_silent_hosts(now=NOON + HOUR)


@pytest.mark.django_db(transaction=True)
def test_concurrent_checks_notify_once() -> None:
    make_subscription()
    make_fleet(7)

    def look() -> None:
        try:
            notify_silent_hosts(now=NOON + 8 * HOUR)
        finally:
            connection.close()

    watches = [threading.Thread(target=look) for _ in range(4)]
    for each in watches:
        each.start()
    for each in watches:
        each.join()

    assert subjects() == ["7 silent hosts"]


def test_silent_hosts_are_found_without_the_runs_of_others() -> None:
    make_runs(make_host("db-1"), [NOON - number * HOUR for number in range(200)])
    with CaptureQueriesContext(connection) as queries:
        read_last_receipts([(make_host("db-2").pk, "quick", "/data", NOON - timedelta(days=30))])

    (statement,) = [query["sql"] for query in queries if "wanted" in query["sql"]]
    with connection.cursor() as cursor:
        # Statistics of other tests would decide otherwise; and so few rows are read faster without an index.
        cursor.execute("ANALYZE benchapp_submission, benchapp_run, benchapp_target, benchapp_attempt")
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {statement}")
        plan = " ".join(line for (line,) in cursor.fetchall())

    assert ("submission_of_host" in plan, "run_by_folded_profile" in plan) == (True, False)
