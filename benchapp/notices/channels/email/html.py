"""Messages as HTML for mail clients: inline styles and tables, loads nothing, legible in light and dark mode."""

from collections.abc import Sequence
from html import escape
from typing import Final

from benchapp.notices.channels.message import Message, MessageLevel

# Text and background colors are not set, so that mail clients can use dark mode. All set colors have a contrast of at
# least 3 on white and on #15181b.
_FONT: Final = (
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:14px;line-height:20px"
)
_MUTED: Final = "color:#767b80"
_LINK: Final = "color:#2f81c7"
_BEFORE: Final = "#8a9096"
_REGRESSION: Final = "#d04a3b"
_IMPROVEMENT: Final = "#2e9e5b"
_RULE_STYLE: Final = "border:0;border-top:1px solid #8a909666;margin:20px 0"


def render_html(messages: Sequence[Message], *, title: str) -> str:
    """Return the messages as one HTML document, one below the other."""
    body = f'<hr style="{_RULE_STYLE}">'.join(_render(message) for message in messages)
    settings_url = messages[0].settings_url
    end = f" · {_link(settings_url, 'notification settings')}" if settings_url else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="color-scheme" content="light dark"><meta name="supported-color-schemes" content="light dark">'
        f"<title>{escape(title)}</title></head>"
        f'<body style="margin:0;padding:16px"><div style="max-width:640px;{_FONT}">{body}'
        f'<p style="{_MUTED};font-size:12px;margin:24px 0 0">benchapp{end}</p></div></body></html>'
    )


def _render(message: Message) -> str:
    parts = [
        f'<h1 style="font-size:18px;line-height:24px;margin:0 0 8px">{escape(message.subject)}</h1>',
        f'<p style="margin:0 0 12px">{escape(message.sentence)}</p>',
    ]
    if message.levels:
        parts.append(_render_levels(message))
    if message.suspects:
        items = "".join(f"<li>{escape(suspect)}</li>" for suspect in message.suspects)
        parts.append(
            _heading("Possible causes") + f'<ul style="margin:0 0 12px;padding-left:20px">{items}</ul>'
        )
    if message.details:
        parts.append(_render_details(message))
    if message.url:
        parts.append(f'<p style="margin:12px 0 0">{_link(message.url, message.link_text)}</p>')
    return "".join(parts)


def _render_levels(message: Message) -> str:
    rows = "".join(_render_level(level) for level in message.levels)
    more = ""
    if message.more_levels:
        more = f'<p style="{_MUTED};margin:4px 0 0">and {message.more_levels} more</p>'
    table = f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0" style="{_FONT}">{rows}</table>'
    return _heading("Affected series") + table + more


def _render_level(level: MessageLevel) -> str:
    """Render both levels as bars from zero, made of table cells, which no mail client blocks."""
    longest = max(level.before, level.after) or 1.0
    after = _REGRESSION if level.is_regression else _IMPROVEMENT
    word = "regression" if level.is_regression else "improvement"
    name = _link(level.url, level.name) if level.url else escape(level.name)
    head = (
        f'<tr><td colspan="2" style="padding:8px 0 2px">{name}: <strong>{escape(level.text)}</strong> '
        f'<span style="{_MUTED}">{word}</span></td></tr>'
    )
    return (
        head
        + _render_bar("before", level.before / longest, level.before_text, color=_BEFORE)
        + _render_bar("after", level.after / longest, level.after_text, color=after)
    )


def _render_bar(name: str, share: float, text: str, *, color: str) -> str:
    """Render one bar; share: 0 to 1 of the longer one."""
    width = min(max(round(share * 100), 1), 100)
    rest = f'<td width="{100 - width}%" style="font-size:0"></td>' if width < 100 else ""
    bar = (
        '<table role="presentation" width="100%" cellpadding="0" cellspacing="0"><tr>'
        f'<td width="{width}%" height="12" bgcolor="{color}" '
        f'style="background:{color};height:12px;font-size:0;line-height:12px">&nbsp;</td>{rest}</tr></table>'
    )
    return (
        f'<tr><td style="padding:1px 12px 1px 0">{bar}</td>'
        f'<td width="170" style="white-space:nowrap;font-size:12px">{escape(name)} {escape(text)}</td></tr>'
    )


def _render_details(message: Message) -> str:
    rows = "".join(
        f'<tr><td style="{_MUTED};padding:1px 12px 1px 0;vertical-align:top;white-space:nowrap">{escape(name)}</td>'
        f'<td style="padding:1px 0">{escape(value)}</td></tr>'
        for name, value in message.details
    )
    return f'<table cellpadding="0" cellspacing="0" style="{_FONT}">{rows}</table>'


def _heading(text: str) -> str:
    return f'<h2 style="font-size:14px;line-height:20px;margin:12px 0 4px">{escape(text)}</h2>'


def _link(url: str, text: str) -> str:
    return f'<a href="{escape(url)}" style="{_LINK}">{escape(text)}</a>'
