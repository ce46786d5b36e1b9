"""The filter language: `host:db-* volume_type:gp3,io2 iodepth:>=8 bs:4k -fs:xfs words`. Pure.

A term is NAME:VALUES. VALUES: one or more, separated by commas (any of them matches); "*" in text matches any
characters; ">=8", "<64k", "1..16" (inclusive) for numbers; sizes with fio's units (4k = 4096); yes/no for flags;
"unknown" for a missing value; quotes around spaces, commas or literal stars (a quotation mark in quotes is doubled).
A "-" before the name negates the term. Words without a name must all occur. Names are case-insensitive, but for the
label in `label.NAME`. NAME=VALUES, NAME!=VALUES and NAME>=NUMBER are read as well, and so are phrases, as "16 volumes"
and "random read" (filter_phrases). docs/filters.md has the reference.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, Literal
from uuid import UUID

from benchapp.catalog.dimensions import (
    ALIASES,
    FILTER_DIMENSIONS,
    LABEL_PREFIX,
    Dimension,
    find_filter_dimension,
    get_filter_dimension,
    normalize_value,
)
from benchapp.catalog.filter_phrases import (
    BadPhrase,
    Phrase,
    TimeRange,
    find_dimension_of_value,
    find_name,
    is_in_phrase,
    read_phrase,
)

Operator = Literal["=", "like", "<", "<=", ">", ">=", "between", "unknown"]
TERMS_MAXIMUM: Final = 40
WORDS_MAXIMUM: Final = 8
VALUES_MAXIMUM: Final = 50
LENGTH_MAXIMUM: Final = 2000

# Linear in the length of the text: each alternative begins with another character. A doubled quotation mark is one in
# quotes. No possessive group: CPython before 3.11.5 matches too little where one holds alternatives (gh-106052).
_QUOTED: Final = r'"[^"]*+(?:""[^"]*+)*"'
_TOKEN: Final = re.compile(rf'(?:{_QUOTED}|[^\s"]++)+')
_NAMED: Final = re.compile(r'(-?)([Ll][Aa][Bb][Ee][Ll]\.[^\s:",]*+|[A-Za-z_][A-Za-z0-9_]*+):(.*+)', re.DOTALL)
# Names of labels may have signs of comparison: a label's name ends at its colon, or at the first sign if it has none.
_COMPARED: Final = re.compile(
    r'(-?)([Ll][Aa][Bb][Ee][Ll]\.[^\s:",=<>!≥≤]++|[A-Za-z_][A-Za-z0-9_]*+)(!=|==|>=|<=|[=<>≥≤])(.*+)',
    re.DOTALL,
)
_RANGE: Final = re.compile(r"([\d.]++[A-Za-z]*+)[-–](\d.*+)", re.ASCII)
_VALUE: Final = re.compile(rf'(?:{_QUOTED}|[^",]++)+')
_PART: Final = re.compile(rf'{_QUOTED}|[^"]++')
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)([kmgtp]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NUMBER: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)", re.ASCII)
_FLAGS: Final = {
    **dict.fromkeys(("yes", "true", "1", "direct"), True),
    **dict.fromkeys(("no", "false", "0", "buffered"), False),
}
_SUFFIXES: Final = {"seconds": "s", "percent": "%"}
_NUMBER_MAXIMUM: Final = 2**62
_STARS_MAXIMUM: Final = 8

Value = str | int | float | bool


class BadFilter(Exception):
    """Not a valid filter; the message names the wrong part and the valid values.

    start, end: the wrong part of the text; both 0 if it is the whole text. suggestions: filters to write instead.
    """

    def __init__(
        self, message: str, *, start: int = 0, end: int = 0, suggestions: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.start = start
        self.end = end
        self.suggestions = tuple(suggestions)


@dataclass(frozen=True, slots=True)
class Test:
    """One alternative of a term. values: one; two for "between", none for "unknown"."""

    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """Matches if any of the tests matches the value of the dimension; negated, if none does."""

    dimension: str
    tests: tuple[Test, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Matches if all terms match and all words occur."""

    terms: tuple[Term, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def environment_terms(self) -> tuple[Term, ...]:
        """Return the terms for facts of the environment."""
        return tuple(term for term in self.terms if get_filter_dimension(term.dimension).is_environment)

    @property
    def run_terms(self) -> tuple[Term, ...]:
        """Return the terms for profile, sweep and labels."""
        return tuple(term for term in self.terms if get_filter_dimension(term.dimension).group == "run")

    @property
    def fact_terms(self) -> tuple[Term, ...]:
        """Return the terms for facts of runs: of the environment, profile, sweep and labels."""
        return tuple(term for term in self.terms if get_filter_dimension(term.dimension).is_fact)

    def without_facts(self) -> "Filter":
        """Return the filter without its terms for facts of runs."""
        series = tuple(term for term in self.terms if not get_filter_dimension(term.dimension).is_fact)
        return Filter(series, self.words)

    def without(self, dimension: str) -> "Filter":
        """Return the filter without its terms for a dimension."""
        return Filter(tuple(term for term in self.terms if term.dimension != dimension), self.words)

    def with_value(self, dimension: str, value: Value | None) -> "Filter":
        """Return the filter with one term for the dimension: this value; None is unknown."""
        test = Test("unknown") if value is None else Test("=", (value,))
        return Filter((*self.without(dimension).terms, Term(dimension, (test,))), self.words)

    def with_terms(self, terms: Sequence[Term]) -> "Filter":
        """Return the filter with more terms. Raises BadFilter if these are too many."""
        if len(self.terms) + len(terms) > TERMS_MAXIMUM:
            raise _too_long()
        return Filter((*self.terms, *terms), self.words)


@dataclass(frozen=True, slots=True)
class PlainWord:
    """A word of a text without quotation marks, terms apart. start, end: its place in the text."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Query:
    """What a text asks for. time_range and metric belong to a page or a parameter, not to the filter."""

    filter: Filter
    time_range: TimeRange | None = None
    metric: str | None = None


def parse_filter(text: str) -> Filter:
    """Parse a filter. Raises BadFilter with the wrong part and the valid values."""
    query = parse_query(text)
    if query.time_range is not None:
        raise BadFilter(
            "A time range is not part of a filter here. Use the fields or parameters from and to",
            suggestions=[write_filter(query.filter)],
        )
    if query.metric is not None:
        raise BadFilter(
            f"{query.metric} is a metric, not part of a filter. Use the field or parameter metric;"
            " a word needs quotation marks",
            suggestions=[write_filter(query.filter)],
        )
    return query.filter


def parse_query(text: str) -> Query:
    """Parse a filter with at most one time range and one metric. Raises BadFilter as `parse_filter`."""
    _check_text(text)
    tokens = list(_split(text))
    _refuse_parentheses(tokens)
    plain = [_read_plain(token) for token in tokens]
    read = Query(Filter())
    terms: list[Term] = []
    words: list[str] = []
    listed: tuple[int, Term] | None = None
    place = 0
    while place < len(tokens):
        try:
            found = _read_at(tokens, plain, place)
        except BadFilter as problem:
            raise _locate(problem, text, tokens, place, length=1) from None
        except BadPhrase as problem:
            error = BadFilter(str(problem), suggestions=problem.instead)
            raise _locate(error, text, tokens, place, length=problem.length) from None
        length, one = _get_one_term(found)
        if listed is not None and one is not None:
            _check_list(listed, one, text=text, tokens=tokens, length=place + length - listed[0])
        has_comma = tokens[place + length - 1].text.endswith(",")
        listed = (place, one) if has_comma and one is not None else None
        if isinstance(found, str):
            words.append(found)
            place += 1
            continue
        phrase, more = found
        terms += more
        read = _add_phrase(read, phrase, text=text, tokens=tokens, place=place)
        place += phrase.length
    if tokens and not (terms or words or read.time_range or read.metric):
        # Words that are ignored between others are searched for if they are alone.
        words = [word for word in plain if word is not None]
    if len(words) > WORDS_MAXIMUM:
        raise _too_long()
    return replace(read, filter=Filter((), tuple(word for word in words if word)).with_terms(terms))


def parse_term(name: str, values: str) -> Term:
    """Parse the values of one term: what follows NAME: in a filter; spaces in it need no quotes. Raises BadFilter."""
    _check_text(values)
    if values.count('"') % 2:
        raise BadFilter(f"Missing closing quotation mark: {values[:40]}")
    return _read_term(name, values, is_negated=False)


def canonicalize_filter(text: str) -> str:
    """Return a filter in the form that is stored. Raises BadFilter, also if that form is too long."""
    written = write_filter(parse_filter(text))
    if len(written) > LENGTH_MAXIMUM:
        raise BadFilter(
            f"The filter has {len(written)} characters in full; at most {LENGTH_MAXIMUM} are allowed"
        )
    return written


def write_filter(filter: Filter) -> str:
    """Write a filter in the filter language; parse_filter returns the same filter."""
    terms = [_write_term(term) for term in filter.terms]
    return " ".join([*terms, *(_quote(word, is_word=True) for word in filter.words)])


def write_value(dimension: Dimension, value: Value | None) -> str:
    """Write one value in the filter language: 4k, 5G, yes, unknown, text in quotes if needed."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _write_number(dimension, value)
    return _quote(value)


def _check_text(text: str) -> None:
    if len(text) > LENGTH_MAXIMUM:
        raise BadFilter(f"The filter has {len(text)} characters; at most {LENGTH_MAXIMUM} are allowed")
    if "\x00" in text:
        raise BadFilter("The filter has a NUL character; remove it")


def _too_long() -> BadFilter:
    return BadFilter(f"A filter has at most {TERMS_MAXIMUM} terms and {WORDS_MAXIMUM} words")


def list_plain_words(text: str) -> list[PlainWord]:
    """Return the words of a text that may be part of phrases; those before a missing quotation mark."""
    words: list[PlainWord] = []
    try:
        for token in _split(text):
            word = _read_plain(token)
            if word is not None:
                words.append(PlainWord(word, token.start, token.start + len(word)))
    except BadFilter:
        pass
    return words


def _split(text: str) -> Iterator[PlainWord]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token = _TOKEN.match(text, place)
        if token is None or text[token.end() : token.end() + 1] == '"':
            raise BadFilter(
                f"Missing closing quotation mark: {text[place : place + 40]}", start=place, end=len(text)
            )
        yield PlainWord(token[0], place, token.end())
        place = token.end()


def _refuse_parentheses(tokens: Sequence[PlainWord]) -> None:
    """Raise BadFilter for a term or a phrase in parentheses: it would be searched for as a word."""
    for token in tokens:
        opens = token.text.startswith(("(", "-("))
        if opens or (token.text.endswith(")") and "(" not in token.text and '"' not in token.text):
            raise BadFilter(
                "Parentheses have no meaning: all terms must match, and one of the values of a term, as type:gp3,io2",
                start=token.start,
                end=token.end,
                suggestions=[" ".join(each.text.replace("(", "").replace(")", "") for each in tokens)],
            )


def _read_plain(token: PlainWord) -> str | None:
    """Return a word that may be part of a phrase; None for terms and quoted words."""
    if '"' in token.text or _NAMED.fullmatch(token.text) or _COMPARED.fullmatch(token.text):
        return None
    return token.text.rstrip(",;") or None


def _read_at(
    tokens: Sequence[PlainWord], plain: Sequence[str | None], place: int
) -> tuple[Phrase, list[Term]] | str:
    """Return the phrase or term at a place, or its word. Raises BadFilter and BadPhrase."""
    word = plain[place]
    if word is not None:
        phrase = read_phrase(plain, place)
        if phrase is None:
            return word
        return phrase, [
            _read_term(term.name, term.values, is_negated=term.is_negated) for term in phrase.terms
        ]
    text = tokens[place].text
    following = plain[place + 1] if place + 1 < len(plain) else None
    named = _NAMED.fullmatch(text)
    if named is not None:
        # A space behind the colon, as people write: "type: gp3".
        takes_next = not named[3] and following is not None
        _check_further_value(tokens, plain, place, length=1 + takes_next)
        values = following if takes_next and following is not None else named[3]
        term = _read_term(_fold_name(named[2]), values, is_negated=bool(named[1]))
        return Phrase(1 + takes_next), [term]
    compared = None if text.startswith('"') else _COMPARED.fullmatch(text)
    if compared is None:
        if text.startswith('-"'):
            raise BadFilter("Words cannot be negated. Write -NAME:VALUE", suggestions=[f"-host:{text[1:]}"])
        return _unquote(text)
    takes_next = not compared[4] and following is not None
    _check_further_value(tokens, plain, place, length=1 + takes_next)
    values = following if takes_next and following is not None else compared[4]
    sign = {"≥": ">=", "≤": "<="}.get(compared[3], compared[3])
    term = _read_compared(_fold_name(compared[2]), sign, values, is_negated=bool(compared[1]))
    return Phrase(1 + takes_next), [term]


def _read_compared(name: str, sign: str, values: str, *, is_negated: bool) -> Term:
    """Read NAME=VALUES, NAME!=VALUES and NAME>=NUMBER."""
    if sign in ("=", "==", "!="):
        return _read_term(name, values, is_negated=is_negated != (sign == "!="))
    dimension = _find_named(name)
    if dimension is not None and not dimension.is_number:
        raise BadFilter(f"{name} is not a number. Write {name}:VALUE", suggestions=[f"{name}:{values}"])
    return _read_term(name, f"{sign}{values}" if values else "", is_negated=is_negated)


def _get_one_term(found: tuple[Phrase, list[Term]] | str) -> tuple[int, Term | None]:
    """Return the number of words of what was read, and its term; None if it is not one term or a known value."""
    if isinstance(found, str):
        name = find_dimension_of_value(found)
        return 1, None if name is None else _read_term(name, found.lower(), is_negated=False)
    phrase, terms = found
    return phrase.length, terms[0] if len(terms) == 1 else None


def _check_list(
    listed: tuple[int, Term], term: Term, *, text: str, tokens: Sequence[PlainWord], length: int
) -> None:
    """Raise BadFilter for two values of one dimension with a comma between: "gp3, io2", "4 volumes, 8 volumes".

    Both cannot match; with comparisons ("at least 4 volumes, at most 8 volumes") or negated they can.
    """
    place, first = listed
    tests = (*first.tests, *term.tests)
    is_list = first.dimension == term.dimension and not (first.is_negated or term.is_negated)
    if is_list and all(test.operator in ("=", "like", "between", "unknown") for test in tests):
        either = _write_term(replace(first, tests=tests))
        problem = BadFilter(
            f"Both terms have to match. Write {either} for any of the values", suggestions=[either]
        )
        raise _locate(problem, text, tokens, place, length=length)


def _check_further_value(
    tokens: Sequence[PlainWord], plain: Sequence[str | None], place: int, *, length: int
) -> None:
    """Raise BadPhrase for a word that may be a further value of the term before: "type:gp3, io2", "type: gp3, io2"."""
    behind = place + length
    term = " ".join(token.text for token in tokens[place:behind])
    if not term.endswith(",") or behind >= len(tokens):
        return
    word, further = plain[behind], tokens[behind].text
    if word is None and not further.startswith('"'):
        return
    try:
        if word is not None and read_phrase(plain, behind) is not None:
            return
    except BadPhrase:
        pass
    raise BadPhrase(
        "Values have no space behind the comma. Remove the space, or the comma before a separate word",
        length=length + 1,
        instead=[f"{term}{further}", f"{term.rstrip(',')} {further}"],
    )


def _find_named(name: str) -> Dimension | None:
    full = find_name(name)
    return find_filter_dimension(name) or (None if full is None else get_filter_dimension(full))


def _add_phrase(read: Query, phrase: Phrase, *, text: str, tokens: Sequence[PlainWord], place: int) -> Query:
    """Return the query with the time range and metric of a phrase. Raises BadFilter for a second one."""
    for name, value, known in (
        ("time range", phrase.time_range, read.time_range),
        ("metric", phrase.metric, read.metric),
    ):
        if value is not None and known is not None and value != known:
            problem = BadFilter(f"Only one {name} is possible; remove one", suggestions=[""])
            raise _locate(problem, text, tokens, place, length=phrase.length)
    return replace(read, time_range=phrase.time_range or read.time_range, metric=phrase.metric or read.metric)


def _locate(
    problem: BadFilter, text: str, tokens: Sequence[PlainWord], place: int, *, length: int
) -> BadFilter:
    """Return an error with the place of its words in the text; its suggestions replace these words."""
    start, end = tokens[place].start, tokens[min(place + length, len(tokens)) - 1].end
    whole = [f"{text[:start]}{each}{text[end:]}".strip() for each in problem.suggestions]
    return BadFilter(str(problem), start=start, end=end, suggestions=[each for each in whole if each])


def _fold_name(name: str) -> str:
    """Return the name in lower case, but for that of a label."""
    prefix, label = name[: len(LABEL_PREFIX)].lower(), name[len(LABEL_PREFIX) :]
    return prefix + label if prefix == LABEL_PREFIX else name.lower()


def _read_term(name: str, rest: str, *, is_negated: bool) -> Term:
    dimension = _find_named(name)
    if dimension is None:
        close = get_close_matches(name[:40], _NAMES, n=3, cutoff=0.7)
        meant = f" Did you mean {' or '.join(close)}?" if close else ""
        available = ", ".join(
            [*dict.fromkeys(_SHORT.get(known, known) for known in FILTER_DIMENSIONS), "label.NAME"]
        )
        raise BadFilter(
            f'Unknown filter {name[:40]!r}.{meant} Available: {available}. Quote a word with a colon: "a:b"',
            suggestions=[
                f"{'-' if is_negated else ''}{each}:{rest}" for each in (*close, f"{LABEL_PREFIX}{name}")
            ],
        )
    tests = [_read_test(dimension, value) for value in _VALUE.findall(rest)]
    if not tests:
        raise BadFilter(f"{name}: has no value. Write {name}:VALUE")
    if len(tests) > VALUES_MAXIMUM:
        raise BadFilter(f"{name}: has {len(tests)} values; at most {VALUES_MAXIMUM} are allowed")
    return Term(dimension.name, tuple(tests), is_negated)


def _read_test(dimension: Dimension, value: str) -> Test:
    text = _unquote(value).strip()
    if value == "unknown":
        return Test("unknown")
    if dimension.kind == "text":
        return _read_text(dimension, value)
    if dimension.kind == "uuid":
        return _read_uuid(dimension, value)
    if dimension.kind == "flag":
        if text.lower() not in _FLAGS:
            raise BadFilter(f"{dimension.name}:{text[:40]} is not a valid flag. Valid values: yes, no")
        return Test("=", (_FLAGS[text.lower()],))
    low, dots, high = text.partition("..")
    if dots:
        return _read_range(dimension, low, high)
    dashed = _RANGE.fullmatch(text)
    if dashed is not None:
        return _read_range(dimension, dashed[1], dashed[2])
    for operator in (">=", "<=", ">", "<"):
        if text.startswith(operator):
            return Test(operator, (_read_number(dimension, text[len(operator) :]),))
    return Test("=", (_read_number(dimension, text),))


def _read_text(dimension: Dimension, value: str) -> Test:
    """Parse text; a "*" outside quotation marks matches any characters."""
    bare = "".join(part for part in _PART.findall(value) if not part.startswith('"'))
    text = _unquote(value)
    if "*" not in bare:
        return Test("=", (normalize_value(dimension, text),))
    if text.count("*") > bare.count("*"):
        raise BadFilter(
            f"{dimension.name}:{value[:40]} has a * in quotes and one outside; they cannot be combined"
        )
    text = re.sub(r"\*+", "*", text)
    if text.count("*") > _STARS_MAXIMUM:
        raise BadFilter(f"{dimension.name}:{value[:40]} has more than {_STARS_MAXIMUM} stars")
    return Test("like", (text,))


def _read_uuid(dimension: Dimension, value: str) -> Test:
    """Parse a UUID, or text with "*" that its canonical form matches."""
    test = _read_text(dimension, value)
    if test.operator == "like":
        return test
    try:
        return Test("=", (str(UUID(str(test.values[0]).strip())),))
    except ValueError:
        raise BadFilter(
            f"{dimension.name}:{value[:40]} is not a valid UUID. Its beginning needs a star: {value[:8]}*"
        ) from None


def _read_range(dimension: Dimension, low: str, high: str) -> Test:
    lowest, highest = _read_number(dimension, low), _read_number(dimension, high)
    if lowest > highest:
        raise BadFilter(f"{dimension.name}:{low}..{high} is not a valid range. Write {high}..{low}")
    return Test("between", (lowest, highest))


def _read_number(dimension: Dimension, text: str) -> int | float:
    noun, is_size = _NOUNS[dimension.kind], dimension.kind == "size"
    # As pages write them: "5 GiB", "60 s", "70 %", "16 000".
    compact = "".join(text.split()).removesuffix(_SUFFIXES.get(dimension.kind, ""))
    match = (_SIZE if is_size else _NUMBER).fullmatch(compact)
    if match is None:
        example = "4k, 5G, 1..16, >=8" if is_size else "8, 1..16, >=8"
        raise BadFilter(f"{dimension.name}:{text[:40]} is not a valid {noun}. Examples: {example}")
    # Exact: sizes are compared as whole bytes; a float has 15 digits only.
    value = Fraction(match[1]) * (1024 ** _POWERS[match[2].lower()] if is_size else 1)
    if value > _NUMBER_MAXIMUM:
        raise BadFilter(f"{dimension.name}:{text[:40]} is too large")
    if value.denominator == 1:
        return int(value)
    if dimension.kind != "seconds":
        raise BadFilter(f"{dimension.name}:{text[:40]} is not a whole {noun}")
    return float(value)


_NOUNS: Final = {
    "count": "number",
    "size": "size",
    "seconds": "number of seconds",
    "percent": "percentage",
}
_NAMES: Final = (*FILTER_DIMENSIONS, *ALIASES)
_SHORT: Final = {full: alias for alias, full in ALIASES.items()}


def _write_term(term: Term) -> str:
    dimension = get_filter_dimension(term.dimension)
    values = ",".join(_write_test(dimension, test) for test in term.tests)
    return f"{'-' if term.is_negated else ''}{term.dimension}:{values}"


def _write_test(dimension: Dimension, test: Test) -> str:
    if test.operator == "unknown":
        return "unknown"
    if test.operator == "between":
        return "..".join(write_value(dimension, value) for value in test.values)
    if test.operator == "like":
        # Stars must stay outside the quotation marks to match any characters.
        return "*".join(part and _quote(part) for part in str(test.values[0]).split("*"))
    sign = "" if test.operator == "=" else test.operator
    return f"{sign}{write_value(dimension, test.values[0])}"


def _write_number(dimension: Dimension, value: int | float) -> str:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if dimension.kind == "size" and value:
        for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
            if value % 1024**power == 0:
                return f"{value // 1024**power}{unit}"
    return str(value)


def _unquote(text: str) -> str:
    """Remove the quotation marks of the quoted parts."""
    return "".join(
        part[1:-1].replace('""', '"') if part.startswith('"') else part for part in _PART.findall(text)
    )


def _quote(text: str, *, is_word: bool = False) -> str:
    special = r'[\s:"=<>≥≤()]|[,;]$' if is_word else r'[\s,*"]'
    needs = not text or text == "unknown" or re.search(special, text) is not None
    needs = needs or (is_word and is_in_phrase(text))
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if needs else text
