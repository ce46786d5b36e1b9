"""Messages as events of Standard Webhooks, signed."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from benchapp.framework.times import to_iso
from benchapp.notices.channels.posting import PostingTransport
from benchapp.notices.channels.transport import Message


class WebhookTransport(PostingTransport):
    """A program that gets facts as JSON."""

    is_signed = True
    is_for_programs = True

    def render(self, messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
        """Return the messages as one body."""
        return render_event(messages, at=at)


def render_event(messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
    """Return a Standard Webhooks event: {type, timestamp, data}; a digest has several notices."""
    if len(messages) == 1:
        return {"type": messages[0].kind, "timestamp": to_iso(at), "data": _make_facts(messages[0])}
    notices = [{"type": message.kind, "data": _make_facts(message)} for message in messages]
    return {"type": "digest", "timestamp": to_iso(at), "data": {"notices": notices}}


def _make_facts(message: Message) -> dict[str, Any]:
    return {
        **message.facts,
        "subject": message.subject,
        "sentence": message.sentence,
        "url": message.url or None,
    }


TRANSPORT: Final = WebhookTransport()
