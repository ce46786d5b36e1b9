"""Extract fio's output from strings of other tools: Ansible's stdout, logs of JSON lines, CSV, Python's repr."""

import html
import json
import quopri
import re
from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct

from benchapp.fio.notes import Notes
from benchapp.fio.streams import comes_again
from benchapp.fio.text import decode_output

# A Python literal in a line of Docker's log in Ansible's stdout.
_LAYERS_MAXIMUM: Final = 3
_JSON_LINE: Final = re.compile(r'\s*+\{ ?"[^"\n]{1,64}" ?: ?[^\n]*+')
_DOCKER: Final = re.compile(r'\s*+\{"log" ?:')
# Where tools put the line of a program: Docker, journald, loggers.
_MESSAGES: Final = ("log", "MESSAGE", "message", "@message", "msg", "text", "textPayload", "line", "body")
# journald's lines have about 30.
_FIELDS_MAXIMUM: Final = 64
# Neither crosses a line; the last one of a text may lack its end. Linear: each part begins with another character, and
# no possessive group holds alternatives, of which CPython before 3.11.5 matches too little (gh-106052).
_DOUBLE: Final = r'"[^"\\\n]*+(?:\\.[^"\\\n]*+)*(?:"|\\?\Z)'
_SINGLE: Final = r"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*(?:'|\\?\Z)"
_LITERAL: Final = rf"b?(?:{_DOUBLE}|{_SINGLE})"
_LOG_CUT: Final = re.compile(rf'\{{"log" ?: ?({_DOUBLE})')
_QUOTED: Final = re.compile(
    rf"(?P<lines>\[\s*+(?:{_LITERAL}\s*+,?\s*+)+(?:\]|\Z))|(?<![\w\\])(?P<literal>{_LITERAL})"
)
_LINE: Final = re.compile(_LITERAL)
# Truncated within an escape: "\u00".
_CUT_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:[uU][0-9a-fA-F]{0,7}|x[0-9a-fA-F]?)?\Z")
# What repr() writes, and no other escape.
_REPR: Final = re.compile(
    r"[^\\]*+(?:\\(?:[\\'\"nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})[^\\]*+)*", re.DOTALL
)
# One of them is in every report: JSON, whose quotes are escaped once a layer or not at all, text, terse.
_MARK: Final = re.compile(r'fio version\\{0,8}" ?:|\(groupid=\d|\d%=\d')
_LOG_NAME: Final = "the lines of a JSON log, such as Docker's or journald's"
# Linear: a cell ends at a quotation mark that is not doubled, and any other text is one, too.
_CELL: Final = re.compile(r'(?:"([^"]*+(?:""[^"]*+)*+)"|([^",\r\n]*+))(,|\r?\n|)')
_HTML_TAG: Final = re.compile(r"<(?:br ?/?|/?(?:p|div)\b[^<>\n]{0,200})>\n?")
_JSON_NAME: Final = "a JSON string, such as Ansible's stdout"
_LINES_NAME: Final = "a list of lines, such as Ansible's stdout_lines"
_PYTHON_NAME: Final = "a Python literal, as repr() writes it"


class Unwrapped(Struct, frozen=True):
    """fio's output and the text around its wrappers; names: of the wrappers, from the outer one in.

    output: None where what looks like a wrapper is damaged, so that nothing was taken out.
    """

    output: bytes | None
    names: tuple[str, ...]


_LINE_DECODER: Final = msgspec.json.Decoder(dict[str, object])


def unwrap_output(output: bytes) -> Unwrapped | None:
    """Return fio's output out of at most three layers of wrappers; None where no string holds any.

    Linear in the text, and hardly longer than it: no escape is shorter than its character. A string that is
    not as its tool writes it stays unchanged.
    """
    text = decode_output(output, Notes())
    names: list[str] = []
    damaged: list[str] = []
    for _ in range(_LAYERS_MAXIMUM):
        layer = _Layer()
        inner = layer.unwrap(text)
        damaged += layer.damaged
        if not layer.names:
            break
        names += layer.names
        # An escape may be a character that is not allowed in text: NUL, a terminal code.
        text = decode_output(inner.encode(errors="replace"), Notes())
    if names:
        return Unwrapped(text.encode(), tuple(dict.fromkeys(names)))
    return Unwrapped(None, tuple(dict.fromkeys(damaged))) if damaged else None


class _Layer:
    """One layer of a text. names: of the wrappers that were opened, damaged: of those that could not be."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.damaged: list[str] = []
        self._contents: set[str] = set()

    def unwrap(self, text: str) -> str:
        """Return the text with the content of its wrappers in their places."""
        if _DOCKER.match(text) or ((first := _JSON_LINE.match(text)) and _read_json_line(first[0])):
            return self._unwrap_json_lines(text)
        for name, mark, convert in _ENCODINGS:
            if mark in text:
                self.names.append(name)
                return convert(text)
        if not _MARK.search(text):
            return text
        inner = _QUOTED.sub(self._replace, text)
        if inner == text and "\\n  " in text and not self.damaged:
            self.names.append("text with escaped line ends")
            return text.replace("\\n", "\n")
        return inner

    def _unwrap_json_lines(self, text: str) -> str:
        """Join a log of JSON lines, each source separately: a complaint may be between two lines of a report."""
        entries: list[tuple[dict[str, object], str]] = []
        others: list[str] = []
        for line in text.splitlines():
            read = _read_json_line(line)
            if read is None:
                others.append(line)
            else:
                entries.append(read)
        names = list(entries[0][0])[:_FIELDS_MAXIMUM] if entries else []
        sources = [
            name
            for name in names
            if name not in _MESSAGES and comes_again([str(entry.get(name)) for entry, _ in entries], times=1)
        ]
        streams: dict[tuple[str, ...], list[str]] = {}
        stream: tuple[str, ...] = ()
        for entry, message in entries:
            stream = tuple(str(entry.get(name)) for name in sources)
            streams.setdefault(stream, []).append(message)
        cut = _LOG_CUT.fullmatch(others[-1]) if others and text.endswith(others[-1]) else None
        if cut is not None:
            streams.setdefault(stream, []).append(_read_literal(cut[1]))
            others.pop()
        texts = ["".join(logs) for logs in streams.values()]
        (self.names if any(texts) else self.damaged).append(_LOG_NAME)
        return "\n".join((*texts, *others))

    def _replace(self, match: re.Match[str]) -> str:
        quoted = match[0]
        if not _MARK.search(quoted):
            return quoted
        lines = match["lines"]
        try:
            content = _read_literal(quoted) if lines is None else _read_lines(quoted)
        except ValueError:
            self.damaged.append(_name(quoted))
            return quoted
        self.names.append(_name(quoted))
        # Ansible prints both stdout and its lines.
        bare = "\n".join(content.splitlines())
        if bare in self._contents:
            return ""
        self._contents.add(bare)
        # What was cut off ends with the text, as if it had no wrapper.
        return f"\n{content}" if match.end() == len(match.string) else f"\n{content}\n"


def _read_json_line(line: str) -> tuple[dict[str, object], str] | None:
    """Return the fields and the text of a line of a log; None for any other."""
    try:
        entry = _LINE_DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    message = next((entry[name] for name in _MESSAGES if name in entry), None)
    if not isinstance(message, str):
        return None
    # Docker's lines have their ends.
    text = message if "log" in entry else f"{message}\n"
    return entry, text


def _read_csv(text: str) -> str:
    """Return the columns that hold a report: each cell one, or a line of one."""
    columns: defaultdict[int, list[str]] = defaultdict(list)
    place = 0
    for quoted, plain, end in _CELL.findall(text):
        columns[place].append(quoted.replace('""', '"') or plain)
        place = place + 1 if end == "," else 0 if end else place
    return "\n".join("\n".join(cells) for cells in columns.values() if any(map(_MARK.search, cells)))


def _read_quoted_printable(text: str) -> str:
    return quopri.decodestring(text.encode()).decode(errors="replace")


def _read_html(text: str) -> str:
    """Return the text of lines that tags end."""
    return html.unescape(_HTML_TAG.sub("\n", text))


# Name, what only such a text has, and its decoder.
_ENCODINGS: Final[tuple[tuple[str, str, Callable[[str], str]], ...]] = (
    *(("cells of CSV", mark, _read_csv) for mark in ('""fio version""', ',"  IO depths', ',"3;fio')),
    ("escaped HTML", "&quot;fio version&quot;", html.unescape),
    ("escaped HTML", "&gt;=64=", html.unescape),
    ("quoted-printable text", "groupid=3D", _read_quoted_printable),
    ("quoted-printable text", "=22fio version=22", _read_quoted_printable),
    ("quoted-printable text", "%=3D", _read_quoted_printable),
    *(("lines of HTML", mark, _read_html) for mark in ("<br", "</p>", "</div>", "&nbsp;")),
)


def _name(quoted: str) -> str:
    if quoted.startswith("["):
        return _LINES_NAME
    return _JSON_NAME if quoted.startswith('"') else _PYTHON_NAME


def _read_lines(quoted: str) -> str:
    lines = [_read_literal(match[0]) for match in _LINE.finditer(quoted)]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _read_literal(literal: str) -> str:
    """Return the value of a string of JSON or Python, complete or truncated. Raises ValueError."""
    is_bytes = literal.startswith("b")
    quote, content = literal[is_bytes], literal[is_bytes + 1 :]
    if "\\" not in content:
        return content.removesuffix(quote)
    if content.endswith(quote) and not _ends_in_escape(content[:-1]):
        content = content[:-1]
    else:
        content = _CUT_ESCAPE.sub(r"\1", content)
    if not is_bytes and quote == '"':
        try:
            return str(json.loads(f'"{content}"', strict=False))
        except ValueError:
            # repr() of what holds an apostrophe and no quotation mark.
            pass
    return _read_repr(content, is_bytes=is_bytes)


def _ends_in_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


def _read_repr(content: str, *, is_bytes: bool) -> str:
    if not _REPR.fullmatch(content) or (is_bytes and not content.isascii()):
        raise ValueError("an escape that repr() does not write")
    text = content.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return text.encode("latin-1").decode(errors="replace") if is_bytes else text
