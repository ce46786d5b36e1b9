"""What a channel is: a check of addresses, and the way of messages to an address."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from textwrap import wrap
from typing import Any, Final, Self

from benchapp.models import Subscription

# Kinds of messages that report the end of a problem.
RESOLUTIONS: Final = frozenset({"incident.over", "host.back", "threshold.met", "threshold.unmatched"})
_WIDTH: Final = 24
_LINE_WIDTH: Final = 76


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

    kind: "incident.worse", "host.silent", "test", …. subject: one line. sentence: what happened. levels: the most
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


def join_subjects(messages: Sequence[Message]) -> str:
    """Return the subject of one message, or of several that are sent together."""
    if len(messages) == 1:
        return to_one_line(messages[0].subject)
    return to_one_line(f"{len(messages)} notices: {messages[0].subject}, …")


def render_text(messages: Sequence[Message]) -> str:
    """Return the messages as plain text, one below the other."""
    parts = ["\n".join(_list_lines(message)) for message in messages]
    settings_url = messages[0].settings_url
    end = (
        f"\n-- \nbenchapp · notification settings: {settings_url}\n" if settings_url else "\n-- \nbenchapp\n"
    )
    return "\n\n----------------------------------------\n\n".join(parts) + "\n" + end


def _list_lines(message: Message) -> list[str]:
    lines = [
        message.subject,
        "",
        *wrap(message.sentence, _LINE_WIDTH, break_on_hyphens=False, break_long_words=False),
    ]
    if message.details:
        lines += ["", *(f"{name}: {value}" for name, value in message.details)]
    if message.levels:
        lines += ["", "Affected series:"]
        for level in message.levels:
            lines += _format_level(level)
    if message.more_levels:
        lines.append(f"  and {message.more_levels} more")
    if message.suspects:
        lines += ["", "Possible causes:", *(f"  {suspect}" for suspect in message.suspects)]
    if message.url:
        lines += ["", f"{message.link_text}: {message.url}"]
    return lines


def _format_level(level: MessageLevel) -> list[str]:
    """Format both levels as bars from zero."""
    longest = max(level.before, level.after) or 1.0
    lines = [f"  {level.name}: {level.text}"]
    for name, value, text in (
        ("before", level.before, level.before_text),
        ("after ", level.after, level.after_text),
    ):
        lines.append(f"    {name} {'#' * max(round(_WIDTH * value / longest), 1):<{_WIDTH}} {text}")
    return lines


class AddressRefused(Exception):
    """An address that is not allowed; the message is for the user and reveals nothing about the internal network."""


class NotDelivered(Exception):
    """A notice that was not delivered; the message is for the delivery log.

    is_final: the receiver refuses further notices. retry_after: the requested delay, None without one.
    """

    def __init__(self, message: str, *, is_final: bool = False, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.is_final = is_final
        self.retry_after = retry_after


class Transport:
    """One channel. Its folder has the name of a member of models.Channel, and a module transport with TRANSPORT.

    address_help: the kind of addresses, for the form. is_signed: a subscription has a secret. is_for_programs: only
    a digest joins notices.
    """

    address_help: str
    is_signed = False
    is_for_programs = False

    def check_address(self, address: str) -> None:
        """Raise AddressRefused for an address that a subscription may not have."""
        raise NotImplementedError

    def send(
        self, subscription: Subscription, messages: Sequence[Message], *, message_id: str, at: datetime
    ) -> str:
        """Send messages as one and return the outcome for the log. Raises NotDelivered.

        message_id: the same for all attempts; at: creation time of the first message.
        """
        raise NotImplementedError


@cache
def get_transport(channel: str) -> Transport:
    """Return the transport of a member of models.Channel."""
    transport: Transport = import_module(f"{__package__}.{channel}.transport").TRANSPORT
    return transport
