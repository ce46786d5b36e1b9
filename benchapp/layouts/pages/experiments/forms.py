"""The form of an A/B experiment."""

from typing import Any, Final

from django import forms

from benchapp.catalog.grammar import Filter
from benchapp.catalog.metrics import CATALOG
from benchapp.framework.pages.filter_bar import FilterTextField
from benchapp.framework.pages.time_range import BoundField
from benchapp.layouts.read.experiments.experiment import (
    DIFFERENCE_MAXIMUM,
    DIFFERENCE_MINIMUM,
    EXPERIMENT_METRICS,
    Experiment,
)

_NAMES: Final = {
    "q": "Both",
    "a": "Arm A",
    "b": "Arm B",
    "metric": "Metric",
    "difference": "Difference to find",
}


class ExperimentForm(forms.Form):
    """Two arms, their common filter, the time range, and what to find."""

    q = FilterTextField()
    a = FilterTextField()
    b = FilterTextField()
    metric = forms.ChoiceField(
        required=False,
        choices=[(name, CATALOG[name].label) for name in EXPERIMENT_METRICS],
        error_messages={"invalid_choice": f"choose one of {', '.join(EXPERIMENT_METRICS)}."},
    )
    difference = forms.FloatField(
        required=False, min_value=100 * DIFFERENCE_MINIMUM, max_value=100 * DIFFERENCE_MAXIMUM
    )

    def __init__(self, values: Any) -> None:
        super().__init__(values)
        # Keywords of Python.
        self.fields["from"] = BoundField("Start", is_end=False)
        self.fields["to"] = BoundField("End", is_end=True)

    def clean(self) -> dict[str, Any]:
        """Require both arms, which differ, and the start, unless the form is empty."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.is_empty or self.errors:
            return cleaned
        for name in [name for name in ("a", "b") if cleaned[name] == Filter()]:
            self.add_error(name, f"an arm is a filter, as label.arm:{name}.")
        if not self.errors and cleaned["a"] == cleaned["b"]:
            self.add_error("b", "both arms are the same.")
        if cleaned.get("from") is None:
            self.add_error(None, "An experiment has a start: runs before it do not count.")
        return cleaned

    @property
    def is_empty(self) -> bool:
        """Return whether neither arm is given."""
        return not (self.data.get("a") or self.data.get("b"))

    def list_problems(self) -> list[str]:
        """Return the errors as sentences."""
        return [
            message if name not in _NAMES else f"{_NAMES[name]}: {message}"
            for name, messages in self.errors.items()
            for message in map(str, messages)
        ]

    def make_experiment(self) -> Experiment:
        """Return the experiment of a valid form that is not empty."""
        values = self.cleaned_data
        return Experiment(
            values["a"],
            values["b"],
            from_at=values["from"],
            to_at=values["to"],
            common=values["q"],
            metric=values["metric"] or "iops",
            difference=None if values["difference"] is None else values["difference"] / 100,
        )
