"""Extract fio's output from what surrounds it: prefixes of log collectors, strings of other tools.

Log collectors, quotations and diffs mix lines: each line of fio behind its prefix belongs to one stream. The
lines of fio have fixed forms. What precedes one of them is a prefix; lines of one prefix are a stream. Times and
counters differ from line to line within a stream, all else distinguishes streams.
"""

import html
import json
import quopri
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec
from msgspec import Struct

from benchapp.fio.report import Notes
from benchapp.fio.text import decode_output

# A prefix is a name and a time; anything longer is text.
_PREFIX_LENGTH_MAXIMUM: Final = 200
_ANCHOR: Final = re.compile(
    r"(?:[Rr]ead|[Ww]rite|[Tt]rim|[Mm]ixed|READ|WRITE|TRIM|MIXED) {0,2}+: {0,2}+(?:IOPS|io)="
    r"|(?:[sc]?lat|sync) (?:\([num]?sec\)|percentiles \()|bw \( {0,3}+[KkMG]\w{0,5} ?/s\)|iops {1,12}+: min="
    r"|cpu {1,12}+: usr=|IO depths {1,8}+: |(?:submit|complete) {1,8}+: 0="
    r"|issued |latency {1,8}+: target=|Description {1,4}+: \[|Run status group \d|\| {1,3}+\d{1,3}\.\d+th=\["
    r'|"[^"\\\n]{1,64}+" ?+: '
)
# One of them is in every report, behind these words: where nothing else precedes them, no line has a prefix.
_DIRECTIONS: Final = ("read", "write", "trim", "mixed", "READ", "WRITE", "TRIM", "MIXED")
_LANDMARKS: Final[Mapping[str, tuple[str, ...]]] = {
    "IO depths": ("",),
    "lat (": ("", "s", "c"),
    " IOPS=": _DIRECTIONS,
    ": io=": _DIRECTIONS,
    '"fio version"': ("",),
    '"jobname"': ("",),
}
_MONTHS: Final = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_TIME: Final = r"\d{1,2}:\d\d(?::\d\d)?+(?:[.,]\d{1,12}+)?+(?!\.?\d)(?:Z\b|[+-]\d\d:?\d\d\b)?+"
_TOKEN: Final = re.compile(
    rf"(?P<clock>\d{{4}}[-/.]\d\d[-/.]\d\d(?:[T ]{_TIME})?+|\d\d[-/.]\d\d[-/.]\d{{2,4}}\b|{_TIME}"
    rf"|(?:\b\d{{1,2}}[ /-])?+\b(?:{_MONTHS})[a-z]*+\b(?: {{1,2}}\d{{1,2}}\b)?+|\b[IWEF]\d{{4}}(?= \d\d:)"
    r"|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*+\b|\b[AaPp][Mm]\b|\d++\.\d++(?![.\d]))"
    r"|(?P<address>\d++(?:\.\d++){2,})|(?P<number>\d++)|(?P<blank>[ \t]++)|[^\W\d_]++|.",
    re.DOTALL,
)
# A line of another format, which wrappers.py opens; logfmt's has no escapes that matter.
_QUOTE_AT_END: Final = re.compile(r'(?<!=)"$')
_HOST: Final = re.compile(r"<(?!\d{1,3}>)[^>]{1,255}>")

# Of one report that is worth reading: its job, its figures, one latency.
_LINES_MINIMUM: Final = 3

_Shape = tuple[str, ...]


class Stream(Struct, frozen=True, gc=False):
    """Lines behind one prefix; prefix: as the first line has it, empty for lines without a prefix."""

    prefix: str
    text: str


class _Prefix(Struct, frozen=True):
    """shape: of a prefix, with times and numbers made alike; numbers: those, in order."""

    shape: _Shape
    numbers: tuple[str, ...]


def separate_streams(text: str) -> list[Stream]:
    """Return the streams of a text in the order in which they begin; nearly every text is one without a prefix.

    Numbers of a prefix distinguish streams if one comes again after another ("fio-1 |", "fio-2 |"); those that only
    go on are counters. The "<host> " of fio's client is not a prefix.
    """
    if not _has_prefixes(text):
        return [Stream("", text)]
    lines = text.splitlines(keepends=True)
    prefixes = [_find_prefix(line) for line in lines]
    shapes = _choose_shapes(prefixes)
    if not shapes:
        return [Stream("", text)]
    sizes = sorted({len(shape) for shape in shapes}, reverse=True)
    found: defaultdict[_Shape, list[tuple[str, tuple[str, ...], str]]] = defaultdict(list)
    order: list[tuple[_Shape, int]] = []
    for line, prefix in zip(lines, prefixes, strict=True):
        shape, numbers, end = _match_shape(line, prefix, shapes, sizes)
        order.append((shape, len(found[shape])))
        found[shape].append((line[:end].strip(), numbers, line[end:]))
    marks = {shape: _find_marks([numbers for _, numbers, _ in entries]) for shape, entries in found.items()}
    streams: dict[object, tuple[str, list[str]]] = {}
    for shape, place in order:
        label, numbers, content = found[shape][place]
        key = shape, tuple(numbers[mark] for mark in marks[shape])
        streams.setdefault(key, (label, []))[1].append(content)
    return [Stream(label, "".join(contents)) for label, contents in streams.values()]


def _has_prefixes(text: str) -> bool:
    for landmark, words in _LANDMARKS.items():
        *pieces, _ = text.split(landmark)
        # Of the few different beginnings of lines.
        for line in {piece[piece.rfind("\n") + 1 :] for piece in pieces}:
            before = line.strip(" \t:{[,")
            if before not in words and len(before) <= _PREFIX_LENGTH_MAXIMUM:
                return True
    return False


@lru_cache(maxsize=4096)
def _read_prefix(text: str) -> _Prefix:
    return _read_tokens(text)[0]


def _read_tokens(text: str) -> tuple[_Prefix, list[int], list[int]]:
    """Return the prefix that a text is, and for each token its end and how many numbers there are up to it."""
    shape: list[str] = []
    numbers: list[str] = []
    ends: list[int] = []
    counts: list[int] = []
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "blank" and not shape:
            continue
        if kind == "number":
            numbers.append(token[0])
        shape.append(token[0] if kind in (None, "address") else kind or "")
        ends.append(token.end())
        counts.append(len(numbers))
    return _Prefix(tuple(shape), tuple(numbers)), ends, counts


def _find_prefix(line: str) -> str:
    """Return what precedes the fixed form of a line of fio; empty where nothing does."""
    anchor = _ANCHOR.search(line, 0, 2 * _PREFIX_LENGTH_MAXIMUM)
    if anchor is None:
        return ""
    prefix = line[: anchor.start()].rstrip(" \t")
    if anchor[0][0] == '"':
        prefix = prefix.rstrip(" \t{[,")
    if (
        len(prefix) > _PREFIX_LENGTH_MAXIMUM
        or _QUOTE_AT_END.search(prefix)
        or _HOST.fullmatch(prefix.strip())
    ):
        return ""
    return prefix


def _choose_shapes(prefixes: Sequence[str]) -> frozenset[_Shape]:
    """Return the shapes of prefixes that several lines have: fio prints no report of one line."""
    counts: defaultdict[_Shape, int] = defaultdict(int)
    for prefix in prefixes:
        if prefix:
            counts[_read_prefix(prefix).shape] += 1
    return frozenset(shape for shape, count in counts.items() if count > 1)


def _match_shape(
    line: str, prefix: str, shapes: frozenset[_Shape], sizes: Sequence[int]
) -> tuple[_Shape, tuple[str, ...], int]:
    """Return the shape of a line's prefix, its numbers, and where it ends; an empty shape where it has none."""
    if prefix:
        known = _read_prefix(prefix)
        if known.shape in shapes:
            return known.shape, known.numbers, len(prefix)
    elif _ANCHOR.match(line.lstrip(" \t")):
        return (), (), 0
    whole, ends, counts = _read_tokens(line[:_PREFIX_LENGTH_MAXIMUM])
    for size in sizes:
        if whole.shape[:size] in shapes and len(whole.shape) >= size:
            end = ends[size - 1]
            return whole.shape[:size], whole.numbers[: counts[size - 1]], end
    return (), (), 0


def _find_marks(rows: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the places of numbers that come again after another: they name a stream.

    Those with few values first: a counter of each of many streams comes again as long as these are not separated.
    """
    marks: list[int] = []
    for _, place in sorted((len({row[place] for row in rows}), place) for place in range(len(rows[0]))):
        columns: defaultdict[_Shape, list[str]] = defaultdict(list)
        for row in rows:
            columns[tuple(row[mark] for mark in marks)].append(row[place])
        if any(map(comes_again, columns.values())):
            marks.append(place)
    return marks


def comes_again(values: Sequence[str], *, times: int = 2) -> bool:
    """Return whether values come again after others, as those of streams do; those of counters seldom do."""
    seen: set[str] = set()
    last, returns = None, 0
    for value in values:
        if value != last:
            returns += value in seen
            seen.add(value)
            last = value
    # A counter that starts again from time to time has nearly as many values as lines.
    return returns >= times and len(values) >= _LINES_MINIMUM * len(seen)


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
