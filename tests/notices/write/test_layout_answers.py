"""Layout questions of subscriptions: evaluated at most once an hour, each change reported once."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from benchapp import tasks
from benchapp.layouts.texts import NotAnswerable, find_layout_answer
from benchapp.models import Measurement, Notice, Price, StoredLayoutAnswer, Subscription
from benchapp.notices.channels.email.transport import render_html
from benchapp.notices.channels.slack.transport import render_slack
from benchapp.notices.channels.transport import Message, render_text
from benchapp.notices.channels.webhook.transport import render_event
from benchapp.notices.write.layout_answers import EVALUATED_EVERY, notify_layout_answers
from benchapp.notices.write.subscriptions import change_subscription, delete_subscription
from tests.factories import NOON, calculate_levels
from tests.planted_layouts import plant_layouts
from tests.received_notices import make_event, make_incident, make_subscription

pytestmark = pytest.mark.django_db

QUESTION = "iops=20000&p99_ms=3&capacity_gb=1000&block_size=4k"
CHEAPEST = "xfs on 8 × gp3 128 GiB"
OTHER = "xfs on 1 × io2 1 TiB"


def ask(**fields: Any) -> Subscription:
    return make_subscription(layout_question=QUESTION, notify_incidents=False, **fields)


def evaluate(*, hours: float) -> int:
    """Evaluate what is due these hours after noon."""
    return notify_layout_answers(
        find_layout_answer, refusal=NotAnswerable, now=lambda: NOON + timedelta(hours=hours)
    )


def slow_down(series: list[Any], *, factor: float = 0.5) -> None:
    """Make the eight volumes of gp3 with 128 GiB too slow, in all runs."""
    ids = [each.pk for each in series if each.volume_count == 8 and each.volume_size_bytes == 128 * 2**30]
    for measurement in Measurement.objects.filter(series_id__in=ids):
        Measurement.objects.filter(pk=measurement.pk).update(iops=(measurement.iops or 0) * factor)
    calculate_levels(ids)


def test_first_answer_is_stored_and_no_news() -> None:
    plant_layouts()
    subscription = ask()

    assert evaluate(hours=3) == 0

    stored = StoredLayoutAnswer.objects.get()
    assert stored.answer["best"]["title"].startswith(CHEAPEST)
    assert (stored.subscription, stored.pending, stored.changed_at) == (subscription, None, None)
    assert not Notice.objects.exists()


def test_question_is_evaluated_at_most_once_an_hour() -> None:
    plant_layouts()
    ask()
    asked: list[datetime] = []

    def find(query: str, **options: Any) -> Any:
        asked.append(options["now"])
        return find_layout_answer(query, **options)

    for minutes in (0, 5, 59, 60, 65, 121):
        notify_layout_answers(
            find,
            refusal=NotAnswerable,
            now=lambda minutes=minutes: NOON + timedelta(hours=3, minutes=minutes),
        )

    assert timedelta(hours=1) == EVALUATED_EVERY
    assert [(each - NOON) / timedelta(minutes=1) for each in asked] == [180, 240, 301]


def test_question_that_fails_does_not_block_others() -> None:
    plant_layouts()
    first, second = ask(), ask(channel="slack")

    def find(query: str, **options: Any) -> Any:
        if not StoredLayoutAnswer.objects.exists():
            raise ZeroDivisionError
        return find_layout_answer(query, **options)

    notify_layout_answers(find, refusal=NotAnswerable, now=lambda: NOON + timedelta(hours=3))

    problems = dict(StoredLayoutAnswer.objects.values_list("subscription", "problem"))
    assert problems == {first.pk: "internal error: ZeroDivisionError", second.pk: ""}


def test_change_is_reported_when_the_next_evaluation_finds_it_again(settings: Any) -> None:
    settings.PUBLIC_URL = "https://bench.example.org"
    series = plant_layouts()
    subscription = ask(channel="slack")
    evaluate(hours=3)
    slow_down(series)

    assert evaluate(hours=4) == 0
    assert StoredLayoutAnswer.objects.get().pending["best"]["title"].startswith(OTHER)
    assert evaluate(hours=5) == 1
    assert evaluate(hours=6) == 0

    message = Message.from_json(Notice.objects.get().body)
    facts = message.facts
    assert message.kind == "layout.changed"
    assert message.url == f"https://bench.example.org/layouts/?{QUESTION}"
    assert facts["before"]["best"]["title"].startswith(CHEAPEST)
    assert facts["after"]["best"]["title"].startswith(OTHER)
    assert facts["cause"] in ("run", "other")
    assert [name for name, _ in message.details] == [
        "Before",
        "Now",
        "Closest miss before",
        "Closest miss now",
        "Reason",
        "Required",
    ]
    assert CHEAPEST in render_text([message])
    assert OTHER in render_html([message], title="x")
    assert render_slack([message])["blocks"]
    assert render_event([message], at=NOON)["type"] == "layout.changed"
    stored = StoredLayoutAnswer.objects.get()
    assert (stored.subscription, stored.changed_at) == (subscription, NOON + timedelta(hours=5))


def test_change_that_does_not_last_is_not_reported() -> None:
    series = plant_layouts()
    ask()
    evaluate(hours=3)
    slow_down(series)
    evaluate(hours=4)
    slow_down(series, factor=2.0)

    assert evaluate(hours=5) == evaluate(hours=6) == 0
    assert StoredLayoutAnswer.objects.get().pending is None


def test_change_by_a_price_is_reported_at_once() -> None:
    plant_layouts()
    ask()
    evaluate(hours=3)
    Price.objects.filter(volume_type="io2").update(per_gib_month=0.001, per_iops_month=0.0)

    assert evaluate(hours=4) == 1

    facts = Notice.objects.get().body["facts"]
    assert (facts["cause"], facts["reason"]) == ("price", "Prices changed.")


def test_question_without_an_answer_keeps_the_last_one_and_states_the_problem() -> None:
    plant_layouts()
    subscription = ask()
    evaluate(hours=3)
    Subscription.objects.filter(pk=subscription.pk).update(layout_question=f"{QUESTION}&region=nowhere")

    assert evaluate(hours=4) == 0

    stored = StoredLayoutAnswer.objects.get()
    assert "'nowhere' is not a region with prices" in stored.problem
    assert stored.answer["best"]["title"].startswith(CHEAPEST)


def test_another_question_forgets_the_answer() -> None:
    plant_layouts()
    subscription = ask()
    evaluate(hours=3)

    change_subscription(
        subscription, {"address": subscription.address, "layout_question": "iops=500&p99_ms=3"}
    )
    assert not StoredLayoutAnswer.objects.exists()
    evaluate(hours=3.1)
    assert StoredLayoutAnswer.objects.exists()
    delete_subscription(subscription.pk)

    assert not StoredLayoutAnswer.objects.exists()
    assert not Notice.objects.exists()


def test_paused_subscriptions_are_not_evaluated() -> None:
    ask(is_active=False)

    evaluate(hours=3)

    assert not StoredLayoutAnswer.objects.exists()


def test_subscription_without_incidents_gets_none() -> None:
    from benchapp.notices.write.enqueue import enqueue

    ask()

    enqueue([make_event(make_incident()).pk])

    assert not Notice.objects.exists()


def test_task_evaluates_and_sends(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    plant_layouts(started_at=timezone.now() - timedelta(days=1))
    ask()
    sent: list[str] = []
    monkeypatch.setattr(tasks.notify, "delay_on_commit", lambda: sent.append("notify"))

    tasks.answer_layout_questions()
    assert sent == []
    StoredLayoutAnswer.objects.update(evaluated_at=timezone.now() - timedelta(hours=2))
    Price.objects.filter(volume_type="io2").update(per_gib_month=0.001, per_iops_month=0.0)
    tasks.answer_layout_questions()

    assert sent == ["notify"]
