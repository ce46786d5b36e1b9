"""The filter bar of lists and charts: the filter of the address as text and as chips."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, QueryDict
from django.utils.encoding import escape_uri_path

from benchapp.dimensions import FILTER_DIMENSIONS, Dimension, get_filter_dimension
from benchapp.grammar import (
    BadFilter,
    Filter,
    Term,
    Test,
    parse_filter,
    write_filter,
    write_value,
)

# Parameters of the bar itself: the text, and the two fields that add a term without script.
_OWN: Final = ("q", "add", "value", "after")
_SIGNS: Final = {"=": "", ">=": "≥ ", "<=": "≤ ", ">": "> ", "<": "< "}
WORDS: Final = "text"


@dataclass(frozen=True, slots=True)
class Chip:
    """One term or word. text: in the filter language; url: the page without it."""

    label: str
    value: str
    text: str
    url: str


@dataclass(frozen=True, slots=True)
class FilterBar:
    """The context of `_filter_bar.html`.

    text: as typed, including legacy parameters and the two fields. filter: empty if the text is not valid. hidden:
    (name, value) of parameters that do not depend on the filter. action: path of the page; clear_url: the page without
    filter, None if there is none. offered: dimensions to add, as options. form: with from_day and to_day, if the page
    has a time range. fields: a template with more fields of the form. legacy: names of legacy parameters, separated by
    spaces.
    """

    text: str
    filter: Filter
    error: str | None
    chips: tuple[Chip, ...]
    hidden: tuple[tuple[str, str], ...]
    action: str
    clear_url: str | None
    offered: tuple[tuple[str, str, bool], ...] = tuple(
        (dimension.name, dimension.label, False) for dimension in FILTER_DIMENSIONS.values()
    )
    form: forms.Form | None = None
    fields: str = ""
    legacy: str = ""

    @property
    def errors(self) -> list[str]:
        """Return the error of the filter as a list."""
        return [self.error] if self.error else []


def make_filter_bar(
    request: HttpRequest,
    *,
    keep: Sequence[str] = (),
    old: Sequence[str] = (),
    form: forms.Form | None = None,
    fields: str = "",
) -> FilterBar:
    """Read the filter of the address.

    keep: names of parameters for hidden inputs, in order; repeated ones with all values. old: legacy parameters that
    are terms now (`host`, `rw`, `text` for words). form, fields: as in FilterBar; their parameters are not in keep.
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
        hidden=kept,
        action=path,
        clear_url=_link(path, "", list(kept)) if text or rest != list(kept) else None,
        form=form,
        fields=fields,
        legacy=" ".join(old),
    )


def describe_filter(filter: Filter) -> str:
    """Return a filter as text for captions: "Volume type gp3, io2; not Filesystem xfs"; "" without a filter."""
    terms = [
        f"{'not ' if term.is_negated else ''}{get_filter_dimension(term.dimension).label} {_format_tests(term)}"
        for term in filter.terms
    ]
    return "; ".join([*terms, *(f"“{word}”" for word in filter.words)])


def _read_text(query: QueryDict, old: Sequence[str]) -> tuple[str, Filter, str | None]:
    """Return the text, its filter and its error."""
    text = query.get("q", "").strip()
    added = [term for term in (_read_added(query), *_read_legacy(query, old)) if term]
    whole = " ".join(part for part in (text, *added) if part)
    try:
        filter = parse_filter(whole)
    except BadFilter as problem:
        return whole, Filter(), f"{problem}."
    return (write_filter(filter) if added else text), filter, None


def _read_added(query: QueryDict) -> str:
    """Return the term of the two fields that add one without script."""
    name, value = query.get("add", ""), query.get("value", "").strip()
    if not name or not value:
        return ""
    # Spaces in the field are part of the value; in the text they end it.
    return f"{name}:{value}" if '"' in value or not re.search(r"\s", value) else f'{name}:"{value}"'


def _read_legacy(query: QueryDict, old: Sequence[str]) -> list[str]:
    """Return legacy parameters as terms and words."""
    written = []
    for name in old:
        value = query.get(name, "")
        if value and name in FILTER_DIMENSIONS:
            term = Term(name, (Test("=", (value,)),))
            written.append(write_filter(Filter((term,))))
        elif value and name == WORDS:
            written.append(write_filter(Filter((), tuple(value.split()))))
    return written


def _make_chips(filter: Filter, path: str, rest: Sequence[tuple[str, str]]) -> tuple[Chip, ...]:
    chips = []
    for place, term in enumerate(filter.terms):
        others = Filter((*filter.terms[:place], *filter.terms[place + 1 :]), filter.words)
        label = f"{'not ' if term.is_negated else ''}{get_filter_dimension(term.dimension).label}"
        text = write_filter(Filter((term,)))
        chips.append(Chip(label, _format_tests(term), text, _link(path, write_filter(others), rest)))
    for place, word in enumerate(filter.words):
        others = Filter(filter.terms, (*filter.words[:place], *filter.words[place + 1 :]))
        text = write_filter(Filter((), (word,)))
        chips.append(Chip("word", word, text, _link(path, write_filter(others), rest)))
    return tuple(chips)


def _format_tests(term: Term) -> str:
    dimension = get_filter_dimension(term.dimension)
    return ", ".join(_format_test(dimension, test) for test in term.tests)


def _format_test(dimension: Dimension, test: Test) -> str:
    if test.operator == "unknown":
        return "unknown"
    if dimension.kind in ("text", "uuid"):
        return str(test.values[0]) or "empty"
    values = [write_value(dimension, value) for value in test.values]
    return "–".join(values) if test.operator == "between" else f"{_SIGNS[test.operator]}{values[0]}"


def _link(path: str, text: str, rest: Sequence[tuple[str, str]]) -> str:
    query = urlencode([*([("q", text)] if text else []), *rest])
    return f"{path}?{query}" if query else path
