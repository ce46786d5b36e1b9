"""Form of a wanted schedule."""

from typing import Any, Final

from django import forms

from benchapp.models.requests.request_policy import describe_parameters
from benchapp.models.schedules.timetable import INTERVALS, read_clock, write_clock, write_interval
from benchapp.requests.read.wanted_schedules import WantedRow
from benchapp.requests.write.wanted_schedules import (
    DIRECTORY_MAXIMUM,
    PROFILE_MAXIMUM,
    BadWantedSchedule,
    WantedRun,
    read_parameters_text,
)

_TEXT: Final = {"autocomplete": "off", "autocapitalize": "off", "spellcheck": "false"}
_NEVER: Final = "never"
_SPLAY_MAXIMUM_MIN: Final = 24 * 60 - 1
# Names of the form by those of the API.
_FIELDS: Final = {"every_s": "every", "at_minute": "at", "splay_s": "splay"}


class WantedScheduleForm(forms.Form):
    """A profile with its times. has_never: of a host, which may leave out the profile of its pool."""

    profile = forms.CharField(
        label="Profile",
        max_length=PROFILE_MAXIMUM,
        widget=forms.TextInput(attrs={**_TEXT, "list": "profiles"}),
    )
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
        help_text="Local time of the host.",
        widget=forms.TextInput(attrs={**_TEXT, "placeholder": "00:00", "size": 5}),
    )
    splay = forms.IntegerField(
        label="Splay, min",
        required=False,
        min_value=0,
        max_value=_SPLAY_MAXIMUM_MIN,
        help_text="Spreads the start times of hosts.",
    )

    def __init__(self, *args: Any, has_never: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        choices = [(name, _format_interval(name)) for name in INTERVALS]
        every = self.fields["every"]
        if isinstance(every, forms.ChoiceField):
            every.choices = [*choices, (_NEVER, "not on this host")] if has_never else choices

    def read_run(self) -> WantedRun | None:
        """Return what is wanted; None with errors in the form."""
        if not self.is_valid():
            return None
        given = self.cleaned_data
        every = given["every"]
        try:
            parameters = read_parameters_text(given["parameters"])
        except BadWantedSchedule as error:
            self.refuse(error)
            return None
        if every == _NEVER:
            return WantedRun(given["profile"], None)
        try:
            at_minute = read_clock(given["at"] or "00:00")
        except ValueError as error:
            self.add_error("at", f"{error}.")
            return None
        return WantedRun(
            profile=given["profile"],
            every_s=INTERVALS[every],
            directory=given["directory"],
            parameters=parameters,
            at_minute=at_minute,
            splay_s=(given["splay"] or 0) * 60,
        )

    def refuse(self, error: BadWantedSchedule) -> None:
        """Add an error to its field."""
        name, text = _FIELDS.get(error.field, error.field), str(error)
        self.add_error(name if name in self.fields else None, f"{text[:1].upper()}{text[1:]}.")


def list_initial(row: WantedRow) -> dict[str, Any]:
    """Return the values of the form for a stored schedule."""
    return {
        "profile": row.profile,
        "parameters": describe_parameters(row.parameters),
        "directory": row.directory,
        "every": _NEVER if row.every_s is None else write_interval(row.every_s),
        "at": write_clock(row.at_minute),
        "splay": row.splay_s // 60,
    }


def _format_interval(name: str) -> str:
    words = {"1d": "day", "7d": "week, on Sundays"}
    return words.get(name) or f"{name[:-1]} {'min' if name.endswith('m') else 'h'}"
