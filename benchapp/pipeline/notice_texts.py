"""A message as text, as blocks of Slack, and as JSON for programs."""

from collections.abc import Sequence
from datetime import datetime
from textwrap import wrap
from typing import Any, Final

from benchapp.pipeline.notices import Level, Message, to_iso, to_one_line

# Slack takes 50 blocks and 3 000 characters in each (api.slack.com, Block Kit); beyond, it refuses all of it.
_BLOCK_MAXIMUM: Final = 2_900
_HEADER_MAXIMUM: Final = 150
_SLACK_PARTS: Final = 15
_WIDTH: Final = 24
_LINE: Final = 76


def join_subjects(messages: Sequence[Message]) -> str:
    """Return the subject of one message, or of several that go out together."""
    if len(messages) == 1:
        return to_one_line(messages[0].subject)
    return to_one_line(f"{len(messages)} notices: {messages[0].subject}, …")


def render_text(messages: Sequence[Message]) -> str:
    """Return the messages as plain text, one below the other."""
    parts = ["\n".join(_list_lines(message)) for message in messages]
    settings_url = messages[0].settings_url
    end = f"\n-- \nbenchapp · change what you get: {settings_url}\n" if settings_url else "\n-- \nbenchapp\n"
    return "\n\n----------------------------------------\n\n".join(parts) + "\n" + end


def render_slack(messages: Sequence[Message]) -> dict[str, Any]:
    """Return what a Slack-compatible webhook takes: {text, blocks}; what was measured cannot mention anybody."""
    blocks: list[dict[str, Any]] = []
    for message in messages[:_SLACK_PARTS]:
        blocks += _make_blocks(message)
    if len(messages) > _SLACK_PARTS:
        blocks.append(_section(f"and {len(messages) - _SLACK_PARTS} more notices"))
    return {"text": escape_slack(join_subjects(messages)), "blocks": blocks}


def render_event(messages: Sequence[Message], *, at: datetime) -> dict[str, Any]:
    """Return what a program takes, as Standard Webhooks shapes it: {type, timestamp, data}; a digest holds several."""
    if len(messages) == 1:
        return {"type": messages[0].kind, "timestamp": to_iso(at), "data": _make_facts(messages[0])}
    notices = [{"type": message.kind, "data": _make_facts(message)} for message in messages]
    return {"type": "digest", "timestamp": to_iso(at), "data": {"notices": notices}}


def escape_slack(text: str) -> str:
    """Escape the three characters that Slack gives a meaning, so that no text mentions or links."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _list_lines(message: Message) -> list[str]:
    lines = [
        message.subject,
        "",
        *wrap(message.sentence, _LINE, break_on_hyphens=False, break_long_words=False),
    ]
    if message.details:
        lines += ["", *(f"{name}: {value}" for name, value in message.details)]
    if message.levels:
        lines += ["", "What moved:"]
        for level in message.levels:
            lines += _draw_level(level)
    if message.more_levels:
        lines.append(f"  and {message.more_levels} more")
    if message.suspects:
        lines += ["", "What else changed:", *(f"  {suspect}" for suspect in message.suspects)]
    if message.url:
        lines += ["", f"{message.link_words}: {message.url}"]
    return lines


def _draw_level(level: Level) -> list[str]:
    """Draw both levels as bars from zero."""
    longest = max(level.before, level.after) or 1.0
    lines = [f"  {level.name}: {level.words}"]
    for name, value, words in (
        ("before", level.before, level.before_words),
        ("after ", level.after, level.after_words),
    ):
        lines.append(f"    {name} {'#' * max(round(_WIDTH * value / longest), 1):<{_WIDTH}} {words}")
    return lines


def _make_blocks(message: Message) -> list[dict[str, Any]]:
    """Return at most three blocks, so that fifteen messages fit into fifty."""
    header = {"type": "header", "text": {"type": "plain_text", "text": message.subject[:_HEADER_MAXIMUM]}}
    said = [escape_slack(message.sentence)]
    said += [f"*{escape_slack(name)}* {escape_slack(value)}" for name, value in message.details]
    said += [
        f"• {escape_slack(level.name)}: {escape_slack(level.before_words)} → "
        f"{escape_slack(level.after_words)}, {escape_slack(level.words)}"
        for level in message.levels
    ]
    if message.more_levels:
        said.append(f"and {message.more_levels} more")
    blocks = [header, _section(_cut_lines(said))]
    ends = [escape_slack(suspect) for suspect in message.suspects]
    if ends:
        ends.insert(0, "*What else changed*")
    if message.url:
        ends.append(f"<{message.url}|{escape_slack(message.link_words)}>")
    return [*blocks, _section(_cut_lines(ends))] if ends else blocks


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def _cut_lines(lines: Sequence[str]) -> str:
    """Return as many whole lines as fit, the last one always: it holds the link."""
    *rest, last = lines
    kept: list[str] = []
    left = _BLOCK_MAXIMUM - len(last[:_BLOCK_MAXIMUM])
    for line in rest:
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([*kept, last[:_BLOCK_MAXIMUM]])


def _make_facts(message: Message) -> dict[str, Any]:
    return {
        **message.facts,
        "subject": message.subject,
        "sentence": message.sentence,
        "url": message.url or None,
    }
