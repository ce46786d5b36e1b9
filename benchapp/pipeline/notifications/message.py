"""What a notice says, whatever the channel: kept in the outbox as JSON, rendered when it goes out."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class MessageLevel:
    """One change as two levels, in the metric's base unit. name: what was measured; words: the change in words."""

    name: str
    before: float
    after: float
    before_words: str
    after_words: str
    words: str
    is_regression: bool
    url: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """What a notice says, whatever the channel.

    kind: "incident.opened", "host.silent", "test", …. subject: one line. sentence: what happened. levels: the worst
    changes, more_levels how many others. suspects: in words. url, series and the like: "" where this server was not
    told its own address. facts: for programs. thread: what belongs together, "incident-12".
    """

    kind: str
    subject: str
    sentence: str
    details: tuple[tuple[str, str], ...] = ()
    levels: tuple[MessageLevel, ...] = ()
    more_levels: int = 0
    suspects: tuple[str, ...] = ()
    url: str = ""
    link_words: str = ""
    settings_url: str = ""
    thread: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what is kept in the outbox."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Self:
        """Return what was kept; members of a later version are left out."""
        known = {name: kept[name] for name in cls.__dataclass_fields__ if name in kept}
        known["levels"] = tuple(MessageLevel(**level) for level in known.get("levels", ()))
        known["details"] = tuple((name, value) for name, value in known.get("details", ()))
        known["suspects"] = tuple(known.get("suspects", ()))
        return cls(**known)


def tell_test(subscription_words: str, *, base_url: str) -> Message:
    """Say that this subscription works."""
    return Message(
        kind="test",
        subject="This is a test",
        sentence=f"Somebody pressed “Send a test” for the subscription {subscription_words}. Notices arrive here.",
        settings_url=f"{base_url}/subscriptions/" if base_url else "",
        thread="test",
    )


def say_moment(moment: datetime) -> str:
    """Say a moment with its zone: "12 May 2026 02:10 UTC"."""
    return f"{moment.astimezone(UTC):%-d %b %Y %H:%M} UTC"


def to_iso(moment: datetime) -> str:
    """Return a moment as the API does: RFC 3339, UTC."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_one_line(text: str) -> str:
    """Return a text without line breaks and doubled spaces."""
    return " ".join(text.split())
