"""The form of a question for a layout; its fields are the query string of the page, and of the API."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Final
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from benchapp.dimensions import DIMENSIONS
from benchapp.grammar import BadFilter, Filter, parse_term, write_filter
from benchapp.queries.layouts.question import (
    AGE_MAXIMUM_DAYS,
    PATTERNS,
    PRICED_PARTS,
    REQUIRED_MAXIMUM,
    VARYING,
    LayoutQuestion,
)
from benchapp.web.site.filter_forms import FilterTextField

_SAFE: Final = ":,/*"
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
    region = forms.CharField(label="Prices of", required=False, max_length=60, widget=forms.Select)
    price_of = forms.ChoiceField(label="Price includes", required=False, choices=tuple(PRICED_PARTS.items()))
    max_age_days = forms.IntegerField(
        label="Age of newest run, days", required=False, min_value=1, max_value=AGE_MAXIMUM_DAYS
    )
    q = FilterTextField(
        label="Measurements of",
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

    def __init__(self, query: QueryDict | None, *, regions: Sequence[str], region: str) -> None:
        """Bind the query, if there is one. regions: of prices; region: the one without a choice."""
        is_region_chosen = query is not None and "region" in query
        if query is not None:
            query = query.copy()
            # As in the API: separated by commas; without any of them all may vary.
            names = [name.strip() for text in query.getlist("vary") for name in text.split(",")]
            query.setlist("vary", list(filter(None, names)) or list(VARYING))
            query["region"] = query.get("region", region).strip().lower()
        super().__init__(query, initial={"region": region})
        # Prices without a region have the empty name.
        self.fields["region"].widget.choices = [(name, name or "no region") for name in regions]
        if len(regions) < 2 and not is_region_chosen:
            del self.fields["region"]

    def clean_block_size(self) -> str:
        """Check that the filter language reads it."""
        text = str(self.cleaned_data["block_size"])
        try:
            if text:
                parse_term("block_size_bytes", text)
        except BadFilter as problem:
            raise forms.ValidationError(f"{problem}.") from problem
        return text

    def make_question(self) -> LayoutQuestion:
        """Return the question of a valid form."""
        given = {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
        if "region" in self.fields:
            # Prices without a region have the empty name.
            given["region"] = self.cleaned_data["region"]
        filter, vary = given.pop("q"), tuple(given.pop("vary"))
        return LayoutQuestion(**given, filter=filter, vary=vary)


def write_layout_query(question: LayoutQuestion) -> str:
    """Return the query string of a question for page and API, without what is the default."""
    return urlencode(
        {
            "q" if field.name == "filter" else field.name: _write_value(value)
            for field in fields(question)
            if (value := getattr(question, field.name)) != field.default and value != Filter()
        },
        safe=_SAFE,
    )


def _write_value(value: Filter | tuple[str, ...] | float | str) -> str:
    if isinstance(value, Filter):
        return write_filter(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
