"""Violations of thresholds: stored and reported once, when they begin and when they end."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest

from benchapp.framework.write.conflicts import BadValue
from benchapp.judge import detect_and_notify, redetect
from benchapp.models import Notice, Run, Series, Subscription, ThresholdViolation
from benchapp.notices.channels.transport import Message
from benchapp.notices.write.outbox import lock_existing
from benchapp.notices.write.subscriptions import (
    change_subscription,
    create_subscription,
    delete_subscription,
)
from benchapp.notices.write.thresholds import notify_violations, preview_thresholds
from benchapp.series.write import exclude_run
from tests.factories import (
    NOON,
    add_measurements,
    add_series,
    make_environment,
    make_host,
    make_planned_event,
    make_runs,
    make_series,
    make_target,
    make_user,
)
from tests.received_notices import make_subscription

pytestmark = pytest.mark.django_db

P99 = "latency_p99_ns"
LIMIT = "p99 latency < 5 ms"
LATER = NOON + timedelta(days=1)


def subscribe(*, thresholds: tuple[str, ...] = (LIMIT,), **fields: Any) -> Subscription:
    return make_subscription(thresholds=list(thresholds), **fields)


def add_runs(
    series: Series, *milliseconds: float, start_at: datetime = LATER, kernel: str = "6.1.0"
) -> list[Run]:
    """Add runs, ten minutes apart, and evaluate the series as the worker does."""
    host = series.host
    assert host is not None
    first = start_at if series.last_at is None else max(start_at, series.last_at + timedelta(minutes=10))
    times = [first + timedelta(minutes=10 * place) for place in range(len(milliseconds))]
    environments = [make_environment(kernel=kernel)] * len(times)
    runs = make_runs(host, times, target=series.target, environments=environments)
    add_measurements(series, runs, [{P99: value * 1e6} for value in milliseconds])
    detect_and_notify()
    series.refresh_from_db()
    return runs


def make_line(name: str = "db-07", **fields: Any) -> Series:
    series = add_series([1e6] * 5, metric=P99, host=make_host(name), **fields)
    series.refresh_from_db()
    return series


def list_sent(subscription: Subscription | None = None) -> list[str]:
    """Return the kinds of the notices about thresholds, in their order."""
    notices = Notice.objects.filter(key__startswith="threshold ").order_by("pk")
    if subscription is not None:
        notices = notices.filter(subscription=subscription)
    return [notice.body["kind"] for notice in notices]


def test_violation_is_reported_when_it_begins_and_when_it_ends_and_never_twice() -> None:
    subscribe()
    series = make_line()

    add_runs(series, 6)
    assert list_sent() == []
    runs = add_runs(series, 6)
    assert list_sent() == ["threshold.violated"]
    add_runs(series, 7, 4, 4)
    notify_violations([series.pk])
    assert list_sent() == ["threshold.violated"]
    add_runs(series, 4)
    notify_violations([series.pk])

    assert list_sent() == ["threshold.violated", "threshold.met"]
    assert not ThresholdViolation.objects.exists()
    message = Message.from_json(Notice.objects.filter(key__startswith="threshold ").earliest("pk").body)
    assert message.subject == f"Threshold violated: {LIMIT}: 4k random read · QD 8 · db-07"
    assert message.facts["threshold"] == {"text": LIMIT, "metric": P99, "comparison": "<", "value": 5e6}
    assert message.facts["series"][0]["since_at"] == "2026-11-22T12:00:00Z"
    assert runs


def test_one_notice_names_all_series_of_a_batch() -> None:
    subscription = subscribe()
    lines = [make_line(f"db-{place}") for place in range(3)]
    for series in lines:
        host = series.host
        assert host is not None
        add_measurements(series, make_runs(host, [LATER, LATER + timedelta(hours=1)]), [{P99: 9e6}] * 2)

    detect_and_notify()

    notice = Notice.objects.get(key__startswith="threshold ")
    assert notice.body["subject"] == f"Threshold violated in 3 series: {LIMIT}"
    assert [name for name, _ in notice.body["details"]] == [
        f"4k random read · QD 8 · db-{place}" for place in range(3)
    ]
    assert subscription.violations.count() == 3


def test_only_series_of_the_filter_and_active_subscriptions_get_notices() -> None:
    other = subscribe(filter="host:web-*")
    paused = subscribe(is_active=False, channel="slack")
    mine = subscribe(filter="host:db-* bs:4k", channel="webhook")
    series = make_line()

    add_runs(series, 6, 6)

    assert list_sent(mine) == ["threshold.violated"]
    assert list_sent(paused) == list_sent(other) == []
    assert set(ThresholdViolation.objects.values_list("subscription", "is_notified")) == {
        (paused.pk, False),
        (mine.pk, True),
    }


def test_runs_of_maintenance_change_nothing() -> None:
    subscribe()
    series = make_line()
    make_planned_event(
        kind="maintenance", filter="host:db-07", from_at=LATER, to_at=LATER + timedelta(days=1)
    )

    add_runs(series, 6, 6, 6)

    assert not ThresholdViolation.objects.exists()


def test_expected_change_of_the_metric_is_stored_but_not_reported() -> None:
    subscribe()
    series = make_line()
    make_planned_event(kind="change", filter="", metric=P99, from_at=LATER, to_at=LATER + timedelta(days=1))

    add_runs(series, 6, 6, 6)
    assert ThresholdViolation.objects.get().is_notified is False
    add_runs(series, 4, 4, 4)

    assert list_sent() == []
    assert not ThresholdViolation.objects.exists()


def test_excluded_runs_do_not_count() -> None:
    subscribe()
    series = make_line()
    runs = add_runs(series, 6, 6)

    for run in runs:
        exclude_run(run.pk, by=make_user(), reason="disk was full")
    detect_and_notify()

    assert list_sent() == ["threshold.violated", "threshold.met"]


def test_violation_without_a_run_that_counts_is_forgotten() -> None:
    subscribe()
    series = make_line()
    add_runs(series, 6, 6)

    for run in Run.objects.filter(measurements__series=series):
        exclude_run(run.pk, by=make_user(), reason="wrong disk")
    detect_and_notify()

    assert list_sent() == ["threshold.violated"]
    assert not ThresholdViolation.objects.exists()


def test_violation_ends_when_the_newest_runs_no_longer_match_the_filter() -> None:
    mine, other = subscribe(filter="kernel:6.1*"), subscribe(filter="kernel:6.*", channel="slack")
    paused = subscribe(filter="kernel:6.1*", is_active=False, channel="webhook")
    series = make_line()
    add_runs(series, 6, 6)

    add_runs(series, 6, 6, 6, kernel="6.8.0")
    notify_violations([series.pk])

    assert list_sent(mine) == ["threshold.violated", "threshold.unmatched"]
    assert list_sent(other) == ["threshold.violated"]
    assert list_sent(paused) == []
    assert [row.subscription_id for row in ThresholdViolation.objects.all()] == [other.pk]
    message = Message.from_json(Notice.objects.get(subscription=mine, key__endswith="ended").body)
    assert message.subject == f"Threshold no longer applies: {LIMIT}: 4k random read · QD 8 · db-07"
    assert message.sentence.startswith(
        "The violation ended, as the series no longer matches the filter of the subscription"
    )
    assert message.facts["series"][0]["id"] == series.pk


def test_unmatched_violation_whose_median_meets_the_threshold_is_described_by_its_runs() -> None:
    subscribe(filter="kernel:6.1*")
    series = make_line()
    add_runs(series, 6, 6)

    add_runs(series, 4, 6, 4, kernel="6.8.0")

    message = Message.from_json(Notice.objects.get(key__endswith="ended").body)
    assert message.kind == "threshold.unmatched"
    assert f"Not all of the newest 3 runs meet {LIMIT}: p99 latency 4.00 ms (median)." in message.sentence


def test_runs_that_match_by_turns_send_one_notice() -> None:
    subscribe(filter="kernel:6.1*")
    series = make_line()
    add_runs(series, 6, 6)

    for kernel in ("6.8.0", "6.1.0", "6.8.0", "6.8.1", "6.1.0"):
        add_runs(series, 6, kernel=kernel)

    assert list_sent() == ["threshold.violated"]


def test_violation_of_a_filter_that_is_changed_during_the_evaluation_is_left_to_the_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    subscription = subscribe(filter="kernel:6.1*", channel="slack")
    series = make_line()
    add_runs(series, 6, 6)

    def change_and_lock(ids: Iterable[int]) -> set[int]:
        change_subscription(
            subscription, {"address": subscription.address, "filter": "kernel:6.*", "thresholds": [LIMIT]}
        )
        return lock_existing(ids)

    monkeypatch.setattr("benchapp.notices.write.thresholds.lock_existing", change_and_lock)
    add_runs(series, 6, 6, 6, kernel="6.8.0")

    assert ThresholdViolation.objects.count() == 1
    assert list_sent() == ["threshold.violated"]


def test_redetection_of_history_sends_nothing() -> None:
    subscribe()
    series = make_line()
    host = series.host
    assert host is not None
    add_measurements(series, make_runs(host, [LATER, LATER + timedelta(hours=1)]), [{P99: 9e6}] * 2)

    list(redetect([series.pk], is_dry_run=False))

    assert list_sent() == []


def test_new_threshold_stores_present_violations_without_a_notice() -> None:
    violating = add_series([1e6, 1e6, 9e6, 9e6, 9e6], metric=P99, host=make_host("db-01"))
    add_series([1e6] * 5, metric=P99, host=make_host("db-02"))
    add_series([9e6] * 5, metric=P99, host=make_host("web-01"))

    made = create_subscription(
        make_user(),
        {
            "channel": "slack",
            "address": "https://hooks.example.org/x",
            "filter": "host:db-*",
            "thresholds": ["p99 5ms"],
        },
    )
    detect_and_notify()

    assert made.thresholds == [LIMIT]
    row = ThresholdViolation.objects.get()
    assert (row.series_id, row.since_at, row.is_notified) == (
        violating.pk,
        NOON + timedelta(hours=2),
        False,
    )
    assert not Notice.objects.exists()


def test_changed_filter_and_thresholds_keep_what_they_still_concern() -> None:
    kept = add_series([9e6] * 5, metric=P99, host=make_host("db-01"))
    gone = add_series([9e6] * 5, metric=P99, host=make_host("web-01"))
    subscription = subscribe(thresholds=(LIMIT, "p99 latency < 1 ms"), channel="slack")
    for series in (kept, gone):
        ThresholdViolation.objects.create(
            subscription=subscription,
            threshold=LIMIT,
            series=series,
            since_at=NOON,
            found_at=NOON,
            is_notified=True,
        )

    change_subscription(
        subscription,
        {"address": subscription.address, "filter": "host:db-*", "thresholds": [LIMIT, "p99 < 2 ms"]},
    )

    assert list(
        ThresholdViolation.objects.order_by("pk").values_list("threshold", "series", "is_notified")
    ) == [(LIMIT, kept.pk, True), ("p99 latency < 2 ms", kept.pk, False)]
    assert not Notice.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [{"thresholds": []}, {"filter": "host:web-*", "thresholds": [LIMIT]}],
    ids=["threshold", "filter"],
)
def test_threshold_that_is_changed_during_the_evaluation_begins_no_violation(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    subscription = subscribe(channel="slack")

    def change_and_lock(ids: Iterable[int]) -> set[int]:
        change_subscription(subscription, {"address": subscription.address, **changes})
        return lock_existing(ids)

    monkeypatch.setattr("benchapp.notices.write.thresholds.lock_existing", change_and_lock)
    add_runs(make_line(), 6, 6)

    assert not ThresholdViolation.objects.exists()
    assert list_sent() == []


def test_threshold_that_another_request_removed_is_new() -> None:
    add_series([9e6] * 3, metric=P99, host=make_host("db-01"))
    subscription = subscribe(channel="slack")
    other = Subscription.objects.get(pk=subscription.pk)

    change_subscription(other, {"address": other.address, "thresholds": []})
    change_subscription(subscription, {"address": other.address, "thresholds": [LIMIT]})
    detect_and_notify()

    assert list(ThresholdViolation.objects.values_list("threshold", "is_notified")) == [(LIMIT, False)]
    assert list_sent() == []


def test_threshold_of_too_many_violations_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchapp.notices.write.thresholds.VIOLATIONS_MAXIMUM", 2)
    for name in ("db-01", "db-02"):
        add_series([9e6] * 3, metric=P99, host=make_host(name))

    with pytest.raises(BadValue, match="more than 2 violations now, with those of p99 latency < 5 ms"):
        create_subscription(
            make_user(),
            {
                "channel": "slack",
                "address": "https://hooks.example.org/x",
                "thresholds": ["p99 < 10 ms", "p99 < 6 ms", LIMIT],
            },
        )

    assert not Subscription.objects.exists()


def test_preview_counts_series_and_violations() -> None:
    violating = add_series([9e6] * 3, metric=P99, host=make_host("db-01"))
    add_series([1e6] * 3, metric=P99, host=make_host("db-02"))
    add_series([9e6] * 2, metric=P99, host=make_host("db-03"))

    [preview] = preview_thresholds("host:db-*", ["p99 5 ms"])

    assert [preview[name] for name in ("text", "series", "violating", "examples")] == [
        LIMIT,
        3,
        1,
        (violating.pk,),
    ]


def test_subscription_with_violations_can_be_deleted() -> None:
    subscription = subscribe()
    add_runs(make_line(), 6, 6)

    delete_subscription(subscription.pk)

    assert not ThresholdViolation.objects.exists()


def test_number_of_queries_does_not_depend_on_the_number_of_series_and_thresholds(
    django_assert_max_num_queries: Any,
) -> None:
    with django_assert_max_num_queries(1):
        notify_violations([1, 2, 3])
    subscribe(filter="bs:4k", thresholds=(LIMIT, "p99 latency < 4 ms", "p99 latency < 3 ms"))
    target = make_target(volume_type="gp3")
    lines = [make_series([9e6] * 3, metric=P99, target=target) for _ in range(5)]
    detect_and_notify()
    ThresholdViolation.objects.all().delete()
    Notice.objects.all().delete()

    with django_assert_max_num_queries(14):
        notify_violations([series.pk for series in lines])

    assert ThresholdViolation.objects.count() == 15


def test_threshold_that_is_no_longer_valid_stops_nobody() -> None:
    invalid = subscribe(thresholds=("p99 latency < 5 furlongs", LIMIT))
    valid = subscribe(channel="slack")
    series = make_line()

    add_runs(series, 6, 6)

    assert list_sent(invalid) == list_sent(valid) == ["threshold.violated"]
