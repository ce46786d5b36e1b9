"""Queue notices: recipients of each event, each once."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp.models import Change, Channel, Host, Incident, Notice, Role, Subscription, User
from benchapp.notices.write.enqueue import enqueue
from tests.factories import (
    NOON,
    make_host,
    make_request_policy,
    make_run,
    make_series,
    make_target,
    make_user,
)
from tests.received_notices import list_keys, make_change, make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db


def test_event_is_queued_once_for_each_subscription() -> None:
    anna, ben = make_subscription(), make_subscription(channel=Channel.SLACK)
    incident = make_incident()
    event = make_event(incident)

    enqueue([event.pk])
    enqueue([event.pk, event.pk])

    assert list_keys(anna) == list_keys(ben) == [f"incident {incident.pk}: opened"]


def move(incident: Incident, kind: str, **fields: Any) -> None:
    """Change an incident, and queue the notices of the event."""
    Incident.objects.filter(pk=incident.pk).update(**fields)
    enqueue([make_event(incident, kind, at=timezone.now()).pk])


def test_each_phase_is_told_once() -> None:
    make_subscription()
    early = make_subscription(further_runs=0)
    incident = make_incident(course="suspected")
    move(incident, "opened")
    for _ in range(2):
        move(incident, "confirmed", course="lasting")
        move(incident, "acknowledged")
        move(incident, "recovered", recovered_at=NOON)
        move(incident, "reopened", recovered_at=None, course="suspected")
    move(incident, "intermittent", course="intermittent")
    move(incident, "recovered", recovered_at=NOON)

    words = ["confirmed 1", "recovered 1", "confirmed 2", "recovered 2", "intermittent 1"]
    told = [f"incident {incident.pk}: {each}" for each in words]
    assert list_keys(make_subscription()) == []
    assert [key for key in list_keys() if "opened" not in key] == sorted(
        [*told, *told], key=list_keys().index
    )
    assert sum("opened" in key for key in list_keys(early)) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"is_regression": False},
        {"verdict": "expected", "state": "resolved"},
    ],
    ids=["improvement", "expected"],
)
def test_irrelevant_events_are_not_notified(fields: dict[str, Any]) -> None:
    make_subscription()
    incident = make_incident(**fields)

    enqueue([make_event(incident).pk])

    assert list_keys() == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("resolved", {"verdict": "expected", "state": "resolved"}),
        ("accepted", {"verdict": "expected", "state": "resolved"}),
        ("recovered", {"snoozed_until": timezone.now() + timedelta(hours=1), "recovered_at": NOON}),
    ],
    ids=["expected", "accepted", "snoozed"],
)
def test_whoever_was_told_that_it_is_bad_is_told_that_it_is_over(kind: str, fields: dict[str, Any]) -> None:
    make_subscription()
    incident = make_incident()
    enqueue([make_event(incident).pk])
    Incident.objects.filter(pk=incident.pk).update(**fields)

    enqueue([make_event(incident, kind).pk, make_event(incident, kind).pk])

    assert list_keys()[1:] == [f"incident {incident.pk}: {kind} 1"]


def test_end_is_sent_to_recipients_of_the_incidents_that_were_merged() -> None:
    early = make_subscription(filter="host:db-07")
    first = make_incident()
    enqueue([make_event(first).pk])
    second, third = make_incident(host="db-08"), make_incident(host="db-09")
    Incident.objects.filter(pk=first.pk).update(merged_into=second)
    Incident.objects.filter(pk=second.pk).update(merged_into=third)

    move(third, "recovered", recovered_at=NOON)

    assert list_keys(early)[1:] == [f"incident {third.pk}: recovered 1"]


def test_merged_incident_is_silent() -> None:
    make_subscription()
    kept = make_incident()
    gone = make_incident(host="db-08", merged_into=kept)

    enqueue([make_event(kept).pk, make_event(gone).pk])

    assert list_keys() == [f"incident {kept.pk}: opened"]


def test_growth_is_told_to_all_whom_it_now_concerns() -> None:
    every, high = make_subscription(), make_subscription(minimum_severity="high")
    incident = make_incident(severity="medium")
    enqueue([make_event(incident, "confirmed").pk])
    move(incident, "grew", severity="high")

    assert list_keys(every) == [f"incident {incident.pk}: {each}" for each in ("confirmed 1", "grew 1")]
    assert list_keys(high) == [f"incident {incident.pk}: grew 1"]


@pytest.mark.parametrize(("least", "expected"), [("low", 1), ("medium", 1), ("high", 0)])
def test_minimum_severity_is_applied(least: str, expected: int) -> None:
    make_subscription(minimum_severity=least)

    enqueue([make_event(make_incident(severity="medium")).pk])

    assert len(list_keys()) == expected


@pytest.mark.parametrize("kind", ["recovered", "resolved", "accepted"])
def test_closing_notices_go_to_recipients_of_the_opening_notice(kind: str) -> None:
    early = make_subscription()
    incident = make_incident()
    enqueue([make_event(incident).pk])
    late = make_subscription()

    move(incident, kind, state="resolved")

    assert list_keys(early)[1:] == [f"incident {incident.pk}: {kind} 1"]
    assert list_keys(late) == []


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("", True),
        ("host:db-07", True),
        ("host:db-*", True),
        ("host:web-*", False),
        ("-host:db-07", False),
        ("volume_type:gp3", True),
        ("volume_type:io2", False),
        ("rw:randread", True),
    ],
)
def test_filter_is_matched_with_the_series_of_the_incident(filter: str, expected: bool) -> None:
    make_subscription(filter=filter)
    incident = make_incident(metrics=())
    series = make_series(host=make_host("db-7b"), target=make_target(volume_type="gp3"))
    type(series).objects.filter(pk=series.pk).update(scope="host:db-07")
    make_change(incident, series)

    enqueue([make_event(incident).pk])

    assert bool(list_keys()) is expected


def test_invalid_filter_pauses_the_subscription_with_a_reason() -> None:
    broken, fine = make_subscription(filter="flavour:sweet"), make_subscription()

    enqueue([make_event(make_incident()).pk])

    broken.refresh_from_db()
    assert not broken.is_active
    assert "Unknown filter 'flavour'" in broken.paused_reason
    assert len(list_keys(fine)) == 1


def test_paused_subscriptions_and_switched_off_people_hear_nothing() -> None:
    make_subscription(is_active=False)
    gone = make_user(Role.VIEWER)
    make_subscription(gone)
    User.objects.filter(pk=gone.pk).update(is_active=False)

    enqueue([make_event(make_incident()).pk])

    assert list_keys() == []


def test_undone_event_is_not_queued() -> None:
    make_subscription()

    enqueue([make_event(make_incident(), undone_at=timezone.now()).pk])

    assert list_keys() == []


def test_notice_has_metric_size_and_start_of_the_change(settings: Any) -> None:
    settings.PUBLIC_URL = "https://bench.example.org"
    make_subscription()
    incident = make_incident(
        metrics=("latency_p99_ns", "latency_mean_ns"),
        suspects=[
            {"name": "kernel", "before": "5.15", "after": "6.1", "share": 1.0, "text": "kernel 5.15 → 6.1"}
        ],
    )

    enqueue([make_event(incident).pk])

    body = Notice.objects.get().body
    assert body["subject"] == "Worse, medium: p99 latency up 38 % on db-07"
    assert body["sentence"] == (
        "p99 latency +38 % in 1 series; Mean latency +38 % in 1 series, since 21 Nov 2026 12:00 UTC. "
        "Largest of 2 changes: Mean latency 2.90 ms, up 38 % from 2.10 ms since 21 Nov 2026 12:00 UTC "
        "(4k random read · QD 8 · db-07)."
    )
    assert body["facts"]["incident"]["metric"] == "latency_p99_ns"
    assert body["suspects"] == ["kernel 5.15 → 6.1"]
    assert body["url"] == f"https://bench.example.org/incidents/{incident.pk}/"
    assert body["facts"]["changes"][0]["before"] == 2100000.0


def test_notice_names_the_ticket() -> None:
    make_subscription()
    incident = make_incident(link="https://tickets.example/7", link_label="OPS-7")

    enqueue([make_event(incident).pk])

    body = Notice.objects.get().body
    assert ["Ticket", "OPS-7: https://tickets.example/7"] in body["details"]
    assert (body["facts"]["incident"]["link"], body["facts"]["incident"]["link_label"]) == (
        "https://tickets.example/7",
        "OPS-7",
    )


def test_enqueue_asks_as_much_for_many_subscriptions_as_for_few(django_assert_num_queries: Any) -> None:
    for _ in range(9):
        make_subscription(filter="host:db-07")
    event = make_event(make_incident())

    # events, subscriptions, merged incidents, earlier notices, filter, sizes of changes, the largest, lock, insert
    with django_assert_num_queries(9):
        enqueue([event.pk])

    assert Subscription.objects.count() == Notice.objects.count() == 9


def test_notice_has_the_typical_change_and_the_largest_as_such() -> None:
    make_subscription()
    incident = make_incident(
        metrics=("latency_p99_ns",),
        metric_sizes=[
            {"metric": "iops", "series": 12, "relative": -0.15, "low": -0.31, "high": -0.09},
            {"metric": "latency_p99_ns", "series": 1, "relative": 0.38, "low": 0.38, "high": 0.38},
        ],
    )
    one = incident.changes.get()
    make_change(incident, one.series, metric="iops", relative=-0.1)

    enqueue([make_event(incident).pk])

    body = Notice.objects.get().body
    assert body["sentence"].startswith(
        "IOPS −15 % (each −9.0 to −31 %) in 12 series; p99 latency +38 % in 1 series"
    )
    assert "Largest of 2 changes: IOPS" in body["sentence"]
    # Multiples of the thresholds: 10 % of IOPS outweigh 38 % of p99 latency.
    assert [change["metric"] for change in body["facts"]["changes"]] == ["iops", "latency_p99_ns"]


def test_subscription_with_metrics_gets_incidents_in_these_only() -> None:
    latency = make_subscription(metrics=["latency_p99_ns"])
    throughput = make_subscription(metrics=["bandwidth_bytes_per_s"], channel=Channel.SLACK)
    filtered = make_subscription(metrics=["iops"], filter="host:db-08", channel=Channel.WEBHOOK)
    slow, weak = make_incident(metrics=("latency_p99_ns",)), make_incident(host="db-08", metrics=("iops",))

    enqueue([make_event(slow).pk, make_event(weak).pk])

    assert list_keys(latency) == [f"incident {slow.pk}: opened"]
    # Of one block size, changes of the bandwidth are detected in IOPS.
    assert list_keys(throughput) == list_keys(filtered) == [f"incident {weak.pk}: opened"]


@pytest.mark.parametrize(("course", "allows"), [("suspected", True), ("suspected", False), ("lasting", True)])
def test_notice_of_a_suspicion_offers_a_run_where_the_host_allows_it(
    course: str, *, allows: bool, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://bench.example"
    make_subscription(further_runs=0)
    incident = make_incident(course=course)
    change = incident.changes.first()
    run = make_run(host=Host.objects.get(name=incident.scope.partition(":")[2]))
    Change.objects.filter(pk=change.pk).update(run=run)
    if allows:
        make_request_policy(run.host)

    enqueue([make_event(incident).pk])

    page = f"https://bench.example/incidents/{incident.pk}/#run-requests"
    assert (page in str(Notice.objects.get().body)) == (allows and course == "suspected")
