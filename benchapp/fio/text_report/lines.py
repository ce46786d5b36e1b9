"""Lines of a text, without the prefix that a log collector or a quotation puts before each."""

import re
from collections.abc import Iterator
from typing import Final

# Every job has it, indented by two blanks.
_LANDMARK: Final = "IO depths"
# A prefix is a name or a time; anything longer is not a prefix.
_PREFIX_LENGTH_MAXIMUM: Final = 200
# Of Markdown and HTML: no line of fio's has them, but for what people wrote into a description, and "<b> " of a host.
_TAGS: Final = "(?:b|strong|i|em|u|mark|code|span)"
_EMPHASIS: Final = re.compile(rf"\*+|`+|~~|</{_TAGS}>|<{_TAGS}(?: [^<>\n]{{0,200}})?>(?! )", re.IGNORECASE)
_EMPHASIS_MARKS: Final = (
    "**",
    "*IOPS=",
    "`",
    "~~",
    "</",
    "<b>",
    "<strong>",
    "<i>",
    "<em>",
    "<u>",
    "<mark>",
    "<code>",
)
_DESCRIPTION: Final = "Description"
_HOST: Final = re.compile(r"<[^>]{1,255}>", re.ASCII)


class Lines:
    r"""The lines of a text, also those that a lone carriage return ends, with their ends.

    A prefix is the text before the landmark of a report ("fio_1  | ", "2026-11-21T10:00:00Z "); numbers in it may
    differ from line to line. The "<host> " of fio's client is not a prefix.

    open_end: number of the line without an end with which the text ends, -1 where there is none.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._prefix = _compile_prefix(_find_prefix(text))
        self._located = (0, 0)
        # Four searches for one character cost far less than all of those for the marks.
        self._has_emphasis = ("*" in text or "<" in text or "`" in text or "~" in text) and any(
            mark in text for mark in _EMPHASIS_MARKS
        )
        self.open_end = -1 if text.endswith(("\n", "\r")) else len(self._lines) - 1

    def __iter__(self) -> Iterator[str]:
        """Give each line, without emphasis."""
        lines = iter(self._lines) if self._prefix is None else map(self._strip, self._lines)
        return map(_remove_emphasis, lines) if self._has_emphasis else lines

    def locate(self, number: int) -> int:
        """Return where a line begins in the text, prefix included; numbers ascend from call to call."""
        earlier, at = self._located
        at += sum(map(len, self._lines[earlier:number]))
        self._located = number, at
        return at

    def read(self, number: int) -> str:
        """Return one line."""
        return self._strip(self._lines[number])

    def _strip(self, line: str) -> str:
        match = self._prefix.match(line) if self._prefix else None
        return line[match.end() :] if match else line


def _remove_emphasis(line: str) -> str:
    return line if _DESCRIPTION in line else _EMPHASIS.sub("", line)


def _compile_prefix(prefix: str) -> re.Pattern[str] | None:
    if not prefix:
        return None
    return re.compile(re.sub(r"\d+", r"\\d++", re.escape(prefix), flags=re.ASCII), re.ASCII)


def _find_prefix(text: str) -> str:
    at = text.find(_LANDMARK)
    if at < 0:
        return ""
    line_at = text.rfind("\n", 0, at) + 1
    line_at = max(line_at, text.rfind("\r", line_at, at) + 1)
    prefix = text[line_at:at].rstrip()
    # A line in a string of another format is left to wrappers.py, which decodes it.
    is_quoted = prefix.endswith('"')
    is_prefix = len(prefix) <= _PREFIX_LENGTH_MAXIMUM and not is_quoted and not _HOST.fullmatch(prefix)
    return prefix if is_prefix else ""
