"""Failing hosts: shown everywhere, notified once, over with the first valid value."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from benchapp.models import (
    Attempt,
    Host,
    Notice,
    NoticeState,
    PlannedEvent,
    PlannedEventKind,
    Role,
    Run,
    Scope,
    Target,
)
from benchapp.notices.write.outbox import forget_old_notices
from benchapp.notices.write.silence_notices import notify_silent_hosts
from benchapp.requests.read.failing import list_failing, read_all_failed
from tests.factories import (
    make_host,
    make_measurement,
    make_run,
    make_series,
    make_target,
    make_token,
    make_user,
)
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
NO_SPACE = 28


@pytest.fixture
def now() -> datetime:
    return timezone.now().replace(microsecond=0)


def make_nightly(
    name: str,
    outcomes: Sequence[bool],
    *,
    now: datetime,
    is_scheduled: bool = True,
    target: Target | None = None,
) -> Host:
    """Make a host with a run each night, the newest an hour ago; outcomes: whether each was good."""
    entry = {"profile": "quick", "every_s": 86_400, "splay_s": 600, "directory": "/data"}
    schedule = {"schedule": [entry], "schedule_since_at": now - 90 * DAY} if is_scheduled else {}
    host = make_host(name, **schedule)
    add_nights(host, outcomes, now=now, target=target)
    return host


def add_nights(
    host: Host, outcomes: Sequence[bool], *, now: datetime, target: Target | None = None
) -> list[Run]:
    first = now - timedelta(hours=1) - (len(outcomes) - 1) * DAY
    return [
        make_run(
            host,
            target=target,
            profile="quick",
            started_at=first + night * DAY,
            error=0 if is_good else NO_SPACE,
            command={}
            if is_good
            else {"failure": "fio reported error 28 (No space left on device) of job a"},
        )
        for night, is_good in enumerate(outcomes)
    ]


def name_failing(now: datetime) -> dict[str, list[str]]:
    names = dict(Host.objects.values_list("pk", "name"))
    failed = read_all_failed(now=now).items()
    return {
        names[pk]: [each.name for each in list_failing(groups)]
        for pk, groups in failed
        if list_failing(groups)
    }


def subjects(now: datetime) -> list[str]:
    notify_silent_hosts(now=now)
    return [
        notice.body["subject"] for notice in Notice.objects.filter(body__has_key="subject").order_by("pk")
    ]


def test_benchmark_that_fails_every_night_is_shown_and_notified(client: Client, now: datetime) -> None:
    make_subscription()
    host = make_nightly("db-1", [True] * 30 + [False] * 10, now=now)
    since = now - timedelta(hours=1) - 9 * DAY
    series = make_series(host=host)
    for run in Run.objects.filter(error=0):
        make_measurement(run, series, iops=10_000.0)
    client.force_login(make_user(Role.ADMIN))
    _, secret = make_token(Scope.READ)

    pages = {
        path: client.get(path).content.decode()
        for path in ("/", "/hosts/", "/hosts/db-1/", f"/series/{series.pk}/")
    }
    answer = client.get("/api/v1/hosts/db-1", headers={"authorization": f"Bearer {secret}"}).json()
    metrics = client.get("/metrics", headers={"authorization": f"Bearer {secret}"}).content.decode()

    assert "1 failing host" in pages["/"]
    assert "quick, fio reported error 28 (No space left on device) of job a" in pages["/"]
    assert "latest run of db-1" not in pages["/"]
    assert "1 host, 1 failing" in pages["/hosts/"]
    assert "failing since" in pages["/hosts/db-1/"]
    assert "no valid value since" in pages["/hosts/db-1/"]
    assert "quick of db-1: no valid value since" in pages[f"/series/{series.pk}/"]
    assert answer["failing_since"] == since.isoformat().replace("+00:00", "Z")
    assert answer["failing"] == ["quick"]
    assert "No space left on device" in answer["failing_reason"]
    assert "benchapp_failing_hosts 1.0" in metrics
    assert subjects(now) == ["Failing host: db-1"]
    message = Notice.objects.filter(body__has_key="subject")[0].body
    assert message["kind"] == "host.failing"
    assert "No space left on device" in message["sentence"]
    assert [entry["failing_since"] for entry in message["facts"]["hosts"]] == [answer["failing_since"]]


@pytest.mark.parametrize(
    ("outcomes", "is_scheduled", "expected"),
    [
        ([True] * 5, True, False),
        ([True, False], True, False),  # twice the interval has not passed
        ([True, False, False], True, True),  # it has
        ([True, False, False], False, False),
        ([True, False, False, False], False, True),
        ([False, False, False], False, True),
        ([False, False, False, True], True, False),
        ([True, False, False, True, False, False], False, False),
    ],
)
def test_three_results_without_a_value_are_failing(
    outcomes: Sequence[bool], is_scheduled: bool, expected: bool, now: datetime
) -> None:
    make_nightly("db-1", outcomes, now=now, is_scheduled=is_scheduled)

    assert name_failing(now) == ({"db-1": ["quick"]} if expected else {})


def test_one_failed_run_is_failing_after_twice_the_interval(now: datetime) -> None:
    make_nightly("db-1", [True, False], now=now)

    assert name_failing(now + DAY - timedelta(hours=1)) == {}
    assert name_failing(now + DAY) == {"db-1": ["quick"]}
    assert name_failing(now + 15 * DAY) == {}  # nothing was sent for two weeks


def test_one_of_two_drives_is_failing(now: datetime) -> None:
    host = make_nightly("db-1", [True] * 5, now=now, target=make_target(target_name="/fast"))
    add_nights(host, [True, False, False, False], now=now, target=make_target(target_name="/slow"))

    assert name_failing(now) == {"db-1": ["quick on /slow"]}


def test_run_without_a_target_name_counts_for_any_target(now: datetime) -> None:
    host = make_nightly("db-1", [False] * 4, now=now)
    assert name_failing(now) == {"db-1": ["quick"]}

    add_nights(host, [True], now=now + timedelta(minutes=1), target=make_target(target_name="/data"))
    assert name_failing(now) == {}


def test_runs_that_cannot_start_count_for_their_target(now: datetime) -> None:
    target = make_target(target_name="/slow")
    host = make_nightly("db-1", [True] * 5, now=now, target=make_target(target_name="/fast"))
    add_nights(host, [True], now=now - 3 * DAY, target=target)
    make_series(host=host, target=target)
    for number in range(3):
        Attempt.objects.create(
            sender_id=uuid4(),
            host=host,
            profile="quick",
            target_name="/slow/bench",
            started_at=now - timedelta(hours=1) - number * DAY,
            reason_code="storage-hangs",
            reason="I/O on /slow does not return",
        )

    assert name_failing(now) == {"db-1": ["quick on /slow"]}
    (failed,) = read_all_failed(now=now)[host.pk]
    assert (failed.reason, failed.path) == ("I/O on /slow does not return", "/hosts/db-1/#attempts")
    add_nights(host, [True], now=now, target=target)
    assert name_failing(now) == {}


def test_excluded_and_retired_do_not_count(now: datetime) -> None:
    make_nightly("db-1", [False] * 4, now=now)
    Run.objects.update(excluded_at=now)
    retired = make_nightly("db-2", [False] * 4, now=now)
    Host.objects.filter(pk=retired.pk).update(retired_at=now)

    assert name_failing(now) == {}


def test_return_is_notified_once_and_forgotten_with_the_failure(now: datetime) -> None:
    make_subscription()
    host = make_nightly("db-1", [True, False, False, False], now=now)
    assert subjects(now) == ["Failing host: db-1"]
    Notice.objects.update(state=NoticeState.SENT, settled_at=now)
    assert subjects(now + DAY) == ["Failing host: db-1"]
    forget_old_notices(now=now + 900 * DAY)
    assert Notice.objects.count() == 1

    add_nights(host, [True], now=now + DAY)

    assert subjects(now + DAY) == ["Failing host: db-1", "Host is back: db-1"]
    assert subjects(now + 1.1 * DAY) == ["Failing host: db-1", "Host is back: db-1"]
    assert (
        Notice.objects.latest("pk")
        .body["sentence"]
        .startswith("db-1 sends valid values again. It was failing since")
    )
    Notice.objects.update(state=NoticeState.SENT, settled_at=now)
    forget_old_notices(now=now + 900 * DAY)
    forget_old_notices(now=now + 900 * DAY)
    assert not Notice.objects.exists()


def test_five_hosts_that_fail_together_are_one_notice(now: datetime) -> None:
    make_subscription()
    hosts = [make_nightly(f"db-{number}", [True, False, False, False], now=now) for number in range(5)]

    assert subjects(now) == ["5 failing hosts"]
    Notice.objects.update(state=NoticeState.SENT)
    for host in hosts:
        add_nights(host, [True], now=now + DAY)
    assert subjects(now + DAY) == ["5 failing hosts", "5 hosts are back"]


def test_failure_from_before_the_subscription_is_not_notified(now: datetime) -> None:
    subscription = make_subscription()
    type(subscription).objects.update(created_at=now - 2 * DAY)
    make_nightly("db-1", [True] + [False] * 9, now=now)

    assert subjects(now) == []


def test_maintenance_mutes_failures(now: datetime) -> None:
    make_subscription()
    make_nightly("db-1", [True] * 5 + [False] * 4, now=now)
    PlannedEvent.objects.create(
        kind=PlannedEventKind.MAINTENANCE,
        filter="host:db-1",
        from_at=now - 5 * DAY,
        to_at=now,
        reason="disks",
    )

    assert subjects(now) == []
    assert name_failing(now) == {"db-1": ["quick"]}


def test_hosts_are_filtered_by_failing(client: Client, now: datetime) -> None:
    make_nightly("db-1", [False] * 3, now=now)
    make_nightly("db-2", [True] * 3, now=now)
    client.force_login(make_user())
    _, secret = make_token(Scope.READ)
    bearer = {"authorization": f"Bearer {secret}"}

    page = client.get("/hosts/?failing=1").content.decode()
    listed = [
        [
            host["name"]
            for host in client.get(f"/api/v1/hosts?is_failing={value}", headers=bearer).json()["hosts"]
        ]
        for value in ("true", "false")
    ]

    assert ("/hosts/db-1/" in page, "/hosts/db-2/" in page) == (True, False)
    assert listed == [["db-1"], ["db-2"]]
