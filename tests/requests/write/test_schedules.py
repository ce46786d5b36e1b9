"""Schedules of hosts, and silent hosts."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError

from benchapp.accounts.write.tokens import read_token
from benchapp.detection.rules.levels import ExpectedRun, expect_run
from benchapp.models import Host, InstalledSchedule
from benchapp.requests.read.schedules import KnownSchedule, read_schedules
from benchapp.storage.read.hosts import read_host
from benchapp.storage.write.hosts import note_schedule
from tests.factories import NOON, make_host, make_run, make_token

pytestmark = pytest.mark.django_db

QUICK = InstalledSchedule("quick", every_s=21_600, splay_s=600, directory="/data")
SERIES = InstalledSchedule("ebs-series", every_s=86_400, splay_s=0, directory="/data")
ROW = {"profile": "quick", "every_s": 21_600, "splay_s": 600, "directory": "/data"}


def at(hour: int, minute: int = 0, second: int = 0, *, day: int = 21) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last_at", "since_at", "every_s", "splay_s", "expected_at", "silent_at"),
    [
        # A quarter of 6 h is granted.
        (at(6), at(0), 21_600, 0, at(12), at(13, 30)),
        (at(6, 4, 7), at(0), 21_600, 600, at(12, 4, 7), at(13, 44, 7)),
        # A quarter of 15 min would be too little: 1 h.
        (at(6), at(0), 900, 0, at(6, 15), at(7, 15)),
        (at(6), at(0), 14_400, 0, at(10), at(11)),
        # A week.
        (at(2, day=1), at(0, day=1), 604_800, 3600, at(2, day=8), at(21, day=9)),
        # It never ran: counted from when the schedule became known.
        (None, at(6), 21_600, 0, at(12), at(13, 30)),
        # It ran before the schedule was changed: counted from the change.
        (at(1), at(6), 21_600, 0, at(12), at(13, 30)),
        # Its clock is ahead of ours: counted from now.
        (at(23, day=30), at(0), 21_600, 0, at(18), at(19, 30)),
    ],
)
def test_next_run_is_expected(last_at, since_at, every_s, splay_s, expected_at, silent_at):
    expected = expect_run(last_at, since_at=since_at, every_s=every_s, splay_s=splay_s, now=NOON)

    assert expected == ExpectedRun(expected_at, silent_at)


def test_host_is_silent_after_the_moment_and_not_at_it():
    run = ExpectedRun(at(12), at(13, 30))

    assert [run.is_silent(moment) for moment in (at(13), at(13, 30), at(13, 30, 1))] == [
        False,
        False,
        True,
    ]


def test_schedule_is_stored_with_reporter_and_time():
    host = make_host()

    assert note_schedule(host.pk, [QUICK], reported_by="bench_abc_… (ingest)")

    host.refresh_from_db()
    assert host.schedule == [ROW]
    assert host.schedule_reported_by == "bench_abc_… (ingest)"
    assert host.schedule_since_at is not None


def test_unchanged_schedule_keeps_its_start_time():
    host = make_host(schedule=[ROW], schedule_since_at=NOON)

    assert not note_schedule(host.pk, [QUICK], reported_by="another token")

    host.refresh_from_db()
    assert (host.schedule_since_at, host.schedule_reported_by) == (NOON, "")


def test_order_of_the_entries_makes_no_other_schedule():
    host = make_host()
    note_schedule(host.pk, [QUICK, SERIES], reported_by="")

    assert not note_schedule(host.pk, [SERIES, QUICK], reported_by="")


def test_nothing_scheduled_is_not_unknown():
    host, other = make_host(), make_host()

    assert note_schedule(host.pk, [], reported_by="")

    host.refresh_from_db()
    assert host.schedule == []
    assert Host.objects.filter(schedule__isnull=True).get() == other


def test_schedule_without_since_when_cannot_be_stored():
    with pytest.raises(IntegrityError, match="host_schedule_is_known_since_a_moment"):
        make_host(schedule=[])


def test_host_of_a_token_reads_its_schedule_when_asked():
    """The query of every POST leaves it out, and would give JSON as text."""
    _, plaintext = make_token(host=make_host(schedule=[ROW], schedule_since_at=NOON))

    host = read_token(plaintext).host

    assert host is not None
    assert host.schedule == [ROW]


def known(host: Host, *entries: InstalledSchedule, is_retired: bool = False) -> KnownSchedule:
    rows = [
        {"profile": each.profile, "every_s": each.every_s, "splay_s": each.splay_s, "directory": "/data"}
        for each in entries
    ]
    return KnownSchedule(host.pk, rows, at(0), "", is_retired)


def test_each_profile_is_judged_by_its_own_runs():
    host = make_host()
    make_run(host, profile="quick", started_at=at(3))
    make_run(host, profile="ebs-series", started_at=at(11))
    make_run(host, profile="by hand", started_at=at(11))

    schedule = read_schedules([known(host, QUICK, SERIES)], now=NOON)[host.pk]

    assert [(each.profile, each.last_at, each.is_silent) for each in schedule.entries] == [
        ("quick", at(3), True),
        ("ebs-series", at(11), False),
    ]
    assert (schedule.silent_since, schedule.expected_at) == (at(10, 40), at(11, day=22))


def test_retired_host_is_expected_to_do_nothing():
    host = make_host()

    schedule = read_schedules([known(host, QUICK, is_retired=True)], now=NOON)[host.pk]

    assert (schedule.silent_since, schedule.expected_at) == (None, None)
    assert len(schedule.entries) == 1


def test_host_without_a_schedule_is_not_silent():
    make_host("old", last_seen_at=NOON - timedelta(days=900))

    assert read_host("old").schedule is None


def test_schedules_of_many_hosts_take_one_query(django_assert_num_queries):
    hosts = [make_host() for _ in range(5)]

    with django_assert_num_queries(1):
        schedules = read_schedules([known(host, QUICK, SERIES) for host in hosts], now=NOON)

    assert len(schedules) == 5
