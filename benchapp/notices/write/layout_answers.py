"""Evaluate the layout questions of subscriptions, and queue a notice when an answer changes.

Each question is evaluated at most once an hour. The answer is found without a transaction; the state and the notice are
written in one, if nobody has written the state meanwhile.
"""

import time
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from benchapp.framework.write.conflicts import retry_conflicts
from benchapp.layouts.rules.answers import (
    AnswerState,
    Cause,
    LayoutFacts,
    RememberedAnswer,
    advance_answer,
    find_cause,
)
from benchapp.models import StoredLayoutAnswer, Subscription
from benchapp.notices.channels.transport import Message, to_one_line
from benchapp.notices.write.outbox import Draft, lock_subscription, put_notices


def make_layout_message(
    before: RememberedAnswer,
    after: RememberedAnswer,
    *,
    cause: tuple[Cause, str],
    requirement: str,
    subscription: Subscription,
    base_url: str,
) -> Message:
    """Return the message. requirement: of the question, in words."""
    kind, reason = cause
    url = f"{base_url}/layouts/?{subscription.layout_question}" if base_url else ""
    details = [
        ("Before", before.sentence),
        ("Now", after.sentence),
        ("Closest miss before", _describe_closest(before)),
        ("Closest miss now", _describe_closest(after)),
        ("Reason", reason),
        ("Required", requirement),
    ]
    return Message(
        kind="layout.changed",
        subject=to_one_line(f"Layout answer changed: {after.sentence}"),
        sentence=to_one_line(f"{after.sentence}. Before: {before.sentence}. {reason}"),
        details=tuple((name, to_one_line(value)) for name, value in details),
        url=url,
        link_text="Ranking",
        settings_url=f"{base_url}/subscriptions/{subscription.pk}/" if base_url else "",
        thread=f"layout-{subscription.pk}",
        facts={
            "question": subscription.layout_question,
            "requirement": requirement,
            "before": _make_facts(before),
            "after": _make_facts(after),
            "cause": kind,
            "reason": reason,
        },
    )


def _describe_closest(answer: RememberedAnswer) -> str:
    return "none" if answer.closest is None else f"{answer.closest.title}: {answer.lacks}"


def _make_facts(answer: RememberedAnswer) -> dict[str, Any]:
    return {
        "sentence": answer.sentence,
        "best": _describe_layout(answer.best),
        "closest_miss": _describe_layout(answer.closest),
        "lacks": answer.lacks,
    }


def _describe_layout(layout: LayoutFacts | None) -> dict[str, Any] | None:
    if layout is None:
        return None
    return {
        "title": layout.title,
        "verdict": layout.verdict,
        "load": layout.load,
        "price": layout.price or None,
        "runs": layout.runs,
        "last_at": layout.last_at,
        "incidents": list(layout.incidents),
    }


log = structlog.get_logger(__name__)

EVALUATED_EVERY: Final = timedelta(hours=1)


class Found(Protocol):
    """An answer of now. layouts: those that were asked for, and those of the answer."""

    @property
    def answer(self) -> RememberedAnswer: ...
    @property
    def requirement(self) -> str: ...
    @property
    def layouts(self) -> tuple[LayoutFacts, ...]: ...


class AnswerReader(Protocol):
    """Finds the answer to a question."""

    def __call__(self, query: str, *, titles: Collection[str], now: datetime) -> Found: ...


def notify_layout_answers(
    find_answer: AnswerReader,
    *,
    refusal: type[Exception],
    budget_s: float = 20.0,
    now: Callable[[], datetime] = timezone.now,
) -> int:
    """Evaluate the questions that are due until the time budget is used; return the number of notices.

    find_answer raises `refusal` for a question that has no answer.
    """
    started, notices = time.monotonic(), 0
    while time.monotonic() - started < budget_s:
        subscription = _find_due(now())
        if subscription is None:
            break
        stored: StoredLayoutAnswer | None = getattr(subscription, "layout_answer", None)
        moment = now()
        try:
            notices += _evaluate(subscription, stored, find_answer, refusal=refusal, now=moment)
        except Exception as error:  # process boundary: an error in one question must not block the others
            log.exception("layout_question.failed", subscription=subscription.pk)
            values = {"problem": f"internal error: {type(error).__name__}"}
            _write(subscription, stored, values, [], now=moment)
    return notices


def is_question_due() -> bool:
    """Return whether a layout question is to be evaluated now; one query."""
    return _find_due(timezone.now()) is not None


def _find_due(now: datetime) -> Subscription | None:
    """Return the subscription whose question was evaluated longest ago, if more than an hour ago or never."""
    due = Subscription.objects.filter(
        Q(layout_answer=None) | Q(layout_answer__evaluated_at__lte=now - EVALUATED_EVERY),
        is_active=True,
        owner__is_active=True,
        owner__pools=[],
    ).exclude(layout_question="")
    return due.select_related("layout_answer").order_by("layout_answer__evaluated_at", "pk").first()


def _evaluate(
    subscription: Subscription,
    stored: StoredLayoutAnswer | None,
    find_answer: AnswerReader,
    *,
    refusal: type[Exception],
    now: datetime,
) -> int:
    state = _read_state(stored)
    earlier = () if state is None else (state.reported.best, state.reported.closest)
    try:
        found = find_answer(
            subscription.layout_question, titles={each.title for each in earlier if each is not None}, now=now
        )
    except refusal as problem:
        values: dict[str, Any] = {"problem": str(problem)[:300]}
        return _write(subscription, stored, values, [], now=now)
    following, is_news = advance_answer(state, found.answer)
    pending = following.pending
    values = {
        "answer": following.reported.to_json(),
        "pending": None if pending is None else pending.to_json(),
        "problem": "",
    }
    if state is None or not is_news:
        return _write(subscription, stored, values, [], now=now)
    cause = find_cause(state.reported, found.answer, found.layouts)
    message = make_layout_message(
        state.reported,
        found.answer,
        cause=cause,
        requirement=found.requirement,
        subscription=subscription,
        base_url=settings.PUBLIC_URL,
    )
    draft = Draft(subscription, f"layout answer: changed {now:%Y-%m-%d %H:%M:%S}", message)
    return _write(subscription, stored, {**values, "changed_at": now}, [draft], now=now)


def _read_state(stored: StoredLayoutAnswer | None) -> AnswerState | None:
    if stored is None or stored.answer is None:
        return None
    pending = None if stored.pending is None else RememberedAnswer.from_json(stored.pending)
    return AnswerState(RememberedAnswer.from_json(stored.answer), pending)


@retry_conflicts
def _write(
    subscription: Subscription,
    stored: StoredLayoutAnswer | None,
    values: dict[str, Any],
    drafts: list[Draft],
    *,
    now: datetime,
) -> int:
    """Store the state and queue the notices; neither if the subscription or its state were changed meanwhile."""
    with transaction.atomic():
        current = lock_subscription(subscription.pk)
        if current is None or current.layout_question != subscription.layout_question:
            return 0
        rows = StoredLayoutAnswer.objects.filter(subscription=subscription)
        known = rows.values_list("evaluated_at", flat=True).first()
        if known != (None if stored is None else stored.evaluated_at):
            return 0
        StoredLayoutAnswer.objects.update_or_create(
            subscription=subscription, defaults={**values, "evaluated_at": now}
        )
        put_notices(drafts, now=now)
    return len(drafts)
