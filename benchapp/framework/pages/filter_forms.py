"""Forms for query parameters of pages."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from benchapp.catalog.grammar import LENGTH_MAXIMUM, BadFilter, Filter, Term, Test, parse_filter, write_filter
from benchapp.framework.pages.time_range import BoundField, TimeRangeForm
from benchapp.models import State
from benchapp.series.read.runs import RunFilter
from benchapp.series.read.shapes import BADGE_CODES
from benchapp.storage.agent_archive import read_agent_version
from benchapp.storage.read.hosts import HostFilter

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
            return parse_filter(super().clean(value))
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

    def make_filter(self, match: Filter) -> HostFilter:
        """Return the filter of the query."""
        return HostFilter(
            match=match,
            is_retired=None if self.cleaned_data.get("retired") else False,
            is_agent_outdated=self.cleaned_data.get("outdated") or None,
            is_schedule_different=self.cleaned_data.get("different") or None,
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
