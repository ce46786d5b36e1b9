"""The filter bar of every list and chart: what the address asks for in the filter's language, as text and as chips."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, QueryDict
from django.utils.encoding import escape_uri_path

from benchapp.dimensions import DIMENSIONS, Dimension
from benchapp.grammar import (
    BadFilter,
    Filter,
    Term,
    Test,
    parse_filter,
    write_filter,
    write_value,
)

# What the bar itself sends: the text, and the term of the two fields that work without script.
_OWN: Final = ("q", "add", "value", "after")
_SIGNS: Final = {"=": "", ">=": "≥ ", "<=": "≤ ", ">": "> ", "<": "< "}
WORDS: Final = "text"


@dataclass(frozen=True, slots=True)
class Chip:
    """One term or word as shown. text: as the language writes it; url: the page without it."""

    label: str
    value: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class FilterBar:
    """What `_filter_bar.html` shows.

    text: as typed, with what old parameters and the two fields add; written anew where those add something. filter:
    empty where the text is bad. keep: (name, value) of the parameters that another filter leaves as they are. action:
    the page's path; clear_url: the page without any filter, None where there is none. offered: the dimensions to add.
    form: with from_day and to_day, where the page has a span. fields: a template with more fields of the form. old:
    names, separated by spaces, of the parameters of older links.
    """

    text: str
    filter: Filter
    error: str | None
    chips: tuple[Chip, ...]
    keep: tuple[tuple[str, str], ...]
    action: str
    clear_url: str | None
    offered: tuple[Dimension, ...] = tuple(DIMENSIONS.values())
    form: forms.Form | None = None
    fields: str = ""
    old: str = ""

    @property
    def errors(self) -> list[str]:
        """Return what is wrong with the filter, as a list to go with what else is."""
        return [self.error] if self.error else []


def make_filter_bar(
    request: HttpRequest,
    *,
    keep: Sequence[str] = (),
    old: Sequence[str] = (),
    form: forms.Form | None = None,
    fields: str = "",
) -> FilterBar:
    """Read the filter of an address.

    keep: names of parameters to keep as hidden inputs, in their order; all values of a repeated one. old: parameters
    of older links that are terms today (`host`, `rw`, `text` for words). form, fields: as in FilterBar; their
    parameters are not to be kept.
    """
    text, filter, error = _read_text(request.GET, old)
    path = escape_uri_path(request.path)
    kept = tuple((name, value) for name in keep for value in request.GET.getlist(name) if value != "")
    rest = [
        (name, value)
        for name, values in request.GET.lists()
        for value in values
        if name not in (*_OWN, *old) and value != ""
    ]
    return FilterBar(
        text=text,
        filter=filter,
        error=error,
        chips=_make_chips(filter, path, rest),
        keep=kept,
        action=path,
        clear_url=_link(path, "", list(kept)) if text or rest != list(kept) else None,
        form=form,
        fields=fields,
        old=" ".join(old),
    )


def say_filter(filter: Filter) -> str:
    """Say a filter in words for captions and pictures: "Volume type gp3, io2; not Filesystem xfs"; "" for none."""
    terms = [
        f"{'not ' if term.is_negated else ''}{DIMENSIONS[term.dimension].label} {_say_tests(term)}"
        for term in filter.terms
    ]
    return "; ".join([*terms, *(f"“{word}”" for word in filter.words)])


def _read_text(query: QueryDict, old: Sequence[str]) -> tuple[str, Filter, str | None]:
    """Return the text, its filter and what is wrong with it."""
    text = query.get("q", "").strip()
    added = [term for term in (_read_added(query), *_read_old(query, old)) if term]
    whole = " ".join(part for part in (text, *added) if part)
    try:
        filter = parse_filter(whole)
    except BadFilter as problem:
        return whole, Filter(), f"{problem}."
    return (write_filter(filter) if added else text), filter, None


def _read_added(query: QueryDict) -> str:
    """Return the term of the two fields that work without script."""
    name, value = query.get("add", ""), query.get("value", "").strip()
    if not name or not value:
        return ""
    # Spaces in the field belong to the value; in the text they end it.
    return f"{name}:{value}" if '"' in value or not re.search(r"\s", value) else f'{name}:"{value}"'


def _read_old(query: QueryDict, old: Sequence[str]) -> list[str]:
    """Return what the parameters of an older link say, as terms and words."""
    written = []
    for name in old:
        value = query.get(name, "")
        if value and name in DIMENSIONS:
            term = Term(name, (Test("=", (value,)),))
            written.append(write_filter(Filter((term,))))
        elif value and name == WORDS:
            written.append(write_filter(Filter((), tuple(value.split()))))
    return written


def _make_chips(filter: Filter, path: str, rest: Sequence[tuple[str, str]]) -> tuple[Chip, ...]:
    chips = []
    for place, term in enumerate(filter.terms):
        others = Filter((*filter.terms[:place], *filter.terms[place + 1 :]), filter.words)
        label = f"{'not ' if term.is_negated else ''}{DIMENSIONS[term.dimension].label}"
        text = write_filter(Filter((term,)))
        chips.append(Chip(label, _say_tests(term), text, _link(path, write_filter(others), rest)))
    for place, word in enumerate(filter.words):
        others = Filter(filter.terms, (*filter.words[:place], *filter.words[place + 1 :]))
        text = write_filter(Filter((), (word,)))
        chips.append(Chip("word", word, text, _link(path, write_filter(others), rest)))
    return tuple(chips)


def _say_tests(term: Term) -> str:
    dimension = DIMENSIONS[term.dimension]
    return ", ".join(_say_test(dimension, test) for test in term.tests)


def _say_test(dimension: Dimension, test: Test) -> str:
    if test.operator == "unknown":
        return "unknown"
    if dimension.kind == "text":
        return str(test.values[0]) or "empty"
    values = [write_value(dimension, value) for value in test.values]
    return "–".join(values) if test.operator == "between" else f"{_SIGNS[test.operator]}{values[0]}"


def _link(path: str, text: str, rest: Sequence[tuple[str, str]]) -> str:
    query = urlencode([*([("q", text)] if text else []), *rest])
    return f"{path}?{query}" if query else path
