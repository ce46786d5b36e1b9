"""Incidents, events and subscriptions for the tests of notices: plain rows."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from benchapp.models import (
    Change,
    ChangeState,
    Channel,
    EmailAddress,
    Incident,
    IncidentEvent,
    Notice,
    Series,
    Subscription,
    User,
)
from benchapp.notices.write.enqueue import enqueue
from tests.factories import NOON, make_host, make_series, make_user, make_workload


def make_incident(
    *, host: str = "db-07", metrics: tuple[str, ...] = ("latency_p99_ns",), **fields: Any
) -> Incident:
    """Make an incident with one change of each metric in one series of a host: 2.1 ms before, 2.9 ms after."""
    values = {
        "title": f"p99 latency up 38 % on {host}",
        "scope": f"host:{host}",
        "severity": "medium",
        "course": "lasting",
        "started_at": NOON,
        "metric": metrics[0] if metrics else "",
        "relative": 0.38,
        "metric_sizes": [
            {"metric": metric, "series": 1, "relative": 0.38, "low": 0.38, "high": 0.38} for metric in metrics
        ],
        "change_count": len(metrics),
        "opened_at": NOON,
        "updated_at": NOON,
        **fields,
    }
    incident = Incident.objects.create(**values)
    series = Series.objects.filter(scope=f"host:{host}").first() or make_series(
        host=make_host(host), workload=make_workload()
    )
    for metric in metrics:
        make_change(incident, series, metric=metric)
    return incident


def make_change(incident: Incident | None, series: Series, **fields: Any) -> Change:
    """Make a confirmed change of the p99 latency of a series, from 2.1 to 2.9 ms."""
    values = {
        "metric": "latency_p99_ns",
        "started_at": NOON,
        "state": ChangeState.CONFIRMED,
        "is_regression": True,
        "before_median": 2.1e6,
        "before_n": 20,
        "before_spread": 5e4,
        "after_median": 2.9e6,
        "after_n": 8,
        "after_spread": 6e4,
        "relative": 0.38,
        "relative_low": 0.34,
        "relative_high": 0.42,
        "confidence": 0.99,
        "method": "tests/1",
        "found_at": NOON,
        "updated_at": NOON,
        **fields,
    }
    return Change.objects.create(incident=incident, series=series, **values)


def make_event(incident: Incident, kind: str = "opened", **fields: Any) -> IncidentEvent:
    """Make one line of an incident's timeline."""
    return IncidentEvent.objects.create(incident=incident, kind=kind, **{"at": NOON, **fields})


def list_told(event_ids: Sequence[int]) -> list[str]:
    """Queue the notices of these events, and return the phases that a subscriber of everything is told, in order."""
    subscription = make_subscription(further_runs=0)
    enqueue(event_ids)
    told = Notice.objects.filter(subscription=subscription).order_by("pk")
    return [kind.removeprefix("incident.") for kind in told.values_list("body__kind", flat=True)]


def make_subscription(
    owner: User | None = None,
    *,
    channel: str = Channel.EMAIL,
    is_confirmed: bool = True,
    **fields: Any,
) -> Subscription:
    """Make a subscription: e-mail to anna@example.org, confirmed, unless given otherwise."""
    address = "anna@example.org" if channel == Channel.EMAIL else "https://hooks.example.org/x"
    secret = "whsec_" + "a2" * 21 + "aw==" if channel == Channel.WEBHOOK else ""
    subscription = Subscription.objects.create(
        owner=owner or make_user(), channel=channel, **{"address": address, "secret": secret, **fields}
    )
    Subscription.objects.filter(pk=subscription.pk).update(created_at=NOON - timedelta(days=30))
    subscription.refresh_from_db()
    if is_confirmed and channel == Channel.EMAIL:
        confirm(subscription)
    return subscription


def confirm(subscription: Subscription) -> None:
    """Confirm the e-mail address of a subscription."""
    EmailAddress.objects.update_or_create(
        owner=subscription.owner,
        address=subscription.address.lower(),
        defaults={"asked_at": NOON - timedelta(days=30), "confirmed_at": NOON - timedelta(days=30)},
    )


def list_keys(subscription: Subscription | None = None) -> list[str]:
    """Return what was put into the outbox, in its order."""
    notices = Notice.objects.order_by("pk")
    return list(
        (notices.filter(subscription=subscription) if subscription else notices).values_list("key", flat=True)
    )
