"""Lines of a text, without the emphasis that people put around figures."""

import re
from collections.abc import Iterator
from typing import Final

# Of Markdown, Jira, BBCode and HTML: no line of fio's has them, but for what people wrote into a description, "<b> "
# of a host, and "[a=b]" of a status line.
_TAGS: Final = "(?:b|strong|i|em|u|mark|code|span|font|color|pre|tt|br)"
_BLOCKS: Final = "(?:p|div|li|tr|td)"
_EMPHASIS: Final = re.compile(
    rf"\*+|`+|~~|</{_TAGS}>|<{_TAGS}(?: [^<>\n]{{0,200}})?/?>(?! )|\[/?{_TAGS}(?:=[^\[\]\n]{{0,60}})?\]"
    rf"|</?{_BLOCKS}(?: [^<>\n]{{0,200}})?>|^[ \t]*[-=]+> ?"
    r"|\{(?:code|noformat|color|quote)(?::[^{}\n]{0,60})?\}|(?<![^\W_])_+(?=\w)|(?<=[\w%/)])_+(?![^\W_])",
    re.IGNORECASE,
)
# By their first character, as a search for one character costs far less.
_MARKS: Final = {
    "*": ("**", "*IOPS="),
    "`": ("`",),
    "~": ("~~",),
    "<": ("</", "<b", "<strong>", "<i>", "<em>", "<u>", "<mark>", "<code>", "<pre>", "<font", "<span"),
    "[": ("[b", "[i]", "[u]", "[code", "[color"),
    "{": ("{code", "{noformat", "{color", "{quote"),
    "_": ("_IOPS",),
    "->": ("->",),
    "=>": ("=>",),
}
# As of a run in a locale that writes 1,5.
# Each begins with letters, which are searched for much faster than digits.
_DECIMAL_COMMAS: Final = (re.compile(r"avg= *+\d++,\d"), re.compile(r"usr= *+\d++,\d"))
_COMMA: Final = re.compile(r"(?<=\d),(?=\d)")
_DASHES: Final = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"))
_DESCRIPTION: Final = "Description"


class Lines:
    r"""The lines of a text, also those that a lone carriage return ends, with their ends.

    open_end: number of the line without an end with which the text ends, -1 where there is none.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines(keepends=True)
        self._has_emphasis = any(
            mark in text for character, marks in _MARKS.items() if character in text for mark in marks
        )
        self._has_decimal_commas = any(pattern.search(text) for pattern in _DECIMAL_COMMAS)
        self._is_ascii = text.isascii()
        self.open_end = -1 if text.endswith(("\n", "\r")) else len(self._lines) - 1

    def __iter__(self) -> Iterator[str]:
        """Give each line, without emphasis, with a point before decimals and plain hyphens."""
        lines = iter(self._lines)
        if self._has_emphasis:
            lines = map(_remove_emphasis, lines)
        if self._has_decimal_commas:
            lines = map(_write_points, lines)
        return lines if self._is_ascii else map(_write_hyphens, lines)

    def read(self, number: int) -> str:
        """Return one line."""
        return self._lines[number]


def _remove_emphasis(line: str) -> str:
    return line if _DESCRIPTION in line else _EMPHASIS.sub("", line)


def _write_points(line: str) -> str:
    # Counts of I/Os are separated by commas.
    return line if "issued " in line or _DESCRIPTION in line else _COMMA.sub(".", line)


def _write_hyphens(line: str) -> str:
    return line if _DESCRIPTION in line else line.translate(_DASHES)
