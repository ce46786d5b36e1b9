"""Channel-independent messages, stored in the outbox as JSON and rendered when sent."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class MessageLevel:
    """One change as two levels, in the metric's base unit. name: metric and series; text: the change as text."""

    name: str
    before: float
    after: float
    before_text: str
    after_text: str
    text: str
    is_regression: bool
    url: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """The content of a notice, independent of the channel.

    kind: "incident.opened", "host.silent", "test", …. subject: one line. sentence: what happened. levels: the most
    severe changes; more_levels: number of others. suspects: as text. URLs: "" without PUBLIC_URL. facts: for programs.
    thread: messages with the same value form a thread, "incident-12".
    """

    kind: str
    subject: str
    sentence: str
    details: tuple[tuple[str, str], ...] = ()
    levels: tuple[MessageLevel, ...] = ()
    more_levels: int = 0
    suspects: tuple[str, ...] = ()
    url: str = ""
    link_text: str = ""
    settings_url: str = ""
    thread: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the outbox stores."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return a stored message; unknown members are ignored."""
        known = {name: stored[name] for name in cls.__dataclass_fields__ if name in stored}
        known["levels"] = tuple(MessageLevel(**level) for level in known.get("levels", ()))
        known["details"] = tuple((name, value) for name, value in known.get("details", ()))
        known["suspects"] = tuple(known.get("suspects", ()))
        return cls(**known)


def make_test_message(subscription_text: str, *, base_url: str) -> Message:
    """Return a test message."""
    return Message(
        kind="test",
        subject="Test notification",
        sentence=f"Test of the subscription {subscription_text}. Notifications are delivered to this address.",
        settings_url=f"{base_url}/subscriptions/" if base_url else "",
        thread="test",
    )


def to_one_line(text: str) -> str:
    """Return a text without line breaks and repeated spaces."""
    return " ".join(text.split())
