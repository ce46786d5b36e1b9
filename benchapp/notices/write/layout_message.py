"""The message that the answer to a layout question changed. Reads no database."""

from typing import Any

from benchapp.layouts.rules.answers import Cause, LayoutFacts, RememberedAnswer
from benchapp.models import Subscription
from benchapp.notices.channels.message import Message, to_one_line


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
