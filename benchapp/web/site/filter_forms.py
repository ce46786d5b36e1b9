"""What a reader asked for in the address, checked and in words."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypedDict
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from benchapp.grammar import Filter
from benchapp.models import State
from benchapp.queries.badges import BADGE_CODES
from benchapp.queries.hosts import HostFilter
from benchapp.queries.runs.runs import RunFilter


class DayField(forms.DateField):
    """A day of the calendar, UTC."""

    def __init__(self, label: str) -> None:
        super().__init__(
            label=label,
            required=False,
            input_formats=["%Y-%m-%d"],
            error_messages={"invalid": f"{label} is no day: write it as 2026-05-12."},
        )


class RunFilterForm(forms.Form):
    """What the runs are filtered by beside the filter's language; days are whole days of UTC, both included."""

    profile = forms.CharField(required=False, max_length=100)
    from_day = DayField("From")
    to_day = DayField("To")
    badge = forms.ChoiceField(
        required=False,
        choices=[("", "any"), *((code, code) for code in BADGE_CODES)],
        error_messages={"invalid_choice": f"there is no such badge; there are: {', '.join(BADGE_CODES)}."},
    )
    failed = forms.BooleanField(required=False)

    def clean(self) -> dict[str, Any]:
        """Refuse a span that ends before it begins."""
        return _check_span(super().clean() or {})

    def make_filter(self, match: Filter) -> RunFilter:
        """Return what the query takes; fields with errors leave out nothing."""
        values = self.cleaned_data
        return RunFilter(
            match=match,
            profile=values.get("profile") or None,
            from_at=start_of(values.get("from_day")),
            to_at=end_of(values.get("to_day")),
            has_failed=True if values.get("failed") else None,
            badges=(values["badge"],) if values.get("badge") else None,
        )


class HostFilterForm(forms.Form):
    """The filter bar of the hosts; the retired are left out unless asked for."""

    text = forms.CharField(required=False, max_length=200)
    retired = forms.BooleanField(required=False)

    def make_filter(self) -> HostFilter:
        """Return what the query takes."""
        values = self.cleaned_data
        return HostFilter(
            text=values.get("text") or None, is_retired=None if values.get("retired") else False
        )


class UploadFilterForm(forms.Form):
    """The state and the reason of uploads."""

    state = forms.ChoiceField(required=False, choices=[("", "all"), *State.choices])
    reason = forms.CharField(required=False, max_length=50)


class SpanForm(forms.Form):
    """From and to of a history."""

    from_day = DayField("From")
    to_day = DayField("To")

    def clean(self) -> dict[str, Any]:
        """Refuse a span that ends before it begins."""
        return _check_span(super().clean() or {})


def read_form(form_class: type[forms.Form], query: QueryDict) -> Any:
    """Bind and check a filter form; `from` and `to` of the address are its from_day and to_day."""
    values = query.copy()
    for name in ("from", "to"):
        if name in values:
            values.setlist(f"{name}_day", query.getlist(name))
    form = form_class(values)
    form.is_valid()
    return form


def list_errors(form: forms.Form) -> list[str]:
    """Return what is wrong with a filter, each as a sentence."""
    return [
        message if message.startswith(("From", "To")) else f"{name.title()}: {message}"
        for name, messages in form.errors.items()
        for message in map(str, messages)
    ]


def is_filtering(form: forms.Form) -> bool:
    """Say whether the address asks for less than everything."""
    return any(form.cleaned_data.values()) or bool(form.errors)


class Span(TypedDict):
    """Part of a history: from inclusive, to exclusive."""

    from_at: datetime | None
    to_at: datetime | None


def read_span(form: forms.Form) -> Span:
    """Return the moments that the days of a form stand for."""
    values = form.cleaned_data
    return {"from_at": start_of(values.get("from_day")), "to_at": end_of(values.get("to_day"))}


def start_of(day: date | None) -> datetime | None:
    """Return the first moment of a day."""
    return None if day is None else datetime.combine(day, time.min, UTC)


def end_of(day: date | None) -> datetime | None:
    """Return the first moment after a day; behind the calendar's last one there is none."""
    if day is None or day == date.max:
        return None
    return datetime.combine(day, time.min, UTC) + timedelta(days=1)


def keep_query(query: QueryDict, **changes: str | None) -> str:
    """Return the address's query with some parameters changed; None takes one out; "?" stands for none at all."""
    kept = {name: value for name, value in query.dict().items() if name not in changes}
    kept |= {name: value for name, value in changes.items() if value is not None}
    return f"?{urlencode(kept)}"


def _check_span(values: dict[str, Any]) -> dict[str, Any]:
    first, last = values.get("from_day"), values.get("to_day")
    if first and last and first > last:
        raise forms.ValidationError("From is after To: swap the two.")
    return values
