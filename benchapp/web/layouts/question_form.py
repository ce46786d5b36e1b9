"""The form of a question for a layout; its fields are the query string of the page, and of the API."""

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.http import QueryDict

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import LENGTH_MAXIMUM, BadFilter, parse_filter, parse_term
from benchapp.queries.layouts.question import (
    AGE_MAXIMUM_DAYS,
    PATTERNS,
    PRICED_PARTS,
    REQUIRED_MAXIMUM,
    VARYING,
    LayoutQuestion,
)

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}


def _number(label: str, help_text: str = "") -> forms.FloatField:
    return forms.FloatField(
        label=label,
        required=False,
        min_value=0.001,
        max_value=REQUIRED_MAXIMUM,
        help_text=help_text,
        widget=forms.NumberInput(attrs={"step": "any", "autocomplete": "off"}),
    )


class LayoutForm(forms.Form):
    """What is required, what may vary, and which measurements count."""

    iops = _number("IOPS, at least")
    mb_per_s = _number("MB/s, at least")
    p99_ms = _number("p99 latency, ms at most")
    capacity_gb = _number("Capacity, GB at least")
    max_price = _number("Price per month, at most")
    pattern = forms.ChoiceField(
        label="Pattern", required=False, choices=tuple(PATTERNS.items()), initial="randread"
    )
    read_share = forms.IntegerField(label="Reads, % of a mix", required=False, min_value=0, max_value=100)
    block_size = forms.CharField(
        label="Block size",
        required=False,
        max_length=40,
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "4k"}),
    )
    region = forms.ChoiceField(label="Prices of", required=False)
    price_of = forms.ChoiceField(label="Price includes", required=False, choices=tuple(PRICED_PARTS.items()))
    max_age_days = forms.IntegerField(
        label="Age of newest run, days", required=False, min_value=1, max_value=AGE_MAXIMUM_DAYS
    )
    q = forms.CharField(
        label="Measurements of",
        required=False,
        max_length=LENGTH_MAXIMUM,
        help_text="Filter bar syntax: host:db-*, pool:web type:gp3. Empty: all hosts.",
        widget=forms.TextInput(attrs={**_TEXT, "data-completion": ""}),
    )
    vary = forms.MultipleChoiceField(
        label="May vary",
        required=False,
        choices=tuple((name, DIMENSIONS[name].label) for name in VARYING),
        initial=VARYING,
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, query: QueryDict | None, *, regions: Sequence[str]) -> None:
        if query is not None and "vary" not in query:
            # As in the API: without any of them all may vary.
            query = query.copy()
            query.setlist("vary", list(VARYING))
        super().__init__(query)
        # Prices without a region have the empty name.
        self.fields["region"].choices = [(name, name or "no region") for name in regions]  # type: ignore[attr-defined]
        if len(regions) < 2:
            del self.fields["region"]

    def clean_block_size(self) -> str:
        """Check that the filter language reads it."""
        text = str(self.cleaned_data["block_size"]).strip()
        if text:
            _read(lambda: parse_term("block_size_bytes", text))
        return text

    def clean_q(self) -> Any:
        """Return the filter."""
        return _read(lambda: parse_filter(self.cleaned_data["q"]))

    def make_question(self) -> LayoutQuestion:
        """Return the question of a valid form."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "", [])}
        given["filter"] = given.pop("q", parse_filter(""))
        if "region" in self.fields and "region" in self.data:
            given["region"] = self.cleaned_data["region"]
        if "vary" in given:
            given["vary"] = tuple(given["vary"])
        return LayoutQuestion(**given)


def _read(parse: Any) -> Any:
    try:
        return parse()
    except BadFilter as problem:
        raise forms.ValidationError(f"{problem}.") from problem
