"""The filter bar of lists and charts: the filter of the address as text and as chips."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.utils import timezone
from django.utils.encoding import escape_uri_path

from benchapp.catalog.dimensions import (
    CONDITIONS,
    FILTER_DIMENSIONS,
    HEADINGS,
    Dimension,
    get_filter_dimension,
)
from benchapp.catalog.filter_phrases import TimeRange
from benchapp.catalog.grammar import (
    LENGTH_MAXIMUM,
    BadFilter,
    Filter,
    Query,
    Term,
    Test,
    parse_filter,
    parse_query,
    write_filter,
    write_value,
)
from benchapp.catalog.spelling import is_readable, suggest_corrections
from benchapp.framework.pages.time_range import BoundField, TimeRangeControl, TimeRangeForm, make_time_range
from benchapp.framework.read.days import is_relative_moment, parse_moment
from benchapp.framework.times import name_zone
from benchapp.models import SAMPLE_HOST, State
from benchapp.models.filtering import WITHOUT_SAMPLE, follow_names, leave_out_sample
from benchapp.series.read.dimension_values import Exclusion, FindsAny, find_exclusions, list_known_values
from benchapp.series.read.runs import RunFilter
from benchapp.series.read.shapes import BADGE_CODES
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import HostFilter

# Parameters of the bar itself: the text, and the two fields that add a term without script.
WORDS: Final = "text"
# Terms and words in links of before the filter bar.
_LEGACY: Final = ("host", "pool", "rw", "direction", WORDS)
_OWN: Final = ("q", "add", "value", "after", *_LEGACY)
RANGE: Final = ("from", "to", "zone")
"""Parameters of the time range."""
_SAFE: Final = ":,/*"
_SIGNS: Final = {"=": "", ">=": "≥ ", "<=": "≤ ", ">": "> ", "<": "< "}


@dataclass(frozen=True, slots=True)
class FilterBar:
    """The context of `_filter_bar.html`.

    read: the filter that a page of charts reads, which may leave out the sample.
    text: in the canonical form, including legacy parameters and the two fields; as typed if it is not valid, and the
    filter is empty then. typed: as typed in any case. instead: corrections of the error. others: all other parameters.
    resolved_url: the page with the time range and the metric of the text as parameters, and with present names in place
    of former ones; None if it has none of them. is_renamed: it has former ones.
    hidden: (name, value) of parameters that do not depend on the filter. action: path of the page; clear_url: the page
    without filter, None if there is none. offered: dimensions to add, as options. form: of the
    page. time_range: None if the page has none, or has it outside of the bar. fields: a template with more fields.
    """

    text: str
    filter: Filter
    read: Filter
    error: dict[str, Any] | None
    chips: tuple[dict[str, Any], ...]
    hidden: tuple[tuple[str, str], ...]
    action: str
    clear_url: str | None
    offered: tuple[tuple[str, str, bool], ...] = tuple(
        (dimension.name, dimension.label, False) for dimension in FILTER_DIMENSIONS.values()
    )
    form: forms.Form | None = None
    time_range: TimeRangeControl | None = None
    fields: str = ""
    typed: str = ""
    instead: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    resolved_url: str | None = None
    is_renamed: bool = False

    @property
    def sample_url(self) -> str:
        """Return the page of the sample; "" unless this one leaves it out."""
        if WITHOUT_SAMPLE not in self.read.terms:
            return ""
        return _link(self.action, write_filter(self.filter.with_value("host", SAMPLE_HOST)), self.others)

    @property
    def suggestions(self) -> list[tuple[str, str]]:
        """Return corrected filters with their links; a valid filter may have misspelled words, too.

        One query if the filter is invalid or has words.
        """
        if self.error is None and not self.filter.words:
            return []
        corrections = suggest_corrections(self.typed, list_known_values())
        own = [each for each in self.instead if is_readable(each)]
        return [(each, _link(self.action, each, self.others)) for each in dict.fromkeys((*corrections, *own))]


def make_filter_bar(
    request: HttpRequest,
    *,
    action: str = "",
    keep: Sequence[str] = (),
    form: forms.Form | None = None,
    fields: str = "",
    has_metric: bool = False,
    leaves_out_sample: bool = False,
) -> FilterBar:
    """Read the filter of the address. action: path of the page that has it, by default this one.

    A time range in the filter becomes the parameters from and to (`resolved_url`). has_metric: the page has the
    parameter metric, which a metric in the filter becomes; other pages refuse it. leaves_out_sample: as in FilterBar.
    keep: names of parameters for hidden inputs, in order; repeated ones with all values; with `from` the page has its
    time range outside of the bar. form, fields: as in FilterBar; their parameters are not in keep.
    """
    whole = read_text(request.GET)
    path = action or escape_uri_path(request.path)
    problem: BadFilter | None = None
    query = Query(Filter())
    try:
        query = parse_query(whole)
        _check_metric(query, has_metric=has_metric)
    except BadFilter as caught:
        problem, query = caught, Query(Filter())
    filter = follow_names(query.filter)
    kept = tuple((name, value) for name in keep for value in request.GET.getlist(name) if value != "")
    rest = [
        (name, value)
        for name, values in request.GET.lists()
        for value in values
        if name not in _OWN and value != ""
    ]
    written = write_filter(filter)
    text = whole if problem or len(written) > LENGTH_MAXIMUM else written
    return FilterBar(
        text=text,
        filter=filter,
        read=leave_out_sample(filter) if leaves_out_sample and problem is None else filter,
        error=_describe_error(problem, whole) if problem else None,
        chips=_make_chips(filter, path, rest),
        hidden=kept,
        action=path,
        clear_url=_link(path, "", list(kept)) if text or rest != list(kept) else None,
        form=form,
        time_range=None if "from" in keep else make_time_range(request.GET),
        fields=fields,
        typed=whole,
        instead=problem.suggestions if problem else (),
        others=tuple(rest),
        resolved_url=_resolve(replace(query, filter=filter), path, rest, is_renamed=filter != query.filter),
        is_renamed=filter != query.filter,
    )


def settle_filter(request: HttpRequest, bar: FilterBar, errors: Sequence[str] = ()) -> HttpResponse | None:
    """Return the answer of every page to some addresses; None if the page shows what matches.

    An invalid filter, or errors of other parameters, get the page of `refuse_address`. A time range or a metric in the
    filter redirects to the page with them as parameters, a former name to the page with the present one.
    """
    if bar.error is not None or errors:
        return refuse_address(request, errors, bar=bar)
    if bar.is_renamed:
        messages.info(
            request,
            f"A host or pool of the filter was renamed. Present names: {bar.text}",
            # Not for the scripts of pages that update themselves.
            fail_silently=True,
        )
    return HttpResponseRedirect(bar.resolved_url) if bar.resolved_url else None


def refuse_address(
    request: HttpRequest, errors: Sequence[str], *, bar: FilterBar | None = None
) -> HttpResponse:
    """Return a page with what is wrong in the address and its parameters as fields, but no chart; status 400."""
    given = tuple(
        (name, value)
        for name, values in request.GET.lists()
        for value in values
        if name not in _OWN and value != ""
    )
    fields = "framework/_parameter_fields.html" if errors else ""
    shown = bar and replace(bar, hidden=() if errors else given, form=None, time_range=None, fields=fields)
    context = {"bar": shown, "errors": errors, "parameters": given, "path": request.path, "kept_only": ("q",)}
    return render(request, "framework/bad_address.html", context, status=400)


def explain_empty(bar: FilterBar, finds_any: FindsAny) -> tuple[Exclusion, ...]:
    """Return which parts of the filter exclude everything, with links instead of filters; as `find_exclusions`."""
    return tuple(
        replace(
            each, instead=tuple((part, _link(bar.action, text, bar.others)) for part, text in each.instead)
        )
        for each in find_exclusions(bar.filter, finds_any)
    )


def describe_filter(filter: Filter) -> str:
    """Return a filter as text for captions: "Volume type gp3, io2; not Filesystem xfs"; "" without a filter."""
    terms = [
        f"{'not ' if term.is_negated else ''}{get_filter_dimension(term.dimension).label} {_format_tests(term)}"
        for term in filter.terms
    ]
    return "; ".join([*terms, *(f"“{word}”" for word in filter.words)])


def read_text(query: QueryDict) -> str:
    """Return the text of the filter with the term of the two fields and the legacy parameters."""
    parts = (query.get("q", "").strip(), _read_added(query), *_read_legacy(query))
    return " ".join(part for part in parts if part)


def _check_metric(query: Query, *, has_metric: bool) -> None:
    """Raise BadFilter for a metric that the page has no control for."""
    if query.metric is not None and not has_metric:
        message = (
            f"{query.metric} is a metric, and this page shows no single one. Scaling, Matrix and History do"
        )
        raise BadFilter(message, suggestions=[write_filter(query.filter)])


def _describe_error(problem: BadFilter, text: str) -> dict[str, Any]:
    return {
        "message": f"{problem}.",
        "before": text[: problem.start],
        "wrong": text[problem.start : problem.end],
        "after": text[problem.end :],
    }


def _resolve(query: Query, path: str, rest: Sequence[tuple[str, str]], *, is_renamed: bool) -> str | None:
    """Return the link with the time range and the metric of a query as parameters; None if it shows the same."""
    if query.time_range is None and query.metric is None and not is_renamed:
        return None
    given: dict[str, str] = {} if query.metric is None else {"metric": query.metric}
    if query.time_range is not None:
        given |= resolve_time_range(query.time_range, now=timezone.now())
    replaced = {*given, *(("from", "to", "zone") if query.time_range else ())}
    others = [(name, value) for name, value in rest if name not in replaced]
    return _link(path, write_filter(query.filter), [*others, *((n, v) for n, v in given.items() if v)])


def resolve_time_range(time_range: TimeRange, *, now: datetime) -> dict[str, str]:
    """Return a time range as the parameters from, to and zone, in days of the reader's time zone; "" is open.

    Hours begin with their day.
    """
    zone = name_zone()
    return {
        "from": _resolve_day(time_range.from_text, now=now),
        "to": _resolve_day(time_range.to_text, now=now),
        **({} if zone == "UTC" else {"zone": zone}),
    }


def _resolve_day(text: str, *, now: datetime) -> str:
    if text in ("today", "yesterday"):
        return (timezone.localtime(now) - timedelta(days=text == "yesterday")).date().isoformat()
    if is_relative_moment(text):
        return timezone.localtime(parse_moment(text, now=now)).date().isoformat()
    return text


def _read_added(query: QueryDict) -> str:
    """Return the term of the two fields that add one without script."""
    name, value = query.get("add", ""), query.get("value", "").strip()
    if not name or not value:
        return ""
    # Spaces in the field are part of the value; in the text they end it.
    return f"{name}:{value}" if '"' in value or not re.search(r"\s", value) else f'{name}:"{value}"'


def _read_legacy(query: QueryDict) -> list[str]:
    """Return legacy parameters as terms and words."""
    written = []
    for name in _LEGACY:
        value = query.get(name, "")
        if value and name in FILTER_DIMENSIONS:
            term = Term(name, (Test("=", (value,)),))
            written.append(write_filter(Filter((term,))))
        elif value and name == WORDS:
            written.append(write_filter(Filter((), tuple(value.split()))))
    return written


def _make_chips(filter: Filter, path: str, rest: Sequence[tuple[str, str]]) -> tuple[dict[str, Any], ...]:
    chips = []
    for place, term in enumerate(filter.terms):
        others = Filter((*filter.terms[:place], *filter.terms[place + 1 :]), filter.words)
        label = f"{'not ' if term.is_negated else ''}{get_filter_dimension(term.dimension).label}"
        text = write_filter(Filter((term,)))
        chips.append(
            {
                "name": term.dimension,
                "label": label,
                "value": _format_tests(term),
                "text": text,
                "url": _link(path, write_filter(others), rest),
            }
        )
    for place, word in enumerate(filter.words):
        others = Filter(filter.terms, (*filter.words[:place], *filter.words[place + 1 :]))
        text = write_filter(Filter((), (word,)))
        chips.append(
            {"label": "word", "value": word, "text": text, "url": _link(path, write_filter(others), rest)}
        )
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


T = TypeVar("T", bound=str)


def write_scopes(scopes: Sequence[str]) -> str:
    """Return the filter that matches these scopes (host:NAME, pool:NAME); "" for none."""
    terms = []
    for kind in ("host", "pool"):
        names = [scope.removeprefix(f"{kind}:") for scope in scopes if scope.startswith(f"{kind}:")]
        if names:
            terms.append(Term(kind, tuple(Test("=", (name,)) for name in names)))
    return write_filter(Filter(tuple(terms), ()))


class FilterTextField(forms.CharField):
    """A filter in the language of the filter bar."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, max_length=LENGTH_MAXIMUM, **options)

    def clean(self, value: Any) -> Any:
        """Return the parsed filter."""
        try:
            return follow_names(parse_filter(super().clean(value)))
        except BadFilter as error:
            raise forms.ValidationError(f"{error}.") from error


class RunFilterForm(TimeRangeForm):
    """Filters of runs outside the filter language; dates are whole days, inclusive."""

    profile = forms.CharField(required=False, max_length=100)
    from_at = BoundField("From", is_end=False)
    to_at = BoundField("To", is_end=True)
    badge = forms.ChoiceField(
        required=False,
        choices=[("", "any"), *((code, code) for code in BADGE_CODES)],
        error_messages={"invalid_choice": f"not a valid badge. Valid values: {', '.join(BADGE_CODES)}."},
    )
    failed = forms.BooleanField(required=False)

    def make_filter(self, match: Filter) -> RunFilter:
        """Return the filter of the query; fields with errors are ignored."""
        values = self.cleaned_data
        return RunFilter(
            match=match,
            profile=values.get("profile") or None,
            from_at=values.get("from_at"),
            to_at=values.get("to_at"),
            has_failed=True if values.get("failed") else None,
            badges=(values["badge"],) if values.get("badge") else None,
        )


class HostFilterForm(TimeRangeForm):
    """Filters of hosts outside the filter language; retired hosts are excluded by default."""

    from_at = BoundField("From", is_end=False)
    to_at = BoundField("To", is_end=True)
    retired = forms.BooleanField(required=False)
    outdated = forms.BooleanField(required=False)
    different = forms.BooleanField(required=False)
    failing = forms.BooleanField(required=False)

    def make_filter(self, match: Filter) -> HostFilter:
        """Return the filter of the query."""
        return HostFilter(
            match=match,
            is_retired=None if self.cleaned_data.get("retired") else False,
            is_agent_outdated=self.cleaned_data.get("outdated") or None,
            is_schedule_different=self.cleaned_data.get("different") or None,
            is_failing=self.cleaned_data.get("failing") or None,
            shipped_version=read_agent_version(),
            from_at=self.cleaned_data.get("from_at"),
            to_at=self.cleaned_data.get("to_at"),
        )


class UploadFilterForm(forms.Form):
    """Filters of uploads: state and reason."""

    state = forms.ChoiceField(required=False, choices=[("", "all"), *State.choices])
    reason = forms.CharField(required=False, max_length=50)


def read_form(form_class: type[forms.Form], query: QueryDict) -> Any:
    """Bind and validate a form; `from` and `to` of the address are its from_at and to_at."""
    values = query.copy()
    for name in ("from", "to"):
        if name in values:
            values.setlist(f"{name}_at", query.getlist(name))
    form = form_class(values)
    form.is_valid()
    return form


def list_errors(form: forms.Form) -> list[str]:
    """Return the errors of a form as sentences."""
    return [
        message if message.startswith(("From", "To")) else f"{name.title()}: {message}"
        for name, messages in form.errors.items()
        for message in map(str, messages)
    ]


def is_filtering(form: forms.Form) -> bool:
    """Return whether the address has a filter."""
    return any(form.cleaned_data.values()) or bool(form.errors)


class Span(TypedDict):
    """A time range: from inclusive, to exclusive."""

    from_at: datetime | None
    to_at: datetime | None


def link_choices(
    query: QueryDict, name: str, choices: Iterable[tuple[str, str, bool]]
) -> list[tuple[str, str, bool]]:
    """Return (label, URL, is chosen) of the choices (value, label, is chosen) of a parameter; "" removes it."""
    others = [
        (key, value)
        for key, values in query.lists()
        for value in values
        if value and key not in (name, "after", "page")
    ]
    rest = urlencode(others, safe=_SAFE)
    return [
        (
            label,
            f"?{'&'.join(filter(None, (rest, value and urlencode({name: value}, safe=_SAFE))))}",
            is_chosen,
        )
        for value, label, is_chosen in choices
    ]


def group_dimensions(
    names: Iterable[str], *, varying: Collection[str] = ()
) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return dimensions as groups of (name, label): those that vary first, then by what they describe."""
    groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in ("Varies here", *HEADINGS)}
    for name in names:
        dimension = get_filter_dimension(name) if name in FILTER_DIMENSIONS else CONDITIONS[name]
        groups["Varies here" if name in varying else dimension.heading].append((name, dimension.label))
    return [(heading, members) for heading, members in groups.items() if members]


def keep_query(query: QueryDict, **changes: str | None) -> str:
    """Return the query string with some parameters changed; None removes one; "?" without parameters."""
    kept = {name: value for name, value in query.dict().items() if name not in changes}
    kept |= {name: value for name, value in changes.items() if value is not None}
    return f"?{urlencode(kept)}"


def read_choice(
    query: QueryDict, name: str, choices: dict[T, str], errors: list[str], *, noun: str = ""
) -> T:
    """Return the value of a parameter with these choices; the first one by default, and with an error."""
    first = next(iter(choices))
    given = query.get(name) or first
    if given in choices:
        return given
    errors.append(f"{given[:40]!r} is not a valid {noun or name}. Valid: {', '.join(filter(None, choices))}.")
    return first
