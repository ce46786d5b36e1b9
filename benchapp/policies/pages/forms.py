"""Form for a detection policy, and for a dry run of its threshold."""

from typing import Any, ClassVar, Final

from django import forms

from benchapp.catalog.metrics import CATALOG, JUDGED_METRICS, SMALLEST_CHANGES
from benchapp.framework.pages.list_entries import (
    FILTER_HELP,
    FILTER_INPUT,
    TEXT_INPUT,
    WORD_INPUT,
    ResourceForm,
)
from benchapp.models import THRESHOLD_MAXIMUM, THRESHOLD_MINIMUM, DetectionPolicy


def _list_metrics() -> list[tuple[str, str]]:
    return [
        (name, f"{CATALOG[name].label} (default {SMALLEST_CHANGES[name] * 100:.0f} %)")
        for name in JUDGED_METRICS
    ]


class DetectionPolicyForm(ResourceForm):
    """The threshold of a metric, in percent, for the series of a filter and a label."""

    metric = forms.ChoiceField(label="Metric", choices=_list_metrics)
    threshold = forms.FloatField(
        label="Threshold, %",
        min_value=THRESHOLD_MINIMUM * 100,
        max_value=THRESHOLD_MAXIMUM * 100,
        help_text="Smaller changes are not reported.",
        widget=forms.NumberInput(attrs={"step": "any"}),
    )
    field_order = ("metric", "threshold")
    renamed: ClassVar = {"smallest_change": "threshold"}

    class Meta:
        model = DetectionPolicy
        # The form has the smallest change in percent.
        fields = tuple(name for name in DetectionPolicy.given if name != "smallest_change")
        labels: Final = {"filter": "Applies to", "label": "Label of the newest run"}
        help_texts: Final = {"filter": FILTER_HELP, "label": "KEY=VALUE. Empty: with any labels."}
        widgets: Final = {"filter": FILTER_INPUT, "label": WORD_INPUT, "reason": TEXT_INPUT}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # A dry run does not depend on the reason.
        self.fields["reason"].required = "dry_run" not in self.data

    def clean(self) -> dict[str, Any]:
        """Convert the threshold."""
        if "threshold" in self.cleaned_data:
            self.instance.smallest_change = self.cleaned_data["threshold"] / 100
        super().clean()
        return self.cleaned_data
