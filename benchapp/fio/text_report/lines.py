"""Lines of a text, without the emphasis that people put around figures."""

import re
from collections.abc import Iterator
from typing import Final

# Of Markdown, Jira, BBCode and HTML: no line of fio's has them, but for what people wrote into a description, "<b> "
# of a host, and "[a=b]" of a status line.
_TAGS: Final = "(?:b|strong|i|em|u|mark|code|span|font|color|pre|tt|br)"
_EMPHASIS: Final = re.compile(
    rf"\*+|`+|~~|</{_TAGS}>|<{_TAGS}(?: [^<>\n]{{0,200}})?/?>(?! )|\[/?{_TAGS}(?:=[^\[\]\n]{{0,60}})?\]"
    r"|\{(?:code|noformat|color|quote)(?::[^{}\n]{0,60})?\}|(?<![^\W_])_+(?=\w)|(?<=[\w%/)])_+(?![^\W_])",
    re.IGNORECASE,
)
_MARKS: Final = ("**", "*IOPS=", "`", "~~", "</", "<b", "<strong>", "<i>", "<em>", "<u>", "<mark>", "<code>", "<pre>")
_MORE_MARKS: Final = ("<font", "<span", "[b", "[i]", "[u]", "[code", "[color", "{code", "{noformat", "{color", "{quote", "_IOPS")
_DESCRIPTION: Final = "Description"


class Lines:
    r"""The lines of a text, also those that a lone carriage return ends, with their ends.

    open_end: number of the line without an end with which the text ends, -1 where there is none.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        lowered = text
        # Searches for one character cost far less than all of those for the marks.
        self._has_emphasis = any(character in text for character in "*<`~{_") and any(
            mark in lowered for mark in (*_MARKS, *_MORE_MARKS)
        )
        self.open_end = -1 if text.endswith(("\n", "\r")) else len(self._lines) - 1

    def __iter__(self) -> Iterator[str]:
        """Give each line, without emphasis."""
        return map(_remove_emphasis, self._lines) if self._has_emphasis else iter(self._lines)

    def read(self, number: int) -> str:
        """Return one line."""
        return self._lines[number]


def _remove_emphasis(line: str) -> str:
    return line if _DESCRIPTION in line else _EMPHASIS.sub("", line)
