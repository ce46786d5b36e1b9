"""The filter language: `host:db-* volume_type:gp3,io2 iodepth:>=8 bs:4k -fs:xfs words`. Pure.

A term is NAME:VALUES. VALUES: one or more, separated by commas (any of them matches); "*" in text matches any
characters; ">=8", "<64k", "1..16" (inclusive) for numbers; sizes with fio's units (4k = 4096); yes/no for flags;
"unknown" for a missing value; quotes around spaces, commas or literal stars (a quotation mark in quotes is doubled).
A "-" before the name negates the term. Words without a name must all occur. Names are case-insensitive, but for the
label in `label.NAME`. docs/filters.md has the reference.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal
from uuid import UUID

from benchapp.dimensions import (
    ALIASES,
    FILTER_DIMENSIONS,
    LABEL_PREFIX,
    Dimension,
    find_filter_dimension,
    get_filter_dimension,
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
_VALUE: Final = re.compile(rf'(?:{_QUOTED}|[^",]++)+')
_PART: Final = re.compile(rf'{_QUOTED}|[^"]++')
_SIZE: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)([kmgtp]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NUMBER: Final = re.compile(r"(\d{1,19}(?:\.\d{1,6})?)", re.ASCII)
_FLAGS: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_NUMBER_MAXIMUM: Final = 2**62
_STARS_MAXIMUM: Final = 8

Value = str | int | float | bool


class BadFilter(Exception):
    """Not a valid filter; the message names the wrong part and the valid values."""


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


def parse_filter(text: str) -> Filter:
    """Parse a filter. Raises BadFilter with the wrong part and the valid values."""
    _check_text(text)
    terms: list[Term] = []
    words: list[str] = []
    for token in _split(text):
        named = _NAMED.fullmatch(token)
        if named is None:
            words.append(_unquote(token))
        else:
            terms.append(_read_term(_fold_name(named[2]), named[3], is_negated=bool(named[1])))
    if len(words) > WORDS_MAXIMUM:
        raise _too_long()
    return Filter((), tuple(word for word in words if word)).with_terms(terms)


def parse_term(name: str, values: str) -> Term:
    """Parse the values of one term: what follows NAME: in a filter; spaces in it need no quotes. Raises BadFilter."""
    _check_text(values)
    if values.count('"') % 2:
        raise BadFilter(f"Missing closing quotation mark: {values[:40]}")
    return _read_term(name, values, is_negated=False)


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


def _split(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        token = _TOKEN.match(text, place)
        if token is None or text[token.end() : token.end() + 1] == '"':
            raise BadFilter(f"Missing closing quotation mark: {text[place : place + 40]}")
        yield token[0]
        place = token.end()


def _fold_name(name: str) -> str:
    """Return the name in lower case, but for that of a label."""
    prefix, label = name[: len(LABEL_PREFIX)].lower(), name[len(LABEL_PREFIX) :]
    return prefix + label if prefix == LABEL_PREFIX else name.lower()


def _read_term(name: str, rest: str, *, is_negated: bool) -> Term:
    dimension = find_filter_dimension(name)
    if dimension is None:
        available = ", ".join(
            [*dict.fromkeys(_SHORT.get(known, known) for known in FILTER_DIMENSIONS), "label.NAME"]
        )
        raise BadFilter(
            f'Unknown filter {name[:40]!r}. Available: {available}. Quote a word with a colon: "a:b"'
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
    for operator in (">=", "<=", ">", "<"):
        if text.startswith(operator):
            return Test(operator, (_read_number(dimension, text[len(operator) :]),))
    return Test("=", (_read_number(dimension, text),))


def _read_text(dimension: Dimension, value: str) -> Test:
    """Parse text; a "*" outside quotation marks matches any characters."""
    bare = "".join(part for part in _PART.findall(value) if not part.startswith('"'))
    text = _unquote(value)
    if "*" not in bare:
        return Test("=", (text,))
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
    match = (_SIZE if is_size else _NUMBER).fullmatch(text.strip())
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
    needs = not text or text == "unknown" or re.search(r'[\s:"]' if is_word else r'[\s,*"]', text)
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if needs else text
