"""Repair invalid or truncated JSON of fio; each step is linear in the text."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Only behind a key, as "desc" : "a : nan" is text.
_NOT_A_NUMBER: Final = re.compile(
    r'("\s{0,8}:\s{0,8})[-+]?(?:nan|inf|infinity)(?=\s{0,64}[,}])', re.IGNORECASE
)
# fio before 2.21 cut strings at 1024 bytes, with the closing quote; it prints each pair on a separate line.
_LOST_QUOTE: Final = re.compile(r'^[ \t]*+"[^"\n]*+" : "[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*\\?$', re.MULTILINE)
_LIST: Final = re.compile(r'"(jobs|client_stats)"\s{0,64}:\s{0,64}\[')
_SEPARATOR: Final = re.compile(r"[\s,]*+")


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was printed whole of a report: head without its list, the list's key and entries."""

    head: Mapping[str, Any]
    key: str
    entries: tuple[Any, ...]

    def as_content(self) -> dict[str, Any]:
        """Return the report as if it had ended behind its last whole job."""
        return {**self.head, self.key: list(self.entries)}


def repair_report(text: str) -> str:
    """Write NaN for nan and inf, as Python's decoder reads it, and close strings that an old fio truncated."""
    return _LOST_QUOTE.sub(_close_string, _NOT_A_NUMBER.sub(r"\1NaN", text))


def _close_string(match: re.Match[str]) -> str:
    line = match[0].rstrip()
    comma = "," if line.endswith(",") else ""
    line = line.removesuffix(",")
    # The string may end within an escape.
    slashes = len(line) - len(line.rstrip("\\"))
    return f'{line[:-1] if slashes % 2 else line}"{comma}'


def recover_jobs(text: str, decoder: json.JSONDecoder, *, maximum: int) -> Recovered | None:
    """Return the first complete jobs of a report whose end is missing or damaged; None without any."""
    listed = _LIST.search(text)
    if listed is None:
        return None
    try:
        head, _ = decoder.raw_decode(text[: listed.end()] + "]}")
    except (ValueError, RecursionError):
        return None
    entries: list[Any] = []
    position = listed.end()
    while len(entries) < maximum:
        separator = _SEPARATOR.match(text, position)
        position = separator.end() if separator else position
        try:
            entry, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            break
        entries.append(entry)
    return Recovered(head, listed[1], tuple(entries)) if entries else None
