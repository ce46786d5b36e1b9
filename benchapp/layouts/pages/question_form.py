"""The form of a question for a layout."""

from collections.abc import Mapping, Sequence
from typing import Final

from django import forms
from django.http import QueryDict

from benchapp.layouts.read.question_form import VARYING_CHOICES, QuestionForm

_LABELS: Final[Mapping[str, str]] = {
    "iops": "IOPS, at least",
    "mb_per_s": "MB/s, at least",
    "p99_ms": "p99 latency, ms at most",
    "capacity_gb": "Capacity, GB at least",
    "max_price": "Price per month, at most",
    "pattern": "Pattern",
    "read_share": "Read share, %",
    "block_size": "Block size",
    "region": "Prices of",
    "price_of": "Price includes",
    "max_age_days": "Max. age, days",
    "q": "Data from",
    "vary": "Vary",
}
_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "block_size": {**_TEXT, "placeholder": "4k"},
    "q": {**_TEXT, "data-completion": ""},
}


class LayoutForm(QuestionForm):
    """The question with labels, and the regions that have prices."""

    def __init__(self, query: QueryDict | None, *, regions: Sequence[str], region: str) -> None:
        """Bind the query, if there is one. regions: of prices; region: the one without a choice."""
        is_region_chosen = query is not None and "region" in query
        if query is not None:
            query = query.copy()
            query["region"] = query.get("region", region).strip().lower()
        super().__init__(query, initial={"region": region})
        for name, label in _LABELS.items():
            field = self.fields[name]
            field.label = label
            if isinstance(field, forms.FloatField):
                field.widget.attrs |= {"step": "any", "autocomplete": "off"}
            field.widget.attrs |= _ATTRIBUTES.get(name, {})
        self.fields["vary"].widget = forms.CheckboxSelectMultiple(choices=VARYING_CHOICES)
        self.fields["q"].help_text = "Filter bar syntax: host:db-*, pool:web type:gp3. Empty: all hosts."
        # Prices without a region have the empty name.
        self.fields["region"].widget = forms.Select(choices=[(name, name or "no region") for name in regions])
        if len(regions) < 2 and not is_region_chosen:
            del self.fields["region"]
            self.is_region_chosen = False
