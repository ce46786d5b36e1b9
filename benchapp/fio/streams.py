"""Separate what log collectors, quotations and diffs mix: each line of fio behind its prefix belongs to one stream.

The lines of fio have fixed forms. What precedes one of them is a prefix; lines of one prefix are a stream. Times and
counters differ from line to line within a stream, all else distinguishes streams.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

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
_QUOTED: Final = re.compile(r'(?<!=)"$')
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
    if len(prefix) > _PREFIX_LENGTH_MAXIMUM or _QUOTED.search(prefix) or _HOST.fullmatch(prefix.strip()):
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
