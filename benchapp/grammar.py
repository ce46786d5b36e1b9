"""The filter bar's language: `host:db-* volume_type:gp3,io2 iodepth:>=8 bs:4k -fs:xfs words`. Pure.

A term is NAME:VALUES. VALUES: one or several separated by commas (any of them), "*" in text for any characters,
">=8", "<64k", "1..16" (both included) for numbers, sizes with fio's units (4k = 4096), yes/no for flags, "unknown"
for what is not known, quotes around what holds spaces or commas. A "-" before the name turns the term round. Words
without a name must all occur somewhere.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from benchapp.dimensions import ALIASES, DIMENSIONS, Dimension, find_dimension

Operator = Literal["=", "like", "<", "<=", ">", ">=", "between", "unknown"]
TERMS_MAXIMUM: Final = 40
VALUES_MAXIMUM: Final = 50
LENGTH_MAXIMUM: Final = 2000

_TOKEN: Final = re.compile(
    r'(?P<sign>-?)(?P<name>[a-z_][a-z0-9_]*+):(?P<rest>(?:"[^"]*+"|[^\s"])*+)|(?P<word>"[^"]*+"|\S++)'
)
_VALUE: Final = re.compile(r'"(?P<quoted>[^"]*+)"|(?P<bare>[^,"]++)')
_SIZE: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kmgtp]?)(?:i?b)?", re.ASCII | re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_NUMBER: Final = re.compile(r"\d{1,15}(?:\.\d{1,6})?", re.ASCII)
_FLAGS: Final = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_NUMBER_MAXIMUM: Final = 2**62

Value = str | int | float | bool


class BadFilter(Exception):
    """A filter that cannot be understood; the message names the part and what would be right."""


@dataclass(frozen=True, slots=True)
class Test:
    """One of a term's alternatives. values: one, two for "between", none for "unknown"."""

    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Term:
    """Any of the tests holds of the dimension's value; or none of them, where it is negated."""

    dimension: str
    tests: tuple[Test, ...]
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms hold, and all words occur."""

    terms: tuple[Term, ...] = ()
    words: tuple[str, ...] = ()

    def without(self, dimension: str) -> "Filter":
        """Return the filter without the terms of a dimension."""
        return Filter(tuple(term for term in self.terms if term.dimension != dimension), self.words)

    def holding(self, dimension: str, value: Value | None) -> "Filter":
        """Return the filter with one more term: the dimension has this value; None is unknown."""
        test = Test("unknown") if value is None else Test("=", (value,))
        return Filter((*self.without(dimension).terms, Term(dimension, (test,))), self.words)


def parse_filter(text: str) -> Filter:
    """Read a filter. Raises BadFilter, with the part that is wrong and what there is."""
    if len(text) > LENGTH_MAXIMUM:
        raise BadFilter(f"the filter has {len(text)} characters; at most {LENGTH_MAXIMUM} are read")
    terms: list[Term] = []
    words: list[str] = []
    for token in _TOKEN.finditer(text.replace("\x00", "")):
        if token["name"] is None:
            words.append(token["word"].strip('"'))
        else:
            terms.append(_read_term(token["name"], token["rest"], is_negated=bool(token["sign"])))
    if len(terms) > TERMS_MAXIMUM or len(words) > TERMS_MAXIMUM:
        raise BadFilter(f"a filter has at most {TERMS_MAXIMUM} terms and as many words")
    return Filter(tuple(terms), tuple(word for word in words if word))


def write_filter(filter: Filter) -> str:
    """Write a filter as its language says it; parse_filter reads the same again."""
    terms = [_write_term(term) for term in filter.terms]
    return " ".join([*terms, *(_quote(word, is_word=True) for word in filter.words)])


def write_value(dimension: Dimension, value: Value | None) -> str:
    """Write one value as the language does: 4k, 5G, yes, unknown, text in quotes where it needs them."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _write_number(dimension, value)
    return _quote(value)


def _read_term(name: str, rest: str, *, is_negated: bool) -> Term:
    dimension = find_dimension(name)
    if dimension is None:
        short = {full: alias for alias, full in ALIASES.items()}
        there_are = ", ".join(short.get(known, known) for known in DIMENSIONS)
        raise BadFilter(f"{name[:40]!r} is nothing to filter by; there are: {there_are}")
    tests = []
    for found in _VALUE.finditer(rest):
        quoted = found["quoted"]
        tests.append(
            Test("=", (quoted,))
            if quoted is not None and dimension.kind == "text"
            else _read_test(dimension, (quoted if quoted is not None else found["bare"]).strip())
        )
    if not tests:
        raise BadFilter(f"{name}: has no value; write {name}:VALUE")
    if len(tests) > VALUES_MAXIMUM:
        raise BadFilter(f"{name}: has {len(tests)} values; at most {VALUES_MAXIMUM} are read")
    return Term(dimension.name, tuple(tests), is_negated)


def _read_test(dimension: Dimension, text: str) -> Test:
    if text == "unknown":
        return Test("unknown")
    if dimension.kind == "text":
        return Test("like" if "*" in text else "=", (text,))
    if dimension.kind == "flag":
        if text.lower() not in _FLAGS:
            raise BadFilter(f"{dimension.name}:{text[:40]} is neither yes nor no")
        return Test("=", (_FLAGS[text.lower()],))
    low, dots, high = text.partition("..")
    if dots:
        return Test("between", (_read_number(dimension, low), _read_number(dimension, high)))
    for operator in (">=", "<=", ">", "<"):
        if text.startswith(operator):
            return Test(operator, (_read_number(dimension, text[len(operator) :]),))
    return Test("=", (_read_number(dimension, text),))


def _read_number(dimension: Dimension, text: str) -> int | float:
    example = "4k, 5G, 1..16, >=8" if dimension.kind == "size" else "8, 1..16, >=8"
    match = (_SIZE if dimension.kind == "size" else _NUMBER).fullmatch(text.strip())
    if match is None:
        raise BadFilter(f"{dimension.name}:{text[:40]} is no {_NOUNS[dimension.kind]}; write it as {example}")
    value = (
        float(match[1]) * 1024 ** _POWERS[match[2].lower()] if dimension.kind == "size" else float(match[0])
    )
    if value > _NUMBER_MAXIMUM:
        raise BadFilter(f"{dimension.name}:{text[:40]} is more than any {_NOUNS[dimension.kind]}")
    return int(value) if value.is_integer() else value


_NOUNS: Final = {
    "count": "number",
    "size": "size",
    "seconds": "number of seconds",
    "percent": "number of per cent",
}


def _write_term(term: Term) -> str:
    dimension = DIMENSIONS[term.dimension]
    values = ",".join(_write_test(dimension, test) for test in term.tests)
    return f"{'-' if term.is_negated else ''}{term.dimension}:{values}"


def _write_test(dimension: Dimension, test: Test) -> str:
    if test.operator == "unknown":
        return "unknown"
    if test.operator == "between":
        return "..".join(write_value(dimension, value) for value in test.values)
    if test.operator == "like":
        return str(test.values[0])
    sign = "" if test.operator == "=" else test.operator
    return f"{sign}{write_value(dimension, test.values[0])}"


def _write_number(dimension: Dimension, value: int | float) -> str:
    if dimension.kind == "size" and value:
        for power, unit in ((4, "T"), (3, "G"), (2, "M"), (1, "k")):
            if value % 1024**power == 0:
                return f"{value // 1024**power:.0f}{unit}"
    return f"{value:.15g}"


def _quote(text: str, *, is_word: bool = False) -> str:
    needs = not text or text == "unknown" or re.search(r"[\s,*]" if not is_word else r"[\s:]", text)
    return f'"{text}"' if needs else text
