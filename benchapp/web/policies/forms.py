"""Form for a detection policy, and for a dry run of its threshold."""

from typing import Any, Final

from django import forms

from benchapp.grammar import LENGTH_MAXIMUM
from benchapp.metrics import CATALOG, JUDGED_METRICS, SMALLEST_CHANGES
from benchapp.models import THRESHOLD_MAXIMUM, THRESHOLD_MINIMUM
from benchapp.pipeline.policies.policies import LABEL_MAXIMUM, POLICY_REASON_MAXIMUM

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}


def _list_metrics() -> list[tuple[str, str]]:
    return [
        (name, f"{CATALOG[name].label} (default {SMALLEST_CHANGES[name] * 100:.0f} %)")
        for name in JUDGED_METRICS
    ]


class DetectionPolicyForm(forms.Form):
    """The threshold of a metric, in percent, for the series of a filter and a label."""

    metric = forms.ChoiceField(label="Metric", choices=_list_metrics)
    threshold = forms.FloatField(
        label="Threshold, %",
        min_value=THRESHOLD_MINIMUM * 100,
        max_value=THRESHOLD_MAXIMUM * 100,
        help_text="Smaller changes are not reported.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    filter = forms.CharField(
        label="Applies to",
        required=False,
        max_length=LENGTH_MAXIMUM,
        help_text="Filter bar syntax: host:db-1, pool:web volume_type:gp3. Empty: all series.",
        widget=forms.TextInput(attrs={**_TEXT, "data-completion": ""}),
    )
    label = forms.CharField(
        label="Label of the newest run",
        required=False,
        max_length=LABEL_MAXIMUM,
        help_text="KEY=VALUE. Empty: with any labels.",
        widget=forms.TextInput(attrs=_TEXT),
    )
    reason = forms.CharField(
        label="Reason",
        max_length=POLICY_REASON_MAXIMUM,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A dry run does not depend on the reason.
        self.fields["reason"].required = "dry_run" not in self.data

    def refuse(self, field: str, message: str) -> None:
        """Add an error to its field."""
        name = {"smallest_change": "threshold"}.get(field, field)
        self.add_error(name if name in self.fields else None, f"{message[:1].upper()}{message[1:]}.")
