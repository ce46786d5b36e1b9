"""Messages as Slack blocks."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from benchapp.notices.channels.posting import PostingTransport
from benchapp.notices.channels.transport import Message, join_subjects

# Slack accepts 50 blocks of at most 3 000 characters (api.slack.com, Block Kit) and rejects larger messages.
_BLOCK_MAXIMUM: Final = 2_900
_HEADER_MAXIMUM: Final = 150
_SLACK_PARTS: Final = 15


class SlackTransport(PostingTransport):
    """Slack, Mattermost, Rocket.Chat and others with the same webhooks."""

    def render(self, messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
        """Return the messages as one body."""
        return render_slack(messages)


def render_slack(messages: Sequence[Message]) -> dict[str, Any]:
    """Return the body of a Slack-compatible webhook: {text, blocks}; values are escaped and cannot mention anybody."""
    blocks: list[dict[str, Any]] = []
    for message in messages[:_SLACK_PARTS]:
        blocks += _make_blocks(message)
    if len(messages) > _SLACK_PARTS:
        blocks.append(_section(f"and {len(messages) - _SLACK_PARTS} more notices"))
    return {"text": escape_slack(join_subjects(messages)), "blocks": blocks}


def escape_slack(text: str) -> str:
    """Escape the three special characters of Slack, so that no text mentions or links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_blocks(message: Message) -> list[dict[str, Any]]:
    """Return at most three blocks, so that fifteen messages fit into fifty."""
    header = {"type": "header", "text": {"type": "plain_text", "text": message.subject[:_HEADER_MAXIMUM]}}
    lines = [escape_slack(message.sentence)]
    lines += [f"*{escape_slack(name)}* {escape_slack(value)}" for name, value in message.details]
    lines += [
        f"• {escape_slack(level.name)}: {escape_slack(level.before_text)} → "
        f"{escape_slack(level.after_text)}, {escape_slack(level.text)}"
        for level in message.levels
    ]
    if message.more_levels:
        lines.append(f"and {message.more_levels} more")
    blocks = [header, _section(_cut_lines(lines))]
    ends = [escape_slack(suspect) for suspect in message.suspects]
    if ends:
        ends.insert(0, "*Possible causes*")
    if message.url:
        ends.append(f"<{message.url}|{escape_slack(message.link_text)}>")
    return [*blocks, _section(_cut_lines(ends))] if ends else blocks


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _cut_lines(lines: Sequence[str]) -> str:
    """Return as many whole lines as fit, and always the last one, which has the link."""
    *rest, last = lines
    shown: list[str] = []
    left = _BLOCK_MAXIMUM - len(last[:_BLOCK_MAXIMUM])
    for line in rest:
        left -= len(line) + 1
        if left < 0:
            break
        shown.append(line)
    return "\n".join([*shown, last[:_BLOCK_MAXIMUM]])


TRANSPORT: Final = SlackTransport()
