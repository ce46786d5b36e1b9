"""Form of a wanted schedule."""

from typing import Any, Final

from django import forms

from benchapp.framework.pages.list_entries import ResourceForm
from benchapp.framework.write.conflicts import BadValue
from benchapp.models import WantedSchedule
from benchapp.models.request_policy import INTERVALS
from benchapp.requests.write.wanted_schedules import (
    DIRECTORY_MAXIMUM,
    NAMES_IN_WORDS,
    NEVER,
    read_words,
)

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_SPLAY_MAXIMUM_MIN: Final = 24 * 60 - 1
_OF_A_RUN: Final = {NAMES_IN_WORDS[column] for column in WantedSchedule.of_a_run}


class WantedScheduleForm(ResourceForm):
    """A profile with its times. has_never: of a host, which may leave out the profile of its pool."""

    parameters = forms.CharField(
        label="Parameters",
        required=False,
        max_length=2000,
        help_text="For example runtime=10 size=64MiB rw=randread: seconds, bytes. Others have their default.",
        widget=forms.TextInput(attrs=_TEXT),
    )
    directory = forms.CharField(
        label="Directory",
        required=False,
        strip=False,
        max_length=DIRECTORY_MAXIMUM,
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "/data"}),
    )
    every = forms.ChoiceField(label="Every")
    at = forms.CharField(
        label="At",
        required=False,
        max_length=5,
        empty_value="00:00",
        help_text="Local time of the host.",
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "00:00", "size": 5}),
    )
    splay_min = forms.IntegerField(
        label="Splay, min",
        required=False,
        min_value=0,
        max_value=_SPLAY_MAXIMUM_MIN,
        help_text="Spreads the start times of hosts.",
    )
    field_order = ("profile", "parameters", "directory", "every", "at", "splay_min")
    renamed = NAMES_IN_WORDS

    class Meta:
        model = WantedSchedule
        fields = tuple(column for column, name in NAMES_IN_WORDS.items() if column == name)
        widgets: Final = {"profile": forms.TextInput(attrs={**_TEXT, "list": "profiles"})}

    def __init__(self, *args: Any, has_never: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        choices = [(name, _format_interval(name)) for name in INTERVALS]
        every = self.fields["every"]
        if isinstance(every, forms.ChoiceField):
            every.choices = [*choices, (NEVER, "not on this host")] if has_never else choices

    def clean_splay_min(self) -> int:
        """Return 0 for none."""
        return self.cleaned_data["splay_min"] or 0

    def read_wanted(self) -> WantedSchedule | None:
        """Return what is wanted, not saved; None with errors in the form."""
        if not self.is_valid():
            return None
        given = self.cleaned_data
        if given["every"] == NEVER:
            given = {name: given[name] for name in given if name not in _OF_A_RUN}
        try:
            return read_words(given)
        except BadValue as error:
            self.refuse(error)
            return None


def _format_interval(name: str) -> str:
    words = {"1d": "day", "7d": "week, on Sundays"}
    return words.get(name) or f"{name[:-1]} {'min' if name.endswith('m') else 'h'}"
